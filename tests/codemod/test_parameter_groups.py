"""Whose parameters an optimizer updates that gets them out of dicts: arguments by name, groups that are filled."""

from __future__ import annotations

import pytest
from scripts import converted, lifted, script, unchanged

GROUPS = "{'params': groups['slow']}, {'params': groups['fast'], 'lr': 0.2}"
BY_GROUP = f"optimizer = torch.optim.SGD([{GROUPS}], lr=0.1)"
SORTED = """\
groups = {'slow': [], 'fast': []}
for name, p in model.named_parameters():
    groups['slow' if p.ndim > 1 else 'fast'].append(p)
"""
BRANCHES = """\
groups = {'slow': [], 'fast': []}
for name, p in model.named_parameters():
    if p.ndim > 1:
        groups['slow'].append(p)
    else:
        groups['fast'].append(p)
print(len(groups['slow']), groups.keys())
"""
CHOSEN = """\
slow, fast = [], []
for name, p in model.named_parameters():
    (slow if p.ndim > 1 else fast).append(p)
"""
BY_CHOICE = "optimizer = torch.optim.SGD([{'params': slow}, {'params': fast, 'lr': 0.2}], lr=0.1)"
KEYWORDS = "settings = {'params': model.parameters(), 'lr': 0.1}\n"
BY_KEYWORDS = "optimizer = torch.optim.SGD(**settings)"


@pytest.mark.parametrize("optimizer", [SORTED + BY_GROUP, KEYWORDS + BY_KEYWORDS, CHOSEN + BY_CHOICE])
def test_the_network_is_prepared(optimizer: str) -> None:
    assert converted(script(optimizer=optimizer)) == lifted(optimizer=optimizer)


def test_groups_that_are_looked_at() -> None:
    assert "prepare(model, optimizer, loader)" in converted(script(optimizer=BRANCHES + BY_GROUP))


@pytest.mark.parametrize(
    "more",
    [
        "groups['fast'].extend(head.parameters())",
        "groups['fast'] = [*head.parameters()]",
        "for name in groups:\n    groups[name].append(head.weight)",
    ],
)
def test_a_second_network_is_prepared_too(more: str) -> None:
    text = script(
        model="model = Net().to(device)\nhead = nn.Linear(3, 3).to(device)", optimizer=f"{SORTED}{more}\n{BY_GROUP}"
    )
    assert "model, head, optimizer, loader = accelerator.prepare(" in converted(text)


@pytest.mark.parametrize(
    "more",
    [
        "(slow if len(slow) < 9 else fast).append(head.bias)",
        "(fast if len(slow) < 9 else slow if len(fast) < 9 else fast).extend(head.parameters())",
    ],
)
def test_a_second_network_in_one_of_two_lists(more: str) -> None:
    model = "model = Net().to(device)\nhead = nn.Linear(3, 3).to(device)"
    text = script(model=model, optimizer=f"{CHOSEN}{more}\n{BY_CHOICE}")
    assert "model, head, optimizer, loader = accelerator.prepare(" in converted(text)


@pytest.mark.parametrize("more", ["(slow if len(slow) < 9 else fast).append(weight)", "(other or slow).append(weight)"])
def test_parameters_of_no_network_in_one_of_two_lists(more: str) -> None:
    weight = "weight = nn.Parameter(torch.zeros(3))\nother = []"
    finding = unchanged(script(optimizer=f"{CHOSEN}{weight}\n{more}\n{BY_CHOICE}"))
    assert finding.code in ("DDP-FREEPARAM", "OPT-UNKNOWN")


@pytest.mark.parametrize(
    "optimizer",
    [
        f"{SORTED}groups['fast'] += [*head.parameters()]\n{BY_GROUP}",
        f"{SORTED}fast = groups['fast']\nfast.append(head.bias)\n{BY_GROUP}",
        f"{SORTED}for name, group in groups.items():\n    group.append(head.bias)\n{BY_GROUP}",
        f"{SORTED}groups.get('fast').append(head.bias)\n{BY_GROUP}",
        f"{SORTED}fill(groups)\n{BY_GROUP}",
        f"{SORTED}fill(groups['fast'])\n{BY_GROUP}",
        f"{KEYWORDS}settings['params'] = [*head.parameters()]\n{BY_KEYWORDS}",
        f"{KEYWORDS}settings.update(fill(head))\n{BY_KEYWORDS}",
        f"settings = {{'lr': 0.1}}\n{BY_KEYWORDS}",
    ],
)
def test_parameters_that_may_be_of_others_are_not_told(optimizer: str) -> None:
    definitions = "def fill(groups):\n    return {}"
    text = script(
        definitions=definitions, model="model = Net().to(device)\nhead = nn.Linear(3, 3)", optimizer=optimizer
    )
    assert unchanged(text).code == "OPT-UNKNOWN"


def test_a_parameter_of_no_network_among_the_groups() -> None:
    free = "free = torch.zeros(3, requires_grad=True)\n"
    assert unchanged(script(optimizer=f"{free}{SORTED}groups['fast'].append(free)\n{BY_GROUP}")).code == "DDP-FREEPARAM"
