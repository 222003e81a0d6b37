"""Training runs that are interrupted, and gone on with by another process.

``resuming.py REPORT FOLDER begin`` runs all of them up to some batch, saves their states there, and kills itself.
``resuming.py REPORT FOLDER check [OTHER]`` runs each from its beginning to its end, goes on with what was saved, and
compares what comes out, bit for bit.  In the folder ``OTHER`` is what another number of processes has saved.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import torch
from accelift import DataLoaderConfiguration, GradientAccumulationPlugin, GradScalerKwargs
from accelift.data_loader import skip_first_batches
from runtime_checks import Checks, accelerator, warned
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, IterableDataset

EPOCHS, SAMPLES = 2, 38


class Augmented(Dataset[Any]):
    """Draws from the global generators of torch, python and numpy for every sample."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        noise = torch.randn(6) + random.random() + numpy.random.rand()
        return noise + index / 10, index % 3


class Stream(IterableDataset[Any]):
    """A stream of samples, in which nothing is drawn."""

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        return ((torch.arange(6.0) * index / 30, index % 3) for index in range(SAMPLES))


class Model(nn.Module):
    """Has dropout and batch normalisation, and a weight that is tied."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.norm, self.head = nn.BatchNorm1d(6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.dropout(self.norm(self.first(x)).relu(), 0.3, self.training)
        out: Tensor = self.head(self.second(x))
        return out


@dataclass
class Case:
    """A way to train.

    Attributes:
        stop: in which epoch, after how many batches, the state is saved.
        loader: arguments of the ``DataLoader``.
        dealing: arguments of ``DataLoaderConfiguration``.
        by_hand: accumulate over so many batches without ``accumulate``.
        skips: go on with ``skip_first_batches``, instead of with stateful loaders.
        arguments: those of the Accelerator.
    """

    stop: tuple[int, int] = (0, 3)
    loader: dict[str, Any] = field(default_factory=dict)
    dealing: dict[str, Any] = field(default_factory=dict)
    by_hand: int = 0
    skips: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)


CASES = {
    "plain": Case(),
    "second_epoch": Case(stop=(1, 2)),
    "skipping": Case(skips=True),
    "accumulating": Case(stop=(0, 2), arguments={"gradient_accumulation_steps": 4}),
    "leftover": Case(
        stop=(0, 4),
        skips=True,
        arguments={"gradient_accumulation_plugin": GradientAccumulationPlugin(3, average_leftover=True)},
    ),
    "carried_over": Case(
        stop=(0, 4),
        arguments={"gradient_accumulation_plugin": GradientAccumulationPlugin(3, sync_with_dataloader=False)},
    ),
    "by_hand": Case(stop=(0, 2), by_hand=3),
    "scaled": Case(
        arguments={
            "mixed_precision": "fp16",
            "kwargs_handlers": [GradScalerKwargs(init_scale=2.0**24, growth_interval=2)],
        }
    ),
    "scaled_and_accumulating": Case(arguments={"mixed_precision": "fp16", "gradient_accumulation_steps": 2}),
    "shared_out": Case(dealing={"split_batches": True}),
    "in_workers": Case(loader={"num_workers": 1}),
    "own_generator": Case(loader={"generator": None}),
    "a_stream": Case(loader={"dataset": Stream(), "shuffle": False}),
}


class Run:
    """A training run of two epochs."""

    def __init__(self, case: Case) -> None:
        self.case = case
        config = DataLoaderConfiguration(use_stateful_dataloader=not case.skips, **case.dealing)
        self.acc = accelerator(dataloader_config=config, **case.arguments)
        torch.manual_seed(5)
        model = Model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        options = {"dataset": Augmented(), "batch_size": 4, "shuffle": True, **case.loader}
        if "generator" in options:
            options["generator"] = torch.Generator().manual_seed(3)
        self.model, self.optimizer, self.loader = self.acc.prepare(model, optimizer, DataLoader(**options))
        self.scheduler = self.acc.prepare(torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20))
        self.epoch = self.batch = self.seen = 0
        self.average = [parameter.detach().clone() for parameter in model.parameters()]
        self.acc.register_for_checkpointing(self)
        for seed in (torch.manual_seed, random.seed, numpy.random.seed):
            seed(7 + self.acc.process_index)  # each process has noise of its own

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("epoch", "batch", "seen", "average")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def train(self, save_to: Path | None = None) -> None:
        """Go on to the end, or to where the state is saved, in the midst of the loop."""
        while self.epoch < EPOCHS:
            loader = self.loader
            if self.case.skips and self.batch:
                loader = skip_first_batches(loader, self.batch)
            for x, y in loader:
                self.batch += 1
                self.seen += 1
                self.step(x, y)
                if save_to is not None and (self.epoch, self.batch) == self.case.stop:
                    self.acc.save_state(save_to)
                    return
            self.epoch, self.batch = self.epoch + 1, 0

    def step(self, x: Tensor, y: Tensor) -> None:
        loss = functional.cross_entropy(self.model(x), y)
        if self.case.by_hand:
            self.acc.backward(loss / self.case.by_hand)
            if self.seen % self.case.by_hand == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.scheduler.step()
            return
        with self.acc.accumulate(self.model):
            self.acc.backward(loss)
            if self.acc.sync_gradients:
                self.acc.clip_grad_norm_(self.model.parameters(), 0.5)
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad()
        for value, parameter in zip(self.average, self.model.parameters(), strict=True):
            value.lerp_(parameter.detach(), 0.1)

    def result(self) -> Tensor:
        """Parameters, buffers, their average, learning rate, scale, and what the generators draw next."""
        values = [*self.acc.unwrap_model(self.model).state_dict().values(), *self.average]
        scale = 1.0 if self.acc.scaler is None else self.acc.scaler.get_scale()
        values.append(torch.tensor([self.scheduler.get_last_lr()[0], scale, self.seen]))
        values += [torch.rand(2), torch.tensor([random.random(), numpy.random.rand()])]
        return torch.cat([value.flatten().double() for value in values])


def begin(name: str, folder: Path) -> None:
    """Run a case to where it is saved."""
    Run(CASES[name]).train(save_to=folder / name)


def compare(name: str, folder: Path) -> None:
    """Assert that going on gives what not stopping does."""
    whole = Run(CASES[name])
    whole.train()
    expected = whole.result()
    resumed = Run(CASES[name])
    resumed.acc.load_state(folder / name)
    assert (resumed.epoch, resumed.batch) == resumed.case.stop and resumed.seen < whole.seen
    resumed.train()
    found = resumed.result()
    assert resumed.seen == whole.seen
    assert torch.equal(found, expected), f"differs by {(found - expected).abs().max().item()}"


def go_on_with_another_number_of_processes(folder: Path) -> None:
    """Assert that what belongs to no process is there, and that the rest is told to be lost."""
    run = Run(CASES["accumulating"])
    torch.manual_seed(3)
    with warned("cannot be continued bit for bit: it was saved by", times=int(run.acc.is_main_process)):
        run.acc.load_state(folder / "accumulating")
    saved = torch.load(folder / "accumulating" / "optimizer.bin", weights_only=True)
    assert same_values(run.optimizer.state_dict()["state"], saved["state"])
    assert (run.epoch, run.batch) == run.case.stop
    ours = [parameter.grad for group in run.optimizer.param_groups for parameter in group["params"]]
    theirs = [torch.load(path, weights_only=True)[0] for path in (folder / "accumulating").glob("gradients_*.bin")]
    assert theirs and None not in ours
    for index, gradient in enumerate(ours):
        expected = sum(of_process[index] for of_process in theirs) / len(theirs)
        torch.testing.assert_close(gradient, expected)
    if not (folder / "accumulating" / f"random_states_{run.acc.process_index}.pkl").exists():
        expected = torch.Generator().manual_seed(3).get_state()
        assert torch.equal(torch.get_rng_state(), expected), "a generator was set to another process's state"


def same_values(one: Any, other: Any) -> bool:
    """Whether two states have the same tensors and numbers."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_values(one[key], other[key]) for key in one)
    return bool(torch.equal(one, other)) if isinstance(one, Tensor) else bool(one == other)


if __name__ == "__main__":
    folder, mode = Path(sys.argv[2]), sys.argv[3]
    checks = Checks({name: partial(begin if mode == "begin" else compare, name, folder) for name in CASES})
    if len(sys.argv) > 4:
        checks["other_processes"] = partial(go_on_with_another_number_of_processes, Path(sys.argv[4]))
    checks.main()
    if mode == "begin":
        accelerator().wait_for_everyone()
        os.kill(os.getpid(), signal.SIGKILL)
