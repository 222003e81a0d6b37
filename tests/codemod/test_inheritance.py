"""Trainers whose classes have bases in the script, and properties."""

from __future__ import annotations

import pytest
from scripts import converted, script, unchanged

HEAD = """\
class Base:
    EPOCHS = 2

    def __init__(self, device):
        self.device = device
        self.seen = 0

    def fit(self):
        for _ in range(self.EPOCHS):
            self.train()
        self.done()

    def train(self):
        for x, y in self.loader:
            {move}
            self.optimizer.zero_grad()
            loss = self.loss(x, y)
            {backward}
            self.optimizer.step()

    def loss(self, x, y):
        raise NotImplementedError

    def done(self):
        {print}("done")


class Trainer(Base):
    def __init__(self, {device}):
        {super}.__init__({handed})
        self.loader = DataLoader(data, batch_size=16)
        self.model = {model}
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        {prepare}

    def loss(self, x, y):
        return F.cross_entropy(self.model(x), y)

    def done(self):
        {super}.done()
        {print}(self.seen)


{others}
"""
BEFORE = {
    "move": "x, y = x.to(self.device), y.to(self.device)",
    "backward": "loss.backward()",
    "print": "print",
    "device": "device",
    "super": "super()",
    "handed": "device",
    "model": "Net().to(device)",
    "prepare": "pass",
    "others": "",
}
EMPTY = dict.fromkeys(("loader", "model", "optimizer", "epochs", "loop", "move", "forward", "backward", "step"), "")
BODY = "Trainer(device).fit()"


def family(body: str = BODY, **parts: str) -> str:
    """A script that makes an object of a derived class."""
    return script(definitions=HEAD.format(**{**BEFORE, **parts}), after=body, **EMPTY)


def code(text: str) -> str:
    """The conversion without indentation: what is looked for may stand in any method."""
    return "\n".join(line.strip() for line in converted(text).splitlines())


# ---- followed


@pytest.mark.parametrize("called", ["super()", "super(Trainer, self)"])
def test_the_methods_of_a_base_are_those_of_the_object(called: str) -> None:
    after = code(family(super=called))
    assert "accelerator.backward(loss)" in after
    assert "x.to(self.device)" not in after
    assert "self.model = Net()\nself.optimizer" in after
    assert "self.model, self.optimizer, self.loader = accelerator.prepare(" in after
    assert 'accelerator.print("done")' in after and "accelerator.print(self.seen)" in after
    assert f"{called}.done()" in after and f"{called}.__init__(accelerator.device)" in after


def test_methods_of_a_base_that_are_called_by_its_name() -> None:
    def named(text: str, device: str) -> str:
        text = text.replace(f"super().__init__({device})", f"Base.__init__(self, {device})")
        return text.replace("super().done()", "Base.done(self)")

    assert converted(named(family(), "device")) == named(converted(family()), "accelerator.device")
    assert "Base.done(self)" in converted(named(family(), "device"))


@pytest.mark.parametrize(
    ("others", "body"),
    [
        ("class Special(Trainer):\n    pass", "Special(device).fit()"),  # three in a chain
        ("class Special(Trainer):\n    EPOCHS = 3\n\n    def done(self):\n        pass", "Special(device).fit()"),
        ("class Other:\n    pass", BODY),
        ("class Second(Base):\n    pass", BODY),  # which is never made
        ("class Second(Base):\n    pass\n\n\nclass Third(Second):\n    pass", BODY),
        ("class Second(Base):\n    def fit(self):\n        return Second(self.device)", BODY),
        ("class Special(Trainer):\n    pass", BODY),
        ("class Second(Base):\n    def fit(self):\n        print(device)", BODY),
        ("class Second(Base):\n    AT = [device]", BODY),
        ("import sys\n\n\nclass Second(Base):\n    def fit(self):\n        print(sys.argv)", BODY),
        ("class Second(Base):\n    pass", f"{BODY}\nimport argparse\nprint(vars(argparse.Namespace()))"),
        ("class Second(Base):\n    pass", f"{BODY}\nprint(getattr(torch.optim, input()))"),
        ("def show(trainer: Base) -> None:\n    pass", BODY),
        ("print(isinstance(3, Base))", BODY),
    ],
)
def test_what_does_not_matter(others: str, body: str) -> None:
    assert "accelerator.backward(loss)" in code(family(body, others=others))


@pytest.mark.parametrize(
    "looked",
    ["return self.model", "return len(self.loader)", '"""How many."""\n        return self.seen * 2'],
)
def test_properties_that_only_look(looked: str) -> None:
    others = f"class Special(Trainer):\n    @property\n    def what(self):\n        {looked}"
    body = "special = Special(device)\nspecial.fit()\nprint(special.what)"
    assert "accelerator.backward(loss)" in code(family(body, others=others))


def test_a_property_is_what_it_returns() -> None:
    others = "class Special(Trainer):\n    @property\n    def net(self):\n        return self.model"
    body = "special = Special(device)\nspecial.fit()\ntorch.save(special.net.state_dict(), 'm.pt')"
    assert "accelerator.save(accelerator.unwrap_model(special.net).state_dict(), 'm.pt')" in code(
        family(body, others=others)
    )


SUMS = "def loss(self, x, y):\n        return F.cross_entropy(self.model(x), y, reduction='sum')"
TIMES = "def loss(self, x, y):\n        return super().loss(x, y) * x.size(0)"
CALLS = "def loss(self, x, y):\n        return Trainer.loss(self, x, y)"


@pytest.mark.parametrize(
    ("mixin", "special", "sums"),
    [
        (f"class Own:\n    {SUMS}", "(Own, Trainer):\n    pass", True),
        (f"class Own:\n    {SUMS}", "(Trainer, Own):\n    pass", False),
        (f"class Own:\n    {TIMES}", "(Own, Trainer):\n    pass", True),
        (f"class Own(Base):\n    {TIMES}", "(Own, Trainer):\n    pass", True),
        (f"class Own:\n    {SUMS}", f"(Own, Trainer):\n    {CALLS}", False),
        (f"class Other:\n    {SUMS}\n\n\nclass Own(Other):\n    pass", "(Own, Trainer):\n    pass", True),
        ("class Own(Base):\n    pass", f"(Own, Trainer):\n    {TIMES}", True),
    ],
)
def test_several_bases(mixin: str, special: str, sums: bool) -> None:
    """Methods are looked for as Python does: a base comes after all classes that derive from it."""
    text = code(family("Special(device).fit()", others=f"{mixin}\n\n\nclass Special{special}"))
    assert ('accelerator.backward(loss, reduction="sum")' in text) == sums
    assert ("accelerator.backward(loss)" in text) != sums


def test_two_objects_of_a_derived_class() -> None:
    text = code(family("Trainer(device).fit()\nTrainer(device).fit()"))
    assert text.count("Trainer(accelerator).fit()") == 2


# ---- left alone


@pytest.mark.parametrize(
    ("others", "body"),
    [
        ("class Second(Base):\n    pass", f"{BODY}\nSecond(device).fit()"),  # whose attributes would be which?
        ("class Second(Base):\n    pass", f"{BODY}\nprint(Second)"),
        ("class Second(Base):\n    pass", f"{BODY}\nprint(Base.__subclasses__())"),
        ("class Second(Base):\n    pass", f"{BODY}\nprint(globals()[input()])"),
        ("class Second(Base):\n    pass", f"{BODY}\nimport sys\nprint(getattr(sys.modules['x'], input()))"),
        ("class Second(Base):\n    pass", f"{BODY}\nimport other\nprint(getattr(other, input()))"),
        ("@print\nclass Second(Base):\n    pass", BODY),
        ("class Special(Trainer):\n    pass", "Special(device).fit()\nTrainer(device).fit()"),
        ("", "Trainer(device).fit()\nBase(device)"),
        ("", "trainer = Trainer(device)\nBase.fit(trainer)"),
        (
            "class Special(Trainer):\n    @staticmethod\n    def say(x):\n        pass\n\n\nclass Last(Special):\n"
            "    def fit(self):\n        Special.say(self)",
            "Last(device).fit()",
        ),
        ("class Special(Trainer):\n    def fit(self):\n        Base.fit(None)", "Special(device).fit()"),
        ("class Special(Trainer):\n    def fit(self):\n        Base.fit(*[self])", "Special(device).fit()"),
        ("class Special(Trainer):\n    def fit(self):\n        Base.other(self)", "Special(device).fit()"),
        (
            "class Special(Trainer):\n    def fit(self):\n        runs = [Base.fit]\n        runs[0](self)",
            "Special(device).fit()",
        ),
        ("", "Trainer(device).fit()\nBase.EPOCHS = 3"),
        ("", "made = [Trainer(device), Trainer(device)]\nmade[0].fit()"),
        ("class Own(dict):\n    pass\n\n\nclass Special(Own, Trainer):\n    pass", "Special(device).fit()"),
        ("class Own:\n    pass\n\n\nclass Special(Own, Trainer, Own):\n    pass", "Special(device).fit()"),
        ("class Own(Base):\n    pass\n\n\nclass Special(Base, Own, Trainer):\n    pass", "Special(device).fit()"),
        (
            "class Special(Trainer):\n    def fit(self):\n        run = super().fit\n        run()",
            "Special(device).fit()",
        ),
        ("class Special(Trainer):\n    def fit(self):\n        self.__it = 1", "Special(device).fit()"),
        ("@print\nclass Special(Trainer):\n    pass", "Special(device).fit()"),
    ],
)
def test_families_that_cannot_be_one_class(others: str, body: str) -> None:
    assert unchanged(family(body, others=others)).code == "LOOP-IN-CLASS"


@pytest.mark.parametrize(
    ("others", "body"),
    [("class Second(Base):\n    pass", "print(3)"), ("", "made = [Trainer(device), Trainer(device)]")],
)
def test_families_of_which_no_object_trains(others: str, body: str) -> None:
    assert unchanged(family(body, others=others)).code == "NO-TRAINING"


def test_a_method_of_the_base_in_a_variable() -> None:
    special = "class Special(Trainer):\n    def fit(self):\n        {}"
    called, held = (special.format(fit) for fit in ("Base.fit(self)", "run = Base.fit\n        run(self)"))
    expected = converted(family("Special(device).fit()", others=called))
    assert converted(family("Special(device).fit()", others=held)) == expected.replace(called, held)
