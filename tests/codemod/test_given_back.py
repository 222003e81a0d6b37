"""PREPARE: a function that goes on with the model as another function, which it hands it to, gives it back."""

from __future__ import annotations

import pytest
from scripts import converted, findings, script, unchanged

STEPS = """\
def steps(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
    return {returned}


"""
RUNS = """\
def run({parameters}):
    for _ in range(2):
        {bound} = {call}
    return model
"""
PREPARED = "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)"


def text(definitions: str, call: str = "model = run(model, loader, optimizer)") -> str:
    return script(definitions=definitions, epochs="for epoch in range(2):", epoch=call, loop="", move="", forward="",
                  backward="", step="")  # fmt: skip


@pytest.mark.parametrize(
    ("returned", "bound", "call"),
    [
        ("model", "model", "steps(model, loader, optimizer)"),
        ("model, optimizer", "model, optimizer", "steps(model, loader, optimizer)"),
        ("model, 3", "model, _", "steps(model=model, loader=loader, optimizer=optimizer)"),
    ],
)
def test_a_model_that_is_given_back_is_prepared_where_it_was_made(returned: str, bound: str, call: str) -> None:
    runs = RUNS.format(parameters="model, loader, optimizer", bound=bound, call=call)
    output = converted(text(STEPS.format(returned=returned) + runs))
    assert f"{PREPARED}\n" in output
    assert output.count("accelerator.prepare") == 1


def test_what_changes_a_model_before_it_is_evaluated_gives_it_back() -> None:
    """The parameter is bound again only where it evaluates, and trains elsewhere."""
    centred = "def centred(net):\n    net.layer.bias.data.zero_()\n    return net\n\n\n"
    held = "def held(model):\n    model = centred(model)\n    model.eval()\n    with torch.no_grad():\n"
    held += "        for x, y in loader:\n            print(model(x.to(device)).shape)\n"
    again = script(definitions=centred + held, epoch_end="held(model)")
    output = converted(again)
    assert f"{PREPARED}\n" in output
    assert "accelerator.unwrap_model(net).layer.bias" in output
    assert "PREP-NO-POINT" not in findings(again)


@pytest.mark.parametrize(
    ("returned", "bound", "call"),
    [
        ("optimizer, model", "model, optimizer", "steps(model, loader, optimizer)"),
        ("model if loader else Net()", "model", "steps(model, loader, optimizer)"),
        ("model", "model", "steps(other, loader, optimizer)"),
    ],
)
def test_what_may_be_another_model_is_not_taken_for_it(returned: str, bound: str, call: str) -> None:
    runs = RUNS.format(parameters="model, other, loader, optimizer", bound=bound, call=call)
    made = "model = run(model, Net().to(device), loader, optimizer)"
    assert unchanged(text(STEPS.format(returned=returned) + runs, made)).code in ("PREP-NO-POINT", "OPT-UNKNOWN")
