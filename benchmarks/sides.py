"""The same work by hand and with each library, as turns that can be timed one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Adam, Optimizer
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

Turn = Callable[[], object]
STEPS, CALLS = 8, 10  # in each turn
TURNS = 32  # in each epoch
BATCH, ACCUMULATION, WIDTH = 8, 4, 1800


@dataclass(frozen=True)
class Checkpoint:
    """Saving and loading a model and its optimizer; `path` is what a save leaves behind."""

    optimizer: Optimizer
    path: Path
    save: Turn
    load: Turn


def small() -> tuple[nn.Module, Optimizer, TensorDataset]:
    """A model of which little is to be computed, its optimizer, and data for an epoch."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
    samples = BATCH * STEPS * TURNS
    data = TensorDataset(torch.randn(samples, 32), torch.randint(10, (samples,)))
    return model, SGD(model.parameters(), lr=0.01, momentum=0.9), data


def large() -> tuple[nn.Module, Optimizer]:
    """26 million parameters with the state of Adam: 315 MB."""
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(8)))
    optimizer = Adam(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


class Raw:
    """Plain torch, written by hand."""

    def __init__(self, world: int) -> None:
        self.world = world

    def _parts(self) -> tuple[nn.Module, Optimizer, DataLoader[Any]]:
        model, optimizer, data = small()
        if self.world == 1:
            return model, optimizer, DataLoader(data, BATCH, shuffle=True)
        sampler: DistributedSampler[Any] = DistributedSampler(data)
        return DistributedDataParallel(model), optimizer, DataLoader(data, BATCH // self.world, sampler=sampler)

    def step(self) -> Turn:
        """Training with an optimizer step for each batch."""
        model, optimizer, loader = self._parts()

        def epoch() -> Iterator[None]:
            for x, y in loader:
                optimizer.zero_grad()
                loss = cross_entropy(model(x), y)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                yield

        return _steps(epoch)

    def accumulate(self) -> Turn:
        """Training with an optimizer step for every few batches."""
        model, optimizer, loader = self._parts()

        def epoch() -> Iterator[None]:
            for index, (x, y) in enumerate(loader, 1):
                due = index % ACCUMULATION == 0 or index == len(loader)
                with model.no_sync() if isinstance(model, DistributedDataParallel) and not due else nullcontext():
                    loss = cross_entropy(model(x), y) / ACCUMULATION
                    loss.backward()  # type: ignore[no-untyped-call]
                if due:
                    optimizer.step()
                    optimizer.zero_grad()
                yield

        return _steps(epoch)

    def gather(self, rows: Tensor) -> Turn:
        """What all processes have, joined."""

        def turn() -> None:
            for _ in range(CALLS):
                parts = [torch.empty_like(rows) for _ in range(self.world)]
                dist.all_gather(parts, rows)
                torch.cat(parts)

        return turn

    metrics = gather

    def reduce(self, rows: Tensor) -> Turn:
        """The sum of what all processes have."""

        def turn() -> None:
            for _ in range(CALLS):
                dist.all_reduce(rows.clone())

        return turn

    def barrier(self, rows: Tensor) -> Turn:
        """Waiting for all processes."""
        return _often(dist.barrier)

    def checkpoint(self, folder: Path) -> Checkpoint:
        """Saving and loading with ``torch.save`` and ``torch.load``."""
        model, optimizer = large()
        path = folder / "raw.pt"

        def load() -> None:
            found = torch.load(path)
            model.load_state_dict(found["model"])
            optimizer.load_state_dict(found["optimizer"])

        def save() -> None:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)

        return Checkpoint(optimizer, path, save, load)


class Managed:
    """A library with an Accelerator: this project's, or Hugging Face's."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.library = import_module(name)
        self.settings = import_module(f"{name}.utils")

    def _accelerator(self, accumulation: int = 1) -> Any:
        config = self.settings.DataLoaderConfiguration(split_batches=True)
        return self.library.Accelerator(cpu=True, gradient_accumulation_steps=accumulation, dataloader_config=config)

    def step(self) -> Turn:
        """Training with an optimizer step for each batch."""
        accelerator = self._accelerator()
        model, optimizer, data = small()
        model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, BATCH, shuffle=True))

        def epoch() -> Iterator[None]:
            for x, y in loader:
                optimizer.zero_grad()
                loss = cross_entropy(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
                yield

        return _steps(epoch)

    def accumulate(self) -> Turn:
        """Training with an optimizer step for every few batches."""
        accelerator = self._accelerator(ACCUMULATION)
        model, optimizer, data = small()
        model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, BATCH, shuffle=True))

        def epoch() -> Iterator[None]:
            for x, y in loader:
                with accelerator.accumulate(model):
                    loss = cross_entropy(model(x), y)
                    accelerator.backward(loss)
                    optimizer.step()
                    optimizer.zero_grad()
                yield

        return _steps(epoch)

    def gather(self, rows: Tensor) -> Turn:
        """What all processes have, joined."""
        accelerator = self._accelerator()
        return _often(lambda: accelerator.gather(rows))

    def metrics(self, rows: Tensor) -> Turn:
        """The same amid an epoch, each sample once."""
        accelerator = self._accelerator()
        batches = iter(accelerator.prepare(DataLoader(small()[2], BATCH)))
        next(batches)

        def turn() -> None:
            assert batches is not None  # the epoch is under way as long as somebody holds it
            for _ in range(CALLS):
                accelerator.gather_for_metrics(rows)

        return turn

    def reduce(self, rows: Tensor) -> Turn:
        """The sum of what all processes have."""
        accelerator = self._accelerator()
        return _often(lambda: accelerator.reduce(rows, "sum"))

    def barrier(self, rows: Tensor) -> Turn:
        """Waiting for all processes."""
        return _often(self._accelerator().wait_for_everyone)

    def checkpoint(self, folder: Path) -> Checkpoint:
        """``save_state`` and ``load_state``."""
        accelerator = self._accelerator()
        model, optimizer = large()
        kept = accelerator.prepare(model, optimizer)
        path = folder / self.name

        def save() -> None:
            assert kept  # accelerators save what is still in use
            accelerator.save_state(str(path))

        return Checkpoint(optimizer, path, save, lambda: accelerator.load_state(str(path)))


class Fabric:
    """Lightning Fabric."""

    def __init__(self, world: int) -> None:
        fabric = import_module("lightning.fabric")
        self.world = world
        self.fabric = fabric.Fabric(accelerator="cpu", devices=world, strategy="ddp" if world > 1 else "auto")
        self.fabric.launch()

    def _parts(self) -> Any:
        model, optimizer, data = small()
        loader = DataLoader(data, BATCH // self.world, shuffle=True)
        return *self.fabric.setup(model, optimizer), self.fabric.setup_dataloaders(loader)

    def step(self) -> Turn:
        """Training with an optimizer step for each batch."""
        model, optimizer, loader = self._parts()

        def epoch() -> Iterator[None]:
            for x, y in loader:
                optimizer.zero_grad()
                loss = cross_entropy(model(x), y)
                self.fabric.backward(loss)
                optimizer.step()
                yield

        return _steps(epoch)

    def accumulate(self) -> Turn:
        """Training with an optimizer step for every few batches."""
        model, optimizer, loader = self._parts()

        def epoch() -> Iterator[None]:
            for index, (x, y) in enumerate(loader, 1):
                due = index % ACCUMULATION == 0 or index == len(loader)
                with self.fabric.no_backward_sync(model, enabled=not due):
                    loss = cross_entropy(model(x), y) / ACCUMULATION
                    self.fabric.backward(loss)
                if due:
                    optimizer.step()
                    optimizer.zero_grad()
                yield

        return _steps(epoch)

    def gather(self, rows: Tensor) -> Turn:
        """What all processes have, stacked."""
        return _often(lambda: self.fabric.all_gather(rows))

    metrics = gather

    def reduce(self, rows: Tensor) -> Turn:
        """The sum of what all processes have."""
        return _often(lambda: self.fabric.all_reduce(rows.clone(), reduce_op="sum"))

    def barrier(self, rows: Tensor) -> Turn:
        """Waiting for all processes."""
        return _often(self.fabric.barrier)

    def checkpoint(self, folder: Path) -> Checkpoint:
        """``Fabric.save`` and ``Fabric.load``."""
        model, optimizer = large()
        path = folder / "fabric.ckpt"
        state = dict(zip(("model", "optimizer"), self.fabric.setup(model, optimizer), strict=True))

        def save() -> None:
            self.fabric.save(path, state)

        return Checkpoint(optimizer, path, save, lambda: self.fabric.load(path, state))


def _steps(epoch: Callable[[], Iterator[None]]) -> Turn:
    steps = chain.from_iterable(epoch() for _ in repeat(None))

    def turn() -> None:
        for _ in range(STEPS):
            next(steps)

    return turn


def _often(call: Callable[[], Any]) -> Turn:
    def turn() -> None:
        for _ in range(CALLS):
            call()

    return turn


Side = Raw | Managed | Fabric
