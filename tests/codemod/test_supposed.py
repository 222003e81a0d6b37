"""Losses of networks that are not known: where rows of theirs are compared with each other, that is said."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import findings, script, severities

CONTRAST = "def contrast(z1, z2):\n{}\n"
CLIP = """\
    logits = F.normalize(z1, dim=-1) @ F.normalize(z2, dim=-1).t() / 0.5
    labels = torch.arange(logits.shape[0], device=logits.device)
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2"""
NT_XENT = """\
    z = torch.cat([z1, z2])
    similar = F.cosine_similarity(z.unsqueeze(1), z.unsqueeze(0), dim=2) / 0.5
    n = z1.shape[0]
    pairs = torch.cat([torch.diag(similar, n), torch.diag(similar, -n)])
    return (-pairs + torch.logsumexp(similar, dim=1)).mean()"""
VICREG = """\
    spread = torch.sqrt(z1.var(dim=0) + 1e-4)
    return F.mse_loss(z1, z2) + torch.mean(F.relu(1 - spread))"""
MEETING = [
    CLIP,
    NT_XENT,
    VICREG,
    "    return F.cross_entropy(z1 @ z2.t() / 0.5, torch.arange(len(z1), device=z1.device))",
    "    return -torch.diag(F.log_softmax(torch.matmul(z1, z2.T), 1)).mean()",
]
APART = [
    "    return F.mse_loss(z1, z2)",
    "    return -F.cosine_similarity(z1, z2).mean() + z1.norm(dim=1).mean()",
    "    return (z1 * z2).sum(1).mean()",
    "    return F.triplet_margin_loss(z1, z2, z2 + 1)",
    "    return (F.softmax(z1, -1) * z2).sum(-1).mean() + z1.abs().mean()",
]
WRAPPER = """
class Wrapper(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder(pretrained=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.encoder(x))
"""
USES = [
    ("model = Encoder().to(device)", "model(x), model(x + 1)"),
    ("encoder = Encoder().to(device)\nmodel = nn.Linear(8, 4).to(device)", "model(encoder(x)), model(encoder(x + 1))"),
    ("model = Wrapper().to(device)", "model(x), model(x + 1)"),
    ("model = Encoder().to(device)", "model.encode(x), model.encode(x + 1)"),
]


def training(loss: str, model: str, given: str) -> list[str]:
    text = script(
        from_imports="from elsewhere import Encoder",
        definitions=CONTRAST.format(loss) + WRAPPER,
        model=model,
        forward=f"optimizer.zero_grad()\nloss = contrast({given})",
    )
    return findings(text)


def test_a_long_sum_is_read_once() -> None:
    """If each of its parts were read twice, this would not end."""
    compared = f"    return (z1 @ z2.t() + {' + '.join(['0.1'] * 40)}).pow(2).mean()"
    assert "LOSS-INBATCH" in training(compared, *USES[0])


@pytest.mark.parametrize(("model", "given"), USES)
@pytest.mark.parametrize("loss", MEETING)
def test_rows_of_unknown_networks_are_compared(loss: str, model: str, given: str) -> None:
    assert "LOSS-INBATCH" in training(loss, model, given)


@pytest.mark.parametrize(("model", "given"), USES)
@pytest.mark.parametrize("loss", APART)
def test_rows_of_unknown_networks_are_not_compared(loss: str, model: str, given: str) -> None:
    assert "LOSS-INBATCH" not in training(loss, model, given)


@pytest.mark.parametrize(
    "loss",
    [
        "loss = model(x).mean()",
        "loss = model(x)",
        "loss = F.cross_entropy(known(x), y) + 0.1 * model(x)",  # which may be a loss
        "loss = (F.cross_entropy(known(x), y) + model(x)) * model(x + 1)",
        "loss = model(x) / F.cross_entropy(known(x), y).detach()",
        "loss = model(x, y) * F.cross_entropy(known(x), y)",
        "parts = model(x)\nloss = parts[0] + 0.5 * parts[1].mean()",
        "parts = model(x)\nloss = sum(parts.values())",
    ],
)
def test_what_unknown_networks_return_may_be_losses(loss: str) -> None:
    text = script(
        from_imports="from elsewhere import Encoder",
        model="model = Encoder().to(device)\nknown = nn.Linear(8, 3).to(device)",
        forward=f"optimizer.zero_grad()\n{loss}",
    )
    assert "LOSS-INBATCH" not in findings(text)


PROTOTYPES = """\
def prototypical(z, y):
    classes = torch.unique(y)
    {means}
    return F.cross_entropy(-torch.cdist(z, means), y)
"""


@pytest.mark.parametrize(
    "means",
    [
        "means = torch.stack([z[y == c].mean(0) for c in classes])",
        "means = torch.stack([z[(y == c).nonzero().squeeze(1)].mean(0) for c in classes])",
        "means = torch.stack([z[y == c.item()].mean(0) for c in torch.unique(y)])",
    ],
)
def test_prototypes_of_the_labels_that_a_batch_has(means: str) -> None:
    """They are those of a share."""
    loss = "optimizer.zero_grad()\nloss = prototypical(model(x), y)"
    text = script(definitions=PROTOTYPES.format(means=means), forward=loss)
    assert severities(text, "LOSS-INBATCH") == ["warning"]


@pytest.mark.parametrize(
    "loss",
    [
        "sum(F.cross_entropy(model(x) * w, y) for w in weights()) / 3",
        "torch.stack([F.cross_entropy(model(x) + b, y) for b in weights()]).mean()",
    ],
)
def test_what_is_looped_over_meets_nothing_by_itself(loss: str) -> None:
    text = script(from_imports="from other import weights", forward=f"optimizer.zero_grad()\nloss = {loss}")
    assert "LOSS-INBATCH" not in findings(text)


CRITERION = """\
class Criterion(nn.Module):
    def forward(self, net, x, y):
        z = net(x)
        return {}
"""


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        ("F.cross_entropy(z, y) + z.var(0).mean()", ["error"]),
        ("F.cross_entropy(z.softmax(0), y)", ["error"]),
        ("F.cross_entropy(z, y) + z.var(1).mean()", []),
        ("F.cross_entropy(z.softmax(1), y)", []),
    ],
)
def test_a_loss_that_runs_the_network_it_is_handed(loss: str, found: list[str]) -> None:
    forward = "optimizer.zero_grad()\nloss = Criterion()(model, x, y)"
    assert severities(script(definitions=CRITERION.format(loss), forward=forward), "LOSS-INBATCH") == found
