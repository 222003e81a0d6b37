"""What the checks on a GPU train: a network with dropout and BatchNorm, on batches of a loader with workers."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from accelift import Accelerator
from runtime_checks import snapshot
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

DEVICE = torch.device("cuda", 0)


def dataset(samples: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(samples, 3, 8, 8, generator=generator)
    return TensorDataset(x, torch.randint(0, 5, (samples,), generator=generator))


def network(random: bool = True) -> nn.Module:
    """Images of 3 x 8 x 8 to five classes; `random` ones have what no two processes do alike."""
    between: list[nn.Module] = [nn.BatchNorm2d(6), nn.Dropout(0.3)] if random else []
    return nn.Sequential(nn.Conv2d(3, 6, 3), *between, nn.ReLU(), nn.Flatten(), nn.Linear(216, 5))


def train(
    samples: int = 40,
    acc: Accelerator | None = None,
    dtype: torch.dtype | None = None,
    random: bool = True,
    compiled: bool = False,
    every: int = 1,
    epochs: int = 2,
) -> list[Tensor]:
    """Train from the same start, by plain PyTorch without an Accelerator; the parameters after every step.

    Args:
        samples: the size of the data set; batches are of eight.
        acc: the accelerator.
        dtype: train under autocast to it, and with a GradScaler if that is float16; the accelerator has to be one
            for the same.
        random: with BatchNorm and dropout.
        compiled: compile the model.
        every: accumulate the gradients of so many batches.
        epochs: how often all data is seen.
    """
    torch.manual_seed(3)
    author = network(random).to(DEVICE)
    model: Any = torch.compile(author) if compiled else author
    optimizer: Any = torch.optim.SGD(author.parameters(), lr=0.05, momentum=0.9)
    loader: Any = DataLoader(dataset(samples), batch_size=8, shuffle=True, pin_memory=True, num_workers=2)
    scaler = torch.amp.GradScaler("cuda", enabled=dtype is torch.float16)
    if acc is not None:
        model, optimizer, loader = acc.prepare(model, optimizer, loader)
    history = []
    for epoch in range(epochs):
        for number, (x, y) in enumerate(loader):
            if acc is not None:
                assert x.device == y.device == DEVICE
                with acc.accumulate(model) if every > 1 else nullcontext():
                    loss = F.cross_entropy(model(x), y)
                    acc.backward(_overflowing(loss, epoch, number))
                    if acc.sync_gradients:
                        acc.clip_grad_norm_(author.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad()
            else:
                x, y = x.to(DEVICE, non_blocking=True), y.to(DEVICE, non_blocking=True)
                with _autocast(dtype):
                    outputs = model(x)
                loss = F.cross_entropy(outputs.float(), y) / every
                scaler.scale(_overflowing(loss, epoch, number)).backward()
                if (number + 1) % every == 0 or number + 1 == len(loader):
                    scaler.unscale_(optimizer)
                    nn.utils.clip_grad_norm_(author.parameters(), 1.0)
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()
            history.append(snapshot(author))
    return history


def _autocast(dtype: torch.dtype | None) -> AbstractContextManager[Any]:
    return nullcontext() if dtype is None else torch.autocast("cuda", dtype=dtype)


def _overflowing(loss: Tensor, epoch: int, number: int) -> Tensor:
    """The loss; one of them is beyond what float16 gradients can be, and only scaled training survives that."""
    return loss * 1e30 if (epoch, number) == (1, 1) else loss
