"""How scripts make their batches without a loader."""

from __future__ import annotations

from dataclasses import dataclass

from tests.generated.chance import Chance, block


@dataclass(frozen=True)
class Pick:
    """A way to make batches of `{size}` rows of `$data_x` and `$data_y`.

    Attributes:
        header: the loop over batches.
        made: the statements of its body that bind `$x` and `$y`.
        before: statements before the loop, in each epoch.
        definitions: functions.
    """

    header: str
    made: str
    before: str = ""
    definitions: str = ""


_TAKEN = (
    "$x, $y = $data_x[{}], $data_y[{}]",
    "$x = $data_x[{}]\n$y = $data_y[{}]",
)
_ORDERS = (
    "$order = torch.randperm(len($data_x))",
    "$order = torch.randperm($data_x.size(0))",
    "$order = np.random.permutation(len($data_x))",
    "$order = torch.from_numpy(np.random.permutation($data_x.shape[0]))",
    "$order = list(range(len($data_x)))\nrandom.shuffle($order)",
    "$order = np.arange(len($data_x))\nnp.random.shuffle($order)",
)
_STARTS = (
    "for i in range(0, len($data_x), {size}):",
    "for i in range(0, $data_x.shape[0], {size}):",
    "for i in tqdm(range(0, $data_x.size(0), {size}), disable=True):",
    "for step, i in enumerate(range(0, len($data_x), {size})):",
    "for i in range(0, len($data_x) - {size}, {size}):",
)
_COUNTS = (
    "$count = len($data_x) // {size}\nfor k in range($count):",
    "$count = (len($data_x) + {size} - 1) // {size}\nfor k in range($count):",
    "for k in range(math.ceil(len($data_x) / {size})):",
    "for k in range(int(len($data_x) / {size})):",
)
_DRAWN = (
    "rows = torch.randint(0, len($data_x), ({size},))",
    "rows = torch.randint(len($data_x), size=({size},))",
    "rows = torch.randint(0, $data_x.shape[0], [{size}])",
    "rows = np.random.randint(0, len($data_x), {size})",
    "rows = np.random.randint(0, len($data_x), size={size})",
    "rows = np.random.choice(len($data_x), {size}, replace=False)",
    "rows = random.sample(range(len($data_x)), {size})",
    "rows = torch.randperm(len($data_x))[:{size}]",
    "rows = np.random.permutation(len($data_x))[:{size}]",
    "rows = torch.LongTensor(np.random.choice(len($data_x), {size}))",
    "rows = torch.from_numpy(np.random.randint(0, len($data_x), {size}))",
    "rows = torch.multinomial(torch.ones(len($data_x)), {size})",
)
_GENERATORS = (
    """
def batches(inputs, targets, size):
    order = torch.randperm(len(inputs))
    for start in range(0, len(inputs), size):
        rows = order[start : start + size]
        yield inputs[rows], targets[rows]
""",
    """
def batches(inputs, targets, size, shuffle=True):
    order = np.arange(len(inputs))
    if shuffle:
        np.random.shuffle(order)
    for start in range(0, len(inputs) - size + 1, size):
        yield inputs[order[start : start + size]], targets[order[start : start + size]]
""",
    """
def batches(inputs, targets, size):
    for start in range(0, len(inputs), size):
        end = min(start + size, len(inputs))
        yield inputs[start:end], targets[start:end]
""",
    """
def batches(inputs, targets, size):
    start = 0
    while start < len(inputs):
        x = inputs[start : start + size]
        y = targets[start : start + size]
        yield x, y
        start += size
""",
    """
def batches(inputs, targets, size):
    for _ in range(4):
        rows = torch.randint(0, len(inputs), (size,))
        yield inputs[rows], targets[rows]
""",
    """
def batches(inputs, targets, size):
    for start in range(0, len(inputs), size):
        x = inputs[start : start + size]
        if len(x) < size:
            continue
        yield x, targets[start : start + size]
""",
)
_DRAWING = (
    """
def draw(inputs, targets, size):
    rows = torch.randint(0, len(inputs), (size,))
    return inputs[rows], targets[rows]
""",
    """
def draw(inputs, targets, size):
    rows = np.random.choice(len(inputs), size)
    x = torch.stack([inputs[r] for r in rows])
    y = torch.stack([targets[r] for r in rows])
    return x, y
""",
    """
def draw(inputs, targets, size):
    x, y = [], []
    for r in np.random.randint(0, len(inputs), size):
        x.append(inputs[r])
        y.append(targets[r])
    return torch.stack(x), torch.stack(y)
""",
    """
def draw(inputs, targets, size):
    start = random.randrange(len(inputs) - size)
    return inputs[start : start + size], targets[start : start + size]
""",
)
_CUTS = (
    ("for $x, $y in zip($data_x.split({size}), $data_y.split({size})):", ""),
    ("for $x, $y in zip(torch.split($data_x, {size}), torch.split($data_y, {size})):", ""),
    ("for $x, $y in zip($data_x.chunk(4), $data_y.chunk(4)):", ""),
    ("for rows in torch.randperm(len($data_x)).split({size}):", "rows"),
    ("for rows in torch.randperm(len($data_x)).chunk(5):", "rows"),
    ("for rows in np.array_split(np.random.permutation(len($data_x)), 4):", "rows"),
    ("for k, rows in enumerate(torch.arange(len($data_x)).split({size})):", "rows"),
    ("for rows in np.array_split(np.arange(len($data_x)), len($data_x) // {size}):", "rows"),
)
_FILLED = (
    "xs, ys = [], []\nfor r in rows:\n    xs.append($data_x[r])\n    ys.append($data_y[r])\n"
    "$x, $y = torch.stack(xs), torch.stack(ys)",
    "$x = torch.stack([$data_x[r] for r in rows])\n$y = torch.stack([$data_y[r] for r in rows])",
    "$x = $data_x.index_select(0, torch.as_tensor(rows))\n$y = $data_y[rows]",
)
_STEPS = ("for _ in range(4):", "for step in range(5):", "for step in tqdm(range(3), disable=True):")

_KINDS = {
    "slices": 4,
    "order": 5,
    "shuffled": 3,
    "counted": 3,
    "drawn": 5,
    "cut": 4,
    "generator": 3,
    "function": 3,
    "whole": 4,
    "tail": 2,
    "windows": 1,
    "while": 1,
    "single": 1,
    "leaving": 1,
}


def pick(chance: Chance, size: str, small: bool = True) -> Pick:
    """A way to make batches of so many rows; perhaps one of one row, if that may be."""
    made = {
        "slices": _slices,
        "order": _order,
        "shuffled": _shuffled,
        "counted": _counted,
        "drawn": _drawn,
        "cut": _cut,
        "generator": _generator,
        "function": _function,
        "whole": _whole,
        "tail": _tail,
        "windows": _windows,
        "while": _while,
        "single": _single,
        "leaving": _leaving,
    }
    kinds = {name: weight for name, weight in _KINDS.items() if small or name != "single"}
    found = chance.named("pick", {name: made[name] for name in kinds}, kinds)(chance)
    return Pick(*(part.replace("{size}", size) for part in (found.header, found.made, found.before, found.definitions)))


def _taken(chance: Chance, rows: str) -> str:
    return chance.of(*_TAKEN).format(rows, rows)


def _slices(chance: Chance) -> Pick:
    header = chance.of(*_STARTS)
    bounds = chance.of("i : i + {size}", "i:end", "i : min(i + {size}, len($data_x))")
    ends = "end = i + {size}" if bounds == "i:end" else ""
    return Pick(header, block(ends, _taken(chance, bounds)))


def _order(chance: Chance) -> Pick:
    header, order = chance.of(*_STARTS), chance.of(*_ORDERS)
    if chance.maybe(0.7):
        return Pick(header, block("rows = $order[i : i + {size}]", _from_rows(chance)), order)
    return Pick(header, _taken(chance, "$order[i : i + {size}]"), order)


def _from_rows(chance: Chance) -> str:
    return _taken(chance, "rows") if chance.maybe(0.8) else chance.of(*_FILLED)


def _shuffled(chance: Chance) -> Pick:
    """The data themselves in another order in each epoch."""
    again = chance.of(
        "$mixed_x, $mixed_y = $data_x[$order], $data_y[$order]",
        "$mixed_x = $data_x[$order]\n$mixed_y = $data_y[$order]",
    )
    made = _taken(chance, "i : i + {size}").replace("$data", "$mixed")
    return Pick(chance.of(*_STARTS), made, block(chance.of(*_ORDERS), again))


def _counted(chance: Chance) -> Pick:
    before, _, header = chance.of(*_COUNTS).rpartition("\n")
    bounds = chance.of("k * {size} : (k + 1) * {size}", "start:end", "start : start + {size}")
    starts = "start = k * {size}" if "start" in bounds else ""
    ends = chance.of("end = start + {size}", "end = min(start + {size}, len($data_x))") if "end" in bounds else ""
    if chance.maybe(0.3):
        made = block(starts, ends, f"rows = $order[{bounds}]", _from_rows(chance))
        return Pick(header, made, block(before, chance.of(*_ORDERS)))
    return Pick(header, block(starts, ends, _taken(chance, bounds)), before)


def _drawn(chance: Chance) -> Pick:
    return Pick(chance.of(*_STEPS), block(chance.of(*_DRAWN), _from_rows(chance)))


def _cut(chance: Chance) -> Pick:
    header, rows = chance.of(*_CUTS)
    return Pick(header, _from_rows(chance) if rows else "")


def _generator(chance: Chance) -> Pick:
    header = chance.of(
        "for $x, $y in batches($data_x, $data_y, {size}):",
        "for k, ($x, $y) in enumerate(batches($data_x, $data_y, {size})):",
        "for $x, $y in tqdm(batches($data_x, $data_y, size={size}), disable=True):",
    )
    return Pick(header, "", definitions=chance.of(*_GENERATORS))


def _function(chance: Chance) -> Pick:
    made = "$x, $y = draw($data_x, $data_y, {size})"
    return Pick(chance.of(*_STEPS), made, definitions=chance.of(*_DRAWING))


def _whole(chance: Chance) -> Pick:
    made = chance.of("", "$x, $y = $data_x, $data_y", "$x = $data_x.clone()\n$y = $data_y", "$y = $data_y")
    return Pick(chance.of(*_STEPS), made)


def _tail(chance: Chance) -> Pick:
    """The last batch has what is left."""
    made = chance.of(
        "if i + {size} > len($data_x):\n    $x, $y = $data_x[i:], $data_y[i:]\n"
        "else:\n    $x, $y = $data_x[i : i + {size}], $data_y[i : i + {size}]",
        "if i + {size} >= len($data_x):\n    rows = $order[i:]\nelse:\n    rows = $order[i : (i + {size})]\n"
        "$x, $y = $data_x[rows], $data_y[rows]",
        "rows = $order[i : i + {size}] if i + {size} <= len($data_x) else $order[i:]\n"
        "$x, $y = $data_x[rows], $data_y[rows]",
        "$x = $data_x[i : i + {size}] if i < len($data_x) - {size} else $data_x[i:]\n$y = $data_y[i : i + len($x)]",
    )
    return Pick("for i in range(0, len($data_x), {size}):", made, chance.of(*_ORDERS) if "order" in made else "")


def _windows(chance: Chance) -> Pick:
    """Slices that have rows in common."""
    header = chance.of("for i in range(0, len($data_x) - {size}, 3):", "for i in range(0, len($data_x) - {size}):")
    return Pick(header, _taken(chance, "i : i + {size}"))


def _while(chance: Chance) -> Pick:
    last = chance.of("i += {size}", "i = i + {size}")
    return Pick("while i < len($data_x):", block(_taken(chance, "i : i + {size}"), last), "i = 0")


def _single(chance: Chance) -> Pick:
    """One sample after the other."""
    header, rows = chance.of(("for k in range(9):", "k"), ("for k in range(9):", "k : k + 1"), ("", ""))
    if not header:
        return Pick("for $x, $y in zip($data_x, $data_y):", "$x, $y = $x.unsqueeze(0), $y.unsqueeze(0)")
    made = _taken(chance, rows)
    return Pick(header, made if ":" in rows else block(made, "$x, $y = $x.unsqueeze(0), $y.unsqueeze(0)"))


def _leaving(chance: Chance) -> Pick:
    """A batch that is too small is left out."""
    test = chance.of("len(rows) < {size}", "len(rows) < 2", "i + {size} > len($data_x)")
    made = block("rows = $order[i : i + {size}]", f"if {test}:", f"    {chance.of('break', 'continue')}")
    return Pick(chance.of(*_STARTS), block(made, _taken(chance, "rows")), chance.of(*_ORDERS))
