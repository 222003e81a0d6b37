"""Which argument a parameter gets: methods have their object already, where it is no argument."""

from __future__ import annotations

import ast

import pytest
from accelift_codemod.facts.index import FUNCTIONS, Index
from accelift_codemod.facts.resolve import Resolver
from scripts import converted, lifted, script

_CLASSES = """\
class Base:
    def __init__(self, size, width):
        self.size = size

class Net(Base):
    def grow(self, size, width):
        return size

    @classmethod
    def made(cls, size, width):
        return cls.grow(size, width, 4)

    @staticmethod
    def count(size, width):
        return size

    def other(self):
        return self.grow(1, 2)

def plain(size, width):
    return size

net = Net(1, 2)
"""


def _given(call: str) -> dict[str, str] | None:
    """What the parameters of the function get that the last call of a script runs."""
    index = Index(ast.parse(f"{_CLASSES}{call}"))
    return _bound(Resolver(index), max(index.calls, key=lambda c: (c.lineno, -c.col_offset, c.end_col_offset or 0)))


def _bound(resolver: Resolver, call: ast.Call) -> dict[str, str] | None:
    (function,) = [f for f in resolver.index.functions if isinstance(f, FUNCTIONS) and call in resolver.sites(f)]
    given = resolver.bind(call, function)
    return None if given is None else {name: ast.unparse(argument) for name, argument in given.items()}


@pytest.mark.parametrize(
    "call",
    [
        "Net(1, 2)",
        "Net(1, width=2)",
        "kind = Net\nkind(1, 2)",
        "net.grow(1, 2)",
        "Net(3, 4).grow(1, 2)",
        "Net.made(1, 2)",
        "net.made(1, 2)",
        "Net.count(1, 2)",
        "net.count(1, 2)",
        "plain(1, 2)",
        "f = plain\nf(1, 2)",
    ],
)
def test_arguments_follow_the_object(call: str) -> None:
    assert _given(call) == {"size": "1", "width": "2"}


@pytest.mark.parametrize("call", ["Net.grow(net, 1, 2)", "kind = Net\nkind.grow(net, 1, 2)"])
def test_a_method_of_the_class_is_given_the_object(call: str) -> None:
    assert _given(call) == {"self": "net", "size": "1", "width": "2"}


def test_a_class_method_is_given_the_class() -> None:
    resolver = Resolver(Index(ast.parse(_CLASSES)))
    inside = {ast.unparse(c.func): c for c in resolver.index.calls}
    assert _bound(resolver, inside["cls.grow"]) == {"self": "size", "size": "width", "width": "4"}
    assert _bound(resolver, inside["self.grow"]) == {"size": "1", "width": "2"}


_FAMILY = """\
class Base:
    def __init__(self, size, width):
        self.size = size

class Middle(Base):
    pass

class Side:
    def __init__(self, size):
        pass

class Net(Middle):
    def __init__(self, size):
        super().__init__({given})

class Two(Net, Side):
    def __init__(self, size):
        super().__init__(size)
"""


@pytest.mark.parametrize("given", ["size, 4", "size, width=4"])
def test_the_constructor_of_a_base(given: str) -> None:
    index = Index(ast.parse(_FAMILY.format(given=given)))
    resolver = Resolver(index)
    of = {cls.name: resolver.constructor(cls) for cls in index.classes}
    base, side, net = of["Base"], of["Side"], of["Net"]
    assert base and side and net
    (call,) = resolver.sites(base)
    assert _bound(resolver, call) == {"size": "size", "width": "4"}
    assert not resolver.sites(side) and not resolver.sites(net)  # which one `super()` finds depends on the object


_PARTS = """\
class Joined(nn.Module):
    def __init__(self, first, second, {last}):
        super().__init__()
        self.first = first
        self.second = second
        self.{last} = {last}

    def forward(self, x):
        return self.second(self.first(x)).to(self.{last})
"""
_MADE = "model = Joined(nn.Linear(8, 4), nn.Linear(4, 3), device)"


def test_what_a_constructor_keeps_is_not_taken_for_the_argument_beside_it() -> None:
    definitions, moved = _PARTS.format(last="place"), f"{_MADE}.to(device)"
    device = "accelerator = Accelerator(\n    dataloader_config=DataLoaderConfiguration(split_batches=True)\n)"
    after = lifted(main=True, definitions=definitions, model=_MADE, device=f"{device}\ndevice = accelerator.device")
    assert converted(script(main=True, definitions=definitions, model=moved)) == after


def test_an_attribute_for_the_device_of_each_object_is_left() -> None:
    other = 'other = Joined(nn.Linear(8, 4), nn.Linear(4, 3), torch.device("cpu"))'
    text = converted(script(definitions=_PARTS.format(last="place"), model=f"{_MADE}.to(device)\n{other}"))
    assert "self.second = second\n        self.place = place\n" in text
    assert "self.first = first\n" in text


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("device", "place"),  # which is that of the process
        ('torch.device("cuda")', "accelerator.device"),
        ('"cuda:0"', "accelerator.device"),
    ],
)
def test_the_device_that_all_objects_have_is_that_of_the_process(given: str, kept: str) -> None:
    made = f"{_MADE.replace('device)', f'{given})')}.to(device)"
    text = converted(script(definitions=_PARTS.format(last="place"), model=made))
    assert f"self.second = second\n        self.place = {kept}\n" in text
