"""Networks among other things in lists and dicts: prepared before they enter them, or where they are made."""

from __future__ import annotations

import pytest
from scripts import NO_BODY, converted, findings, script, unchanged

FIT = """\
def fit(net, batches, times):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(times):
        for x, y in batches:
            optimizer.zero_grad()
            F.cross_entropy(net.to(device)(x.to(device)), y.to(device)).backward()
            optimizer.step()
"""
NAMED = "first, second = Net(), Net()\n"
EACH = "for net, times in nets:\n    fit(net, loader, times)"
TWO = "[(Net(), 1), (Net(), 2)]"


def fits(nets: str) -> str:
    return script(**NO_BODY, definitions=FIT, before=nets)


@pytest.mark.parametrize(
    ("nets", "output"),
    [
        (f"nets = {TWO}\n{EACH}", "nets = [(accelerator.prepare(Net()), 1), (accelerator.prepare(Net()), 2)]"),
        (f"nets = []\nnets.append((Net(), 1))\n{EACH}", "nets.append((accelerator.prepare(Net()), 1))"),
        ("for net in [Net(), Net()]:\n    fit(net, loader, 1)", "in [accelerator.prepare(Net()), accelerator.prepare("),
        ("nets = {'a': {'net': Net()}}\nfit(nets['a']['net'], loader, 1)", "{'net': accelerator.prepare(Net())}"),
        (f"{NAMED}nets = [(first, 1), (second, 2)]\n{EACH}", "first, second, loader = accelerator.prepare("),
        (f"{NAMED}nets = {{}}\nnets[1] = {{'net': first}}\nfit(nets[1]['net'], loader, 1)", "first, loader = accel"),
        (f"net = Net()\nnets = [(net, 1)]\n{EACH}\nnet = nets[0][0]\nprint(net)", "net, loader = accelerator.prepare("),
    ],
)
def test_they_are_prepared_before_they_enter_it(nets: str, output: str) -> None:
    assert output in converted(fits(nets))
    assert findings(fits(nets)) == []


@pytest.mark.parametrize(
    "nets",
    [
        f"nets = {TWO}\nnets.reverse()\n{EACH}",  # which one is where, is not known
        f"nets = [(Net(), 1)] * 2\n{EACH}",  # one under two names
        "nets = dict(a=Net())\nfit(nets.popitem()[1], loader, 1)",
    ],
)
def test_what_is_in_a_list_has_to_be_known(nets: str) -> None:
    assert unchanged(fits(nets)).code in ("PREP-NO-POINT", "OPT-UNKNOWN")
