"""Losses over what is picked out of a batch, whose number differs from share to share."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import converted, findings, script

IMPORTS = "from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence"
OUT = "optimizer.zero_grad()\nout = model(x)\n"


def codes(loss: str, **slots: str) -> list[str]:
    return findings(script(forward=OUT + loss, **{"from_imports": IMPORTS, **slots}))


@pytest.mark.parametrize(
    "loss",
    [
        "loss = F.cross_entropy(out[y == 1], y[y == 1])",
        "mask = (y != 0) & (y != 2)\nloss = F.cross_entropy(out[~mask], y[~mask])",
        "mask = y.eq(1).view(-1)\nloss = out[mask].pow(2).mean()",
        "mask = (y > 0).to(torch.bool)\nloss = out[mask, 0].mean()",
        "loss = torch.masked_select(out, (y > 0)[:, None]).mean()",
        "loss = out.masked_select(y.unsqueeze(1) > 0).mean()",
        "rows = (y > 0).nonzero().squeeze(1)\nloss = F.cross_entropy(out[rows], y[rows])",
        "rows = torch.where(y > 0)[0]\nloss = F.cross_entropy(out.index_select(0, rows), y[rows])",
        "rows, = torch.nonzero(y > 0, as_tuple=True)\nloss = F.cross_entropy(out[rows], y[rows])",
        "kept = out[y > 0]\nloss = kept.sum() / len(kept) * 1.0 + (kept.sum(1) / 3).mean()",
        "kept = x[y > 0]\nloss = F.cross_entropy(model(kept), y[y > 0])",
        "loss = F.cross_entropy(out, y) + 0.1 * out[y == 1].mean()",
        "each = F.cross_entropy(out, y, reduction='none')\nloss = each[each > 0.1].mean()",
        "loss = torch.cat([out[y == 1], out[y == 2]]).pow(2).mean()",
        "packed = pack_padded_sequence(out, y + 1, batch_first=True)\nloss = packed.data.pow(2).mean()",
        "loss = pack_padded_sequence(out, y + 1, batch_first=True)[0].mean()",
        "data, sizes, *_ = pack_padded_sequence(out, y + 1, batch_first=True)\nloss = data.mean()",
    ],
)
def test_a_mean_over_what_is_picked_is_reported(loss: str) -> None:
    assert codes(loss) == ["LOSS-MASKMEAN"]


@pytest.mark.parametrize(
    "loss",
    [
        "loss = F.cross_entropy(out[:, [0, 2, 1]], y)",
        "loss = out[:, torch.tensor([True, False, True])].mean()",
        "loss = out[:, 1].mean()",
        "loss = (out * (y > 0).unsqueeze(1)).mean()",
        "loss = out.masked_fill((y > 0)[:, None], 0.0).mean()",
        "loss = torch.where((y > 0)[:, None], out, out * 2).mean()",
        "order = y.argsort()\nloss = F.cross_entropy(out[order], y[order])",
        "longest, order = y.sort(descending=True)\nloss = F.cross_entropy(model(x[order]), y[order])",
        "loss = F.cross_entropy(out, y, weight=None) + torch.ones(3)[torch.ones(3) > 0].mean()",
        "packed = pack_padded_sequence(out, [3] * x.size(0), batch_first=True)\nloss = packed.data.pow(2).mean()",
        "shown = out[y == 1].mean().item()\nloss = F.cross_entropy(out, y)",
    ],
)
def test_what_has_as_many_elements_for_each_sample_is_not(loss: str) -> None:
    assert codes(loss) == []


@pytest.mark.parametrize(("length", "told"), [("", ["BATCH-PADDED"]), (", total_length=3", [])])
def test_what_is_padded_again_is_as_long_as_the_longest(length: str, told: list[str]) -> None:
    packed = "packed = pack_padded_sequence(out, y + 1, batch_first=True)\n"
    back = f"back, _ = pad_packed_sequence(packed, batch_first=True{length})\nloss = back.pow(2).mean()"
    assert codes(packed + back) == told


def test_sums_over_what_is_picked_are_sums() -> None:
    for loss in ("loss = out[y > 0].sum()", "loss = F.cross_entropy(out[y > 0], y[y > 0], reduction='sum')"):
        text = script(forward=OUT + loss)
        assert findings(text) == []
        assert 'accelerator.backward(loss, reduction="sum")' in converted(text)
    divided = script(forward=f"{OUT}kept = out[y > 0]\nloss = kept.sum() / kept.size(0)")
    assert findings(divided) == ["LOSS-MASKMEAN"]


def test_masks_that_functions_are_given_and_networks_that_pack() -> None:
    masked = "def masked(out, y, mask):\n    return F.cross_entropy(out[mask], y[mask])"
    assert codes("loss = masked(out, y, y > 0)", definitions=masked) == ["LOSS-MASKMEAN"]
    assert codes("loss = masked(out, y, y.argsort())", definitions=masked) == []
    decoder = """\
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 4, batch_first=True)
        self.linear = nn.Linear(4, 3)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        hidden, _ = self.lstm(packed)
        return self.linear(hidden[0])
"""
    forward = "targets = pack_padded_sequence(y, n, batch_first=True)[0]\nloss = F.cross_entropy(model(x, n), targets)"
    slots = {"definitions": decoder, "model": "model = Decoder().to(device)", "from_imports": IMPORTS}
    batch = {"loop": "for x, y, n in loader:", "move": "x, y = x.to(device), y.to(device)"}
    data = "data = TensorDataset(torch.ones(64, 5, 8), torch.ones(64, 5).long(), torch.arange(64) % 5 + 1)"
    assert findings(script(forward=forward, data=data, **slots, **batch)) == ["LOSS-MASKMEAN"]


@pytest.mark.parametrize(
    ("loss", "code"),
    [
        ("loss = torch.stack([out[y == c].mean() for c in range(3)]).mean()", "LOSS-MASKMEAN"),
        ("loss = sum(F.cross_entropy(out[y == c], y[y == c]) for c in range(3))", "LOSS-MASKMEAN"),
        ("loss = 0\nfor c in range(3):\n    loss = loss + out[y == c].mean()", "LOSS-MASKMEAN"),
        ("loss = F.cross_entropy(out[torch.where(y > 0)], y[y > 0])", "LOSS-MASKMEAN"),
        (
            "means = torch.stack([out[y == c].mean(0) for c in range(3)])\nloss = torch.cdist(out, means).mean()",
            "LOSS-INBATCH",
        ),
        (
            "means = torch.stack([out[y == c].mean(0) for c in range(3)])\n"
            "loss = (out.unsqueeze(1) - means.unsqueeze(0)).pow(2).mean()",
            "LOSS-INBATCH",
        ),
        (
            "means = torch.stack([out[y == c].mean(0) for c in range(3)])\nloss = (out - means[y]).pow(2).mean()",
            "LOSS-INBATCH",
        ),
    ],
)
def test_means_of_each_class(loss: str, code: str) -> None:
    assert codes(loss) == [code]


@pytest.mark.parametrize(
    "loss",
    [
        "loss = torch.stack([out[:, c].mean() for c in range(3)]).mean()",
        "loss = sum(F.cross_entropy(out * c, y) for c in range(1, 3))",
        "loss = torch.stack([out * c for c in range(3)], dim=1).mean()",
        "loss = out.mean(0)[:2].sum() + out.mean(0)[1:].sum()",
        "means = torch.stack([torch.ones(3) * c for c in range(3)])\nloss = torch.cdist(out, means).mean()",
        "means = torch.ones(3, 3)\nloss = (out - means[y]).pow(2).mean()",
    ],
)
def test_means_of_all_samples(loss: str) -> None:
    assert codes(loss) == []


def test_tensors_of_the_batch_are_masks_and_a_memory_is_looked_up() -> None:
    data = "data = TensorDataset(torch.ones(64, 8), torch.arange(64) % 3, torch.arange(64) % 2 == 0)"
    batch = {"loop": "for x, y, kept in loader:", "move": "x, y, kept = x.to(device), y.to(device), kept.to(device)"}
    assert codes("loss = F.cross_entropy(out[kept], y[kept])", data=data, **batch) == ["LOSS-MASKMEAN"]
    memory = {"before": "memory = torch.ones(64, 3)"}
    assert codes("loss = F.mse_loss(out, memory[y])", **memory) == []


KEEPING = """\
class Masked(nn.Module):
    def forward(self, out, y):
        self.kept = {}
        self.loss = self.kept.pow(2).mean()
        return self.loss
"""


@pytest.mark.parametrize(("kept", "expected"), [("out[y > 0]", ["LOSS-MASKMEAN"]), ("out * 2", [])])
def test_what_a_network_keeps_in_an_attribute_in_the_same_pass(kept: str, expected: list[str]) -> None:
    assert codes("loss = Masked()(out, y)", definitions=KEEPING.format(kept)) == expected


MATCHED = """
def matched(y):
    places = []
    for number in (1, 2):
        t = y[y == number].long()
        places.append((t, t))
    return places
"""
FOUND = "found = matched(y)\nloss = x.new_zeros(1)\nfor i, (a, b) in enumerate(found):\n    "


@pytest.mark.parametrize(
    "loss",
    [
        f"{FOUND}loss += (1.0 - out[a, b]).mean()",  # how many match is not known
        f"{FOUND}kept = torch.cat((out[a, b], out[a, b]))\n    loss += kept.pow(2).mean()",
        f"{FOUND}loss += F.mse_loss(out[a], torch.ones(3))",
        f"parts = list(out.split(1))\n{FOUND}loss += parts[0][a, b].mean()",
    ],
)
def test_what_places_choose_that_are_not_known_may_be_some_of_the_samples(loss: str) -> None:
    assert codes(loss, definitions=MATCHED) == ["LOSS-UNKNOWN"]


@pytest.mark.parametrize(
    "loss",
    [
        "order = shuffled(y)\nloss = F.mse_loss(out, out[order])",  # as many as all samples
        "order = shuffled(y)\nloss = F.cross_entropy(out, y) + F.cross_entropy(out, y[order])",
        "order = shuffled(y)\nloss = (out - out[order]).pow(2).mean()",
        "loss = F.cross_entropy(out, y) + 0.1 * out[:, 1:2].mean()",
    ],
)
def test_what_they_choose_beside_all_samples_is_as_many(loss: str) -> None:
    definitions = "def shuffled(y):\n    places = list(range(len(y)))\n    places.reverse()\n    return places"
    assert "LOSS-UNKNOWN" not in codes(loss, definitions=definitions)


CUT = "x[:, :, 1:2] = x[order, :, 1:2]\nshare = {}\nloss = F.cross_entropy(out, y) * share + out.mean() * (1 - share)"


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        ("2 / x.size()[-1]", []),  # how large the picture is, of which a part is cut: it has two dimensions more
        ("2 / x.shape[-2]", []),
        ("2 / x.size()[-3]", ["LOSS-UNKNOWN"]),  # which may be that of the samples
        ("2 / out.size()[-2]", ["LOSS-UNKNOWN"]),
    ],
)
def test_how_large_what_is_cut_is(share: str, expected: list[str]) -> None:
    order = "order = torch.randperm(3)"
    assert codes(f"{order}\n{CUT.replace('{}', share)}", from_imports="") == expected


UNKNOWN = "from elsewhere import parts"


@pytest.mark.parametrize(
    "loss",
    [
        "loss = rows[mask].pow(2).mean() if mask.any() else rows.mean()",
        "loss = rows[mask].mean() + rows[~mask].mean()",
        "loss = F.mse_loss(rows[mask], rows[mask] * 2)\nassert not mask.all()",
    ],
)
def test_what_is_asked_whether_any_of_it_holds_is_a_mask(loss: str) -> None:
    assert codes(f"rows, mask = parts(out, y)\n{loss}", from_imports=UNKNOWN) == ["LOSS-MASKMEAN"]


@pytest.mark.parametrize("module", ["torch.functional", "torch.nn.modules.loss"])
def test_other_modules_have_the_functions_under_the_same_name(module: str) -> None:
    assert codes("loss = F.cross_entropy(out[y > 0], y[y > 0])", from_imports=f"from {module} import F") == [
        "LOSS-MASKMEAN"
    ]
