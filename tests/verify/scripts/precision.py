import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(4)
digits = load_digits()
images = torch.tensor(digits.data[:220] / 16, dtype=torch.float32)
labels = torch.tensor(digits.target[:220])
loader = DataLoader(TensorDataset(images[:180], labels[:180]), batch_size=20, shuffle=True)
model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)

for epoch in range(2):
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        accuracy = (model(images[180:]).argmax(1) == labels[180:]).float().mean().item()
    print(f"epoch {epoch}: {100 * accuracy:.1f} %")
torch.save(model.state_dict(), "model.pt")
