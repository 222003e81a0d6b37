"""The data that the scripts train on, and the classifier that most of them train."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import SGD
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

EPOCHS, BATCH = 5, 16

Loading = Callable[[], DataLoader[Any]]


def samples(count: int) -> TensorDataset:
    """Data of four classes."""
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(count, 12, generator=generator)
    return TensorDataset(x, (x @ torch.randn(12, 4, generator=generator)).argmax(1))


def shuffled(count: int = 96, own_generator: bool = True) -> DataLoader[Any]:
    """A loader whose order comes from a generator of its own, or from torch's global one."""
    generator = torch.Generator().manual_seed(3) if own_generator else None
    return DataLoader(samples(count), BATCH, shuffle=True, generator=generator)


def subset() -> DataLoader[Any]:
    """A loader over 50 of 101 samples."""
    generator = torch.Generator().manual_seed(3)
    sampler = SubsetRandomSampler(range(0, 100, 2), generator=generator)
    return DataLoader(samples(101), 10, sampler=sampler)


def in_order() -> DataLoader[Any]:
    """A loader that does not shuffle."""
    return DataLoader(samples(96), BATCH)


def network() -> nn.Module:
    """A small classifier."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 4))


def sgd(model: nn.Module) -> SGD:
    """Its optimizer."""
    return SGD(model.parameters(), lr=0.1, momentum=0.9)
