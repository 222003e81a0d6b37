"""Evaluations that every process does by itself, in an order that it draws for itself, and decisions by them."""

from __future__ import annotations

import textwrap

import pytest
from scripts import convert, findings, script

DEFINITIONS = """\
from torch.utils.data import RandomSampler, SubsetRandomSampler


def iou(out, y):
    chosen = out.argmax(1)
    return ((chosen * y).sum() / (chosen + y).clamp(max=1).sum()).item()


def dice(out, y):
    chosen = out.argmax(1)
    whole = chosen.sum() + y.sum()
    return 2 * (chosen * y).sum() / whole


def rates(out, y):
    return (out.softmax(1)[:, 0] * y) / out.sum(1)


class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n


def evaluate(batches):
    total, count, kept, meter = 0.0, 0, [], Meter()
    with torch.no_grad():
        for x, y in batches:
            x, y = x.to(device), y.to(device)
            outs = [model(x)]
            {}
            model(2 * x)
    return {}
"""
STOPS = """\
measured = evaluate(test_loader)
if measured > best:
    best = measured
else:
    break
"""


def evaluated(
    body: str, result: str, after: str = STOPS, order: str = "shuffle=True", setup: str = "", size: int = 5
) -> list[str]:
    body = textwrap.indent(textwrap.dedent(body), " " * 12).strip()
    return findings(
        script(
            setup=setup,
            definitions=DEFINITIONS.format(body, result),
            loader="loader = DataLoader(data, batch_size=16, shuffle=True)\n"
            f"test_loader = DataLoader(data, batch_size={size}, {order})",
            before="best = 0.0",
            epoch_end=after,
        )
    )


IOU = "kept.append(iou(outs[0], y))", "sum(kept) / len(kept)"


@pytest.mark.parametrize(
    ("body", "result"),
    [
        IOU,
        ("total += iou(outs[0], y)", "total / len(batches)"),
        ("total += dice(outs[0], y)", "total / len(batches)"),
        ("kept.append(dice(outs[0], y).cpu())", "sum(kept) / len(kept)"),
        ("value = iou(outs[0], y)\ntotal = total + value", "total / len(batches)"),
        ("total += F.cross_entropy(outs[0], y).item()", "total / len(batches)"),
        ("loss = F.cross_entropy(outs[0], y)\nmeter.update(loss.item())", "meter.sum / meter.count"),
        ("total += float(F.cross_entropy(outs[0], y))", "total / len(batches)"),
        ("kept.append((outs[0].argmax(1) == y).float().mean().item())", "sum(kept) / len(kept)"),
        ("kept += [iou(outs[0], y)]", "sum(kept) / len(kept)"),
        ("kept.extend([iou(outs[0], y)])", "sum(kept) / len(kept)"),
        ("kept.append((iou(outs[0], y), 1))", "sum(k[0] for k in kept)"),
        ("kept.append(torch.tensor(iou(outs[0], y)))", "torch.stack(kept).mean()"),
        ("total = max(total, iou(outs[0], y))", "total"),
        ("total += round(iou(outs[0], y), 3)", "total"),
        ("count += iou(outs[0], y) > 0.5", "count"),
        ("if iou(outs[0], y) > 0.5:\n    count += 1", "count"),
        ("count += 1 if iou(outs[0], y) > 0.5 else 0", "count"),
        ("value = iou(outs[0], y)\nif value > 0.5:\n    total += 1", "total"),
    ],
)
def test_what_is_measured_of_batches_that_every_process_has_otherwise(body: str, result: str) -> None:
    assert evaluated(body, result) == ["COLL-RANKFLOW", "EVAL-REPLICATED"]


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("total += (outs[0].argmax(1) == y).sum().item()\ncount += len(y)", "total / count"),
        ("right = (outs[0].argmax(1) == y).sum()\ntotal += right.item()", "total / 64"),
        ("total += F.cross_entropy(outs[0], y).item() * x.size(0)", "total / 64"),
        ("n = x.size(0)\ntotal += F.cross_entropy(outs[0], y).item() * n", "total / 64"),
        ("meter.update(F.cross_entropy(outs[0], y).item(), len(x))", "meter.sum / meter.count"),
        ("meter.update(F.cross_entropy(outs[0], y).item(), n=len(x))", "meter.sum / meter.count"),
        ("kept.append((F.cross_entropy(outs[0], y).item(), len(x)))", "sum(k * n for k, n in kept) / 64"),
        ("kept += [F.cross_entropy(outs[0], y).item() * len(x)]", "sum(kept) / 64"),
        ("kept.extend((outs[0].argmax(1) == y).tolist())", "sum(kept) / 64"),
        ("if len(y) > 1:\n    total += (outs[0].argmax(1) == y).sum().item()", "total / 64"),
        ("total += int((outs[0].argmax(1) == y).sum())", "total / 64"),
        ("total += rates(outs[0], y).sum().item()", "total / 64"),
        ("kept.append(outs[0].argmax(1))", "(torch.cat(kept) == 1).float().mean().item()"),
        ("total += F.cross_entropy(outs[0], y, reduction='sum').item()", "total / 64"),
    ],
)
def test_sums_over_the_samples_come_to_the_same_in_any_order(body: str, result: str) -> None:
    assert "COLL-RANKFLOW" not in evaluated(body, result)


@pytest.mark.parametrize(
    ("slots", "told"),
    [
        ({"order": "sampler=SubsetRandomSampler(range(40))"}, True),
        ({"order": "sampler=RandomSampler(data)"}, True),
        ({"order": "sampler=RandomSampler(data, generator=torch.Generator().manual_seed(0))"}, False),
        ({"order": "shuffle=True, generator=torch.Generator().manual_seed(0)"}, False),
        ({"order": "shuffle=False"}, False),
        ({"order": "sampler=range(40)"}, False),
        ({"setup": "torch.manual_seed(0)"}, False),
        ({"after": "print(evaluate(test_loader))"}, False),
        ({"after": "measured = evaluate(test_loader)\nif measured > best:\n    best = measured"}, False),
        ({"after": "torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer).step(evaluate(test_loader))"}, True),
    ],
)
def test_only_orders_that_are_drawn_without_a_seed_and_decide(slots: dict[str, str], told: bool) -> None:
    assert ("COLL-RANKFLOW" in evaluated(*IOU, **slots)) is told


def test_batches_of_one_size_have_one_mean() -> None:
    loss = "total += F.cross_entropy(outs[0], y).item()", "total / len(batches)"
    assert "COLL-RANKFLOW" in evaluated(*loss)
    assert "COLL-RANKFLOW" not in evaluated(*loss, size=8)  # of 64 samples
    assert "COLL-RANKFLOW" in evaluated(*IOU, size=8)
    assert "COLL-RANKFLOW" in evaluated(*loss, order="shuffle=True, drop_last=True")  # four samples are left out
    assert "COLL-RANKFLOW" not in evaluated(*loss, order="shuffle=True, drop_last=True", size=8)


def test_noise_where_what_is_measured_is_kept_at_once() -> None:
    noisy = "kept.append((outs[0] + torch.rand(3, device=device)).mean().item())", "sum(kept) / len(kept)"
    assert "COLL-RANKFLOW" in evaluated(*noisy, order="shuffle=False")


@pytest.mark.parametrize(
    ("leaves", "told"),
    [
        ("continue", "skip the rest of the iteration"),
        ("break", "leave the loop"),
        ("if epoch:\n        break\n    continue", "leave the loop"),
    ],
)
def test_what_some_processes_do_is_said(leaves: str, told: str) -> None:
    plan = convert(script(move=f"x, y = x.to(device), y.to(device)\nif x.max() > 9:\n    {leaves}")).plan
    assert plan is not None
    message = next(f.message for f in plan.findings if f.code == "COLL-RANKFLOW")
    assert f"some would {told} while others do not" in message


DRAWS = """
class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, place):
        return torch.rand(8), place % 3
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_a_seeded_order_that_the_training_moves_on(workers: int) -> None:
    """Samples that draw from the same generator leave it elsewhere on a process that has more of them."""
    text = script(
        definitions=DEFINITIONS.format("kept.append(iou(outs[0], y))", "sum(kept) / len(kept)") + DRAWS,
        setup="torch.manual_seed(0)",
        loader=f"loader = DataLoader(Noisy(), batch_size=16, shuffle=True, num_workers={workers})\n"
        "test_loader = DataLoader(data, batch_size=5, shuffle=True)",
        before="best = 0.0",
        epoch_end=STOPS,
    )
    assert ("COLL-RANKFLOW" in findings(text)) == (workers == 0)


FLOW = """\
class Flow(Net):
    def score(self, x):
        return self(x).sum(1)

    def draw(self, n):
        return self(torch.randn(n, 8, device=device))

    def noisy(self, x):
        return self.score(x) + self.draw(len(x)).sum()
"""


@pytest.mark.parametrize(("method", "told"), [("score", False), ("noisy", True)])
def test_only_methods_of_a_network_that_the_evaluation_runs(method: str, told: bool) -> None:
    text = script(
        definitions=f"{FLOW}\n\n"
        + DEFINITIONS.format(f"kept.append(model.{method}(x.to(device)).sum().item())", "sum(kept)"),
        loader="loader = DataLoader(data, batch_size=16, shuffle=True)\ntest_loader = DataLoader(data, batch_size=5)",
        model="model = Flow().to(device)",
        before="best = 0.0",
        epoch_end=STOPS,
    )
    assert ("COLL-RANKFLOW" in findings(text)) is told
