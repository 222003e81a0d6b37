"""Layers that take the samples of a batch for the steps of one sequence."""

from __future__ import annotations

import pytest
from scripts import added, convert, findings, script

NETWORK = """
class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = {layer}
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        {forward}
        return self.head(out[:, -1])
"""
DATA = "data = TensorDataset(torch.arange(1024.0).view(32, 4, 8), torch.arange(32) % 3)"
EVALUATION = """
correct = 0
with torch.no_grad():
    for x, y in loader:
        out = model({given}).squeeze()
        correct += (out.argmax(1) == y).sum().item()
"""


def trained(layer: str, forward: str = "out, _ = self.inner(x)", **slots: str) -> str:
    """A script whose network computes along sequences."""
    definitions = NETWORK.format(layer=layer, forward=forward)
    return script(definitions=definitions, data=DATA, model="model = Steps().to(device)", **slots)


ENCODER = "nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2{}), 2)"


@pytest.mark.parametrize(
    ("layer", "forward"),
    [
        ("nn.LSTM(8, 8)", "out, _ = self.inner(x)"),
        ("nn.GRU(8, 8, 2)", "out, _ = self.inner(x.float())"),
        ("nn.RNN(8, 8, batch_first=False)", "out, _ = self.inner(x, None)"),
        ("nn.LSTM(8, 8, batch_first=True)", "out, _ = self.inner(x.transpose(0, 1))"),
        ("nn.LSTM(8, 8, 1, True, True)", "out, _ = self.inner(x[:, 0].unsqueeze(0))"),
        ("nn.LSTM(8, 8, batch_first=True)", "out, _ = self.inner(torch.unsqueeze(x[:, 0], dim=0))"),
        ("nn.TransformerEncoderLayer(8, 2)", "out = self.inner(x)"),
        (ENCODER.format(""), "out = self.inner(x)"),
        ("nn.MultiheadAttention(8, 2)", "out, _ = self.inner(x, x, x)"),
    ],
)
def test_samples_in_the_place_of_the_steps(layer: str, forward: str) -> None:
    text = trained(layer, forward)
    assert findings(text).count("LOSS-INBATCH") == 1
    plan = convert(text).plan
    assert plan is not None and "for the steps of a sequence" in "".join(f.message for f in plan.findings)


@pytest.mark.parametrize(
    ("layer", "forward"),
    [
        ("nn.LSTM(8, 8, batch_first=True)", "out, _ = self.inner(x)"),
        ("nn.RNN(8, 8, 1, 'tanh', True, True)", "out, _ = self.inner(x)"),
        ("nn.GRU(8, 8)", "out, _ = self.inner(x.transpose(0, 1))"),
        ("nn.GRU(8, 8)", "out, _ = self.inner(x.permute(1, 0, 2))"),
        ("nn.LSTM(8, 8)", "out, _ = self.inner(x.view(-1, 16, 8))"),  # which may be one step
        ("nn.LSTM(8, 8, **settings)", "out, _ = self.inner(x)"),
        ("nn.LSTM(8, 8, batch_first=first)", "out, _ = self.inner(x)"),
        (ENCODER.format(", batch_first=True"), "out = self.inner(x)"),
        (ENCODER.format(""), "out = self.inner(x.transpose(0, 1))"),
        ("nn.MultiheadAttention(8, 2, batch_first=True)", "out, _ = self.inner(x, x, x)"),
    ],
)
def test_samples_in_their_own_place(layer: str, forward: str) -> None:
    text = trained(layer, forward, setup="settings = {}\nfirst = True")
    assert "LOSS-INBATCH" not in findings(text)


@pytest.mark.parametrize("layer", ["nn.LSTM(32, 8, batch_first=True)", "nn.GRU(32, 8)"])
@pytest.mark.parametrize(
    ("flat", "one"),
    [
        ("x.view(x.size(0), -1)", True),
        ("F.relu(x.view(x.size(0), -1))", True),
        ("x.view(x.size(0), 1, -1)", False),
        ("x.view(x.size(0), -1).unsqueeze(1)", False),
    ],
)
def test_a_batch_of_flat_samples_is_one_sequence(layer: str, flat: str, one: bool) -> None:
    """A layer that is given two dimensions takes them for one sequence of that many steps."""
    text = trained(layer, f"x = {flat}\n        out, _ = self.inner(x)").replace("out[:, -1]", "out")
    assert ("LOSS-INBATCH" in findings(text)) is (one or "batch_first" not in layer)


@pytest.mark.parametrize("size", ["1", "2"])
def test_a_batch_that_is_one_sequence(size: str) -> None:
    text = trained("nn.LSTM(8, 8)", loader=f"loader = DataLoader(data, batch_size={size})")
    assert ("LOSS-INBATCH" in findings(text)) is (size != "1")


UNREAD = """
correct = 0
with torch.no_grad():
    for x, y in held:
        out = model({given})
        correct += (out.squeeze().argmax(1) == y).sum().item()
"""


@pytest.mark.parametrize(
    ("given", "gathers"),
    [
        ("x.unsqueeze(0)", False),
        ("torch.unsqueeze(x, dim=0)", False),
        ("x[None]", False),
        ("x.T", False),
        ("x", True),
        ("x.float()", True),
    ],
)
def test_what_an_unread_network_returns_for_one_sequence_is_not_gathered(given: str, gathers: bool) -> None:
    text = script(
        from_imports="from elsewhere import Unread",
        data=DATA,
        model="model = Unread().to(device)",
        before="held = DataLoader(data, batch_size=16)",
        forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)",
        epoch_end=UNREAD.format(given=given),
    )
    assert any("gather_for_metrics((out, y))" in line for line in added(text)) is gathers


@pytest.mark.parametrize("given", ["x.unsqueeze(0)", "torch.unsqueeze(x, dim=0)", "x[None]"])
def test_one_sequence_of_all_samples_is_not_gathered(given: str) -> None:
    """What the network returns has the samples in dimension 1."""
    text = trained("nn.LSTM(8, 8, batch_first=True)", epoch_end=EVALUATION.format(given=given))
    assert "METRIC-LOCAL" in findings(text)
    assert not any("gather" in line for line in added(text))


LSTM, GRU = "nn.LSTM(8, 8, batch_first=True)", "nn.GRU(8, 8, 2, batch_first=True)"


@pytest.mark.parametrize(
    ("layer", "forward", "known"),
    [
        (LSTM, "out, (h, c) = self.inner(x)\n        state = h[-1]", True),
        (LSTM, "out, (h, c) = self.inner(x)\n        state = torch.cat((h[-2, :, :], c[-1, :, :]), dim=1)", True),
        (GRU, "out, h = self.inner(x)\n        state = h[0] + out[:, 0]", True),
        (GRU, "out, h = self.inner(x)\n        out, h = self.inner(x, h)\n        state = h[-1]", True),
        (GRU, "out, h = self.inner(x)\n        state = h", True),  # of all layers
        (GRU, "out, h = self.inner(x)\n        state = h + out[:, 0]", False),
        (GRU, "out, h = self.inner(x)\n        state = h[:, 0]", False),
        (GRU, "out, h = self.inner(x)\n        state = h[-1, 0]", False),
        ("nn.GRU(8, 8)", "out, h = self.inner(x.transpose(0, 1))\n        state = h[-1]", True),
    ],
)
def test_the_states_of_one_layer_are_one_for_each_sample(layer: str, forward: str, known: bool) -> None:
    """Of them a sum over the samples is known: that it is divided by their number makes it a mean."""
    loss = "out, state = model(x)\nloss = F.cross_entropy(out, y) + state.pow(2).sum() / x.size(0)"
    definitions = NETWORK.format(layer=layer, forward=forward)
    slots = {"definitions": definitions, "data": DATA, "model": "model = Steps().to(device)"}
    text = script(**slots, forward=f"optimizer.zero_grad()\n{loss}")
    text = text.replace("return self.head(out[:, -1])", "return self.head(out[:, -1]), state")
    assert findings(text) == ([] if known else ["LOSS-UNKNOWN"])


BATCH_FIRST = ", batch_first=True"
DECODER = "nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2{}), 2)"


@pytest.mark.parametrize(
    ("layer", "forward", "known"),
    [
        (f"nn.MultiheadAttention(8, 2{BATCH_FIRST})", "out = x + self.inner(x, x, x)[0]", True),
        (
            f"nn.MultiheadAttention(8, 2{BATCH_FIRST})",
            "out, w = self.inner(x, x, x)\n        out = out * w",
            True,
        ),
        (f"nn.TransformerEncoderLayer(8, 2{BATCH_FIRST})", "out = self.inner(x)", True),
        (ENCODER.format(BATCH_FIRST), "out = self.inner(x, src_key_padding_mask=x[:, :, 0] == 0)", True),
        (DECODER.format(BATCH_FIRST), "out = self.inner(x, x + 1)", True),
        (f"nn.Transformer(8, 2{BATCH_FIRST})", "out = self.inner(x, x)", True),
        ("nn.MultiheadAttention(8, 2, batch_first=first)", "out = self.inner(x, x, x)[0]", False),
        (ENCODER.format(""), "out = self.inner(x.transpose(0, 1)).transpose(0, 1)", True),
        (
            "nn.MultiheadAttention(8, 2)",
            "x = x.transpose(0, 1)\n        out = self.inner(x, x, x)[0].transpose(0, 1)",
            True,
        ),
        (ENCODER.format(""), "out = self.inner(x.transpose(0, 1))", False),  # of which it takes one sample
        (DECODER.format(BATCH_FIRST), "out = self.inner(x, x.transpose(0, 1))", False),
        (DECODER.format(""), "out = self.inner(x.transpose(0, 1), x).transpose(0, 1)", False),
    ],
)
def test_attention_gives_one_row_for_each_sample(layer: str, forward: str, known: bool) -> None:
    """So a sum over the samples is known: that it is divided by their number makes it a mean."""
    loss = "optimizer.zero_grad()\nloss = model(x).pow(2).sum() / x.size(0)"
    definitions = NETWORK.format(layer=layer, forward=forward)
    slots = {"definitions": definitions, "data": DATA, "model": "model = Steps().to(device)", "setup": "first = True"}
    codes = [code for code in findings(script(**slots, forward=loss)) if code != "RNG-SAMENOISE"]  # of dropout
    assert codes == ([] if known else ["LOSS-UNKNOWN"])


DECODER = """
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(3, 8)
        self.inner = nn.GRU(8, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, token, state):
        out, state = self.inner(self.embedding(token), state)
        return self.head(out[0]), state
"""


@pytest.mark.parametrize(
    "first",
    [
        "torch.zeros(1, 32, dtype=torch.long, device=device)",
        "torch.zeros(1, x.size(0), dtype=torch.long, device=device)",
        "torch.tensor([[0 for _ in range(32)]], device=device)",
    ],
)
def test_the_token_that_begins_each_sequence_is_no_sample(first: str) -> None:
    text = script(
        definitions=DECODER,
        model="model = Decoder().to(device)",
        loader="loader = DataLoader(data, batch_size=32, drop_last=True)",
        forward=f"""\
optimizer.zero_grad()
token, state, loss = {first}, x.unsqueeze(0), 0
for _ in range(3):
    out, state = model(token, state)
    token = out.argmax(1).view(1, -1)
    loss = loss + F.cross_entropy(out, y)
""",
    )
    assert "LOSS-INBATCH" not in findings(text)


FLAT = "data = TensorDataset(torch.randn(64, 8), torch.arange(64) % 3)"


@pytest.mark.parametrize(
    ("layer", "data", "forward", "meets"),
    [
        ("nn.LSTM(8, 8, batch_first=True)", FLAT, "out, _ = self.inner(x)", True),
        ("nn.GRU(8, 8, 2, batch_first=True)", FLAT, "out, _ = self.inner(x.float())", True),
        ("nn.RNN(8, 8, batch_first=True)", FLAT, "x = x.relu()\n        out, _ = self.inner(x)", True),
        ("nn.LSTM(8, 8, batch_first=True)", FLAT, "out, _ = self.inner(x.unsqueeze(1))", False),
        ("nn.LSTM(8, 8, batch_first=True)", FLAT, "out, _ = self.inner(x[:, None])", False),
        (
            "nn.LSTM(8, 8, batch_first=True)",
            "data = TensorDataset(torch.randn(64, 4, 8), torch.arange(64) % 3)",
            "out, _ = self.inner(x)",
            False,
        ),
    ],
)
def test_a_batch_of_vectors_is_one_sequence_for_a_recurrent_layer(
    layer: str, data: str, forward: str, meets: bool
) -> None:
    network = NETWORK.replace("out[:, -1]", "out") if meets else NETWORK
    definitions = network.format(layer=layer, forward=forward)
    text = script(definitions=definitions, setup="torch.manual_seed(0)", data=data, model="model = Steps().to(device)")
    assert ("LOSS-INBATCH" in findings(text)) is meets
    plan = convert(text).plan
    assert plan is not None and any("steps of its own" in f.remedy for f in plan.findings) is meets


READ = """
class Rows(torch.utils.data.Dataset):
    def __init__(self, transform=None):
        self.x = torch.randn(64, 8)
        self.transform = transform

    def __len__(self):
        return 64

    def __getitem__(self, i):
        x = self.x[i]
        if self.transform:
            x = self.transform(x)
        return x, i % 3
"""


@pytest.mark.parametrize(("made", "known"), [("Rows()", True), ("Rows(torch.stack)", False), ("Rows(None)", True)])
def test_a_transform_that_is_never_given_changes_no_sample(made: str, known: bool) -> None:
    network = NETWORK.replace("out[:, -1]", "out")
    definitions = network.format(layer="nn.LSTM(8, 8, batch_first=True)", forward="out, _ = self.inner(x)") + READ
    slots = {"setup": "torch.manual_seed(0)", "data": f"data = {made}", "model": "model = Steps().to(device)"}
    assert ("LOSS-INBATCH" in findings(script(definitions=definitions, **slots))) is known
