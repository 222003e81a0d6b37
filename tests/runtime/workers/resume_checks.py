"""Leaving off in the middle of a pass over a loader and going on elsewhere, as a script with checkpoints would."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from accelift import Accelerator
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

EPOCHS = 3
SAMPLES = 43


class Noisy(Dataset[Tensor]):
    """Draws from the generators that the loop draws from, too."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Tensor:
        return torch.stack([torch.tensor(float(index)), torch.rand(()), torch.tensor(random.random())])


class Still(Noisy):
    """Draws nothing."""

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor([float(index), 0.0, 0.0])


class Stream(IterableDataset[Tensor]):
    """Numbers, with noise of a generator of its own."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(5)

    def __iter__(self) -> Iterator[Tensor]:
        for index in range(SAMPLES):
            yield torch.tensor([float(index), torch.rand((), generator=self.generator).item(), 0.0])


class ShuffledStream(IterableDataset[Tensor]):
    """Numbers in an order that is drawn when the stream is opened."""

    def __iter__(self) -> Iterator[Tensor]:
        for index in torch.randperm(SAMPLES).tolist():
            yield torch.tensor([float(index), 0.0, 0.0])


class Eager(Sampler[int]):
    """Draws when its iterator is made, from generators of its own and of python."""

    def __init__(self) -> None:
        self.noise = np.random.default_rng(3)
        self.cards = random.Random(4)

    def __iter__(self) -> Iterator[int]:
        order = self.noise.permutation(SAMPLES).tolist()
        self.cards.shuffle(order)
        random.shuffle(order)
        return iter(order)

    def __len__(self) -> int:
        return SAMPLES


class EagerBatches(Sampler[list[int]]):
    """Batches of different sizes, in an order of numpy's."""

    def __iter__(self) -> Iterator[list[int]]:
        order = np.random.permutation(SAMPLES).tolist()
        return iter([order[i : i + 1 + i % 7] for i in range(0, SAMPLES, 5)])

    def __len__(self) -> int:
        return 9


class Numbering(DataLoader[Any]):
    """Tells with each batch which one it is."""

    def __iter__(self) -> Any:
        offset = torch.rand(())
        for index, batch in enumerate(super().__iter__()):
            yield batch + index + offset


def with_generator() -> DataLoader[Any]:
    """A loader whose generator also decides where it goes on to draw, in the middle of a pass."""
    generator = torch.Generator().manual_seed(9)
    sampler = RandomSampler(Noisy(), replacement=True, num_samples=100, generator=generator)
    return DataLoader(Noisy(), 8, sampler=sampler, generator=generator)


LOADERS: dict[str, Callable[[], DataLoader[Any]]] = {
    "sequential": lambda: DataLoader(Noisy(), 8),
    "shuffled": lambda: DataLoader(Noisy(), 8, shuffle=True),
    "dropped last": lambda: DataLoader(Noisy(), 8, shuffle=True, drop_last=True),
    "own generator": lambda: DataLoader(Noisy(), 8, shuffle=True, generator=torch.Generator().manual_seed(9)),
    "replacement": with_generator,
    "subset": lambda: DataLoader(Noisy(), 8, sampler=SubsetRandomSampler(range(1, SAMPLES, 2))),
    "weighted": lambda: DataLoader(Noisy(), 8, sampler=WeightedRandomSampler(torch.arange(1.0, SAMPLES + 1), 60)),
    "eager sampler": lambda: DataLoader(Noisy(), 8, sampler=Eager()),
    "eager batch sampler": lambda: DataLoader(Noisy(), batch_sampler=EagerBatches()),
    "subclass": lambda: Numbering(Noisy(), 8, shuffle=True),
    "stream": lambda: DataLoader(Stream(), 8),
    "shuffled stream": lambda: DataLoader(ShuffledStream(), 8),
    "workers": lambda: DataLoader(Noisy(), 8, shuffle=True, num_workers=2),
    "persistent workers": lambda: DataLoader(Still(), 8, shuffle=True, num_workers=1, persistent_workers=True),
}


def through_a_file(state: Any) -> Any:
    """What is read of it after it was saved."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def seed_all(seed: int) -> None:
    """Seed the global generators."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def states() -> list[Any]:
    """Those of the global generators."""
    kind, keys, *rest = np.random.get_state()
    return [torch.get_rng_state().tolist(), random.getstate(), (kind, keys.tolist(), *rest)]


class Checkpoint:
    """What a script saves in the middle of a pass."""

    def __init__(self, loader: Any, epoch: int, step: int) -> None:
        self.epoch, self.step = epoch, step
        self.torch, self.python, self.numpy = torch.get_rng_state(), random.getstate(), np.random.get_state()
        self.loader = through_a_file(loader.state_dict())

    def restore(self, loader: Any) -> None:
        """Load it, in another process so to say."""
        loader.load_state_dict(self.loader)
        torch.set_rng_state(self.torch)
        random.setstate(self.python)
        np.random.set_state(self.numpy)


def draws() -> Tensor:
    """What a loop draws besides its data: dropout, noise, shuffled targets."""
    return torch.cat([torch.rand(2), torch.tensor([random.random(), float(np.random.rand())])])


def run(loader: Any, save_at: tuple[int, int] | None = None) -> tuple[list[Tensor], Checkpoint | None]:
    """Epochs over a loader; what was seen from the checkpoint on (or from the start), and the checkpoint."""
    seen: list[Tensor] = []
    saved = None
    for epoch in range(EPOCHS):
        for step, batch in enumerate(loader, 1):
            seen += [batch, draws()]
            if (epoch, step) == save_at:
                saved = Checkpoint(loader, epoch, step)
                seen.clear()
        seen.append(draws())
    return seen, saved


def go_on(acc: Accelerator, loader: Any, saved: Checkpoint, stateful: bool) -> list[Tensor]:
    """The epochs from a checkpoint on."""
    saved.restore(loader)
    before = states()
    seen: list[Tensor] = []
    finished = saved.loader["finished"]
    for epoch in range(saved.epoch, EPOCHS):
        resumes = epoch == saved.epoch
        if resumes and stateful and finished:  # the script knows that this epoch is over
            seen.append(draws())
            continue
        iterator = iter(acc.skip_first_batches(loader, saved.step) if resumes and not stateful else loader)
        if resumes:
            assert states() == before, "making the iterator changed the generators"
        for batch in iterator:
            seen += [batch, draws()]
        seen.append(draws())
    return seen


def same_history(one: list[Tensor], other: list[Tensor]) -> None:
    """Assert that the same was seen, bit for bit."""
    assert len(one) == len(other), f"{len(one)} against {len(other)}"
    for index, (a, b) in enumerate(zip(one, other, strict=True)):
        assert torch.equal(a, b), f"at {index} of {len(one)}: {a} against {b}"


def check_resumed(
    make_accelerator: Callable[[], Accelerator],
    make: Callable[[], DataLoader[Any]],
    save_at: tuple[int, int],
    stateful: bool,
) -> None:
    """Assert that a script that leaves off and goes on sees what one that runs through sees."""
    acc = make_accelerator()
    seed_all(acc.process_index)
    loader = acc.prepare(make())
    expected, saved = run(loader, save_at)
    assert saved is not None, "there was no such step"
    again = make_accelerator()
    seed_all(77 + 10 * again.process_index)
    same_history(expected, go_on(again, again.prepare(make()), saved, stateful))
    assert len(expected) > 1
