"""Data sets and loaders."""

from __future__ import annotations

from dataclasses import dataclass

from tests.generated.chance import Chance, Stage, block


@dataclass(frozen=True)
class Data:
    """What a script trains on.

    Attributes:
        definitions: classes and functions.
        stage: the statements that make `$train_loader` and `$test_loader`.
        batch: what the loaders yield: `pair`, `dict`, `single` (a tuple of one).
        sized: the loaders have a length, and a data set with one.
    """

    definitions: str
    stage: Stage
    batch: str = "pair"
    sized: bool = True


_CLASS = """
class Samples(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]
"""
_DICTS = _CLASS.replace("return self.x[index], self.y[index]", 'return {"x": self.x[index], "y": self.y[index]}')
_NOISY = _CLASS.replace(
    "return self.x[index], self.y[index]", "return self.x[index] + 0.1 * torch.randn(6), self.y[index]"
)
_STREAM = """
class Stream(IterableDataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __iter__(self):
        for x, y in zip(self.x, self.y):
            yield x, y
"""
_COLLATE = """
def collate(samples):
    x = torch.stack([s[0] for s in samples])
    y = torch.stack([s[1] for s in samples])
    return x, y
"""

_LABELS = {
    "classes": "$data_y = ($data_x[:, 0] > 0).long() + ($data_x[:, 1] > 0.5).long()",
    "numbers": "$data_y = $data_x[:, :2].sum(1, keepdim=True) + 0.1 * torch.randn(len($data_x), 1)",
    "binary": "$data_y = ($data_x[:, 0] > $data_x[:, 1]).float().unsqueeze(1)",
    "ids": "$data_y = torch.where(torch.rand(len($data_x), 5) < 0.3, 0, torch.randint(1, 7, (len($data_x), 5)))",
}

_SETS = {
    "tensors": ("", "TensorDataset($data_x, $data_y)", "pair"),
    "class": (_CLASS, "Samples($data_x, $data_y)", "pair"),
    "dicts": (_DICTS, "Samples($data_x, $data_y)", "dict"),
    "noisy": (_NOISY, "Samples($data_x, $data_y)", "pair"),
    "list": ("", "[($data_x[i], $data_y[i]) for i in range(len($data_x))]", "pair"),
    "zipped": ("", "list(zip($data_x, $data_y))", "pair"),
}

_SPLITS = {
    "two": "",
    "subsets": (
        "$train_set = Subset($whole, range(0, len($whole) - 12))\n"
        "$test_set = Subset($whole, range(len($whole) - 12, len($whole)))"
    ),
    "random": "$train_set, $test_set = random_split($whole, [len($whole) - 12, 12])",
    "generator": (
        "$train_set, $test_set = random_split(\n"
        "    $whole, [len($whole) - 12, 12], generator=torch.Generator().manual_seed(3)\n)"
    ),
}

_ORDERS = {
    "shuffle": "batch_size=$size, shuffle=True",
    "plain": "batch_size=$size",
    "drop": "batch_size=$size, shuffle=True, drop_last=True",
    "positional": "$size, True",
    "generator": "batch_size=$size, shuffle=True, generator=torch.Generator().manual_seed(1)",
    "random-sampler": "batch_size=$size, sampler=RandomSampler($train_set)",
    "subset-sampler": "batch_size=$size, sampler=SubsetRandomSampler(list(range(0, len($train_set) - 3)))",
    "weighted": "batch_size=$size, sampler=WeightedRandomSampler([1.0] * len($train_set), len($train_set))",
    "batch-sampler": "batch_sampler=BatchSampler(RandomSampler($train_set), batch_size=$size, drop_last=False)",
    "collate": "batch_size=$size, shuffle=True, collate_fn=collate",
    "collate-lambda": (
        "batch_size=$size, shuffle=True, collate_fn=lambda items: tuple(torch.stack(part) for part in zip(*items))"
    ),
    "kwargs": "**$options",
}


def data(chance: Chance, labels: str, size: str, streams: bool = False) -> Data:
    """Data of some kind, in batches of `size`; streams only if the script gets along with them."""
    if streams and labels == "classes" and chance.maybe(0.04):
        return _stream(chance, size)
    definitions, made, batch = chance.named("data", _SETS, {"tensors": 3})
    split = chance.named("split", _SPLITS, {"two": 4, "generator": 2})
    order = chance.named("order", _ORDERS, {"shuffle": 6})
    if labels == "ids" and "randn(6)" in definitions:
        definitions, made, batch = _SETS["class"]
    if "collate" in order and batch == "dict":
        order = _ORDERS["shuffle"]
    order = order.replace("$size", size)
    length = chance.of(22, 27, 32, 38, 40)
    lines = [_tensors(labels, length + (12 if split else 0))]
    if split:
        lines += [f"$whole = {made}", split]
    else:
        lines += [f"$train_set = {made}", _tensors(labels, 14), f"$test_set = {made}"]
    if order == "**$options":
        lines.append(f"$options = {chance.of(f'dict(batch_size={size}, shuffle=True)', _OPTIONS.format(size))}")
    lines.append(f"$train_loader = DataLoader($train_set, {order})")
    lines.append(f"$test_loader = DataLoader($test_set, batch_size={chance.of('5', '6', size, '100')})")
    if "collate_fn=collate" in order:
        definitions += _COLLATE
    return Data(definitions, Stage("make_data", block(*lines), binds=("train_loader", "test_loader")), batch)


_OPTIONS = '{{"batch_size": {}, "shuffle": True}}'


def _tensors(labels: str, length: int) -> str:
    x = f"torch.randint(1, 7, ({length}, 5))" if labels == "ids" else f"torch.randn({length}, 6)"
    return f"$data_x = {x}\n{_LABELS[labels]}"


def single(chance: Chance, size: str) -> Data:
    """Data without labels: the batches are tuples of one."""
    lines = [
        f"$data_x = torch.rand({chance.of(22, 30, 32)}, 6)",
        f"$train_loader = DataLoader(TensorDataset($data_x), batch_size={size}, shuffle=True)",
        f"$test_loader = DataLoader(TensorDataset(torch.rand(11, 6)), batch_size={chance.of('4', size)})",
    ]
    return Data("", Stage("make_data", block(*lines), binds=("train_loader", "test_loader")), "single")


def _stream(chance: Chance, size: str) -> Data:
    chance.traits.append("data=stream")
    lines = [
        _tensors("classes", 30),
        f"$train_loader = DataLoader(Stream($data_x, $data_y), batch_size={size})",
        f"$test_loader = DataLoader(TensorDataset($data_x, $data_y), batch_size={size})",
    ]
    stage = Stage("make_data", block(*lines), binds=("train_loader", "test_loader"))
    return Data(_STREAM, stage, sized=False)
