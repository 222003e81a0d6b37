"""BROADCAST: losses that compare a column of predictions with a row of targets."""

from __future__ import annotations

import pytest
from scripts import convert, findings, script

IMPORTS = "import numpy as np\nimport pandas as pd\nfrom sklearn import datasets\n"
IMPORTS += "from sklearn.model_selection import train_test_split\nfrom sklearn.preprocessing import MinMaxScaler"
MODEL = "model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)"
LOSS = "optimizer.zero_grad()\nloss = nn.MSELoss()(model(x), y)"
FRAME = 'frame = pd.read_csv("prices.csv").dropna()\n'
TABLE = f'{FRAME}features = torch.tensor(frame.drop("price", axis=1).values)\n'
ROW = f'{TABLE}data = TensorDataset(features, torch.tensor(frame["price"].values))'


def trained(**slots: str) -> str:
    """A script that fits one number for each sample of a table."""
    return script(imports=IMPORTS, **{"data": ROW, "model": MODEL, "forward": LOSS, **slots})


def of(targets: str) -> str:
    """The data of a script, with other targets."""
    return f"{TABLE}data = TensorDataset(features, {targets})"


def crossed(**slots: str) -> bool:
    """Whether the loss of such a script is said to be broadcast."""
    return "LOSS-BROADCAST" in findings(trained(**slots))


@pytest.mark.parametrize(
    "data",
    [
        ROW,
        of("torch.FloatTensor(frame.price.to_numpy())"),
        of("torch.from_numpy(frame.iloc[:, -1].values.astype(np.float32))"),
        of("torch.tensor(frame[['price']].values).squeeze(1)"),
        of("torch.tensor(frame['price'].values).view(-1, 1).flatten()"),
        of("torch.tensor(frame.iloc[:, 1:2].values)[:, 0]"),
        of("torch.tensor(np.log(frame.pop('price')).values)"),
        of("torch.tensor(load()[['price']].values)[:, 0]"),
        f"{TABLE}scaler = MinMaxScaler().fit(frame[['price']])\ny = scaler.transform(frame[['price']])\n"
        "data = TensorDataset(features, torch.tensor(y).flatten())",
        f"{TABLE}scaler = MinMaxScaler().fit(frame[['price']])\n"
        "data = TensorDataset(features, torch.tensor(scaler.transform(frame[['price']])).squeeze())",
        "X, y = datasets.load_diabetes(return_X_y=True)\ndata = TensorDataset(torch.tensor(X), torch.tensor(y))",
        "X, y = datasets.make_regression(64, 8)\nX, _, y, _ = train_test_split(X, y)\n"
        "data = TensorDataset(torch.tensor(X).float(), torch.tensor(y).float())",
        "sets = datasets.load_diabetes()\ndata = TensorDataset(torch.tensor(sets.data), torch.tensor(sets['target']))",
        "data = TensorDataset(torch.rand(64, 8), torch.linspace(0, 1, 64))",
        "X, y = [], []\nfor i in range(64):\n    X.append(np.arange(8))\n    y.append(i / 64)\n"
        "data = TensorDataset(torch.Tensor(np.array(X)), torch.tensor(y))",
    ],
)
def test_a_column_of_predictions_and_a_row_of_targets(data: str) -> None:
    assert crossed(data=data)


@pytest.mark.parametrize(
    "data",
    [
        of("torch.tensor(frame[['price']].values)"),
        of("torch.tensor(frame['price'].values).unsqueeze(1)"),
        of("torch.tensor(frame['price'].values).view(-1, 1)"),
        of("torch.tensor(frame['price'].values.reshape(-1, 1))"),
        of("torch.tensor(frame['price'].values)[:, None]"),
        of("torch.tensor(frame.iloc[:, -1:].values)"),
        of("torch.tensor(frame[wanted()].values)"),  # a column, or several
        of("load()"),
        of("torch.tensor(load()[['price']].values)"),
        of("torch.tensor(MinMaxScaler().fit_transform(load()[['price']]))"),
        "X, y = datasets.make_regression(64, 8, n_targets=1)\ndata = TensorDataset(torch.tensor(X), torch.tensor(y))",
        "data = TensorDataset(torch.rand(64, 8), torch.rand(64, 1))",
    ],
)
def test_targets_in_a_column_or_of_unknown_shape(data: str) -> None:
    assert not crossed(data=data)


SAMPLES = """
class Samples(torch.utils.data.Dataset):
    def __init__(self, path):
        table = pd.read_csv(path)
        self.X = table.drop(columns=["price"]).values
        self.y = table["price"].values

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return torch.tensor(self.X[index]), {target}
"""
DATASET = 'data = Samples("prices.csv")'


@pytest.mark.parametrize("target", ["self.y[index]", "torch.tensor(self.y[index])", "float(self.y[index])"])
def test_a_data_set_that_gives_a_number(target: str) -> None:
    assert crossed(definitions=SAMPLES.format(target=target), data=DATASET)


@pytest.mark.parametrize("target", ["torch.tensor([self.y[index]])", "self.y[index : index + 1]", "self.found[index]"])
def test_a_data_set_that_gives_a_vector(target: str) -> None:
    assert not crossed(definitions=SAMPLES.format(target=target), data=DATASET)


HEAD = """
class Head(nn.Module):
    def __init__(self, hidden, outputs=1):
        super().__init__()
        self.body = nn.Linear(8, hidden)
        self.head = nn.Linear(hidden, outputs)

    def forward(self, x):
        x = F.relu(self.body(x))
        {last}
        return x
"""


@pytest.mark.parametrize(
    "last", ["x = self.head(x)", "x = torch.sigmoid(self.head(x)) * 5", "x = self.head(x)[:, -1:]"]
)
def test_a_network_that_ends_in_one_number(last: str) -> None:
    assert crossed(definitions=HEAD.format(last=last), model="model = Head(16).to(device)")


@pytest.mark.parametrize(
    ("last", "made"),
    [
        ("x = self.head(x).squeeze()", "Head(16)"),
        ("x = self.head(x).squeeze(-1)", "Head(16)"),
        ("x = self.head(x).view(-1)", "Head(16)"),
        ("x = self.head(x)[:, 0]", "Head(16)"),
        ("x = self.head(x)", "Head(16, 3)"),
        ("x = self.head(x)", "Head(16, outputs=features.shape[1])"),
        ("x = tidied(self.head(x))", "Head(16)"),
        ("self.head = nn.Sequential(self.head)\n        x = self.head(x)", "Head(16)"),
    ],
)
def test_a_network_that_returns_a_row_or_something_unknown(last: str, made: str) -> None:
    assert not crossed(definitions=HEAD.format(last=last), model=f"model = {made}.to(device)")


@pytest.mark.parametrize(
    "loss",
    [
        "F.l1_loss(model(x), y)",
        "((model(x) - y) ** 2).mean()",
        "F.mse_loss(model(x).squeeze(1), y.view(-1, 1))",
        "rooted(model(x), y)",
        "compare(model(x), y)",
        "Rooted()(model(x), y)",
    ],
)
def test_whatever_compares_them(loss: str) -> None:
    definitions = """
def rooted(prediction, target):
    return torch.sqrt(nn.functional.mse_loss(prediction, target))


compare = F.smooth_l1_loss


class Rooted(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.MSELoss()

    def forward(self, prediction, target):
        return torch.sqrt(self.inner(prediction, target))
"""
    assert crossed(definitions=definitions, forward=f"optimizer.zero_grad()\nloss = {loss}")


@pytest.mark.parametrize(
    "loss",
    [
        "F.mse_loss(model(x).squeeze(1), y)",
        "F.mse_loss(model(x), y.unsqueeze(1))",
        "F.mse_loss(model(x), y.view_as(model(x)))",
        "F.binary_cross_entropy_with_logits(model(x), y)",  # an error in torch
        "F.mse_loss(model(x), torch.linspace(0, 1, 16))",  # not of this batch
    ],
)
def test_losses_that_compare_each_sample_with_its_own_target(loss: str) -> None:
    assert not crossed(forward=f"optimizer.zero_grad()\nloss = {loss}")


RECURRENT = """
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 4, 2, batch_first=True)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        x = x.unsqueeze(1)
        h = {state}
        out, _ = self.lstm(x, (h, h))
        return self.head(out[:, -1, :])
"""


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("torch.zeros(2, x.size(0), 4).to(device)", True),
        ("torch.zeros(2, len(x), 4, device=x.device).requires_grad_()", True),
        ("kept(x)", False),  # which may be of all samples
    ],
)
def test_a_recurrent_network_with_states_of_its_own(state: str, expected: bool) -> None:
    slots = {"definitions": RECURRENT.format(state=state), "model": "model = Recurrent().to(device)"}
    assert crossed(from_imports="from elsewhere import kept", **slots) is expected


FACTORS = """
class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(64, 8)
        self.items = nn.Embedding(64, 8)
        self.bias = nn.Embedding(64, 1)

    def forward(self, user, item):
        found = (self.users(user) * self.items(item)).sum(1{keep})
        return found + self.bias(user){squeezed}
"""


@pytest.mark.parametrize(
    ("keep", "squeezed", "expected"),
    [("", "", True), ("", ".squeeze()", False), ("", "[:, 0]", False), (", keepdim=True", "", False)],
)
def test_a_bias_beside_a_product(keep: str, squeezed: str, expected: bool) -> None:
    """A sum within the network broadcasts before any loss does."""
    slots = {
        "definitions": FACTORS.format(keep=keep, squeezed=squeezed),
        "data": "data = TensorDataset(torch.arange(64), torch.arange(64), torch.rand(64))",
        "model": "model = Factors().to(device)",
        "loop": "for user, item, y in loader:",
        "move": "user, item, y = user.to(device), item.to(device), y.to(device)",
        "forward": "optimizer.zero_grad()\nloss = F.mse_loss(model(user, item).flatten(), y)",
    }
    assert crossed(**slots) is expected


@pytest.mark.parametrize(("target", "expected"), [("Y[i : i + 16]", True), ("Y[i : i + 16].unsqueeze(1)", False)])
def test_batches_that_a_loop_cuts_itself(target: str, expected: bool) -> None:
    text = trained(
        data=f'{FRAME}X = torch.tensor(frame[["a", "b"]].values)\nY = torch.tensor(frame["price"].values)',
        loader="",
        model="model = nn.Linear(2, 1)",
        loop="for i in range(0, len(X), 16):",
        move=f"x = X[i : i + 16]\ny = {target}",
    )
    assert convert(text, shard_manual=True).output is not None
    assert ("LOSS-BROADCAST" in findings(text, shard_manual=True)) is expected


def test_a_batch_of_one_sample_has_no_others() -> None:
    assert not crossed(loader="loader = DataLoader(data, batch_size=1)")


def test_whole_batches_on_every_process() -> None:
    assert "LOSS-BROADCAST" not in findings(trained(), batch="per-process")
