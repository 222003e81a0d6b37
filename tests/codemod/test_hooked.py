"""What forward hooks keep of the batches that a network is run on, and others print or decide by."""

from __future__ import annotations

import pytest
from scripts import converted, findings, script

HOOK = """
STORE = {}


def keep(name):
    def hook(module, inputs, output):
        STORE[name] = output.detach()

    return hook


LAST = 0.0


def last(module, inputs, output):
    global LAST
    LAST = output.mean()


def look(module, inputs, output):
    shown = output.mean()
    STORE["count"] = 1
"""
APPEND = "model.layer.register_forward_hook(lambda m, given, out: kept.append(out.mean().item()))"


@pytest.mark.parametrize(
    ("hook", "slots", "codes"),
    [
        (APPEND, {"after": "print(sum(kept))"}, ["METRIC-TRAIN"]),
        (APPEND, {"epoch_end": "mean = sum(kept) / len(kept)\nprint(mean)"}, ["METRIC-TRAIN"]),
        (APPEND, {"epoch_end": "if sum(kept) > 3:\n    break"}, ["COLL-RANKFLOW"]),
        (APPEND, {"epoch_end": "kept.clear()"}, []),
        (APPEND, {"epoch_end": "print(len(kept))"}, []),
        ("model.layer.register_forward_hook(keep('a'))", {"after": "print(STORE['a'].mean())"}, ["METRIC-TRAIN"]),
        ("model.layer.register_forward_hook(keep('a'))", {"after": "print(STORE.keys())"}, []),
        ("model.layer.register_forward_hook(look)", {"after": "print(STORE['count'])"}, []),
        ("model.layer.register_forward_hook(last)", {"after": "print(LAST)"}, ["METRIC-TRAIN"]),
        ("model.layer.register_forward_hook(last)", {"after": "print(shown)"}, []),
        (APPEND, {"after": "model(data[0][0])\nprint(kept[-1])"}, []),
    ],
)
def test_what_hooks_keep(hook: str, slots: dict[str, str], codes: list[str]) -> None:
    assert findings(script(definitions=HOOK, before=f"kept = []\n{hook}", **slots)) == codes


def test_what_a_loss_is_computed_with_is_no_decision() -> None:
    forward = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)\nloss = loss + kept[-1].pow(2).mean()"
    hook = "model.layer.register_forward_hook(lambda m, given, out: kept.append(out))"
    assert findings(script(before=f"kept = []\n{hook}", forward=forward)) == []


RECORDER = """
class Recorder:
    def __init__(self, module):
        self.values = []
        self.seen = 0
        self.handle = module.{register}({hook})

    def hook(self, module, given, out):
        {put}

    def mean(self):
        return sum(self.values) / len(self.values)
"""
KEEP = "self.values.append(out.mean().item())"


@pytest.mark.parametrize(
    ("register", "hook", "put", "end", "codes"),
    [
        ("register_forward_hook", "self.hook", KEEP, "print(sum(recorder.values))", ["METRIC-TRAIN"]),
        ("register_forward_hook", "self.hook", KEEP, "print(recorder.mean())", ["METRIC-TRAIN"]),
        ("register_full_backward_hook", "self.hook", KEEP, "print(recorder.mean())", ["METRIC-TRAIN"]),
        (
            "register_forward_hook",
            "lambda *a: self.hook(*a)",
            KEEP,
            "print(recorder.mean())",
            ["METRIC-TRAIN"],
        ),
        ("register_forward_hook", "functools.partial(self.hook)", KEEP, "print(recorder.mean())", ["METRIC-TRAIN"]),
        ("register_forward_hook", "self.hook", KEEP, "if recorder.mean() > 3:\n    break", ["COLL-RANKFLOW"]),
        ("register_forward_hook", "self.hook", KEEP, "recorder.values.clear()", []),
        ("register_forward_hook", "self.hook", "self.values.append(out.shape[1])", "print(recorder.mean())", []),
        ("register_forward_hook", "self.hook", "self.seen = 1", "print(recorder.seen)", []),
        ("register_forward_hook", "self.hook", "values = out.mean()", "print(recorder.values)", []),
        ("register_forward_hook", "self.hook", KEEP, "print(recorder.seen)", []),
    ],
)
def test_what_methods_as_hooks_keep(register: str, hook: str, put: str, end: str, codes: list[str]) -> None:
    definitions = RECORDER.format(register=register, hook=hook, put=put)
    text = script(
        imports="import functools", definitions=definitions, before="recorder = Recorder(model.layer)", epoch_end=end
    )
    assert findings(text) == codes


EVALUATES = """\
model.eval()
right = 0
{loop}
with torch.no_grad():
    for x, y in DataLoader(data, batch_size=8):
        right += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
        {inside}
print(right)
{end}"""
FEATURES = "model.layer.register_forward_hook(lambda m, given, out: kept.append(out.detach()))"


@pytest.mark.parametrize(
    ("hook", "inside", "end", "whole"),
    [
        (FEATURES, "", "print(torch.cat(kept).shape)", True),
        (FEATURES, "print(kept[-1].mean())", "", True),
        ("model.layer.register_forward_hook(keep('a'))", "", "torch.save(STORE['a'], 'a.pt')", True),
        (FEATURES, "", "", False),
        ("model.layer.register_forward_hook(look)", "", "print(STORE['count'])", False),
        ("kept.append(model.layer.weight)", "", "print(kept[0])", False),
        (FEATURES.replace("out.detach()", "out.shape"), "", "print(kept)", False),
    ],
)
def test_an_evaluation_of_a_network_with_a_hook_is_not_shared_out(
    hook: str, inside: str, end: str, whole: bool
) -> None:
    """What the hook keeps is not among what the loop gathers."""
    text = script(definitions=HOOK, before="kept = []", after=EVALUATES.format(loop=hook, inside=inside, end=end))
    assert ("EVAL-REPLICATED" in findings(text)) is whole
    assert ("gather_for_metrics" in converted(text)) is not whole


def test_a_hook_that_comes_after_an_evaluation_keeps_nothing_of_it() -> None:
    after = EVALUATES.format(loop="", inside="", end=f"{FEATURES}\nmodel(data[0][0].to(device))\nprint(kept[0].mean())")
    assert findings(script(before="kept = []", after=after)) == []
    assert "gather_for_metrics" in converted(script(before="kept = []", after=after))


def test_what_only_training_reads_is_nothing_of_an_evaluation() -> None:
    forward = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y) + kept[-1].pow(2).mean()"
    before = "kept = []\nmodel.layer.register_forward_hook(lambda m, given, out: kept.append(out))"
    after = EVALUATES.format(loop="", inside="", end="")
    assert "EVAL-REPLICATED" not in findings(script(before=before, forward=forward, after=after))


PRECONDITIONER = """
class Preconditioner(torch.optim.Optimizer):
    def __init__(self, net):
        super().__init__(net.parameters(), {{}})
        for layer in net.modules():
            if isinstance(layer, nn.Linear):
                layer.{register}(self.save)
        self.layer = layer

    def save(self, layer, *given):
        self.state[layer]["x"] = {kept}

    def step(self):
        x = self.state[self.layer]["x"]
        {body}
"""
COVARIANCE = "self.layer.weight.grad.data = self.layer.weight.grad @ self.inverse(x)"
INVERSE = """
    def inverse(self, x):
        return (x.t() @ x / len(x) + torch.eye(8)).inverse()
"""


@pytest.mark.parametrize(
    ("register", "kept", "body", "codes"),
    [
        ("register_forward_pre_hook", "given[0][0].detach()", COVARIANCE, ["COLL-RANKFLOW"]),
        ("register_full_backward_hook", "given[1][0]", COVARIANCE, ["COLL-RANKFLOW"]),
        ("register_forward_pre_hook", "given[0][0]", "self.layer.weight.grad.mul_(x.abs().mean())", ["COLL-RANKFLOW"]),
        (
            "register_forward_pre_hook",
            "given[0][0].detach()",
            "print(self.state[self.layer]['x'].mean())",
            ["METRIC-TRAIN"],
        ),
        ("register_forward_pre_hook", "given[0][0].detach()", "self.layer.weight.grad.mul_(0.5)", []),
        ("register_forward_pre_hook", "given[0][0].shape[1]", "self.layer.weight.grad.mul_(1 / x)", []),
    ],
)
def test_gradients_that_are_changed_by_what_hooks_keep(register: str, kept: str, body: str, codes: list[str]) -> None:
    definitions = PRECONDITIONER.format(register=register, kept=kept, body=body) + INVERSE
    step = "natural.step()\noptimizer.step()"
    text = script(definitions=definitions, before="natural = Preconditioner(model)", step=step)
    assert findings(text) == codes
