"""Evaluations whose batches a function of the script collates: shared out where it only stacks samples."""

from __future__ import annotations

import pytest
from scripts import converted, findings, script

EVALUATES = """\
right = total = 0
with torch.no_grad():
    for x, y in test_loader:
        x, y = x.to(device), y.to(device)
        out = model(x).argmax(1)
        right += (out == y).sum().item()
        total += y.size(0)
print(right / total)"""
STACKED = "return torch.stack(xs), torch.tensor(ys)"


def evaluation(body: str, loop: str = EVALUATES, imports: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    test_loader = "test_loader = DataLoader(data, batch_size=16, collate_fn=collate)"
    return script(
        imports=imports,
        definitions=f"def collate(samples):\n{lines}",
        loader=f"loader = DataLoader(data, batch_size=16, shuffle=True)\n{test_loader}",
        epoch_end=loop,
    )


@pytest.mark.parametrize(
    "body",
    [
        f"xs, ys = zip(*samples)\n{STACKED}",
        f"xs, ys = [s[0] for s in samples], [int(s[1]) for s in samples]\n{STACKED}",
        f"xs, ys = [], []\nfor x, y in samples:\n    xs.append(x.float())\n    ys.append(y)\n{STACKED}",
        f"xs = [samples[i][0] for i in range(len(samples))]\nys = [s[1] for s in samples]\n{STACKED}",
        "return torch.utils.data.default_collate(samples)",
        f"xs, ys = zip(*[(x / 255, y) for x, y in samples])\n{STACKED}",
        f"xs, ys = list(zip(*samples))\nxs = [torch.tensor([float(v) for v in x]) for x in xs]\n{STACKED}",
        "parts = list(zip(*samples))\nreturn torch.stack(parts[0]) / 255, torch.tensor(parts[1]).long()",
        "xs, ys = [], []\nfor i in range(len(samples)):\n    x, y = samples[i]\n    xs.append(x)\n    ys.append(y)\n"
        + STACKED,
        "return tuple(map(torch.stack, zip(*samples)))",
        "return torch.tensor(np.array([s[0] for s in samples])), torch.tensor([s[1] for s in samples])",
    ],
)
def test_stacked_samples_are_gathered(body: str) -> None:
    text = evaluation(body, imports="import numpy as np")
    assert "EVAL-REPLICATED" not in findings(text)
    assert "out, y = accelerator.gather_for_metrics((out, y))" in converted(text)


def test_the_entries_of_a_dict_are_gathered() -> None:
    loop = EVALUATES.replace("for x, y in", "for batch in")
    loop = loop.replace("x, y = x.to(device), y.to(device)", 'x, y = batch["x"].to(device), batch["y"].to(device)')
    text = evaluation(
        'return {"x": torch.stack([s[0] for s in samples]), "y": torch.tensor([s[1] for s in samples])}', loop
    )
    assert "out, y = accelerator.gather_for_metrics((out, y))" in converted(text)


@pytest.mark.parametrize(
    "body",
    [
        f"xs, ys = zip(*samples)\nxs = nn.utils.rnn.pad_sequence(xs, batch_first=True)\n{STACKED}",
        f"xs, ys = zip(*samples)\nmost = max(map(len, xs))\nxs = [F.pad(x, (0, most - len(x))) for x in xs]\n{STACKED}",
        f"samples.sort(key=lambda s: -s[1])\nxs, ys = zip(*samples)\n{STACKED}",  # in another order for each share
        f"samples = sorted(samples, key=lambda s: s[1])\nxs, ys = zip(*samples)\n{STACKED}",
        f"samples = [s for s in samples if s[1]]\nxs, ys = zip(*samples)\n{STACKED}",  # another number
        f"xs, ys = zip(*samples)\nxs = [x + torch.randn(8) for x in xs]\n{STACKED}",
        "return torch.cat([s[0] for s in samples]), torch.cat([s[1] for s in samples])",
        "return np.stack([s[0] for s in samples]), np.array([s[1] for s in samples])",
        f"xs, ys = zip(*samples)\ncollate.seen = len(xs)\n{STACKED}",
        f"first = samples[0][0]\nxs, ys = zip(*[(x - first, y) for x, y in samples])\n{STACKED}",
        f"xs, ys = zip(*samples)\nxs = xs[::-1]\n{STACKED}",
        f"xs, ys = zip(*samples)\nxs = [torch.stack(xs)[0] - x for x in xs]\n{STACKED}",
        "xs, ys = zip(*samples)\nxs = torch.stack(xs)\nreturn xs / xs[0], torch.tensor(ys)",
        f"xs = [samples[i - 1][0] for i in range(len(samples))]\nys = [s[1] for s in samples]\n{STACKED}",
        f"xs = [x * i for i, (x, y) in enumerate(samples)]\nys = [y for x, y in samples]\n{STACKED}",
        "xs, ys, last = [], [], 0\nfor x, y in samples:\n    xs.append(x + last)\n    ys.append(y)\n    last = x\n"
        + STACKED,
        "xs, ys = [], []\nfor x, y in samples:\n    xs.append(x + sum(xs))\n    ys.append(y)\n" + STACKED,
        "xs, ys = [], []\nfor x, y in samples:\n    seen.append(x)\n    xs.append(x + seen[0])\n    ys.append(y)\n"
        + STACKED,
        f"xs, ys = zip(*samples)\nif len(xs) > 3:\n    xs, ys = xs[1:], ys[1:]\n{STACKED}",
    ],
)
def test_what_goes_by_the_samples_around_is_not(body: str) -> None:
    text = evaluation(body, imports="import numpy as np")
    assert "EVAL-REPLICATED" in findings(text)
    assert "gather_for_metrics" not in converted(text)


def test_a_method_and_what_it_calls_are_followed() -> None:
    text = evaluation("return samples").replace("collate_fn=collate", "collate_fn=Collator()")
    collator = """\
class Collator:
    def __call__(self, samples):
        return self.stacked(samples, 0), self.stacked(samples, 1)

    def stacked(self, samples, place):
        return torch.stack([{} for s in samples])


"""
    before = "def collate(samples)"
    known = text.replace(before, collator.format("torch.as_tensor(s[place])") + before)
    assert "EVAL-REPLICATED" not in findings(known)
    assert "EVAL-REPLICATED" in findings(text.replace(before, collator.format("samples[0][place]") + before))


@pytest.mark.parametrize("collate", ["lib.collate", "data.collate", "lib.Collator(8)"])
def test_what_is_not_known_is_not(collate: str) -> None:
    text = evaluation("return samples", imports="import lib").replace("collate_fn=collate", f"collate_fn={collate}")
    assert "EVAL-REPLICATED" in findings(text)
