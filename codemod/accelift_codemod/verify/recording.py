"""What the recorder wrote of a run, as data."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Values:
    """A tensor, described by what tells how far it is from another one; see `accelift.recorder.values`."""

    count: int
    checksum: int
    norm: float
    sketch: tuple[float, ...]

    @classmethod
    def read(cls, data: dict[str, Any]) -> Values:
        """From the recorder's description; what is not finite is NaN."""
        sketch = tuple(math.nan if value is None else value for value in data["sketch"])
        return cls(data["n"], data["crc"], math.nan if data["norm"] is None else data["norm"], sketch)

    def distance(self, other: Values) -> float:
        """About the Euclidean norm of the difference; infinite if only one of them is finite, or sizes differ."""
        if self.count == other.count and (self.checksum == other.checksum or (self._broken and other._broken)):
            return 0.0
        if len(self.sketch) != len(other.sketch) or self.count != other.count:
            return math.inf
        found = math.dist(self.sketch, other.sketch)
        return math.inf if math.isnan(found) else found

    @property
    def _broken(self) -> bool:
        return math.isnan(self.norm)

    def relative(self, other: Values) -> float:
        """The distance in units of the larger norm."""
        distance = self.distance(other)
        scale = max(self.norm, other.norm)
        return distance / scale if distance and scale > 0 else distance


@dataclass(frozen=True)
class Step:
    """One optimizer step.

    `at` is its place among all events of the process; `clips` are the norms and values that gradients were clipped to;
    `stale` tells for each backward pass since the optimizer's last step whether there were gradients before it; `mode`
    is that of the model: train, eval or mixed.
    """

    number: int
    at: int
    optimizer: int
    place: str
    losses: tuple[float | None, ...]
    clips: tuple[float, ...]
    stale: tuple[bool, ...]
    mode: str
    rates: tuple[float, ...]
    gradients: tuple[Values | None, ...]
    parameters: tuple[Values, ...]

    @property
    def gradient_norm(self) -> float:
        return math.sqrt(sum(one.norm**2 for one in self.gradients if one is not None))


@dataclass(frozen=True)
class Optimizer:
    """An optimizer, as it was before its first step; `settings` are those of each group of its parameters."""

    number: int
    kind: str
    names: tuple[str, ...]
    start: tuple[Values, ...]
    settings: tuple[dict[str, str], ...]

    def name(self, index: int) -> str:
        """The name of a parameter; one that is added after the first step has its place."""
        return self.names[index] if index < len(self.names) else f"parameter {index}"


@dataclass(frozen=True)
class Batch:
    """A batch that a loader dealt to a process: `samples` are indices in its data set or the same as `contents`."""

    at: int
    loader: int
    pass_: int
    samples: tuple[Any, ...]
    contents: tuple[str, ...]
    by_index: bool
    mode: str
    step: int  # optimizer steps made before


@dataclass(frozen=True)
class Pass:
    """A pass over a loader; it `trains` if optimizer steps were made in it."""

    loader: int
    place: str
    batches: tuple[Batch, ...]
    complete: bool
    trains: bool

    @property
    def at(self) -> int:
        return self.batches[0].at


@dataclass(frozen=True)
class Line:
    """A line that the script printed or logged; `trains` if that was between a backward and the next batch,
    `by_library` if a library logged it on its own. `others` are the places of what was printed of it before."""

    at: int
    text: str
    place: str
    trains: bool
    mode: str
    step: int
    by_library: bool = False
    others: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[str, ...]:
        """Where its parts were printed."""
        return (*self.others, self.place)


@dataclass(frozen=True)
class Save:
    """What was given to `torch.save`: tensors (with their shape) and plain values, by their path in the object."""

    at: int
    path: str | None
    place: str
    values: dict[str, Any]


@dataclass
class Rank:
    """What one process did."""

    steps: list[Step] = field(default_factory=list)
    optimizers: dict[int, Optimizer] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    complete: set[tuple[int, int]] = field(default_factory=set)  # passes (loader, number) that came to their end
    places: dict[tuple[int, int], str] = field(default_factory=dict)  # where passes begin
    lines: list[Line] = field(default_factory=list)
    saves: list[Save] = field(default_factory=list)
    writes: list[dict[str, Any]] = field(default_factory=list)
    draws: str = ""
    normalizes: str = ""
    scales: str = ""
    autocasts: dict[str, str] = field(default_factory=dict)  # where, by dtype
    end: str = ""  # finished, enough, failed, or nothing at all
    error: str = ""
    error_place: str = ""
    stack: str = ""
    events: int = 0

    @cached_property
    def passes(self) -> list[Pass]:
        """The passes over loaders, in the order in which they began."""
        found: dict[tuple[int, int], list[Batch]] = {}
        after: dict[tuple[int, int], int] = {}  # steps when the batch after the pass's last one was dealt
        for batch, following in zip_longest(self.batches, self.batches[1:]):
            found.setdefault((batch.loader, batch.pass_), []).append(batch)
            after[batch.loader, batch.pass_] = len(self.steps) if following is None else following.step
        return [
            Pass(key[0], self.places.get(key, ""), tuple(of), key in self.complete, after[key] > of[0].step)
            for key, of in found.items()
        ]


@dataclass
class Recording:
    """What all processes of a run did."""

    ranks: list[Rank]

    @property
    def main(self) -> Rank:
        return self.ranks[0]

    @property
    def world(self) -> int:
        return len(self.ranks)


def read(folder: Path, world: int) -> Recording:
    """Read a recording; processes that recorded nothing have done nothing."""
    return Recording([_rank(folder / f"{rank}.jsonl", folder / f"{rank}.stack") for rank in range(world)])


def _rank(file: Path, stack: Path) -> Rank:
    rank = Rank(stack=stack.read_text(errors="replace") if stack.exists() else "")
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            try:
                event = json.loads(line)
            except ValueError:  # a process that was killed while writing
                break
            _ADD.get(event["event"], _nothing)(rank, event)
            rank.events += 1
    return rank


def _nothing(rank: Rank, event: dict[str, Any]) -> None:
    pass


def _step(rank: Rank, event: dict[str, Any]) -> None:
    rank.steps.append(
        Step(
            event["step"],
            rank.events,
            event["optimizer"],
            event["place"],
            tuple(event["losses"]),
            tuple(event["clips"]),
            tuple(event["stale"]),
            event["mode"],
            tuple(event["lr"]),
            tuple(None if one is None else Values.read(one) for one in event["gradients"]),
            _all(event["parameters"]),
        )
    )


def _optimizer(rank: Rank, event: dict[str, Any]) -> None:
    number = event["optimizer"]
    names, settings = tuple(event["names"]), tuple(event["settings"])
    rank.optimizers[number] = Optimizer(number, event["kind"], names, _all(event["start"]), settings)


def _batch(rank: Rank, event: dict[str, Any]) -> None:
    by_index = event["known_by"] == "index"
    samples, contents = tuple(event["samples"]), tuple(event["contents"])
    loader, pass_, mode = event["loader"], event["pass_"], event["mode"]
    rank.batches.append(Batch(rank.events, loader, pass_, samples, contents, by_index, mode, len(rank.steps)))


def _pass(rank: Rank, event: dict[str, Any]) -> None:
    rank.places[event["loader"], event["pass_"]] = event["place"]


def _pass_end(rank: Rank, event: dict[str, Any]) -> None:
    rank.complete.add((event["loader"], event["pass_"]))


def _line(rank: Rank, event: dict[str, Any]) -> None:
    trains, mode, library, others = event["trains"], event["mode"], event["by_library"], tuple(event["others"])
    line = Line(rank.events, event["text"], event["place"], trains, mode, len(rank.steps), library, others)
    rank.lines.append(line)


def _save(rank: Rank, event: dict[str, Any]) -> None:
    values = {key: _saved(value) for key, value in event["values"].items()}
    rank.saves.append(Save(rank.events, event["path"], event["place"], values))


def _saved(value: Any) -> Any:
    return (tuple(value["shape"]), Values.read(value)) if isinstance(value, dict) else value


def _write(rank: Rank, event: dict[str, Any]) -> None:
    rank.writes.append(event)


def _draws(rank: Rank, event: dict[str, Any]) -> None:
    rank.draws = event["place"] or "somewhere"


def _normalizes(rank: Rank, event: dict[str, Any]) -> None:
    rank.normalizes = event["place"] or "somewhere"


def _scales(rank: Rank, event: dict[str, Any]) -> None:
    rank.scales = event["place"] or "somewhere"


def _autocast(rank: Rank, event: dict[str, Any]) -> None:
    rank.autocasts[event["dtype"]] = event["place"]


def _end(rank: Rank, event: dict[str, Any]) -> None:
    rank.end = event["how"]
    rank.error, rank.error_place = event.get("error", ""), event.get("place", "")


_ADD = {
    "step": _step,
    "optimizer": _optimizer,
    "batch": _batch,
    "pass": _pass,
    "pass_end": _pass_end,
    "line": _line,
    "save": _save,
    "write": _write,
    "draws": _draws,
    "normalizes": _normalizes,
    "scales": _scales,
    "autocast": _autocast,
    "end": _end,
}


def _all(data: Sequence[dict[str, Any]]) -> tuple[Values, ...]:
    return tuple(map(Values.read, data))
