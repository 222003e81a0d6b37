"""Batches that are one tensor: of a data set that gives single tensors, or a list of one of a TensorDataset."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import converted, findings, lifted, script

TENSORS = {"data": "data = torch.arange(512.0).view(64, 8)", "loop": "for batch in loader:"}
LISTS = {**TENSORS, "data": "data = TensorDataset(torch.arange(512.0).view(64, 8))"}
ZERO = "optimizer.zero_grad()\n"
SUMMED = 'accelerator.backward(loss, reduction="sum")'
VAE = """\
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 4)
        self.decoder = nn.Linear(2, 8)

    def forward(self, x):
        mu, logvar = self.encoder(x).chunk(2, dim=1)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.decoder(z), mu, logvar


def loss_function(recon, x, mu, logvar):
    squares = F.mse_loss(recon, x.view(-1, 8), reduction="sum")
    return squares - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
"""


@pytest.mark.parametrize(
    ("move", "loss"),
    [
        ("batch = batch.to(device)", "model(batch).pow(2).sum()"),
        ("batch = batch.to(device)", "F.mse_loss(model(batch), batch[:, :3], reduction='sum')"),
        ("batch = batch.to(device).float()", "(model(batch) - batch.mean(dim=1, keepdim=True)).abs().sum()"),
        ("x = batch.view(batch.size(0), -1).to(device)", "torch.sum(model(x) ** 2)"),
        ("x = torch.as_tensor(batch, dtype=torch.float).to(device)", "model(x).pow(2).sum()"),
        ("batch = batch.to(device)", "(2 * batch - 1).sum() * model.layer.weight.mean()"),
        ("batch = batch.to(device)", "model(batch).pow(2).sum() / 8"),
    ],
)
def test_a_sum_over_a_batch_that_is_a_tensor(move: str, loss: str) -> None:
    slots = {**TENSORS, "move": move, "forward": f"{ZERO}loss = {loss}"}
    assert SUMMED in converted(script(**slots))
    assert findings(script(**slots)) == []


@pytest.mark.parametrize(
    "loss",
    [
        "model(batch).pow(2).mean()",
        "model(batch).pow(2).sum() / batch.size(0)",
        "model(batch).pow(2).sum() / batch.shape[0]",
        "F.mse_loss(model(batch), batch[:, 1:4])",
        "F.mse_loss(model(batch), batch.float()[:, 1:4], reduction='sum') / len(batch.float())",
    ],
)
def test_a_mean_over_a_batch_that_is_a_tensor(loss: str) -> None:
    slots = {**TENSORS, "move": "batch = batch.to(device)", "forward": f"{ZERO}loss = {loss}"}
    expected = lifted(**{**slots, "move": ""})
    assert converted(script(**slots)) == expected
    assert findings(script(**slots)) == []


def test_samples_of_a_tensor_that_are_compared() -> None:
    for loss in (
        "(batch - batch.mean(0)).pow(2).mean()",
        "(batch @ batch.T).mean()",
        "(batch[:, None] - batch[None, :]).mean()",
    ):
        slots = {**TENSORS, "move": "batch = model(batch.to(device))", "forward": f"{ZERO}loss = {loss}"}
        assert findings(script(**slots)) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "move", ["x = batch[0].to(device)", "(x,) = batch\nx = x.to(device)", "[x] = [t.to(device) for t in batch]"]
)
def test_a_list_of_one_tensor(move: str) -> None:
    slots = {**LISTS, "move": move, "forward": f"{ZERO}loss = model(x).pow(2).sum()"}
    assert SUMMED in converted(script(**slots))
    assert findings(script(**slots)) == []


def test_methods_of_lists_and_dicts_tell_nothing() -> None:
    for taken in ("batch.pop()", 'batch.get("x")'):
        slots = {**LISTS, "move": f"x = {taken}", "forward": f"{ZERO}loss = model(x).pow(2).sum()"}
        assert findings(script(**slots)) == ["LOSS-UNKNOWN"]


def test_the_summed_loss_of_a_network_that_draws() -> None:
    forward = f"{ZERO}recon, mu, logvar = model(batch)\nloss = loss_function(recon, batch, mu, logvar)"
    slots = {**TENSORS, "definitions": VAE, "model": "model = VAE().to(device)", "forward": forward}
    text = script(**slots, setup="torch.manual_seed(0)", move="batch = batch.to(device)")
    assert SUMMED in converted(text)
    assert findings(text) == ["RNG-SAMENOISE"]
