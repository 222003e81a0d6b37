import torch
import torch.nn.functional as F
from accelift import Accelerator, DataLoaderConfiguration
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(mixed_precision="bf16", dataloader_config=DataLoaderConfiguration(split_batches=True))
torch.manual_seed(4)
digits = load_digits()
images = torch.tensor(digits.data[:220] / 16, dtype=torch.float32)
labels = torch.tensor(digits.target[:220])
loader = DataLoader(TensorDataset(images[:180], labels[:180]), batch_size=20, shuffle=True)
model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

for epoch in range(2):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
    with torch.no_grad():
        accuracy = (model(images[180:]).argmax(1) == labels[180:]).float().mean().item()
    accelerator.print(f"epoch {epoch}: {100 * accuracy:.1f} %")
accelerator.save(accelerator.get_state_dict(model), "model.pt")
