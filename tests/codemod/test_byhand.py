"""Loops that train without a backward pass: they are not taken for an evaluation."""

from __future__ import annotations

import textwrap

import pytest
from accelift_codemod.plan import Severity
from scripts import converted, findings, script, unchanged

GRADIENTS = """\
out = model(x)
grads = torch.autograd.grad(F.cross_entropy(out, y), list(model.parameters()))
"""
WRITTEN = "for p, g in zip(model.parameters(), grads):\n    p.grad = g\n"
STEP = "optimizer.step()\n"


def _second(body: str, before: str = "", after: str = "", **slots: str) -> str:
    """A script that trains as others do, and goes over the batches again."""
    loop = f"for x, y in loader:\n    x, y = x.to(device), y.to(device)\n{textwrap.indent(body, '    ')}"
    return script(after=f"{before}\n{loop}\n{after}", **slots)


HELPER = f"def update(x, y):\n{textwrap.indent(GRADIENTS + WRITTEN, '    ')}    optimizer.step()\n"
HANDED = "def apply(optimizer, model, grads):\n    for p, g in zip(model.parameters(), grads):\n        p.grad = g\n"
HANDED_STEP = f"{HANDED}    optimizer.step()\n"
METHOD = "class Updater:\n    def run(self, optimizer):\n        optimizer.step()\n"


@pytest.mark.parametrize(
    "text",
    [
        _second(GRADIENTS + WRITTEN + STEP),
        _second(GRADIENTS + "if len(grads) > 1:\n" + textwrap.indent(WRITTEN + STEP, "    ")),
        _second(GRADIENTS + "for p, g in zip(model.parameters(), grads):\n    p.grad.copy_(g)\n" + STEP),
        _second(GRADIENTS + "for p, g in zip(model.parameters(), grads):\n    p.grad += g\n", after="optimizer.step()"),
        _second("update(x, y)\n", definitions=HELPER),
        _second(GRADIENTS + "apply(optimizer, model, grads)\n", definitions=HANDED_STEP),
        _second(GRADIENTS + "apply(optimizer, model, grads)\n", definitions=HANDED, after="optimizer.step()"),
        _second(GRADIENTS + WRITTEN + "updater.run(optimizer)\n", "updater = Updater()", definitions=METHOD),
        _second(GRADIENTS + WRITTEN + "scaler.step(optimizer)\n", "scaler = torch.amp.GradScaler()"),
        _second(GRADIENTS + WRITTEN + "for each in optimizers:\n    each.step()\n", "optimizers = [optimizer]"),
        script(main=True, after=f"for x, y in loader:\n{textwrap.indent(GRADIENTS + WRITTEN + STEP, '    ')}"),
        _second("grads = torch.func.grad(score)(dict(model.named_parameters()), x, y)\noptimizer.step()\n"),
    ],
)
def test_a_step_without_a_backward_pass_is_refused(text: str) -> None:
    finding = unchanged(text)
    assert (finding.code, finding.severity) == ("BWD-UNKNOWN", Severity.ERROR)


def test_the_line_is_that_of_the_first_gradient() -> None:
    text = _second(GRADIENTS + WRITTEN + STEP)
    assert text.splitlines()[unchanged(text).line - 1].strip() == "p.grad = g"


BACKWARD = "loss = F.cross_entropy(model(x), y)\noptimizer.zero_grad()\n"
RUN = "def run(loss):\n    loss.backward()\n"
CLOSED = "def run(x, y):\n    def inner():\n        F.cross_entropy(model(x), y).backward()\n    inner()\n"
OBJECT = "class Runner:\n    def run(self, loss):\n        loss.backward()\n"
SCHEDULER = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)"
HOOK = """\
def after(p):
    optimizer.step()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(after)
"""


@pytest.mark.parametrize(
    "text",
    [
        _second(BACKWARD + "loss.backward()\noptimizer.step()\n"),
        _second(BACKWARD + "run(loss)\noptimizer.step()\n", definitions=RUN),
        _second("optimizer.zero_grad()\nrun(x, y)\noptimizer.step()\n", definitions=CLOSED),
        _second(BACKWARD + "runner.run(loss)\noptimizer.step()\n", "runner = Runner()", definitions=OBJECT),
        _second(
            BACKWARD + "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()\n",
            "scaler = torch.amp.GradScaler()",
        ),
        script(backward="(loss / 2).backward()", step="", epoch_end="optimizer.step()"),
        script(
            backward="loss.backward()\nscheduler.step()",
            before="scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)",
        ),
    ],
)
def test_a_step_after_a_backward_pass_is_converted(text: str) -> None:
    assert "accelerator.backward(" in converted(text)


@pytest.mark.parametrize(
    "body",
    [
        "scheduler.step()\n",
        "with torch.no_grad():\n    print(model(x).sum())\n",
        "x.requires_grad_()\nx.grad = None\nslope = torch.autograd.grad(model(x).sum(), x)[0]\n",
        "for p in model.parameters():\n    p.grad = None\n",
        "if x.grad is not None:\n    x.grad.zero_()\n",
        "profiler.step()\n",
        "meter.grad = 1.0\n",
        "optimizer.zero_grad()\n",
    ],
)
def test_other_loops_are_no_training(body: str) -> None:
    before = f"{SCHEDULER}\nprofiler = torch.profiler.profile()\nmeter = Meter()\n"
    assert "accelerator.prepare(" in converted(_second(body, before, definitions="class Meter:\n    grad = 0.0\n"))


ALONE = {"forward": "out = model(x)", "step": STEP}
NUDGE = "def nudge(weight, x):\n    weight.grad += 0.1 * x.mean()\n"


@pytest.mark.parametrize(
    "slots",
    [
        {"forward": "loss = F.cross_entropy(model(x), y)\n" + GRADIENTS, "backward": WRITTEN},
        {**ALONE, "backward": "with torch.no_grad():\n    model.layer.weight.grad = (out - 1).T @ x"},
        {**ALONE, "backward": "for p in model.parameters():\n    p.grad = torch.randn_like(p) * out.mean()"},
    ],
)
def test_a_script_that_only_trains_by_hand_trains(slots: dict[str, str]) -> None:
    assert unchanged(script(**slots)).code == "BWD-UNKNOWN"


@pytest.mark.parametrize("body", ["scheduler.step()", "g = torch.autograd.grad(out.sum(), model.layer.weight)", "pass"])
def test_a_script_that_steps_nothing_does_not_train(body: str) -> None:
    text = script(before=SCHEDULER, forward="out = model(x)", backward=body, step="optimizer.zero_grad()")
    assert unchanged(text).code == "NO-TRAINING"


SLOPES = "slopes = torch.autograd.grad(model(x).mean(), list(model.parameters()))\n"


@pytest.mark.parametrize(
    ("added", "definitions"),
    [
        ("model.layer.weight.grad += 0.1 * (model(x) - 1).mean()", ""),
        ("model.layer.bias.grad.add_(0.1 * x.mean())", ""),
        ("model.layer.bias.grad.data.mul_(loss.item())", ""),
        ("g = x.mean()\ng += 1\nmodel.layer.bias.grad = model.layer.bias.grad + g", ""),
        ("g = 1.0\ng += loss.item()\nmodel.layer.bias.grad.add_(g)", ""),
        ("model.layer.weight.grad[y.unique()] = 0", ""),
        ("extra = torch.autograd.grad(model(x).mean(), model.layer.bias)\nmodel.layer.bias.grad += extra[0]", ""),
        ("nudge(model.layer.weight, x)", NUDGE),
        ("for p in model.parameters():\n    p.grad /= (y > 0).sum()", ""),
        (f"{SLOPES}for p, g in zip(model.parameters(), slopes):\n    p.grad -= g", ""),
        (f"{SLOPES}for i, (p, g) in enumerate(zip(model.parameters(), slopes)):\n    p.grad -= i * g", ""),
    ],
)
def test_a_gradient_of_the_batch_that_no_backward_pass_made_is_refused(added: str, definitions: str) -> None:
    text = script(backward=f"loss.backward()\n{added}", definitions=definitions)
    finding = unchanged(text)
    assert (finding.code, finding.severity) == ("BWD-UNKNOWN", Severity.ERROR)
    assert ".grad" in text.splitlines()[finding.line - 1]


@pytest.mark.parametrize(
    "added",
    [
        "for p in model.parameters():\n    p.grad += 0.01 * p",
        "for p in model.parameters():\n    p.grad.add_(p.detach(), alpha=0.01).clamp_(-1, 1)",
        "norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        "for p in model.parameters():\n    p.grad.mul_(1 / norm)",
        "for p in model.parameters():\n    p.grad /= 4",
        "saved = [p.grad.clone() for p in model.parameters()]\n"
        "for p, g in zip(model.parameters(), saved):\n    p.grad = g / g.norm()",
        "for p, n in zip(model.parameters(), x):\n    p.grad += 0.01 * p",
        "for p in model.parameters():\n    p.grad.zero_()",
        "model.layer.weight.grad[0] = 0",
        "with torch.no_grad():\n    model.layer.weight.grad += 0.01 * (model.layer.weight @ data.tensors[0].T).mean()",
    ],
)
def test_gradients_made_of_parameters_and_gradients_alone_are_those_of_all(added: str) -> None:
    assert "BWD-UNKNOWN" not in findings(script(backward=f"loss.backward()\n{added}"))


def test_the_gradient_of_an_input_is_its_own() -> None:
    attack = (
        "x.requires_grad_()\nF.cross_entropy(model(x), y).backward()\nx.grad.mul_(x.abs())\nx = x.detach() + x.grad"
    )
    assert "accelerator.backward(" in converted(script(forward=f"{attack}\nloss = F.cross_entropy(model(x), y)"))


OWN = "weight = torch.zeros(4, 3)\nweight.requires_grad_()\nbias = torch.zeros(3, requires_grad=True)\n"
SGD = "def sgd(params, rate):\n    for p in params:\n        p.data -= rate * p.grad\n        p.grad.zero_()\n"


@pytest.mark.parametrize(
    ("update", "definitions"),
    [
        ("with torch.no_grad():\n    weight -= 0.1 * weight.grad\n    weight.grad.zero_()", ""),
        ("weight.data.sub_(0.1 * weight.grad)", ""),
        ("sgd([weight, bias], 0.1)", SGD),
    ],
)
def test_a_loop_that_trains_tensors_in_no_network_is_refused(update: str, definitions: str) -> None:
    first = f"F.cross_entropy(x @ weight + bias, y).backward()\n{update}"
    loop = f"{OWN}for x, y in loader:\n{textwrap.indent(first, '    ')}\n"
    finding = unchanged(script(before=loop, definitions=definitions))
    assert (finding.code, finding.severity) == ("OPT-UNKNOWN", Severity.ERROR)
    assert "in no network" in finding.message
    assert finding.remedy.startswith("put it into a torch.nn.Module")


@pytest.mark.parametrize("noisy", ["x + delta[:len(x)]", "x + delta", "delta[:x.size(0)] + x"])
def test_noise_for_each_sample_is_not_to_be_put_into_a_network(noisy: str) -> None:
    made = "delta = torch.zeros(16, 8, device=device, requires_grad=True)"
    again = (
        f"for _ in range(3):\n    loss = F.cross_entropy(model({noisy}), y)\n    optimizer.zero_grad()\n"
        "    loss.backward()\n    delta.data = delta + 0.1 * delta.grad.sign()\n    optimizer.step()\n"
        "    delta.grad.zero_()"
    )
    finding = unchanged(script(before=made, forward=again, backward="", step=""))
    assert finding.code == "OPT-UNKNOWN"
    assert "every process may keep that for its share" in finding.remedy


@pytest.mark.parametrize(
    "between",
    [
        "noise = torch.zeros_like(x, requires_grad=True)\nF.cross_entropy(model(x + noise), y).backward()\n"
        "x = x + 0.1 * noise.grad.sign()\noptimizer.zero_grad()",
        "x.requires_grad_()\nF.cross_entropy(model(x), y).backward()\nslope = x.grad.abs().mean()",
        "for p in model.parameters():\n    print(p.grad)",
        "print(model.layer.weight.grad)",
    ],
)
def test_gradients_of_inputs_and_of_networks_are_read(between: str) -> None:
    text = script(before=OWN, forward=f"{between}\nloss = F.cross_entropy(model(x), y)")
    assert "accelerator.backward(" in converted(text)


def test_a_gradient_of_a_tensor_outside_of_the_loops_is_that_of_every_process() -> None:
    shown = "F.mse_loss(weight @ weight.T, torch.eye(4)).backward()\nprint(weight.grad)\n"
    assert "accelerator.prepare(" in converted(script(before=OWN + shown))
