"""Losses, and what networks are given, in dicts that are written out."""

from __future__ import annotations

import pytest
from scripts import convert, script

TERMS = "terms = {'first': F.cross_entropy(model(x), y), 'second': model(x).abs().mean()}"


def said(forward: str) -> list[str]:
    """The codes of the findings about the loss of a script; `sum` if the loss is marked as one."""
    result = convert(script(forward=f"optimizer.zero_grad()\n{forward}"))
    assert result.plan is not None and "accelerator.backward(loss" in result.diff
    found = [f.code for f in result.plan.findings if f.code.startswith("LOSS-")]
    return [*found, *(["sum"] if 'reduction="sum"' in result.diff else [])]


@pytest.mark.parametrize(
    "loss",
    [
        "loss = sum(terms.values())",
        "loss = terms['first'] + 0.1 * terms['second']",
        "loss = terms.get('first') + terms.pop('second')",
        "loss = sum(v for k, v in terms.items())",
        "terms['third'] = model(x).pow(2).mean()\nloss = sum(terms.values())",
        "loss = sum({k: 2 * v for k, v in terms.items()}.values())",
    ],
)
def test_terms_of_a_loss_in_a_dict(loss: str) -> None:
    assert said(f"{TERMS}\n{loss}") == []
    sums = TERMS.replace("F.cross_entropy(model(x), y)", "model(x).sum()").replace("mean()", "sum()")
    loss = loss.replace("mean()", "sum()")
    assert said(f"{sums}\n{loss}") == ["sum"]


@pytest.mark.parametrize(
    "changed",
    [
        "terms.update(others)",
        "terms.setdefault('third', other(x))",
        "change(terms)",
        "terms[name] = other()",
        "del terms[name]",
        "terms.pop(name)",
        "terms |= others",
    ],
)
def test_a_dict_that_is_changed_is_not_known(changed: str) -> None:
    assert said(f"{TERMS}\n{changed}\nloss = sum(terms.values())") == ["LOSS-UNKNOWN"]


@pytest.mark.parametrize(
    "changed",
    [
        "del terms['second']",
        "terms.pop('second')",
        "terms.setdefault('second', other())",
        "terms.update({'third': F.mse_loss(model(x), model(x))})",
        "terms |= {'third': F.mse_loss(model(x), model(x))}",
        "terms = {**terms, 'third': F.mse_loss(model(x), model(x))}",
        "also = terms\nalso['third'] = F.mse_loss(model(x), model(x))",
        "print(terms)",
        "terms = dict(terms, third=F.mse_loss(model(x), model(x)))",
    ],
)
def test_what_becomes_of_a_dict_is_followed(changed: str) -> None:
    assert said(f"{TERMS}\n{changed}\nloss = sum(terms.values())") == []
    assert said(f"{TERMS}\n{changed}\nloss = sum(terms.values()) * terms['first']") == ["LOSS-INBATCH"]


# A function, methods, and a network, that set samples in relation to those of their share, or do not.
CHANGING = """\
def centred(d):
    d["a"] = d["a"] - d["a"].mean(0)


def early(d):
    if "b" not in d:
        d["a"] = d["a"] / d["a"].norm()
        return
    d["c"] = d["b"]


def doubled(d):
    other = d
    other.update(a=d["a"] * 2)
    return other


def noted(d):
    d["mean"] = d["a"].mean(0)


class Steps:
    def run(self, d):
        centred(d)


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, d):
        self.put(d)
        return d

    def put(self, d):
        d["a"] = F.normalize(self.layer(d["a"]), dim=0)


steps = Steps()
part = Part()
"""


def of_dict(changed: str, loss: str = "F.cross_entropy(out['a'], y)") -> list[str]:
    """The codes of the findings about a loss of what is in a dict, once that is changed."""
    text = script(
        definitions=CHANGING, forward=f"optimizer.zero_grad()\nout = {{'a': model(x)}}\n{changed}\nloss = {loss}"
    )
    result = convert(text)
    assert result.plan is not None
    return [f.code for f in result.plan.findings if f.code.startswith("LOSS-")]


@pytest.mark.parametrize(
    "changed",
    [
        "d = out\nd['a'] = d['a'] - d['a'].mean(0)",
        "d = out\nout['a'] = out['a'] / out['a'].norm()\nout = d",
        "other = {'kept': out}\nother['kept']['a'] = F.normalize(out['a'], dim=0)",
        "out |= {'a': F.softmax(out['a'], 0)}",
        "out = out | {'a': F.softmax(out['a'], 0)}",
        "out.update({'a': F.softmax(out['a'], 0)})",
        "out.update(a=F.softmax(out['a'], 0))",
        "h = out.pop('a')\nout.setdefault('a', h - h.mean(0))",
        "out['b'] = 1\nout.pop('b')\nout = {'a': out['a'] - out['a'].mean()}",
        "out = {**out, 'a': out['a'] - out['a'].mean(0)}",
        "out = dict(out, a=out['a'] - out['a'].mean(0))",
        "for k in out:\n    out[k] = out[k] - out[k].mean(0)",
        "for k, v in out.items():\n    out[k] = F.normalize(v, dim=0)",
        "if epoch:\n    d = out\n    d['a'] = d['a'] - d['a'].mean(0)",
        "centred(out)",
        "d = out\ncentred(d)",
        "early(out)",
        "doubled(out)\ncentred(doubled(out))",
        "steps.run(out)",
        "part(out)",
        "centred(out)\nunknown(out)",
        "print(out)\nout['a'] = out['a'] - out['a'].mean(0)",
    ],
)
def test_samples_that_meet_in_a_dict_are_seen_under_all_its_names(changed: str) -> None:
    assert of_dict(changed) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "changed",
    [
        "d = out\nd['a'] = d['a'].relu()",
        "d = out.copy()\nd['a'] = d['a'] - d['a'].mean(0)",
        "d = dict(out)\nd['a'] = d['a'] - d['a'].mean(0)",
        "d = {**out}\ncentred(d)",
        "d = out\nd['b'] = d['a'] - d['a'].mean(0)",
        "out.update({'b': F.softmax(out['a'], 0)})",
        "out |= {'a': F.softmax(out['a'], 1)}",
        "h = out.pop('a')\nout.setdefault('a', h.relu())",
        "out.setdefault('a', F.softmax(out['a'], 0))",
        "for k, v in out.items():\n    out[k] = F.normalize(v, dim=1)",
        "doubled(out)",
        "noted(out)",
        "d = {'a': model(x)}\ncentred(d)",
        "d = doubled({'a': model(x)})\ncentred(d)\nout = doubled({'a': model(x)})",
        "out['a'] = out['a'] - out['a'].mean(0)\nout['a'] = model(x)",
        "print(out)",
        "out['b'] = out['a'] - out['a'].mean(0)\nunknown(out)",
    ],
)
def test_other_changes_are_none_of_that_kind(changed: str) -> None:
    assert of_dict(changed) == []


@pytest.mark.parametrize(
    "lines",
    [
        "hs = [h]\nhs[0] = hs[0] - hs[0].mean(0)\nh = hs[0]",
        "hs = []\nhs.append(h)\nh = hs[0] - hs[-1].mean(0)",
        "hs = [h]\nother = hs\nother[0] = F.normalize(other[0], dim=0)\nh = hs[0]",
        "hs = []\nfor k in range(3):\n    hs.append(h[y == k].mean(0))\nh = h @ torch.stack(hs).t()",
        "hs = [h[y == k].mean(0) for k in range(3)]\nhs.append(h.mean(0))\nh = h - hs[epoch]",
        "hs = {}\nfor k in range(3):\n    hs[k] = h[y == k].mean(0)\nh = h - hs[0]",
        "hs = [h]\nhs += [F.softmax(h, 0)]\nh = hs[1]",
        "hs = [h]\nlisted(hs)\nh = hs[0]",
        "hs = [h, 2]\nhs.pop()\nh = hs.pop() - h.mean(0)",
    ],
)
def test_samples_that_meet_in_a_list_are_seen(lines: str) -> None:
    assert in_list(lines) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "lines",
    [
        "hs = [h]\nhs[0] = hs[0].relu()\nh = hs[0]",
        "hs = []\nhs.append(h)\nhs.append(h - h.mean(0))\nh = hs[0]",
        "hs = [h]\nother = hs[:]\nother[0] = F.normalize(other[0], dim=0)\nh = hs[0]",
        "hs = []\nfor k in range(3):\n    hs.append(h * k)\nh = sum(hs)",
        "hs = {}\nfor k in range(3):\n    hs[k] = h * k\nh = hs[0]",
        "hs = [h, F.softmax(h, 0)]\nhs.pop()\nh = hs.pop()",
        "hs = [h]\nhs += [F.softmax(h, 1)]\nh = hs[1]",
        "hs = [h.mean(0)]\nshown = hs[0].sum().item()",
    ],
)
def test_other_lists_are_none_of_that_kind(lines: str) -> None:
    assert in_list(lines) == []


def in_list(lines: str) -> list[str]:
    forward = f"optimizer.zero_grad()\nh = model(x)\n{lines}\nloss = F.cross_entropy(h, y)"
    made = "def listed(hs):\n    hs[0] = hs[0] / hs[0].norm()\n"
    plan = convert(script(definitions=made, forward=forward)).plan
    assert plan is not None
    return [f.code for f in plan.findings if f.code.startswith("LOSS-")]


@pytest.mark.parametrize(
    ("write", "codes"),
    [
        ("kept['m'] = out.mean(0)\nloss = (out - kept['m']).pow(2).mean()", ["LOSS-INBATCH"]),
        ("kept['m'] = out.mean(0)\nloss = (out - kept['z']).pow(2).mean()", []),
        ("kept['m'] = F.cross_entropy(out, y)\nloss = kept['m'] * kept['weight']", []),
        ("kept['m'] = F.cross_entropy(out, y)\nloss = kept['m'] ** 2", ["LOSS-INBATCH"]),
        ("kept['a'] = F.cross_entropy(out, y)\nkept['b'] = out.abs().mean()\nloss = kept['a'] + kept['b']", []),
    ],
)
@pytest.mark.parametrize("slot", ["before", "definitions"])
def test_dicts_that_were_made_before_the_loop(slot: str, write: str, codes: list[str]) -> None:
    kept = "kept = {'z': 0.0, 'weight': 0.3}"
    result = convert(script(**{slot: kept}, forward=f"optimizer.zero_grad()\nout = model(x)\n{write}"))
    assert result.plan is not None
    assert [f.code for f in result.plan.findings if f.code.startswith(("LOSS-", "TABLE-"))] == codes
