"""Recording which samples the loaders deal to this process."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.utils.data import DataLoader
from torch.utils.data import dataloader as torchs

from accelift.recorder.chance import Chance
from accelift.recorder.events import Events
from accelift.recorder.models import Models
from accelift.recorder.values import checksum


class Loaders:
    """Records every batch of every ``DataLoader``: the indices of its samples, and checksums of their contents."""

    def __init__(self, events: Events, chance: Chance, models: Models) -> None:
        self._events = events
        self._chance = chance
        self._models = models
        self._numbers: WeakKeyDictionary[DataLoader[Any], int] = WeakKeyDictionary()
        self._passes: dict[int, int] = {}

    def install(self) -> None:
        """Begin to record, in the iterators from which all loaders, prepared or not, get their batches."""
        kind: Any = torchs._BaseDataLoaderIter
        make, next_index, next_batch = kind.__init__, kind._next_index, kind.__next__
        resets: dict[Any, Callable[..., Any]] = {
            one: one._reset for one in (torchs._SingleProcessDataLoaderIter, torchs._MultiProcessingDataLoaderIter)
        }
        recorder = self

        def __init__(self: Any, loader: Any) -> None:
            self._accelift_loader = loader
            self._accelift_drawn = deque()
            recorder._begin(self, loader)
            make(self, loader)

        def _next_index(self: Any) -> Any:
            index = next_index(self)
            self._accelift_drawn.append(index)
            return index

        def __next__(self: Any) -> Any:
            recorder._chance.outside()
            try:
                batch = next_batch(self)
            except StopIteration:
                recorder._events.put("pass_end", loader=self._accelift_number, pass_=self._accelift_pass)
                raise
            recorder._dealt(self, batch)
            recorder._chance.inside()
            return batch

        kind.__init__, kind._next_index, kind.__next__ = __init__, _next_index, __next__
        for one, reset in resets.items():
            one._reset = self._recorded_reset(reset)

    def _recorded_reset(self, reset: Callable[..., Any]) -> Callable[..., Any]:
        def _reset(iterator: Any, loader: Any, first_iter: bool = False) -> Any:
            if not first_iter:  # persistent workers: a new pass by the same iterator
                iterator._accelift_drawn.clear()
                self._begin(iterator, iterator._accelift_loader)
            return reset(iterator, loader, first_iter)

        return _reset

    def _begin(self, iterator: Any, loader: Any) -> None:
        self._chance.outside()
        number = self._numbers.setdefault(loader, len(self._numbers))
        iterator._accelift_number = number
        iterator._accelift_pass = self._passes[number] = self._passes.get(number, -1) + 1
        self._events.put("pass", loader=number, pass_=iterator._accelift_pass, place=self._events.place())

    def _dealt(self, iterator: Any, batch: Any) -> None:
        drawn = iterator._accelift_drawn.popleft() if iterator._accelift_drawn else None
        by_index = iterator._dataset_kind == torchs._DatasetKind.Map and _is_indices(drawn)
        indices: list[Any] = drawn if isinstance(drawn, list) else [drawn]
        contents = _rows(batch) if iterator._auto_collation else [_whole(batch)]
        self._events.put(
            "batch",
            loader=iterator._accelift_number,
            pass_=iterator._accelift_pass,
            samples=[int(index) for index in indices] if by_index else contents,
            contents=contents,
            known_by="index" if by_index else "content",
            mode=self._models.mode(),
        )


def _is_indices(drawn: Any) -> bool:
    if isinstance(drawn, list):
        return bool(drawn) and all(isinstance(index, int) or getattr(index, "ndim", 1) == 0 for index in drawn)
    return isinstance(drawn, int)


def _rows(batch: Any) -> list[str]:
    """A checksum for each sample of a batch: of some hundred of its elements, all over it."""
    leaves = [leaf for leaf in _leaves(batch) if not isinstance(leaf, torch.Tensor) or leaf.dim()]
    rows = min(map(len, leaves), default=0)
    found = torch.zeros(rows, dtype=torch.int64)
    for leaf in leaves if rows else ():
        if isinstance(leaf, torch.Tensor):
            flat = leaf[:rows].detach().cpu().reshape(rows, -1)
            part = flat[:, :: flat.shape[1] // _ELEMENTS + 1].contiguous().view(torch.uint8).long()
            own = part @ _weights(part.shape[1])
        else:
            own = torch.tensor([zlib.crc32(repr(item).encode()) for item in leaf[:rows]])
        found = found * 1000003 + own  # as integers do, it wraps around
    return [f"{value & 0xFFFFFFFF:08x}" for value in found.tolist()]


@lru_cache(maxsize=64)
def _weights(count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(count)
    return torch.randint(1 << 40, (count,), generator=generator)


_ELEMENTS = 256
_NESTED = (torch.Tensor, Mapping, list, tuple)


def _whole(item: Any) -> str:
    """A checksum of something that is dealt as it is, which cannot be cut into samples."""
    value = 0
    for leaf in _leaves(item):
        part = leaf.detach().cpu().contiguous() if isinstance(leaf, torch.Tensor) else None
        value = zlib.crc32(repr(leaf).encode(), value) if part is None else checksum(part, value)
    return f"{value:08x}"


def _leaves(data: Any) -> Iterator[Any]:
    """Tensors, and lists of anything else, in nested containers."""
    if isinstance(data, torch.Tensor):
        yield data
    elif hasattr(data, "__array_interface__"):
        yield torch.from_numpy(data) if data.dtype.kind in "fiub" else data.tolist()
    elif isinstance(data, Mapping):
        for item in data.values():
            yield from _leaves(item)
    elif isinstance(data, (list, tuple)):
        nested = [item for item in data if isinstance(item, _NESTED) or hasattr(item, "__array_interface__")]
        if nested:
            for item in nested:
                yield from _leaves(item)
        elif data:
            yield list(data)
