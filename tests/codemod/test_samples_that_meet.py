"""Samples that meet in mapped functions, products with dimensions in lists, layers, hooks and decisions."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import converted, findings, script

_OUT = "optimizer.zero_grad()\no = model(x)\nn = o.size(0)\n"


def _said(lines: str, **slots: str) -> list[str]:
    found = findings(script(forward=_OUT + lines, **slots))
    return [code for code in found if code.startswith("LOSS-") or code == "COLL-RANKFLOW"]


@pytest.mark.parametrize(
    "lines",
    [
        "loss = torch.vmap(lambda a: a - o.mean(0))(o).pow(2).mean()",
        "loss = torch.vmap(lambda a: ((a - o) ** 2).sum())(o).mean()",
        "each = torch.func.vmap(lambda a, b: (a - b).pow(2).sum(), in_dims=(0, None))\nloss = each(o, o).mean()",
        "loss = torch.einsum(o, [0, 1], o, [2, 1], [0, 2]).pow(2).mean()",
        "loss = torch.einsum('id,jd', o, o).pow(2).mean()",
        "loss = torch.einsum('id,jd->ij', [o, o]).pow(2).mean()",
        "loss = torch.bmm(o[None], o.t()[None]).pow(2).mean()",
        "loss = F.scaled_dot_product_attention(o[None], o[None], o[None]).pow(2).mean()",
        "a, b = torch.broadcast_tensors(o[:, None], o[None])\nloss = (a - b).pow(2).mean()",
        "loss = getattr(o, 'std')(0).mean()",
        "loss = (o.unsqueeze(1) - o).pow(2).mean()",
        "loss = (o - o[:, None]).abs().mean()",
        "h = o.unsqueeze(1)\nloss = (h * o).mean()",
        "loss = F.mse_loss(o.unsqueeze(1), o)",
        "loss = nn.MSELoss()(o.unsqueeze(1), o)",
        "same = (y.unsqueeze(1) == y).float()\nloss = (o.pow(2).mean(1) * same).mean()",
    ],
)
def test_samples_that_meet_are_told_of(lines: str) -> None:
    assert _said(lines) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "lines",
    [
        "loss = torch.vmap(lambda a: a * 2)(o).pow(2).mean()",
        "loss = torch.func.vmap(lambda a, b: F.cross_entropy(a, b))(o, y).mean()",
        "loss = torch.vmap(lambda a, w: (a * w).sum(), in_dims=(0, None))(o, torch.ones(3)).mean()",
        "loss = torch.einsum(o, [0, 1], o, [0, 1], [0]).mean()",
        "loss = torch.einsum('nd,nd->n', o, o).mean()",
        "loss = torch.einsum('...d,d->...', o, torch.ones(3)).mean()",
        "loss = torch.bmm(o[:, None], o[:, :, None]).mean()",
        "q = o.view(n, 1, 3)\nloss = F.scaled_dot_product_attention(q, q, q).pow(2).mean()",
        "a, b = torch.broadcast_tensors(o, torch.ones(3))\nloss = (a - b).pow(2).mean()",
        "loss = getattr(o, 'std')(1).mean()",
        "loss = (o.unsqueeze(1) - o.unsqueeze(1)).pow(2).mean()",
        "loss = (o.unsqueeze(1) - torch.ones(4, 3)).pow(2).mean()",
        "loss = F.mse_loss(o.unsqueeze(1), o[:, None])",
        "loss = getattr(o, 'mean')()",
    ],
)
def test_what_is_done_with_each_sample_is_not(lines: str) -> None:
    assert _said(lines) == []


def test_what_vmap_gives_of_others_is_not_known() -> None:
    assert _said("loss = torch.vmap(lambda a: a * 2, in_dims=1)(o).mean()") == ["LOSS-UNKNOWN"]


@pytest.mark.parametrize("layers", ["nn.Softmax(0)", "nn.Identity(), nn.Softmax(dim=0)", "soft", "OrderedDict(a=soft)"])
def test_samples_meet_in_a_layer_of_a_sequence(layers: str) -> None:
    before = f"soft = nn.Softmax(0)\nhead = nn.Sequential({layers})"
    lines = "loss = -head(o)[:, 0].log().mean()"
    imports = "from collections import OrderedDict"
    assert _said(lines, before=before, imports=imports) == ["LOSS-INBATCH"]
    assert _said(lines, before=before.replace("(0)", "(1)").replace("dim=0", "dim=1"), imports=imports) in (
        [],
        ["LOSS-UNKNOWN"],
    )


@pytest.mark.parametrize(
    ("told", "sums"),
    [
        ("setattr(criterion, 'reduction', 'sum')", True),
        ("setattr(criterion, 'reduction', 'mean')", False),
        ("setattr(other, 'reduction', 'sum')", False),
    ],
)
def test_an_option_that_is_set_by_its_name_counts(told: str, sums: bool) -> None:
    before = f"criterion = nn.CrossEntropyLoss()\nother = nn.MSELoss()\n{told}"
    text = script(before=before, forward=_OUT + "loss = criterion(o, y)")
    assert ('reduction="sum"' in converted(text)) is sums
    assert _said("loss = criterion(o, y)", before=before) == []


@pytest.mark.parametrize(
    "told",
    [
        "for k, v in {'reduction': 'sum'}.items():\n    setattr(criterion, k, v)",
        "criterion.__dict__['reduction'] = 'sum'",
        "criterion.__dict__.update(reduction='sum')",
    ],
)
def test_an_option_that_is_set_behind_names_is_not_known(told: str) -> None:
    before = f"criterion = nn.CrossEntropyLoss()\n{told}"
    assert _said("loss = criterion(o, y)", before=before) == ["LOSS-UNKNOWN"]


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        ("loss = F.cross_entropy(o, y)\nl = loss\nl.clamp_(1)", ["LOSS-INBATCH"]),
        ("loss = F.cross_entropy(o, y)\nl = loss.view(1)\nl.clamp_(1)", ["LOSS-INBATCH"]),
        ("l = F.cross_entropy(o, y)\nloss = l\nl.clamp_(1)", ["LOSS-INBATCH"]),
        ("loss = F.cross_entropy(o, y)\nl = loss.clone()\nl.clamp_(1)", []),
        ("loss = F.cross_entropy(o, y)\nl = loss\nl = o.sum()\nl.clamp_(1)", []),
        ("l = loss = F.cross_entropy(o, y)\nloss = loss * 2\nl.detach_()", []),
    ],
)
def test_what_is_changed_under_another_name_is_changed(lines: str, codes: list[str]) -> None:
    assert _said(lines) == codes


_HOOK = "def hook(module, args, output):\n    {}\n\n\n"


@pytest.mark.parametrize(
    "body",
    [
        "return output - output.mean(0)",
        "output.sub_(output.mean(0))",
        "output -= output.mean(0)",
        "output[:] = output - output.mean(0)",
        "o = output\n    o.sub_(o.mean(0))",
    ],
)
def test_samples_meet_in_a_hook(body: str) -> None:
    before = "model.layer.register_forward_hook(hook)"
    assert _said("loss = F.cross_entropy(o, y)", definitions=_HOOK.format(body), before=before) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "before",
    [
        "model.layer.register_forward_hook(lambda m, a, o: o.sub_(o.mean(0)))",
        "model.layer.register_forward_pre_hook(lambda m, a: a[0] - a[0].mean(0))",
        "model.layer.register_forward_pre_hook(lambda m, a: (a[0] - a[0].mean(0),))",
        "for part in model.modules():\n    part.register_forward_hook(lambda m, a, o: o - o.mean(0))",
    ],
)
def test_samples_meet_in_a_hook_that_is_written_in_place(before: str) -> None:
    assert _said("loss = F.cross_entropy(o, y)", before=before) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    ("body", "of"),
    [
        ("return output * 2", "model.layer"),
        ("output.mul_(2)", "model.layer"),
        ("output -= output.mean(1, keepdim=True)", "model.layer"),
        ("print(output.shape)", "model.layer"),
        ("seen = output.detach().mean(0)", "model.layer"),
        ("return output - output.mean(0)", "other"),
    ],
)
def test_hooks_in_which_none_meet_are_not_told_of(body: str, of: str) -> None:
    before = f"other = Net()\n{of}.register_forward_hook(hook)"
    assert _said("loss = F.cross_entropy(o, y)", definitions=_HOOK.format(body), before=before) == []


_WEIGH = "def weigh(l, t=1.05):\n    {}\n\n\n"


@pytest.mark.parametrize(
    "body",
    [
        "return l * 2 if l > t else l",
        "if l > t:\n        return l * 2\n    return l",
        "if l.item() > t and t > 0:\n        l = l * 2\n    return l",
        "while l < t:\n        l = l * 2\n    return l",
        "return l * (l > t)",
        "return [l, l * 2][int(l > t)]",
        "return l * {True: 2.0, False: 1.0}[bool(l > t)]",
        "return sum(c for c in [l, l * 2] if c > t)",
        "match l > t:\n        case True:\n            return l * 2\n        case _:\n            return l",
    ],
)
def test_a_loss_that_is_weighed_by_itself_is_told_of(body: str) -> None:
    assert _said("loss = weigh(F.cross_entropy(o, y))", definitions=_WEIGH.format(body)) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "body",
    [
        "return l * 2 if t > 1 else l",
        "if t > 1:\n        return l * 2\n    return l",
        "if torch.isnan(l):\n        print(l)\n    return l",
        "if l is None:\n        return 0\n    return l",
        "if l > t:\n        print('large')\n    return l",
        "assert l > 0\n    return l",
    ],
)
def test_a_loss_that_goes_by_a_setting_is_not(body: str) -> None:
    assert _said("loss = weigh(F.cross_entropy(o, y))", definitions=_WEIGH.format(body)) == []


def test_a_statement_of_the_loop_that_decides_is_told_once() -> None:
    lines = "loss = F.cross_entropy(o, y)\nloss = loss * 2 if loss > 1.05 else loss"
    assert _said(lines) == ["COLL-RANKFLOW"]
