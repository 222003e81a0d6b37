"""Networks with a hidden state for batches of one size: those that are told the size of each batch need no warning."""

from __future__ import annotations

import pytest
from scripts import findings, script

NETWORK = """\
class Recurrent(nn.Module):
    def __init__(self, width, batch_size):
        super().__init__()
        self.width = width
        self.batch_size = batch_size
        self.layer = nn.RNN(width, 3, batch_first=True)
        {made}

    def init_hidden(self{more}):
        return torch.zeros(1, {rows}, 3)

    def forward(self, x):
        out, self.hidden = self.layer(x.unsqueeze(1), self.hidden)
        return out[:, -1]
"""
CIRCULAR = """
    def up(self, n):
        return self.down(n) if n else {end}

    def down(self, n):
        return self.up(n - 1)
"""
SIZE = "model.batch_size = x.size(0)\n"
ANEW = "model.hidden = model.init_hidden()\n"


def warned(
    told: str,
    made: str = "self.hidden = self.init_hidden()",
    more: str = "",
    rows: str = "self.batch_size",
    methods: str = "",
) -> bool:
    text = script(
        setup="batch_size = 16",
        loader="loader = DataLoader(data, batch_size=batch_size, shuffle=True)",
        definitions=NETWORK.format(made=made, more=more, rows=rows) + methods,
        model="model = Recurrent(8, batch_size).to(device)",
        forward=f"optimizer.zero_grad()\n{told}loss = F.cross_entropy(model(x), y)",
    )
    return "BATCH-MODEL" in findings(text)


@pytest.mark.parametrize(
    ("told", "parts"),
    [
        (f"{SIZE}{ANEW}", {}),
        (f"{SIZE}{ANEW}model.train()\n", {}),
        (SIZE, {"made": "self.hidden = None"}),
    ],
)
def test_what_every_iteration_sets_anew_is_for_a_share(told: str, parts: dict[str, str]) -> None:
    assert not warned(told, **parts)


@pytest.mark.parametrize(
    ("told", "parts"),
    [
        ("", {}),
        (ANEW, {}),
        (SIZE, {}),  # the first state is for a whole batch
        (f"if epoch:\n    {SIZE}{ANEW}", {}),
        (f"{ANEW}{SIZE}", {}),
        (f"{SIZE}model.hidden = model.hidden.detach()\n", {}),
        (f"first = model(x)\n{SIZE}{ANEW}", {}),
        (f"{SIZE}{ANEW}", {"made": "self.hidden = self.init_hidden()\n        self.mask = torch.ones(batch_size, 1)"}),
        (f"{SIZE}{ANEW}", {"made": "self.hidden = self.init_hidden()\n        print(batch_size)"}),
    ],
)
def test_what_may_be_left_for_a_whole_batch_is_told(told: str, parts: dict[str, str]) -> None:
    assert warned(told, **parts)


@pytest.mark.parametrize(("end", "asks"), [("None", False), ("torch.ones(self.batch_size)", True)])
def test_methods_that_call_each_other(end: str, asks: bool) -> None:
    made = "self.hidden = self.init_hidden()\n        self.mask = self.up(2)"
    assert warned(f"{SIZE}{ANEW}", made=made, methods=CIRCULAR.format(end=end)) is asks
