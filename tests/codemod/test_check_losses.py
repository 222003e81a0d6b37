"""`accelift check` of losses that are others on several processes, and of noise: where, why, and what is none."""

from __future__ import annotations

import pytest
from accelift_codemod.plan import Severity

from tests.codemod.checks import findings, marked, script
from tests.codemod.test_check_objects import NOISE, NOISY, SEED

BACK = {"backward": "accelerator.backward(loss)  # HERE"}
ZERO = "optimizer.zero_grad()\n"
OUT = f"{ZERO}out = model(x)\n"
LINEAR = {"model": "model = nn.Linear(8, 3)"}
CAUSAL = {
    "from_imports": "from transformers import AutoModelForCausalLM",
    "model": "model = AutoModelForCausalLM.from_pretrained('gpt2')",
    "data": "data = torch.arange(512).view(64, 8)",
    "loop": "for x in loader:",
    "move": "",
}
COPIED = """\
def block(sample):
    sample["labels"] = sample["input_ids"].copy()
    return sample
data = [block({"input_ids": [1, 2, 3]})]
"""
MASKED = COPIED.replace("    return", "    sample['labels'][0] = -100\n    return")
OTHERS = COPIED.replace('sample["input_ids"].copy()', 'sample["targets"]')
WEIGHTS = f"""\
{OUT}first, second = F.cross_entropy(out, y), out.pow(2).mean()
last = accelerator.unwrap_model(model).layer.weight
one = torch.norm(torch.autograd.grad(first, last, retain_graph=True)[0])
loss = first + one.detach() * second
"""
SAMPLE = "def sample():\n    generator = torch.manual_seed(42)\n    return torch.randn(4, generator=generator)\n"
CPU = "accelerator = Accelerator(cpu=True)"
DRAWS = {"setup": SEED, "definitions": NOISY, "data": "data = Noisy()"}
LIKE = f"{ZERO}noise = torch.randn_like(x)\nloss = F.cross_entropy(model(x + noise), y)"
NUMPY = {"imports": "import numpy", "forward": f"{ZERO}noise = numpy.random.rand(8)\nloss = model(x).mean()"}
ON_CPU = f"{ZERO}noise = torch.randn(8)\nloss = F.cross_entropy(model(x + noise), y)"
SUMS = "F.mse_loss(out, x, reduction='sum') - 0.5 * torch.sum(1 + out - out.pow(2))"

REPORTED = [
    ("LOSS-SUM", script(forward=f"{OUT}loss = {SUMS}", **BACK)),
    ("LOSS-SUM", script(forward=f"{OUT}loss = (out - y[:, None]).pow(2).sum()", **BACK, **LINEAR)),
    ("LOSS-SUM", script(forward=f"{OUT}loss = F.cross_entropy(out, y, reduction='none').sum()", **BACK)),
    ("LOSS-SUM", script(forward=f"{OUT}loss = 0\nloss += F.cross_entropy(out, y, reduction='sum')", **BACK)),
    (
        "LOSS-MASKMEAN",
        script(
            forward=f"{OUT}mask = (y != 0).float()\nlosses = F.cross_entropy(out, y, reduction='none')\n"
            "loss = (losses * mask).sum() / mask.sum()",
            **BACK,
        ),
    ),
    ("LOSS-MASKMEAN", script(**CAUSAL, forward=f"{ZERO}loss = model(x, labels=x.flip(0)).loss", **BACK)),
    (
        "LOSS-MASKMEAN",
        script(**{**CAUSAL, "data": MASKED}, forward=f"{ZERO}loss = model(**x).loss", **BACK),
    ),
    ("LOSS-MASKMEAN", script(**{**CAUSAL, "data": OTHERS}, forward=f"{ZERO}loss = model(**x).loss", **BACK)),
    ("LOSS-INBATCH", script(forward=WEIGHTS, **BACK)),
    ("RNG-SAMENOISE", script(definitions=SAMPLE, before="sample()", forward=LIKE.replace("(x)\n", "(x)  # HERE\n"))),
    ("RNG-LOOKAHEAD", script(**DRAWS, forward=ON_CPU.replace("(8)\n", "(8)  # HERE\n"))),
]
SILENT = [
    ("LOSS-SUM", script(forward=f"{OUT}loss = ({SUMS}) / len(x)")),
    ("LOSS-SUM", script(setup="size = 16", forward=f"{OUT}loss = ({SUMS}) / size")),
    ("LOSS-SUM", script(setup="size = 16", forward=f"{OUT}loss = {SUMS}\nloss /= size")),
    ("LOSS-SUM", script(forward=f"{OUT}loss = {SUMS}\nloss = loss * accelerator.num_processes")),
    ("LOSS-SUM", script(setup="size = 16", forward=f"{OUT}loss = ({SUMS}).div(size)")),
    ("LOSS-SUM", script(forward=f"{OUT}loss = (out - y[:, None]).pow(2).sum(1).mean()", **LINEAR)),
    ("LOSS-MASKMEAN", script(forward=f"{OUT}loss = F.cross_entropy(out, y, reduction='none').sum() / len(y)")),
    ("LOSS-MASKMEAN", script(**CAUSAL, forward=f"{ZERO}loss = model(x, labels=x).loss")),
    ("LOSS-MASKMEAN", script(**CAUSAL, forward=f"{ZERO}same = x.clone()\nloss = model(input_ids=x, labels=same).loss")),
    ("LOSS-MASKMEAN", script(**{**CAUSAL, "data": COPIED}, forward=f"{ZERO}loss = model(**x).loss")),
    ("LOSS-INBATCH", script(forward=WEIGHTS.replace("one.detach()", "accelerator.reduce(one, 'mean')"))),
    (
        "RNG-SAMENOISE",
        script(definitions=SAMPLE, forward=LIKE, after="if accelerator.is_main_process:\n    sample()"),
    ),
    (
        "RNG-LOOKAHEAD",
        script(**DRAWS, **NUMPY),
    ),
]


@pytest.mark.parametrize(("code", "text"), REPORTED)
def test_what_is_another_loss_is_reported(code: str, text: str) -> None:
    assert marked(text)
    assert [f.line for f in findings(text, code)] == marked(text)


@pytest.mark.parametrize(("code", "text"), SILENT)
def test_what_is_the_same_is_not(code: str, text: str) -> None:
    assert findings(text, code) == []


def test_where_it_becomes_so_and_what_helps() -> None:
    (found,) = findings(script(forward=f"{OUT}loss = 2 * F.cross_entropy(out, y, ignore_index=2)"), "LOSS-MASKMEAN")
    assert [e.text for e in found.evidence] == [
        "`loader` is prepared",
        "`F.cross_entropy(out, y, ignore_index=2)` makes it so",
    ]
    (found,) = findings(REPORTED[5][1], "LOSS-MASKMEAN")
    assert found.remedy == (
        "compute it from the logits: a sum, times num_processes, divided by the total of all processes"
    )
    (found,) = findings(script(forward=WEIGHTS), "LOSS-INBATCH")
    assert "is weighted by gradients of this process's share" in found.message
    assert found.remedy == 'average them with accelerator.reduce(..., reduction="mean") before'


@pytest.mark.parametrize(
    ("slots", "severity"),
    [
        ({"forward": LIKE}, Severity.NOTE),  # drawn on the accelerator's device, which may be a GPU
        ({"forward": NOISE}, Severity.NOTE),
        ({"forward": LIKE, "device": CPU}, Severity.WARNING),
        ({"forward": ON_CPU}, Severity.WARNING),
    ],
)
def test_gpus_have_generators_of_their_own(slots: dict[str, str], severity: Severity) -> None:
    (found,) = findings(script(**DRAWS, **slots), "RNG-LOOKAHEAD")
    assert found.severity is severity
    assert ("where the accelerator is the CPU" in found.message) is (severity is Severity.NOTE)
