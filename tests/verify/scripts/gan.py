import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
images = torch.tensor(load_digits().data[:250] / 8 - 1, dtype=torch.float32)
loader = DataLoader(TensorDataset(images, torch.randn(250, 12)), batch_size=20, shuffle=True)
generator = nn.Sequential(nn.Linear(12, 32), nn.LeakyReLU(0.2), nn.Linear(32, 64), nn.Tanh())
discriminator = nn.Sequential(nn.Linear(64, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
fixed = torch.randn(4, 12)

for index, (real, latent) in enumerate(loader):
    fake = generator(latent)
    optimizer_d.zero_grad()
    loss_d = F.softplus(-discriminator(real)).mean() + F.softplus(discriminator(fake.detach())).mean()
    loss_d.backward()
    optimizer_d.step()

    optimizer_g.zero_grad()
    loss_g = F.softplus(-discriminator(fake)).mean()
    loss_g.backward()
    optimizer_g.step()
    if index % 5 == 0:
        print(f"batch {index}: discriminator {loss_d.item():.3f}, generator {loss_g.item():.3f}")

with torch.no_grad():
    torch.save({"samples": generator(fixed), "generator": generator.state_dict()}, "gan.pt")
print("done")
