"""Norms and other statistics of whole batches in a loss, also where a network is built in steps."""

from __future__ import annotations

import pytest
from scripts import converted, findings, script

BLOCK = """\
def block(wide):
    {}


class Turned(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = block(9)

    def forward(self, x):
        self.rows = x.size(0)
        matrix = self.layer(x).view(self.rows, 3, 3)
        matrix = {}
        return matrix[:, 0], matrix
"""
PLAIN = "return nn.Sequential(nn.Linear(8, wide))"
NORM = "torch.mean(torch.norm(matrix))"


def said(added: str, block: str = PLAIN, matrix: str = "matrix") -> list[str]:
    """What is said of a loss with something added to it that is made of `matrix`, one for each sample."""
    return findings(
        script(
            definitions=BLOCK.format(block, matrix),
            model="model = Turned().to(device)",
            forward=f"optimizer.zero_grad()\nout, matrix = model(x)\nloss = F.cross_entropy(out, y) + {added}",
        )
    )


@pytest.mark.parametrize(
    "matrix",
    [
        "matrix + torch.eye(3, requires_grad=True).repeat(self.rows, 1, 1)",
        "matrix + torch.eye(3).unsqueeze(0).expand(self.rows, 3, 3)",
        "torch.bmm(matrix, matrix.transpose(1, 2)) - torch.eye(3)[None, :, :]",
        "matrix.bmm(torch.eye(3).repeat(self.rows, 1, 1))",
    ],
)
def test_a_norm_over_the_batch_is_no_mean(matrix: str) -> None:
    assert said(NORM, matrix=matrix) == ["LOSS-INBATCH"]
    assert said("matrix.pow(2).mean()", matrix=matrix) == []
    assert said("torch.norm(matrix, dim=(1, 2)).mean()", matrix=matrix) == []


@pytest.mark.parametrize(
    "block",
    [
        "layers = [nn.Linear(8, wide), nn.ReLU()]\n    return nn.Sequential(*layers)",
        "layers = []\n    if wide:\n        layers.append(nn.Linear(8, wide))\n    return nn.Sequential(*layers)",
        "layers = [nn.Linear(8, wide)]\n    layers.extend([nn.Tanh()])\n    return nn.Sequential(*layers)",
    ],
)
def test_layers_that_a_function_lists(block: str) -> None:
    assert said(NORM, block) == ["LOSS-INBATCH"]
    assert said("matrix.mean()", block) == []


@pytest.mark.parametrize(
    "block",
    [
        "layers = [nn.Linear(8, wide)]\n    layers += [nn.Softmax(dim=0)]\n    return nn.Sequential(*layers)",
        "layers = [nn.Linear(8, wide)]\n    layers.append(nn.Softmax(dim=0))\n    return nn.Sequential(*layers)",
        "layers = [nn.Linear(8, wide)]\n    layers.append(wide)\n    return nn.Sequential(*layers)",
        "layers = [nn.Linear(8, wide)]\n    layers.extend(wide)\n    return nn.Sequential(*layers)",
    ],
)
def test_a_norm_of_what_is_not_followed_is_not_taken_for_a_mean(block: str) -> None:
    assert said(NORM, block) == ["LOSS-UNKNOWN"]
    assert said("matrix.max().mean()", block) == ["LOSS-UNKNOWN"]
    assert said("matrix.pow(2).mean()", block) == []


def test_a_norm_of_parameters_is_that_of_all_processes() -> None:
    assert said("sum(torch.mean(torch.norm(p)) for p in model.parameters())") == []


SUMMED = "out = model(x)\nloss = {}\nfor part in range(2):\n    loss += F.cross_entropy(out, y{})"


@pytest.mark.parametrize(
    "begun",
    ["0", "torch.tensor(0.0).to(device)", "torch.zeros(1, device=device)", "x.new_zeros(1)", "torch.zeros(()).float()"],
)
def test_a_sum_of_losses_begins_with_one_number(begun: str) -> None:
    assert findings(script(forward=SUMMED.format(begun, ""))) == []
    text = converted(script(forward=SUMMED.format(begun, ', reduction="sum"')))
    assert 'accelerator.backward(loss, reduction="sum")' in text


@pytest.mark.parametrize("begun", ["torch.ones(3)", "torch.zeros(3)", "torch.full((1,), 2.0)", "out.sum()"])
def test_a_sum_of_losses_that_begins_with_something_else(begun: str) -> None:
    assert findings(script(forward=SUMMED.format(begun, ""))) == ["LOSS-UNKNOWN"]


WINDOW = """\
from math import exp


def window(size):
    line = {}.unsqueeze(1)
    return line.mm(line.t()).view(1, 1, size, size)


def smooth(image):
    return F.conv2d(image.view(-1, 1, 1, 3), window(3), padding=1)
"""


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("torch.Tensor([exp(-x) for x in range(size)])", []),
        ("torch.tensor([1.0, 2.0, 1.0])", []),
        ("torch.FloatTensor([[1.0, exp(2), 1.0]])[0]", []),
        ("torch.ones(3).new_tensor([1.0, 2.0, 1.0])", []),
        ("torch.tensor(rows())", ["LOSS-INBATCH"]),  # of the batch, for all that is known
    ],
)
def test_a_window_of_numbers_that_are_written_out(line: str, told: list[str]) -> None:
    """The product of its line with itself compares no samples: structural similarity has one."""
    smoothed = script(
        definitions=WINDOW.format(line), forward="optimizer.zero_grad()\nloss = 1 - (smooth(model(x)) ** 2).mean()"
    )
    assert findings(smoothed.replace("from torch.utils", "from other import rows\nfrom torch.utils", 1)) == told


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("out.new_tensor([0.1, 0.2, 0.3])", []),
        ("out.new_zeros(3)", []),
        ("out.new_ones(out.size(0), 3)", []),
        ("torch.tensor([0.1, 0.2, 0.3])", []),
        ("torch.tensor([out.max().item(), 1.0, 1.0])", ["LOSS-UNKNOWN"]),
    ],
)
def test_tensors_of_numbers_beside_those_of_samples(made: str, told: list[str]) -> None:
    forward = f"optimizer.zero_grad()\nout = model(x)\nloss = (((out - {made}) / 2) ** 2).sum()"
    assert findings(script(forward=forward)) == told


SIZED = """\
from other import images


def likeness(image):
    {sizes}
    line = torch.Tensor([float(x) for x in range({of})]).unsqueeze(1)
    window = line.mm(line.t()).expand(channels, 1, {of}, {of})
    return (F.conv2d(image, window, groups=channels) ** 2).mean()
"""


@pytest.mark.parametrize(
    ("sizes", "of", "told"),
    [
        ("_, channels, height, width = image.size()", "min(11, height, width)", []),
        ("_, channels, height, width = image.shape", "width", []),
        ("rows, channels, height, width = image.shape", "rows", ["LOSS-INBATCH"]),
        ("rows, channels = image.shape", "channels", ["LOSS-INBATCH"]),
    ],
)
def test_the_height_and_width_of_images_are_no_numbers_of_samples(sizes: str, of: str, told: list[str]) -> None:
    """Also of images of which nothing else is known: a window is made for them."""
    forward = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y) + likeness(images(model(x)))"
    assert findings(script(definitions=SIZED.format(sizes=sizes, of=of), forward=forward)) == told


POOLED = """\
told = len("told") > 3


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = {}
        self.unpool = nn.MaxUnpool1d(2)
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        {} = self.pool(x.unsqueeze(1))
        return self.layer({}.squeeze(1)), pooled
"""
UNPOOLED = "self.unpool(pooled, places)"


@pytest.mark.parametrize(
    ("pool", "parts", "used", "known"),
    [
        ("nn.MaxPool1d(2, return_indices=True)", "pooled, places", UNPOOLED, True),
        ("nn.MaxPool1d(2, 2, 0, 1, True)", "pooled, places", UNPOOLED, True),
        ("nn.AdaptiveMaxPool1d(4, True)", "pooled, places", UNPOOLED, True),
        ("nn.MaxPool1d(1, return_indices=False)", "pooled", "pooled", True),
        ("nn.MaxPool1d(2, return_indices=told)", "pooled, places", UNPOOLED, False),
    ],
)
def test_pooling_tells_for_each_sample_where_the_greatest_are(pool: str, parts: str, used: str, known: bool) -> None:
    slots = {"definitions": POOLED.format(pool, parts, used), "model": "model = Pooled().to(device)"}
    forward = "optimizer.zero_grad()\nout, pooled = model(x)\nloss = F.cross_entropy(out, y) + "
    assert findings(script(**slots, forward=f"{forward}torch.norm(pooled)")) == [
        "LOSS-INBATCH" if known else "LOSS-UNKNOWN"
    ]
    mean = script(**slots, forward=f"{forward}pooled.pow(2).sum() / x.size(0)")
    assert findings(mean) == ([] if known else ["LOSS-UNKNOWN"])


PARTS = """\
class Parts(Net):
    def features(self, x):
        return x * 2

    def forward(self, x):
        return self.layer(self.features(x))
"""
GRADIENT = "x.requires_grad_()\ng = torch.autograd.grad(F.cross_entropy(model(x), y), x)[0]"


@pytest.mark.parametrize(
    ("forward", "codes"),
    [
        ("f = model.features(x)\nloss = F.cross_entropy(model.layer(f - f.mean(dim=0)), y)", ["LOSS-INBATCH"]),
        ("f = model.features(x)\nloss = F.cross_entropy(model.layer(f / f.norm()), y)", ["LOSS-INBATCH"]),
        ("f = model.features(x)\nloss = F.cross_entropy(model.layer(f / f.norm(dim=1, keepdim=True)), y)", []),
        ("f = model.features(x)\nloss = F.cross_entropy(model.layer(f - f.mean(dim=1, keepdim=True)), y)", []),
        (f"{GRADIENT}\nloss = F.cross_entropy(model(x + g / (g.norm() + 1e-8)), y)", ["GRAD-INPUT", "LOSS-INBATCH"]),
        (f"{GRADIENT}\nloss = F.cross_entropy(model((x + g / g.abs().max()).detach()), y)", ["LOSS-INBATCH"]),
        (f"{GRADIENT}\nloss = F.cross_entropy(model(x + g / g.norm(dim=1, keepdim=True)), y)", []),
        (f"{GRADIENT}\nloss = F.cross_entropy(model(x + 0.1 * g.sign()), y)", []),
        (f"{GRADIENT}\nloss = F.cross_entropy(model(x), y) + (g.norm(2, dim=1) ** 2).mean()", ["GRAD-INPUT"]),
    ],
)
def test_what_all_samples_are_divided_by_goes_through_a_network(forward: str, codes: list[str]) -> None:
    text = script(definitions=PARTS, model="model = Parts().to(device)", forward=f"optimizer.zero_grad()\n{forward}")
    assert [code for code in findings(text) if code != "UNWRAP"] == codes


@pytest.mark.parametrize(
    ("loss", "codes"),
    [
        ("elsewhere.measure(model(x), y).mean()", ["LOSS-UNKNOWN"]),
        ("torch.mean(elsewhere.measure(model(x), y))", ["LOSS-UNKNOWN"]),
        ("elsewhere.measure(model(x), y)", ["LOSS-UNKNOWN"]),
        ("F.cross_entropy(model(x), y, reduction='none').mean()", []),
        ("(model(x)[:, 0] - y).pow(2).mean()", []),
        ("F.cross_entropy(model(elsewhere.changed(x)), y)", []),
    ],
)
def test_a_mean_of_what_an_unknown_function_gives(loss: str, codes: list[str]) -> None:
    assert findings(script(imports="import elsewhere", forward=f"optimizer.zero_grad()\nloss = {loss}")) == codes
    named = loss.replace(".mean()", "") if loss.endswith(".mean()") else ""
    if named:
        two = f"optimizer.zero_grad()\nvalues = {named}\nloss = values.mean()"
        assert findings(script(imports="import elsewhere", forward=two)) == codes


@pytest.mark.parametrize(
    ("pieces", "added", "codes"),
    [
        ("zip(x.split(4), y.split(4))", "loss += F.cross_entropy(model(a), b)", ["LOSS-PIECES"]),
        ("zip(torch.split(x, 4), torch.split(y, 4))", "loss = loss + F.cross_entropy(model(a), b)", ["LOSS-PIECES"]),
        ("zip(x.split(4), y.split(4))", "loss += F.cross_entropy(model(a), b, reduction='sum')", []),
        ("zip(x.chunk(4), y.chunk(4))", "loss += F.cross_entropy(model(a), b)", ["LOSS-PIECES"]),  # perhaps smaller
        ("zip(x.split(4, dim=1), [y, y])", "loss += F.cross_entropy(model(x), b)", []),
        ("zip(x.split(4), y.split(4))", "loss = F.cross_entropy(model(x), y)", []),
    ],
)
def test_a_share_has_fewer_pieces_of_a_size(pieces: str, added: str, codes: list[str]) -> None:
    """Added up and divided by how many there are in a whole batch, they are too little in a share."""
    forward = f"optimizer.zero_grad()\nloss = 0\nfor a, b in {pieces}:\n    {added}\nloss = loss / 4"
    assert findings(script(forward=forward)) == codes


def backwards(loss: str, unknown: bool = False) -> tuple[str, list[str]]:
    """The backward pass of a loss that is computed from `d`, what a network gives, and what is said of it."""
    made = {"from_imports": "from elsewhere import make", "model": "model = make().to(device)"} if unknown else {}
    text = script(**made, forward=f"optimizer.zero_grad()\nd = model(x)\n{loss}")
    line = next(line for line in converted(text).splitlines() if "accelerator.backward" in line)
    return line.strip(), findings(text)


@pytest.mark.parametrize(
    "loss",
    [
        "loss = (d - 1).norm() ** 2",
        "n = torch.norm(d - 1, p=2)\nloss = n.pow(2)",
        "loss = torch.square(torch.linalg.vector_norm(d))",
        "loss = torch.trace(d.t() @ d)",
        "s = torch.mm(d, F.one_hot(y, 3).float().t())\nloss = s.trace()",
        "loss = (d.T @ d).diag().sum()",
    ],
)
def test_the_square_of_a_norm_is_a_sum(loss: str) -> None:
    assert backwards(loss) == ('accelerator.backward(loss, reduction="sum")', [])
    assert backwards(f"{loss} / len(x)") == ("accelerator.backward(loss)", [])
    assert backwards(loss, unknown=True) == ("accelerator.backward(loss)", ["LOSS-UNKNOWN"])


def test_the_diagonal_of_a_product_has_a_number_for_each_sample() -> None:
    assert backwards("loss = (d @ F.one_hot(y, 3).float().t()).diag().mean()") == ("accelerator.backward(loss)", [])


@pytest.mark.parametrize(
    "loss",
    [
        "loss = d.norm() ** 3",
        "loss = d.norm(dim=1).mean() ** 2",
        "loss = torch.linalg.norm(d, 2) ** 2",  # that of a matrix
        "loss = (d - d.mean(0)).norm() ** 2",
        "loss = (d.t() @ d / len(d)).norm() ** 2",
        "s = d @ d.t()\nloss = F.relu(s - s.diag()[None]).mean()",
    ],
)
def test_others_are_still_statistics_of_the_batch(loss: str) -> None:
    assert backwards(loss)[1] == ["LOSS-INBATCH"]


@pytest.mark.parametrize("loss", ["torch.exp(-torch.cdist(d, d) ** 2)", "torch.cdist(d, d).neg().exp()"])
def test_a_mean_of_what_is_made_of_all_distances(loss: str) -> None:
    assert backwards(f"loss = {loss}.mean()")[1] == ["LOSS-INBATCH"]
    assert backwards(f"loss = {loss}.mean()", unknown=True)[1] == ["LOSS-UNKNOWN"]  # between which rows?
    assert backwards(f"loss = {loss.replace('d)', 'torch.eye(3))')}.mean()")[1] == []
