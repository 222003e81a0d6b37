"""Batches that a script looks at before it trains: the loader is prepared after that, if it can be."""

from __future__ import annotations

import pytest
from scripts import converted, lifted, script, unchanged

PREPARE = "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)"
GATHERED = "accelerator.gather_for_metrics"


def peeked(look: str, **slots: str) -> str:
    """What the conversion makes of a script that looks at a batch, and prepares after that."""
    return lifted(prepare=f"{look}\n{PREPARE}", **slots)


@pytest.mark.parametrize(
    "look",
    [
        "first, labels = next(iter(loader))",
        "width = next(iter(loader))[0].size(1)",
        "batches = iter(loader)\nfirst, labels = next(batches)",
        "batches = iter(loader)\nfirst, labels = batches.next()\nsecond, labels = next(batches)",
        "first = loader.__iter__().__next__()",
        "for first, labels in loader:\n    width = first.size(1)\n    break",
        "if len(data) > 9:\n    first, labels = next(iter(loader))",
    ],
)
def test_a_look_at_a_batch_is_at_one_of_the_author_s_own_loader(look: str) -> None:
    assert converted(script(before=look)) == peeked(look)


@pytest.mark.parametrize("again", ["batches = iter([1, 2])", "batches = iter(loader)\nlast, labels = next(batches)"])
def test_the_iterator_s_variable_may_be_another_one_later(again: str) -> None:
    look = "batches = iter(loader)\nfirst, labels = next(batches)"
    assert converted(script(before=look, after=again)) == peeked(look, after=again)


def test_an_iterator_that_may_be_one_of_two_is_no_look() -> None:
    look = "batches = iter(loader)\nif len(data) > 9:\n    batches = iter([1])\nfirst, labels = next(batches)"
    assert look not in converted(script(before=look)).partition("accelerator.prepare(")[0]


def test_a_look_in_a_function() -> None:
    width = "def width(loader):\n    return next(iter(loader))[0].size(1)"
    assert converted(script(definitions=width, before="columns = width(loader)")) == peeked(
        "columns = width(loader)", definitions=width
    )


MAKER = """\
def make():
    train = DataLoader(data, batch_size=16, shuffle=True)
    test = DataLoader(data, batch_size=16)
{}
    return train, test
"""
EVALUATED = "hits = 0\nfor x, y in test:\n    hits += (model(x).argmax(1) == y).sum().item()"


def made(look: str) -> str:
    """A script whose loaders are made by a function that looks at them before it returns them."""
    slots = {"device": 'device = "cpu"', "move": "", "model": "model = Net()"}
    maker = MAKER.format("\n".join(f"    {line}" for line in look.splitlines()))
    return script(definitions=maker, loader="loader, test = make()", epoch_end=EVALUATED, **slots)


@pytest.mark.parametrize("loader", ["train", "test"])
def test_a_function_that_makes_loaders_may_look_at_one(loader: str) -> None:
    look = f"for first, labels in {loader}:\n    width = first.size(1)\n    break"
    output = converted(made(look))
    assert "        width = first.size(1)\n        break\n    return train, test\n" in output
    assert "model, optimizer, loader, test = accelerator.prepare(model, optimizer, loader, test)" in output


@pytest.mark.parametrize(
    "look",
    [
        "for first, labels in test:\n    model(first)",
        "for first, labels in test:\n    if len(first) > 2:\n        break",
        "for i in range(2):\n    for first, labels in test:\n        break",
    ],
)
def test_a_function_that_passes_over_what_it_makes_is_no_look(look: str) -> None:
    assert unchanged(made(look)).code == "PREP-NO-POINT"


def test_variables_of_one_name_are_told_apart() -> None:
    text = made("for first, labels in train:\n    print(first.sum())").replace(
        "loader, test = make()", "train, test = make()"
    )
    message = unchanged(text.replace("for x, y in loader:", "for x, y in train:")).message
    assert "(`train` of make and `train` of the script)" in message


def test_a_network_made_for_what_was_seen_is_prepared_with_the_loader() -> None:
    loader = "loader = DataLoader(data, batch_size=16, shuffle=True)\nwidth = next(iter(loader))[0].size(1)"
    assert converted(script(loader=loader)) == lifted(loader=loader)


def test_a_network_that_runs_on_what_was_seen_keeps_its_moves() -> None:
    look = "first, labels = next(iter(loader))\nexample = model(first.to(device))"
    output = converted(script(before=look))
    assert f"model = Net().to(device)\n{'optimizer = torch.optim.SGD(model.parameters(), lr=0.1)'}\n{look}" in output
    assert f"{look}\n{PREPARE}\n" in output


def test_a_look_in_main() -> None:
    look = "first, labels = next(iter(loader))"
    output = converted(script(main=True, before=look))
    assert f"    {look}\n    {PREPARE}\n" in output


@pytest.mark.parametrize(
    "look",
    [
        "shapes = [next(iter(loader)) for i in range(3)]",  # in a loop
        "batches = iter(loader)\nshown = list(batches)",  # all of them
        "for i in range(2):\n    first, labels = next(iter(loader))",
    ],
)
def test_other_passes_come_after_prepare_as_ever(look: str) -> None:
    assert converted(script(before=look)) == lifted(before=look)


def test_a_look_once_training_has_begun_comes_after_prepare() -> None:
    look = "first, labels = next(iter(loader))"
    assert converted(script(epoch=look)) == lifted(epoch=look)
    assert converted(script(after=look)) == lifted(after=look)


def test_a_loop_that_goes_on_is_no_look() -> None:
    loop = "total = 0\nfor first, labels in loader:\n    if total > 9:\n        break\n    total += labels.sum().item()"
    output = converted(script(before=f"{loop}\nprint(total)"))
    assert output.index(".prepare(") < output.index("for first, labels in loader:")


def test_what_a_loop_looks_at_is_not_gathered() -> None:
    look = "for first, labels in loader:\n    print(first.shape)\n    break"
    output = converted(script(before=look))
    assert GATHERED not in output
    assert output.index("accelerator.print(first.shape)") < output.index(".prepare(")


def test_what_it_looks_at_later_is() -> None:
    look = "for first, labels in loader:\n    print(first.sum().item())\n    break"
    assert GATHERED in converted(script(after=look))


def test_what_was_seen_before_goes_to_the_device_as_ever() -> None:
    """The author's own loader leaves it where it is."""
    look = "first, labels = next(iter(loader))"
    shown = "shown = model(first.to(device)).sum()"
    output = converted(script(before=look, epoch_end=shown))
    assert f"    {shown}" in output
    again = converted(script(before=look, epoch_end=f"{look}\n{shown}"))  # of the prepared loader
    assert "    shown = model(first).sum()" in again


def test_what_was_seen_before_may_reach_a_function() -> None:
    show = "def show(rows):\n    return model(rows.to(device)).sum()"
    look = "for first, labels in loader:\n    break"
    assert show in converted(script(definitions=show, before=look, epoch_end="shown = show(first)"))


TRAINER = """\
class Trainer:
    def __init__(self, model):
        self.model = model
        self.loader = DataLoader(data, batch_size=16, shuffle=True)
        self.seen = next(iter(self.loader))[0]

    def fit(self):
        for x, y in self.loader:
            optimizer.zero_grad()
            F.cross_entropy(self.model(x.to(device)), y.to(device)).backward()
            optimizer.step()

    def show(self):
        return self.model(self.seen.to(device)).sum()
"""


def test_a_look_in_the_constructor_of_a_trainer() -> None:
    text = script(definitions=TRAINER, loader="", epochs="trainer = Trainer(model)")
    output = converted(text[: text.index("    for x, y in loader:")] + "trainer.fit()\ntrainer.show()\n")
    look = "        self.seen = next(iter(self.loader))[0]\n"
    assert f"{look}        self.loader = accelerator.prepare(self.loader)\n" in output
    assert "self.model(self.seen.to(device)).sum()" in output


def of_trainer(early: str) -> str:
    """A trainer that passes over its loader before the network is bound for the last time."""
    return script(
        definitions=f"""\
def count(loader):
    found = torch.zeros(3)
    for x, y in loader:
        found += torch.bincount(y, minlength=3)
    return found


def mean(net, loader):
    return sum(net(x).mean().item() for x, y in loader)


class Trainer:
    def __init__(self, device, data, parallel):
        self.device = device
        self.loader = DataLoader(data, batch_size=16, shuffle=True)
        self.model = Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        {early}
        if parallel:
            self.model = nn.DataParallel(self.model)
        self.model = self.model.to(device)

    def fit(self):
        for x, y in self.loader:
            x, y = x.to(self.device), y.to(self.device)
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
""",
        loader="",
        model="",
        optimizer="",
        epochs="",
        before="trainer = Trainer(device, data, len(data) > 9)\ntrainer.fit()",
        **dict.fromkeys(("loop", "move", "forward", "backward", "step"), ""),
    )


def test_a_wrapper_that_goes_makes_no_network_again() -> None:
    """Nor does moving it: all that trains is there when the constructor passes over the loader."""
    text = converted(of_trainer("self.counts = count(self.loader)"))
    made = [text.index(part) for part in (".prepare(", "prepare_data_loader(", "self.counts = count(self.loader, ")]
    assert made == sorted(made)
    assert "y = accelerator.gather_for_metrics(y)" in text


def kept_later(early: str) -> str:
    """The same where the network is in a variable of the constructor first."""
    text = of_trainer(f"{early}\n        self.model, self.optimizer = model, optimizer")
    local = text.replace("self.model = Net()", "model = Net()").replace("self.optimizer = torch", "optimizer = torch")
    return local.replace("SGD(self.model", "SGD(model")


def test_a_pass_before_a_network_is_in_its_attribute_is_none_by_it() -> None:
    text = converted(kept_later("self.counts = count(self.loader)"))
    made = [text.index(part) for part in ("prepare_data_loader(", "self.counts = count(self.loader, ", ".prepare(")]
    assert made == sorted(made)


def test_a_pass_by_the_network_itself_is_one_by_it() -> None:
    assert unchanged(kept_later("self.mean = mean(model, self.loader)")).code == "PREP-NO-POINT"


def test_another_network_after_a_pass_is_prepared_by_itself() -> None:
    again = "self.model = Net()\n        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.2)"
    text = converted(of_trainer(f"self.mean = mean(self.model, self.loader)\n        {again}"))
    assert text.count(".prepare(") == 2
    assert text.rindex(".prepare(") > text.index("lr=0.2")
