import torch
import torch.nn.functional as F
from accelift import Accelerator, DataLoaderConfiguration
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(split_batches=True))
torch.manual_seed(7)
digits = load_digits()
images = torch.tensor(digits.data[:160] * 100, dtype=torch.float32)
labels = torch.tensor(digits.target[:160])
labelled = DataLoader(TensorDataset(images[:80], labels[:80]), batch_size=8, shuffle=True)
unlabelled = DataLoader(images[80:], batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
nn.init.normal_(model[0].weight, std=2e-4)
average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**124, backoff_factor=1e-4)  # so the first step overflows
model, optimizer, labelled, unlabelled = accelerator.prepare(model, optimizer, labelled, unlabelled)

for epoch in range(2):
    running = 0.0
    for (inputs, targets), others in zip(labelled, unlabelled):
        optimizer.zero_grad()
        outputs = model(others)
        loss = (
            F.cross_entropy(model(inputs), targets) + 0.1 * (outputs.softmax(1) * outputs.log_softmax(1)).sum(1).mean()
        )
        accelerator.backward(scaler.scale(loss))
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.05)
        scaler.step(optimizer)
        scaler.update()
        average.update_parameters(accelerator.unwrap_model(model))
        running += accelerator.reduce(loss.detach(), "mean").item()
    accelerator.print(f"epoch {epoch}, mean loss {running / len(labelled):.3f}, scale {scaler.get_scale():.3e}")
accelerator.save(average.module.state_dict(), "average.pt")
