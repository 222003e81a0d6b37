"""Scripts compute the same before and after: bit for bit on one process; on two, or a finding says why not."""

from __future__ import annotations

import numpy as np
import pytest
from accelift_codemod.plan import Outcome

from tests.codemod.scripts import script as usual
from tests.codemod.test_returned_means import evaluated
from tests.generated.byhand import by_hand
from tests.generated.campaign import Tally, campaign, convert, unexplained
from tests.generated.running import Workshop, differences
from tests.generated.script import generate

SHARE = 15  # scripts of one test
# Of the generated scripts, what is refused at most: the generator writes what people write.
REFUSED = 0.1
# Of those that make their batches by hand, what is converted at least.
CONVERTED = 0.3


def check(tally: Tally) -> None:
    """Nothing differs; the generator's scripts run, and are converted."""
    assert not tally.wrong, "\n".join(tally.wrong)
    assert not tally.broken, "\n".join(tally.broken)
    assert tally.scripts - tally.compared <= 1 + REFUSED * tally.scripts, tally.outcomes


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, SHARE])
def test_one_process(first: int, workshop: Workshop) -> None:
    check(campaign(workshop, range(first, first + SHARE)))


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(100_000, 103_000, 250))
def test_one_process_thousands(first: int, workshop: Workshop) -> None:
    check(campaign(workshop, range(first, first + 250)))


@pytest.mark.slow
def test_two_processes(workshop: Workshop) -> None:
    check(campaign(workshop, range(200, 203), processes=2))


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(200_000, 200_400, 50))
def test_two_processes_hundreds(first: int, workshop: Workshop) -> None:
    check(campaign(workshop, range(first, first + 50), processes=2))


# ---- without a loader


def check_by_hand(tally: Tally) -> None:
    """Nothing differs. Many scripts do on purpose what keeps them from being converted."""
    assert not tally.wrong, "\n".join(tally.wrong)
    assert not tally.broken, "\n".join(tally.broken)
    assert tally.compared >= CONVERTED * tally.scripts, tally.outcomes


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_batches_made_by_hand(processes: int, workshop: Workshop) -> None:
    check_by_hand(campaign(workshop, range(300 * processes, 300 * processes + 45), processes, make=by_hand))


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("first", range(300_000, 302_000, 250))
def test_batches_made_by_hand_thousands(first: int, processes: int, workshop: Workshop) -> None:
    check_by_hand(campaign(workshop, range(first, first + 250), processes, make=by_hand))


# ---- the generator and the comparison


def test_a_seed_gives_one_script_by_hand() -> None:
    assert [by_hand(seed) for seed in range(50)] == [by_hand(seed) for seed in range(50)]
    assert len({by_hand(seed).text for seed in range(50)}) == 50


def test_conversions_of_scripts_by_hand_convert_to_nothing() -> None:
    for seed in range(40):
        output = convert(by_hand(seed).text, shard_manual=True).output
        if output is not None:
            again = convert(output.decode(), shard_manual=True)
            assert again.output is None and again.outcome is Outcome.NOTHING


def test_a_seed_gives_one_script() -> None:
    assert [generate(seed) for seed in range(50)] == [generate(seed) for seed in range(50)]
    assert len({generate(seed).text for seed in range(50)}) == 50


def test_conversions_of_generated_scripts_convert_to_nothing() -> None:
    for seed in range(20):
        output = convert(generate(seed).text).output
        if output is not None:
            again = convert(output.decode())
            assert again.output is None and again.outcome is Outcome.NOTHING


@pytest.mark.slow
@pytest.mark.parametrize("what", ["steps", "stdout", "files", "failed"])
def test_what_differs_is_seen(what: str, workshop: Workshop) -> None:
    text = (
        "import torch\nmodel = torch.nn.Linear(3, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(3):\n    loss = model(torch.randn(4, 3)).pow(2).mean()\n    loss.backward()\n"
        "    optimizer.step()\n    print(loss.item())\ntorch.save(model.state_dict(), 'model.pt')\n"
    )
    other = {
        "steps": text.replace("lr=0.1", "lr=0.1000001"),
        "stdout": text.replace("print(loss.item())", "print(loss.item(), '')"),
        "files": text.replace("'model.pt'", "'net.pt'"),
        "failed": text.replace("optimizer.step()", "optimizer.stride()"),
    }[what]
    old, same, new = workshop.runs(text, text, other)
    assert differences(old, same) == {}
    found = differences(old, new)
    assert what in found and found.keys() <= ({"steps", "stdout", "files"} if what == "steps" else {what})


@pytest.mark.slow
def test_a_difference_on_two_processes_needs_a_finding(workshop: Workshop) -> None:
    """A weighted mean is another one on each share of a batch: LOSS-MASKMEAN has to say so."""
    text = usual(forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y, torch.tensor([1.0, 3.0, 9.0]))")
    result = convert(text)
    assert result.output is not None and result.plan is not None
    old, new = workshop.runs(text, result.output.decode(), processes=2)
    found = differences(old, new, tolerance=1e-5)
    assert "steps" in found and not new["apart"]
    codes = {finding.code for finding in result.plan.findings}
    assert "LOSS-MASKMEAN" in codes and unexplained(found, codes) == {}
    assert "steps" in unexplained(found, codes - {"LOSS-MASKMEAN"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "product",
    ["torch.tensordot(out, out, dims=([0], [0]))", "torch.einsum('bi,bj->ij', out, out)", "out[:, 0].dot(out[:, 1])"],
)
def test_products_along_the_samples_are_summed(product: str, workshop: Workshop) -> None:
    text = usual(forward=f"optimizer.zero_grad()\nout = model(x / 9)\nloss = 0.01 * {product}.mean()")
    result = convert(text)
    assert result.output is not None and result.plan is not None and not result.plan.findings
    old, new = workshop.runs(text, result.output.decode(), processes=2)
    assert differences(old, new, tolerance=1e-5) == {}


@pytest.mark.slow
def test_a_mean_by_the_number_of_samples_is_greater_by_the_number_of_processes(workshop: Workshop) -> None:
    text = usual(forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x / 9), y) / len(x)")
    result = convert(text)
    assert result.output is not None and result.plan is not None
    assert [finding.code for finding in result.plan.findings] == ["LOSS-SHRUNK"]
    output = result.output.decode()
    assert "steps" in differences(*workshop.runs(text, output, processes=2), tolerance=1e-5)
    twice = output.replace("/ len(x)", "/ (2 * len(x))")
    assert differences(*workshop.runs(text, twice, processes=2), tolerance=1e-5) == {}


@pytest.mark.slow
def test_a_loss_that_the_network_returns_is_that_of_the_whole_batch(workshop: Workshop) -> None:
    """Also of a last batch of four samples, of which one process has one more than the other in batches of 15."""
    text = evaluated('out = model(x, y)\ntotal += out["error"].item()\ncorrect += (out["scores"].argmax(1) == y).sum()')
    result = convert(text)
    assert result.output is not None and b"batch_mean" in result.output
    old, new = workshop.runs(text, result.output.decode(), processes=2)
    assert old["stdout"] and differences(old, new, tolerance=1e-5) == {}


def test_tolerance_is_relative_to_the_parameters() -> None:
    base = {"failed": "", "steps": [np.ones(4)], "stdout": "loss 0.5000", "files": {}, "apart": False}
    near = {**base, "steps": [np.ones(4) + 1e-7], "stdout": "loss 0.5001"}
    far = {**base, "steps": [np.ones(4) + 1e-3], "stdout": "loss 0.51"}
    assert differences(base, near, 1e-5) == {} and differences(base, near).keys() == {"steps", "stdout"}
    assert differences(base, far, 1e-5).keys() == {"steps", "stdout"}
