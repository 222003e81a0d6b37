"""Samples of several tensors: `((one, other), label)`, each of which has the samples of the batch in dimension 0."""

from __future__ import annotations

import pytest
from scripts import converted, findings, script

DATA = {"imports": "from mine import data", "data": "", "move": ""}
PAIRS = "one, other = model(a), model(b)\nscores = torch.mm(one, other.t())"
COMPARED = f"optimizer.zero_grad()\n{PAIRS}\nloss = F.cross_entropy(scores, labels)"


def trained(loop: str, forward: str) -> list[str]:
    slots = {"before": "labels = unknown()", "loop": f"for {loop} in loader:", "forward": forward}
    return findings(script(**DATA, **slots))


@pytest.mark.parametrize(
    ("loop", "taken"),
    [
        ("(a, b), y", ""),
        ("[a, b], y", ""),
        ("y, (_, (a, b))", ""),
        ("views, y", "a, b = views\n"),
        ("views, y", "a, b = views[0], views[1]\n"),
        ("views, y", "views[0] = views[0].to(device)\na, b = views[0], views[1].to(device)\n"),
        ("views, y", "views = torch.cat(views, dim=0)\na, b = views.chunk(2)\n"),
        ("views, y", "views = torch.cat([views[0], views[1]], dim=0)\na, b = torch.split(views, [len(y), len(y)])\n"),
    ],
)
def test_views_of_the_samples_are_compared_with_each_other(loop: str, taken: str) -> None:
    assert trained(loop, taken + COMPARED) == ["LOSS-INBATCH"]
    own = f"{taken}optimizer.zero_grad()\nloss = F.mse_loss(model(a), model(b))"
    assert trained(loop, own) == []


@pytest.mark.parametrize(
    "taken",
    [
        "a = b = views",  # one tensor
        "a, b = views[0], views[2]",  # these two samples, or the first and the third view
        "a, b = views[0], views[1]\nprint(views.shape)",  # a tensor, then
        "a, b = views.chunk(2)",
    ],
)
def test_what_may_be_one_tensor_is_no_collection(taken: str) -> None:
    sums = f"{taken}\noptimizer.zero_grad()\nloss = model(a).sum() + model(b).sum()"
    assert ("LOSS-UNKNOWN" in trained("views, y", sums)) is (taken != "a = b = views")


def test_views_are_gathered_as_any_rows() -> None:
    end = "hits = 0\nfor (a, b), y in loader:\n    hits += (model(a + b).argmax(1) == y).sum().item()"
    output = converted(
        script(**DATA, loop="for (a, b), y in loader:", forward="loss = model(a + b).mean()", epoch_end=end)
    )
    assert "accelerator.gather_for_metrics(model(a + b))" in output


@pytest.mark.parametrize(
    ("labels", "codes"),
    [
        ("torch.arange(x.size(0))", ["LOSS-INBATCH"]),
        ("torch.arange(len(x), device=device)", ["LOSS-INBATCH"]),
        ("torch.zeros(len(x)).long()", []),
        ("y", []),
    ],
)
def test_a_class_for_each_place_of_the_batch(labels: str, codes: list[str]) -> None:
    forward = f"optimizer.zero_grad()\nloss = F.cross_entropy(elsewhere(model(x)), {labels})"
    found = findings(script(imports="from mine import elsewhere", forward=forward))
    assert found == codes


COMPARES = """\
class Compare(nn.Module):
    def __init__(self, by_angle):
        super().__init__()
        {}

    def pick(self, by_angle):
        if by_angle:
            return self.angles
        return self.apart

    def angles(self, one, other):
        return F.cosine_similarity(one.unsqueeze(1), other.unsqueeze(0), dim=-1)

    def apart(self, one, other):
        return {}

    def forward(self, one, other):
        return self.compare(one, other).mean()
"""


@pytest.mark.parametrize(
    ("kept", "apart", "codes"),
    [
        ("self.compare = self.angles", "one", ["LOSS-INBATCH"]),
        ("self.compare = self.pick(by_angle)", "unknown(one)", ["LOSS-INBATCH"]),
        ("self.compare = self.angles if by_angle else self.apart", "one", ["LOSS-INBATCH"]),
        ("self.compare = self.apart", "(one - other).pow(2)", []),
        ("self.compare = unknown(self.angles)", "one", []),  # nobody knows
    ],
)
def test_a_comparison_that_a_loss_keeps_in_an_attribute(kept: str, apart: str, codes: list[str]) -> None:
    forward = "optimizer.zero_grad()\nloss = compare(model(x), model(x + 1))"
    slots = {"model": "model = Net().to(device)\ncompare = Compare(True)", "forward": forward}
    assert findings(script(definitions=COMPARES.format(kept, apart), **slots)) == codes


@pytest.mark.parametrize(
    ("loss", "codes"),
    [
        ("(z.view(n, 1, 3) - z.view(1, n, 3)).pow(2).mean()", ["LOSS-INBATCH"]),
        ("(z.view((n, 1, 3)) - z.view((1, n, 3))).pow(2).mean()", ["LOSS-INBATCH"]),
        ("(z[:, 0].view(-1, 1) - z[:, 0].reshape(1, -1)).pow(2).mean()", ["LOSS-INBATCH"]),
        ("(z.view(n, 1, 3) - x[:, :3].view(n, 1, 3)).pow(2).mean()", []),
        ("(z.view(n, 3, 1) * z.view(n, 1, 3)).pow(2).mean()", []),
    ],
)
def test_samples_that_are_laid_across_each_other_are_compared(loss: str, codes: list[str]) -> None:
    text = script(forward=f"optimizer.zero_grad()\nz = model(x)\nn = z.size(0)\nloss = {loss}")
    assert [code for code in findings(text) if code.startswith("LOSS")] == codes
