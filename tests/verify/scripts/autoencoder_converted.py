import torch
from accelift import Accelerator, DataLoaderConfiguration
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader

accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(split_batches=True))
torch.manual_seed(2)
images = torch.tensor(load_digits().data[:250] / 16, dtype=torch.float32)
loader = DataLoader(images[:200], batch_size=25, shuffle=True)
held_out = DataLoader(images[200:], batch_size=20)
encoder = nn.Sequential(nn.Linear(64, 16), nn.Tanh())
decoder = nn.Linear(16, 64)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=1e-3, momentum=0.8, nesterov=True)
encoder, decoder, optimizer = accelerator.prepare(encoder, decoder, optimizer)
loader, held_out = accelerator.prepare(loader, held_out)

for epoch in range(3):
    for batch in loader:
        loss = ((decoder(encoder(batch)) - batch) ** 2).sum()
        optimizer.zero_grad()
        accelerator.backward(loss, reduction="sum")
        optimizer.step()
    with torch.no_grad():
        errors = [((decoder(encoder(batch)) - batch) ** 2).sum(1) for batch in held_out]
        error = sum(accelerator.gather_for_metrics(part).sum().item() for part in errors)
    accelerator.print("epoch", epoch, "error per image", round(error / 50, 4))
states = {"encoder": accelerator.get_state_dict(encoder), "decoder": accelerator.get_state_dict(decoder)}
accelerator.save(states, "autoencoder.pt")
