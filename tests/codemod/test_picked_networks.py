"""Networks and optimizers that every iteration takes out of a list or a dict: prepared where they are kept."""

from __future__ import annotations

import pytest
from scripts import converted, findings, script

NETS = {
    "model": "models = [Net().to(device) for _ in range(3)]",
    "optimizer": "optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]",
}
DICTS = {
    "model": "names = ['a', 'b']\nnets = {name: Net().to(device) for name in names}",
    "optimizer": "opts = {name: torch.optim.SGD(net.parameters(), lr=0.1) for name, net in nets.items()}",
}
EACH = "    {taken}\n    optimizer.zero_grad()\n    F.cross_entropy({net}(x), y).backward()\n    optimizer.step()"
MOVED = "x, y = x.to(device), y.to(device)\n"
NO_STEPS = dict.fromkeys(("forward", "backward", "step"), "")


def each(loop: str, taken: str, net: str = "model") -> dict[str, str]:
    """A batch loop that trains several networks on each batch."""
    return {"move": f"{MOVED}{loop}\n{EACH.format(taken=taken, net=net)}", **NO_STEPS}


@pytest.mark.parametrize(
    ("slots", "prepared"),
    [
        (
            {**NETS, **each("for i in range(3):", "model, optimizer = models[i], optimizers[i]")},
            "models[:] = [accelerator.prepare(entry) for entry in models]\n"
            "optimizers[:] = [accelerator.prepare(entry) for entry in optimizers]\n",
        ),
        (
            {**NETS, **each("for i, model in enumerate(models):", "optimizer = optimizers[i]")},
            "models[:] = [accelerator.prepare(entry) for entry in models]\n"
            "optimizers[:] = [accelerator.prepare(entry) for entry in optimizers]\n",
        ),
        (
            {**DICTS, **each("for name in names:", "optimizer = opts[name]", "nets[name]")},
            'nets["a"], nets["b"], opts["a"], opts["b"], loader = accelerator.prepare(\n',
        ),
    ],
)
def test_they_are_prepared_where_they_are_kept(slots: dict[str, str], prepared: str) -> None:
    text = script(**slots)
    output = converted(text)
    assert prepared in output and "accelerator.backward(F.cross_entropy(" in output
    assert findings(text) == []


def test_one_that_is_taken_once_is_prepared_in_its_variable() -> None:
    text = script(**DICTS, epochs="for name in names:", epoch="model = nets[name]\noptimizer = opts[name]")
    assert "    model, optimizer = accelerator.prepare(model, optimizer)\n" in converted(text)


TAKEN = "i = {drawn}\n{taken}\noptimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)"


@pytest.mark.parametrize(
    "taken", ["model, optimizer = models[i], optimizers[i]", "model = models[i]\noptimizer = optimizers[i]"]
)
@pytest.mark.parametrize(
    ("setup", "drawn", "told"),
    [
        ("import random", "random.randrange(3)", True),
        ("import numpy as np", "np.random.randint(3)", True),
        ("", "int(torch.randint(3, (1,)))", True),
        ("import random\nrandom.seed(0)", "random.randrange(3)", False),
        ("torch.manual_seed(0)", "int(torch.randint(3, (1,)))", False),
        ("", "epoch % 3", False),
    ],
)
def test_which_one_trains_may_be_drawn(setup: str, drawn: str, taken: str, told: bool) -> None:
    text = script(**NETS, setup=setup, forward=TAKEN.format(drawn=drawn, taken=taken))
    assert "models[:] = [accelerator.prepare(entry) for entry in models]\n" in converted(text)
    assert findings(text).count("COLL-RANKFLOW") == told


def test_which_one_trains_may_be_drawn_where_it_is_called() -> None:
    slots = {"forward": "i = random.randrange(3)\noptimizers[i].zero_grad()\nloss = F.cross_entropy(models[i](x), y)"}
    text = script(**NETS, **slots, setup="import random", step="optimizers[i].step()")
    assert findings(text).count("COLL-RANKFLOW") == 1


LOSSES = "losses = [F.cross_entropy(m(x), y).item() for m in models]"


@pytest.mark.parametrize(
    ("drawn", "move", "loop", "told"),
    [
        (f"losses.index(min(losses))\n{LOSSES}", f"{MOVED}{LOSSES}", "", True),
        ("min(range(3), key=lambda j: F.cross_entropy(models[j](x), y).item())", MOVED, "", True),
        ("int(y.max())", MOVED, "", True),
        ("int(accelerated) % 3", f"{MOVED}accelerated = epoch + 1", "", False),
        ("number % 3", MOVED, "for number, (x, y) in enumerate(loader):", False),
    ],
)
def test_every_process_has_to_train_the_same(drawn: str, move: str, loop: str, told: bool) -> None:
    taken = "model, optimizer = models[i], optimizers[i]"
    slots = {"move": move, "forward": TAKEN.format(drawn=drawn, taken=taken)}
    text = script(**NETS, **slots, **({"loop": loop} if loop else {}))
    assert "models[:] = [accelerator.prepare(entry) for entry in models]\n" in converted(text)
    assert findings(text).count("COLL-RANKFLOW") == told
