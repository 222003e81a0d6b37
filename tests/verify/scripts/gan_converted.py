import torch
import torch.nn.functional as F
from accelift import Accelerator, DataLoaderConfiguration
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(split_batches=True))
torch.manual_seed(5)
images = torch.tensor(load_digits().data[:250] / 8 - 1, dtype=torch.float32)
loader = DataLoader(TensorDataset(images, torch.randn(250, 12)), batch_size=20, shuffle=True)
generator = nn.Sequential(nn.Linear(12, 32), nn.LeakyReLU(0.2), nn.Linear(32, 64), nn.Tanh())
discriminator = nn.Sequential(nn.Linear(64, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
fixed = torch.randn(4, 12)
generator, discriminator, optimizer_g, optimizer_d, loader = accelerator.prepare(
    generator, discriminator, optimizer_g, optimizer_d, loader
)

for index, (real, latent) in enumerate(loader):
    fake = generator(latent)
    optimizer_d.zero_grad()
    loss_d = F.softplus(-discriminator(real)).mean() + F.softplus(discriminator(fake.detach())).mean()
    accelerator.backward(loss_d)
    optimizer_d.step()

    optimizer_g.zero_grad()
    loss_g = F.softplus(-discriminator(fake)).mean()
    accelerator.backward(loss_g)
    optimizer_g.step()
    if index % 5 == 0:
        accelerator.print(f"batch {index}: discriminator {loss_d.item():.3f}, generator {loss_g.item():.3f}")

with torch.no_grad():
    trained = accelerator.unwrap_model(generator)
    accelerator.save({"samples": trained(fixed), "generator": trained.state_dict()}, "gan.pt")
accelerator.print("done")
