import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(2)
images = torch.tensor(load_digits().data[:250] / 16, dtype=torch.float32)
loader = DataLoader(images[:200], batch_size=25, shuffle=True)
held_out = DataLoader(images[200:], batch_size=20)
encoder = nn.Sequential(nn.Linear(64, 16), nn.Tanh())
decoder = nn.Linear(16, 64)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=1e-3, momentum=0.8, nesterov=True)

for epoch in range(3):
    for batch in loader:
        loss = ((decoder(encoder(batch)) - batch) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        error = sum(((decoder(encoder(batch)) - batch) ** 2).sum().item() for batch in held_out)
    print("epoch", epoch, "error per image", round(error / 50, 4))
torch.save({"encoder": encoder.state_dict(), "decoder": decoder.state_dict()}, "autoencoder.pt")
