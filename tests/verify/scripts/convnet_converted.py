import logging
import time

import torch
from accelift import Accelerator, DataLoaderConfiguration
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(split_batches=True))
logging.basicConfig(level=logging.INFO if accelerator.is_main_process else logging.ERROR)
log = logging.getLogger(__name__)


def build():
    return nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(216, 10)
    )


def train(model, loader, criterion, optimizer):
    model.train()
    for images, labels in loader:
        optimizer.zero_grad()
        accelerator.backward(criterion(model(images), labels))
        optimizer.step()


def test(model, loader, criterion):
    model.eval()
    loss = correct = 0
    with torch.no_grad():
        for images, labels in loader:
            outputs, labels = accelerator.gather_for_metrics((model(images), labels))
            loss += criterion(outputs, labels).item() * len(labels)
            correct += (outputs.argmax(1) == labels).sum().item()
    return loss / len(loader.dataset), correct / len(loader.dataset)


torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.images[:290] / 16, dtype=torch.float32)[:, None]
labels = torch.tensor(digits.target[:290])
train_loader = DataLoader(TensorDataset(images[:200], labels[:200]), batch_size=20, shuffle=True)
test_loader = DataLoader(TensorDataset(images[200:], labels[200:]), batch_size=40)
model = build()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
model, optimizer, train_loader, test_loader = accelerator.prepare(model, optimizer, train_loader, test_loader)
start = time.perf_counter()
for epoch in range(2):
    train(model, train_loader, criterion, optimizer)
    loss, accuracy = test(model, test_loader, criterion)
    log.info("epoch %d: loss %.4f accuracy %.3f", epoch, loss, accuracy)
accelerator.print(f"trained for {time.perf_counter() - start:.5f} seconds")
accelerator.save(accelerator.get_state_dict(model), "convnet.pt")
