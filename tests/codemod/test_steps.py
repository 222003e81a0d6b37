"""Training steps in functions that a loop calls: what their losses are, by what they are handed."""

from __future__ import annotations

import textwrap

import pytest
from scripts import converted, findings, script

STEP = """\
def step(net, batch, labels, criterion):
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
"""
PAIRS = "F.cross_entropy(net(batch) @ net(batch).t(), torch.arange(len(batch)))"


def stepping(definitions: str, call: str, setup: str = "criterion = nn.CrossEntropyLoss()") -> str:
    return script(definitions=definitions, before=setup, forward="", backward=call, step="")


def backward(text: str) -> list[str]:
    """The lines of the conversion that go back through the graph."""
    return [line.strip() for line in converted(text).splitlines() if ".backward(" in line]


@pytest.mark.parametrize(
    ("criterion", "loss", "line", "codes"),
    [
        ("nn.CrossEntropyLoss()", "criterion(net(batch), labels)", "accelerator.backward(loss)", []),
        ("nn.CTCLoss()", "criterion(net(batch), labels, labels, labels)", "accelerator.backward(loss)", []),
        (
            'nn.CrossEntropyLoss(reduction="sum")',
            "criterion(net(batch), labels)",
            'accelerator.backward(loss, reduction="sum")',
            [],
        ),
        (
            'nn.CTCLoss(reduction="sum")',
            "criterion(net(batch), labels, labels, labels)",
            'accelerator.backward(loss, reduction="sum")',
            [],
        ),
        (
            "nn.CrossEntropyLoss(ignore_index=0)",
            "criterion(net(batch), labels)",
            "accelerator.backward(loss)",
            ["LOSS-MASKMEAN"],
        ),
        ("None", PAIRS, "accelerator.backward(loss)", ["LOSS-INBATCH"]),
        ("None", "unread(net(batch), labels)", "accelerator.backward(loss)", ["LOSS-UNKNOWN"]),
    ],
)
def test_the_loss_of_a_step_function(criterion: str, loss: str, line: str, codes: list[str]) -> None:
    text = stepping(STEP.format(loss=loss), "step(model, x, y, criterion)", f"criterion = {criterion}")
    assert backward(text) == [line]
    assert [code for code in findings(text) if code.startswith("LOSS")] == codes


def test_a_batch_that_is_handed_over_whole() -> None:
    definitions = STEP.format(loss="criterion(net(images), targets)").replace("batch, labels", "data")
    definitions = definitions.replace("    loss =", "    images, targets = data\n    loss =")
    text = script(
        definitions=definitions,
        before='criterion = nn.CrossEntropyLoss(reduction="sum")',
        loop="for batch in loader:",
        move="batch = [part.to(device) for part in batch]",
        forward="",
        backward="step(model, batch, criterion)",
        step="",
    )
    assert backward(text) == ['accelerator.backward(loss, reduction="sum")']


def test_a_loss_that_is_handed_over() -> None:
    definitions = "def update(loss):\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()"
    for reduction, more in (("mean", ""), ("sum", ', reduction="sum"')):
        call = f'update(F.cross_entropy(model(x), y, reduction="{reduction}"))'
        assert backward(stepping(definitions, call)) == [f"accelerator.backward(loss{more})"]


def test_functions_that_call_each_other() -> None:
    inner = textwrap.dedent(STEP.format(loss="criterion(net(batch), labels)"))
    outer = "def both(net, x, y):\n    return step(net, x, y, nn.CrossEntropyLoss(reduction='sum'))"
    assert backward(stepping(f"{inner}\n\n{outer}", "both(model, x, y)")) == [
        'accelerator.backward(loss, reduction="sum")'
    ]


def test_calls_that_differ_in_what_they_hand_over() -> None:
    definitions = STEP.format(loss="criterion(net(batch), labels)")
    both = "step(model, x, y, criterion)\nstep(model, x, y, other)"
    for other, codes in (("nn.MSELoss()", []), ('nn.CrossEntropyLoss(reduction="sum")', ["LOSS-UNKNOWN"])):
        text = stepping(definitions, both, f"criterion = nn.CrossEntropyLoss()\nother = {other}")
        assert [code for code in findings(text) if code.startswith("LOSS")] == codes
        assert backward(text) == ["accelerator.backward(loss)"]


@pytest.mark.parametrize("call", ["step(*[model, x, y, criterion])", "step(**dict(net=model, batch=x))"])
def test_arguments_that_cannot_be_told(call: str) -> None:
    text = stepping(STEP.format(loss="criterion(net(batch), labels)"), call)
    assert "LOSS-UNKNOWN" in findings(text) or converted(text) == text


def test_a_default_is_what_is_not_handed_over() -> None:
    definitions = 'def step(out, labels, how="sum"):\n    loss = F.cross_entropy(out, labels, reduction=how)\n'
    definitions += "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()"
    text = stepping(definitions, "step(model(x), y)")
    assert "LOSS-UNKNOWN" in findings(text)  # the word is no constant where it is used


def test_a_step_of_a_trainer() -> None:
    definitions = """\
class Trainer:
    def __init__(self, net, loader, device):
        self.net = net.to(device)
        self.loader = loader
        self.device = device
        self.criterion = nn.CrossEntropyLoss(reduction="sum")
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self):
        for x, y in self.loader:
            self.step(x.to(self.device), y.to(self.device))

    def step(self, x, y):
        loss = self.criterion(self.net(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""
    text = script(
        definitions=definitions,
        model="model = Net()",
        optimizer="",
        epochs="",
        loop="",
        move="",
        forward="",
        backward="",
        step="",
        after="trainer = Trainer(model, loader, device)\ntrainer.train()",
    )
    assert backward(text) == ['self.accelerator.backward(loss, reduction="sum")']
