"""Evaluations that run backward passes for the inputs: they measure a network, and train nothing."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import converted, findings, script

ATTACK = """
def attack(model, x, y):
    delta = torch.zeros_like(x).requires_grad_()
    for _ in range(3):
        out = model(x + delta)
        loss = F.cross_entropy(out, y)
        loss.backward()
        delta.data = delta + 0.1 * delta.grad.sign()
        delta.grad.zero_()
    return delta.detach()
"""
TEST = """
right = 0
for x, y in held:
    x, y = x.to(device), y.to(device)
    out = model(x + attack(model, x, y))
    right += (out.argmax(1) == y).sum().item()
print(right / len(data))
"""
GATHERED = "out, y = accelerator.gather_for_metrics((out, y))"


def attacked(test: str = TEST, attack: str = ATTACK, **slots: str) -> str:
    loaders = "loader = DataLoader(data, batch_size=16, shuffle=True)\nheld = DataLoader(data, batch_size=16)"
    return script(definitions=attack, loader=loaders, epoch_end=test, **slots)


def test_what_an_evaluation_with_attacks_measures_is_gathered() -> None:
    output = converted(attacked())
    assert "prepare(model, optimizer, loader, held)" in " ".join(output.split()).replace("( ", "(").replace(" )", ")")
    assert GATHERED in output
    assert findings(attacked()) == []


@pytest.mark.parametrize(
    ("slots", "code"),
    [
        ({"forward": "loss = F.cross_entropy(model(x), y)", "step": "optimizer.step()\noptimizer.zero_grad()"}, ""),
        ({"test": TEST.replace("    right", "    optimizer.step()\n    right")}, ""),
        (
            {"test": TEST.replace("    right", "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1)\n    right")},
            "",
        ),
    ],
)
def test_gradients_that_may_be_used_are_those_of_a_training(slots: dict[str, str], code: str) -> None:
    assert GATHERED not in converted(attacked(**slots))


RIGHT = "out.argmax(1) == y"


@pytest.mark.parametrize(
    ("before", "test", "expected"),
    [
        ("", f"({RIGHT}).sum() == 0", ["COLL-RANKFLOW"]),
        ("", f"len(torch.where({RIGHT})[0]) == 0", ["COLL-RANKFLOW"]),
        (f"        i = torch.where({RIGHT})[0]\n", "len(i) == 0", ["COLL-RANKFLOW"]),
        (f"        i = ({RIGHT}).nonzero()\n", "len(i) == 0", ["COLL-RANKFLOW"]),
        ("", "len(out) == 0", []),
        ("        i = out.argmax(1)\n", "len(i) == 0", []),
    ],
)
def test_a_stop_that_differs_from_process_to_process_is_told(before: str, test: str, expected: list[str]) -> None:
    stop = f"{before}        if {test}:\n            break\n        loss.b"
    assert findings(attacked(attack=ATTACK.replace("        loss.b", stop))) == expected


def test_a_network_that_no_process_waits_for_may_stop_anywhere() -> None:
    stop = f"        if ({RIGHT}).sum() == 0:\n            break\n        loss.b"
    other = "other = Net().to(device)\nother.load_state_dict(model.state_dict())\nother.eval()\n"
    test = other + TEST.replace("model", "other")
    assert "COLL-RANKFLOW" not in findings(attacked(test, ATTACK.replace("        loss.b", stop)))


def test_a_step_along_a_gradient_of_samples_is_told() -> None:
    assert findings(attacked(attack=ATTACK.replace(".sign()", ""))) == ["GRAD-INPUT"]


@pytest.mark.parametrize(("given", "expected"), [("", []), (", True", ["COLL-RANKFLOW"])])
def test_a_stop_that_no_call_asks_for_is_none(given: str, expected: list[str]) -> None:
    stop = (
        f"        if early:\n            i = torch.where({RIGHT})[0]\n        else:\n            i = slice(None)\n"
        "        if not isinstance(i, slice) and len(i) == 0:\n            break\n        loss.b"
    )
    attack = ATTACK.replace("        loss.b", stop).replace("x, y):", "x, y, early=False):")
    assert findings(attacked(TEST.replace("x, y))", f"x, y{given}))"), attack)) == expected
