"""BACKWARD and CLIP: gradients go through the accelerator."""

from __future__ import annotations

import pytest
from accelift_codemod.plan import Severity
from scripts import added, convert, converted, findings, lifted, script

OWN = "optimizer.zero_grad()\nout = unread(model(x), y)\nloss = {}.exp().mean()"  # nothing else is known of out
ZERO = "optimizer.zero_grad()\n"
ROWS_LOSS = ZERO + 'each = F.cross_entropy(model(x), y, reduction="none")\nmask = (y > 0).float()\n'
SUM = ZERO + 'loss = F.cross_entropy(model(x), y, reduction="sum")'

# An autograd function whose passes another module computes.
KERNEL = """\
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return {kernels}.forward(x)

    @staticmethod
    def backward(ctx, g):
        out = torch.zeros_like(g)
        {kernels}.backward(g, out)
        return out"""
OF_KERNEL = ZERO + "loss = F.cross_entropy(Double.apply(model(x)), y)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loss.backward()", "accelerator.backward(loss)"),
        ("loss.backward(retain_graph=True)", "accelerator.backward(loss, retain_graph=True)"),
        ("loss.backward(create_graph=True)", "accelerator.backward(loss, create_graph=True)"),
        (
            "loss.backward(retain_graph=True, create_graph=epoch > 0)",
            "accelerator.backward(loss, retain_graph=True, create_graph=epoch > 0)",
        ),
        ("loss.backward(None, True)", "accelerator.backward(loss, gradient=None, retain_graph=True)"),
        ("loss.backward(torch.ones(()))", "accelerator.backward(loss, gradient=torch.ones(()))"),
        ("loss.backward(gradient=torch.ones(()))", "accelerator.backward(loss, gradient=torch.ones(()))"),
        ("(loss + loss).backward()", "accelerator.backward(loss + loss)"),
        ("(loss / 2).backward(retain_graph=True)", "accelerator.backward(loss / 2, retain_graph=True)"),
        ("F.cross_entropy(model(x), y).backward()", "accelerator.backward(F.cross_entropy(model(x), y))"),
        ("loss.mean().backward()", "accelerator.backward(loss.mean())"),
        ("loss.backward()  # gradients", "accelerator.backward(loss)  # gradients"),
    ],
)
def test_a_backward_pass_keeps_its_arguments(before: str, after: str) -> None:
    assert converted(script(backward=before)) == lifted(backward=after)
    assert findings(script(backward=before)) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "loss.backward(retain_graph=True)\n(loss * 2).backward()",
            "accelerator.backward(loss, retain_graph=True)\naccelerator.backward(loss * 2)",
        ),
        (
            "for part in [loss, loss * 2]:\n    part.backward(retain_graph=True)",
            "for part in [loss, loss * 2]:\n    accelerator.backward(part, retain_graph=True)",
        ),
    ],
)
def test_every_backward_pass_of_a_step_goes_through_it(before: str, after: str) -> None:
    assert converted(script(backward=before)) == lifted(backward=after)


def test_a_backward_pass_in_a_function_of_the_module() -> None:
    update = "def update(loss):\n    optimizer.zero_grad()\n    {}\n    optimizer.step()"
    slots = {"forward": "loss = F.cross_entropy(model(x), y)", "step": "", "backward": "update(loss)"}
    before = script(definitions=update.format("loss.backward()"), **slots)
    assert converted(before) == lifted(definitions=update.format("accelerator.backward(loss)"), **slots)


@pytest.mark.parametrize(
    "slots",
    [
        {"definitions": "class Unused:\n    def fit(self, loss):\n        loss.backward()"},
        {"definitions": "def unused(loss):\n    loss.backward()"},
        {
            "definitions": "class Tape:\n    def backward(self):\n        return 1",
            "before": "tape = Tape()",
            "batch_end": "tape.backward()",
        },
        {
            "definitions": "class Double(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
            "        return x\n\n    @staticmethod\n    def backward(ctx, g):\n        return 2 * g",
            "forward": ZERO + "loss = F.cross_entropy(Double.apply(model(x)), y)",
        },
        {"before": 'text = "loss.backward()"'},
        {"imports": "import kernels", "definitions": KERNEL.format(kernels="kernels"), "forward": OF_KERNEL},
        {
            "from_imports": "from torch.utils.cpp_extension import load",
            "definitions": 'kernels = load("kernels", ["kernels.cpp"])\n' + KERNEL.format(kernels="kernels"),
            "forward": OF_KERNEL,
        },
    ],
)
def test_what_is_no_backward_pass_of_the_training_stays(slots: dict[str, str]) -> None:
    assert converted(script(**slots)) == lifted(**slots)


def test_torch_autograd_backward_stays_and_is_reported() -> None:
    backward = "torch.autograd.backward([loss])"
    assert converted(script(backward=backward)) == lifted(backward=backward)
    assert findings(script(backward=backward)) == ["BWD-RAW"]


def test_a_grad_scaler_of_the_script_stays() -> None:
    slots = {"before": "scaler = torch.cuda.amp.GradScaler()", "step": "scaler.step(optimizer)\nscaler.update()"}
    before = script(backward="scaler.scale(loss).backward()", **slots)
    assert converted(before) == lifted(backward="accelerator.backward(scaler.scale(loss))", **slots)


# ---- what the loss is over the samples


@pytest.mark.parametrize(
    ("before", "forward"),
    [
        ("", SUM),
        ("", SUM + "\nloss = loss / 16"),  # a constant: still a sum over the samples
        ("", ZERO + "loss = ((model(x) - 1) ** 2).sum()"),
        ("", ZERO + "loss = F.cross_entropy(model(x), y, reduction='none').sum()"),
        ('criterion = nn.CrossEntropyLoss(reduction="sum")', ZERO + "loss = criterion(model(x), y)"),
        ("criterion = nn.CrossEntropyLoss(size_average=False)", ZERO + "loss = criterion(model(x), y)"),
    ],
)
def test_a_loss_that_is_a_sum_is_marked(before: str, forward: str) -> None:
    slots = {"before": before, "forward": forward}
    assert converted(script(**slots)) == lifted(**slots, backward='accelerator.backward(loss, reduction="sum")')
    assert findings(script(**slots)) == []


@pytest.mark.parametrize(
    ("backward", "after"),
    [
        ("loss.backward()", "accelerator.backward(loss * accelerator.num_processes)"),
        ("(loss + loss).backward()", "accelerator.backward((loss + loss) * accelerator.num_processes)"),
    ],
)
def test_for_accelerate_a_sum_is_multiplied(backward: str, after: str) -> None:
    slots = {"loader": "loader = DataLoader(data, batch_size=16, drop_last=True)", "forward": SUM}
    imported = "from accelerate import Accelerator, DataLoaderConfiguration"
    expected = lifted(accelerate=imported, backward=after, **slots)
    assert converted(script(backward=backward, **slots), target="accelerate") == expected


@pytest.mark.parametrize(
    ("before", "forward"),
    [
        ("", SUM + "\nloss = loss / len(x)"),
        ("", SUM + "\nloss = loss / x.size(0)"),
        ("", ZERO + "loss = ((model(x) - 1) ** 2).mean()"),
        ("", ZERO + 'loss = F.cross_entropy(model(x), y, reduction="mean")'),
        ("", ZERO + "loss = F.cross_entropy(model(x), y) + 0.1 * model(x).pow(2).mean()"),
        ("criterion = nn.MSELoss()", ZERO + "loss = criterion(model(x), model(x).detach())"),
        ("criterion = nn.CrossEntropyLoss(None)", ZERO + "loss = criterion(model(x), y)"),
        ("", ZERO + "loss = F.cross_entropy(model(x), y, None, True)"),
        ("weight = torch.ones(3, 3)", ZERO + "loss = (model(x) @ (weight @ weight.T)).mean()"),
        ('total = sum([1, 2])\nreduction = "sum"', ZERO + "loss = F.cross_entropy(model(x), y)"),
    ],
)
def test_a_loss_that_is_a_mean_is_not_marked(before: str, forward: str) -> None:
    slots = {"before": before, "forward": forward}
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == []


@pytest.mark.parametrize(
    ("setup", "draw"),
    [
        ("batches = iter(loader)", "x, y = next(batches)"),
        ("batches = iter(loader)", "batch = next(batches)\nx, y = batch"),
        ("batches = enumerate(loader)", "_, (x, y) = next(batches)"),
    ],
)
def test_batches_drawn_by_hand(setup: str, draw: str) -> None:
    """What is divided by the number of their samples is no sum over these any more."""
    slots = {"loop": f"{setup}\nfor i in range(len(loader)):", "move": draw}
    mean = f'{ZERO}loss = F.cross_entropy(model(x), y, reduction="sum") / x.size(0)'
    assert "accelerator.backward(loss)" in converted(script(forward=mean, **slots))
    assert findings(script(forward=mean, **slots)) == []
    assert 'accelerator.backward(loss, reduction="sum")' in converted(script(forward=SUM, **slots))


@pytest.mark.parametrize("draw", ["next(others)", "others.__next__()"])
def test_batches_of_a_second_loader(draw: str) -> None:
    slots = {"before": "others = iter(DataLoader(data, batch_size=16))"}
    drawn = f"{ZERO}u, v = {draw}\n"
    mean = drawn + 'loss = F.cross_entropy(model(u), v, reduction="sum") / len(u)'
    assert "reduction" not in converted(script(forward=mean, **slots)).partition("accelerator.backward")[2]


@pytest.mark.parametrize(
    ("before", "forward", "code"),
    [
        ("", ZERO + "loss = F.cross_entropy(model(x), y, ignore_index=0)", "LOSS-MASKMEAN"),
        ("", ZERO + "loss = F.nll_loss(model(x), y, weight=torch.ones(3))", "LOSS-MASKMEAN"),
        ("", ZERO + "loss = F.cross_entropy(model(x), y, torch.ones(3))", "LOSS-MASKMEAN"),
        ("", ZERO + "loss = F.cross_entropy(input=model(x), target=y, weight=torch.ones(3))", "LOSS-MASKMEAN"),
        ("", ZERO + "loss = F.nll_loss(model(x), y, None, None, 0)", "LOSS-MASKMEAN"),
        ("criterion = nn.CrossEntropyLoss(None, None, 0)", ZERO + "loss = criterion(model(x), y)", "LOSS-MASKMEAN"),
        ("", ROWS_LOSS + "loss = (each * mask).sum() / mask.sum()", "LOSS-MASKMEAN"),
        ("", ROWS_LOSS + "loss = 0.5 * torch.sum(each * mask) / torch.sum(mask) + 0.1", "LOSS-MASKMEAN"),
        ("", ROWS_LOSS + "loss = (each * mask).sum() / mask.sum() + each.mean()", "LOSS-MASKMEAN"),
        ("", ROWS_LOSS + "loss = (each * mask).sum() / mask.sum().clamp(min=1)", "LOSS-MASKMEAN"),
        ("", ROWS_LOSS + "loss = (each * mask).sum() / torch.clamp(mask.sum(), min=1e-6)", "LOSS-MASKMEAN"),
        ("", ROWS_LOSS + "loss = 1 - (2 * (each * mask).sum() + 1) / (each.sum() + mask.sum() + 1)", "LOSS-MASKMEAN"),
        ("", ROWS_LOSS + "loss = (each * mask).sum() / mask.sum() + each.sum()", "LOSS-UNKNOWN"),
        ("", ROWS_LOSS + "loss = (each * mask).sum() / mask.unique().sum()", "LOSS-UNKNOWN"),
        ("criterion = nn.CrossEntropyLoss(*options)", ZERO + "loss = criterion(model(x), y)", "LOSS-UNKNOWN"),
        ("criterion = nn.CrossEntropyLoss(torch.ones(3))", ZERO + "loss = criterion(model(x), y)", "LOSS-MASKMEAN"),
        ("", ZERO + "loss = unread(model(x), y)", "LOSS-UNKNOWN"),
        ("", OWN.format("torch.mm(out, out.t())"), "LOSS-INBATCH"),
        ("", OWN.format("out.matmul(out.T.contiguous())"), "LOSS-INBATCH"),
        ("", OWN.format("torch.cat([out @ out.T, out], dim=1)"), "LOSS-INBATCH"),
    ],
)
def test_a_mean_that_differs_by_process_is_reported(before: str, forward: str, code: str) -> None:
    slots = {"from_imports": "from other import unread", "before": before, "forward": forward}
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == [code]


@pytest.mark.parametrize(
    "compared",
    [
        "(out.unsqueeze(1) - out.unsqueeze(0)).pow(2).sum(2)",
        "-torch.pow(out[:, None, :] - out[None, :, :], 2).sum(2)",
        "F.cosine_similarity(out[:, None], out[None], dim=2)",
        "nn.CosineSimilarity(dim=2)(out.unsqueeze(1), out.unsqueeze(0))",
        "torch.eq(y[:, None], y[None, :]).float()",
        "out @ torch.cat([out, out.detach()]).t()",
        "F.normalize(torch.cat([out, out.detach()])) @ out.t()",
        "out @ torch.cat(torch.unbind(out.view(len(out), 1, 3), dim=1), dim=0).T",
        "out.unsqueeze(1).expand(len(out), len(out), 3) * out.unsqueeze(0).expand(len(out), len(out), 3)",
        'torch.einsum("nc, mc -> nm", out, out.detach())',
        "out - out.mean(0)",
        "2 * (out.detach() - out.mean()) / 3",
        "out / out.max()",
        "out.std()",
        "torch.norm(out - 1)",
        "F.softmax(out, dim=0)",
        "torch.sort(out, dim=0)[0]",
        "out.topk(2, dim=0)[0]",
        "F.cosine_similarity(out, out.detach(), dim=0)",
        "F.normalize(out, dim=0)",
        "F.normalize(out, 2, 0)",
        "out / torch.linalg.norm(out, dim=0)",
        "torch.linalg.vector_norm(out)",
        "torch.std_mean(out, dim=0)[0]",
        "torch.var_mean(out, 0)[0]",
        "torch.quantile(out, 0.5, 0)",
        "out.diff(dim=0)",
        "out.cumprod(dim=0)",
        "torch.cummax(out, 0)[0]",
        "F.pdist(out)",
        "torch.cov(out.T)",
        "torch.outer(out[:, 0], out[:, 1])",
        "nn.Softmax(dim=0)(out)",
        "nn.CosineSimilarity(dim=0)(out, out.detach())",
    ],
)
def test_samples_that_are_compared_with_each_other(compared: str) -> None:
    forward = f"optimizer.zero_grad()\nout = model(x)\nloss = ({compared}).exp().mean()"
    assert findings(script(forward=forward)) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "own",
    [
        "out.unsqueeze(1) - out[:, None]",
        "out * torch.ones(3)[None]",
        "out - torch.ones(3).unsqueeze(0)",
        "torch.cat([out, out.detach()], dim=1)",
        "torch.cat([out, out.detach()])",
        'torch.einsum("nc, nc -> n", out, out.detach())',
        'torch.einsum("nc, mc -> nm", out, torch.ones(5, 3))',
        "torch.cat(out.split(1, dim=1), dim=1)",
        "out / out.max(1, keepdim=True)[0]",
        "out.std(1)",
        "torch.norm(out - 1, dim=1)",
        "F.softmax(out, dim=1)",
        "torch.max(out, out.detach())",
        "torch.min(out, torch.zeros(3))",
        "out.maximum(out.detach() + 1)",
        "out * max(1, 2)",
        "out.max(1)[0]",
        "out.topk(2, dim=1)[0]",
        "F.cosine_similarity(out, out.detach())",
        "F.normalize(out)",
        "F.normalize(out, 2, 1)",
        "F.normalize(out, p=1, dim=-1)",
        "out / torch.linalg.norm(out, dim=1, keepdim=True)",
        "torch.std_mean(out, dim=1)[0]",
        "torch.quantile(out, 0.5, 1)",
        "out.diff()",
        "out.cumprod(dim=1)",
        "torch.outer(torch.ones(2), torch.ones(3)).sum() * out",
        "nn.Softmax(dim=1)(out)",
        "nn.CosineSimilarity()(out, out.detach())",
    ],
)
def test_samples_by_themselves(own: str) -> None:
    forward = f"optimizer.zero_grad()\nout = model(x)\nloss = ({own}).exp().mean()"
    assert findings(script(forward=forward)) == []


@pytest.mark.parametrize(
    "loss",
    [
        "F.mse_loss(out, out.detach()).sqrt()",
        "torch.sqrt(F.mse_loss(out, out.detach()) + 1e-6)",
        "torch.log(out.pow(2).mean())",
        "out.mean() ** 2",
        "out.mean() * F.cross_entropy(out, y)",
        "F.cross_entropy(out, y) / out.pow(2).mean()",
        "torch.clamp(F.cross_entropy(out, y), min=0.1)",
        "F.cross_entropy(model((x - x.min()) / (x.max() - x.min())), y)",
        "F.cross_entropy(model(x - x.mean(0)), y)",
        "F.binary_cross_entropy_with_logits(out, (out > out.mean()).float())",
        "F.binary_cross_entropy_with_logits(out, (out > 0).float(), pos_weight=(y == 0).sum() / (y == 1).sum())",
        "F.mse_loss(out.mean(0), out.detach().mean(0))",
        "out.pow(2).sum().sqrt()",
        "torch.max(F.cross_entropy(out, y), out.pow(2).mean())",
        "torch.minimum(F.cross_entropy(out, y), out.pow(2).mean())",
        "F.cross_entropy(out, y).maximum(out.pow(2).mean())",
        "max(F.cross_entropy(out, y), out.pow(2).mean())",
        "min(1.0, F.cross_entropy(out, y))",
        "torch.max(F.cross_entropy(out, y), torch.tensor(0.1))",
    ],
)
def test_what_is_computed_from_statistics_of_the_batch(loss: str) -> None:
    assert findings(script(forward=f"optimizer.zero_grad()\nout = model(x)\nloss = {loss}")) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "loss",
    [
        "0.5 * F.mse_loss(out, out.detach()) + 1",
        "F.cross_entropy(out, y) * model.layer.weight.abs().mean()",
        "-F.cross_entropy(out, y) / 4",
        "F.cross_entropy(model((x - x.min(1, keepdim=True)[0]) / 7), y)",
        "F.binary_cross_entropy_with_logits(out, (out > 0.5).float())",
    ],
)
def test_what_is_computed_from_each_sample(loss: str) -> None:
    assert findings(script(forward=f"optimizer.zero_grad()\nout = model(x)\nloss = {loss}")) == []


@pytest.mark.parametrize(
    ("divided", "summed"),
    [
        ("for p in model.parameters():\n    p.grad /= x.size(0)", False),
        ("for p in model.parameters():\n    p.grad.data.div_(len(y))", False),
        ("for p in model.parameters():\n    p.grad /= 16", True),
        ("for p in model.parameters():\n    p.grad.clamp_(-1, 1)", True),
    ],
)
def test_gradients_that_are_divided_by_the_samples_of_a_share(divided: str, summed: bool) -> None:
    """The sum of a share, divided by its samples, is averaged as any mean is."""
    text = script(forward=SUM, backward=f"loss.backward()\n{divided}")
    assert ('reduction="sum")\n' in converted(text).partition("accelerator.backward(")[2]) == summed


BALANCED = """\
def balanced(out, label):
    mask = label.clone()
    pos, neg = torch.sum(mask == 1).float(), torch.sum(mask == 0).float()
    {weigh}
    return F.binary_cross_entropy_with_logits(out, label, weight=mask)
"""


@pytest.mark.parametrize(
    ("weigh", "told"),
    [
        ("mask[mask == 1] = neg / (pos + neg)", True),
        ("mask[mask == 1] = 1.1 * pos / (pos + neg)", True),
        ("mask[mask == 0] *= pos / neg", True),
        ("mask = mask * neg / (pos + neg)", True),
        ("mask = torch.zeros(3)\n    mask[0] = neg", True),
        ("mask[mask == 1] = 0.5", False),
        ("mask[mask == 1] = 2 / 3\n    mask[:, 0] = 1", False),
        ("mask = torch.zeros(3)\n    mask[0] = 1", False),
        ("mask[mask == 1] = label[mask == 1]", False),
    ],
)
def test_weights_by_how_many_there_are_of_each(weigh: str, told: bool) -> None:
    forward = "optimizer.zero_grad()\nout = model(x)\nloss = balanced(out, (out > 0).float())"
    text = script(definitions=BALANCED.format(weigh=weigh), forward=forward)
    assert ("LOSS-INBATCH" in findings(text)) is told


@pytest.mark.parametrize(
    ("weight", "told"),
    [
        ("(label.numel() - label.sum()) / label.sum()", True),
        ("label.mean()", True),
        ("torch.ones(3)", False),
        ("None", False),
    ],
)
def test_a_loss_that_is_made_with_how_many_there_are_of_each(weight: str, told: bool) -> None:
    loss = f"nn.BCEWithLogitsLoss(pos_weight={weight})(out, label)"
    forward = f"optimizer.zero_grad()\nout = model(x)\nlabel = (out > 0).float()\nloss = {loss}"
    assert findings(script(forward=forward)) == (["LOSS-INBATCH"] if told else [])


def test_a_sum_of_something_unknown_is_a_warning() -> None:
    for value, severity in (("unread(model(x)).sum()", "warning"), ("unread(model(x))", "note")):
        slots = {"from_imports": "from other import unread", "forward": f"{ZERO}loss = {value}"}
        plan = convert(script(**slots)).plan
        assert plan is not None
        (found,) = [f for f in plan.findings if f.code == "LOSS-UNKNOWN"]
        assert found.severity.value == severity


@pytest.mark.parametrize(
    "loss",
    [
        "(each + each.mean()).mean()",
        "torch.mean(2 * (each - 0.5 * each.mean()) / 3)",
        "((w * F.cross_entropy(out, y)).sum(dim=0) / w.sum(dim=0) + each).mean()",  # an average of one number
    ],
)
def test_a_mean_of_samples_and_a_mean_is_one(loss: str) -> None:
    each = 'each = F.cross_entropy(out, y, reduction="none")\nw = out.abs()\n'
    assert findings(script(forward=f"optimizer.zero_grad()\nout = model(x)\n{each}loss = {loss}")) == []


@pytest.mark.parametrize(
    ("before", "forward"),
    [
        ("criterion = nn.MSELoss(False)", "loss = criterion(model(x), model(x).detach())"),
        ("criterion = nn.CrossEntropyLoss(None, False)", "loss = criterion(model(x), y)"),
        ("", 'loss = F.mse_loss(model(x), model(x).detach(), None, None, "sum")'),
        ("", "loss = F.cross_entropy(model(x), y, None, False)"),
    ],
)
def test_a_sum_by_an_argument_without_a_name(before: str, forward: str) -> None:
    slots = {"before": before, "forward": ZERO + forward}
    assert converted(script(**slots)) == lifted(**slots, backward='accelerator.backward(loss, reduction="sum")')


# ---- clipping


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
            "accelerator.clip_grad_norm_(model.parameters(), 1.0)",
        ),
        (
            "n = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0, norm_type=2)",
            "n = accelerator.clip_grad_norm_(model.parameters(), max_norm=1.0, norm_type=2)",
        ),
        ("nn.utils.clip_grad_norm(model.parameters(), 1.0)", "accelerator.clip_grad_norm_(model.parameters(), 1.0)"),
        (
            "nn.utils.clip_grad_value_(model.parameters(), 0.5)",
            "accelerator.clip_grad_value_(model.parameters(), 0.5)",
        ),
        (
            "if epoch > 0:\n    nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
            "if epoch > 0:\n    accelerator.clip_grad_norm_(model.parameters(), 1.0)",
        ),
    ],
)
def test_clipping_goes_through_the_accelerator(before: str, after: str) -> None:
    assert converted(script(step=f"{before}\noptimizer.step()")) == lifted(step=f"{after}\noptimizer.step()")


def test_the_import_of_a_clipping_function_goes_with_its_last_use() -> None:
    imported = "from torch.nn.utils import clip_grad_norm_"
    before = script(from_imports=imported, step="clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()")
    assert converted(before) == lifted(step="accelerator.clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()")


@pytest.mark.parametrize(
    "slots",
    [
        {"definitions": "def clip_grad_norm_(p, n):\n    return 0", "step": "clip_grad_norm_(model.parameters(), 1.0)"},
        # arguments that the accelerator's function does not take
        {"step": "nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)"},
        {"step": "nn.utils.clip_grad_norm_(model.parameters(), 1.0, 2, True)"},
        {"before": "limits = [1.0]", "step": "nn.utils.clip_grad_norm_(model.parameters(), *limits)"},
        {"step": "for p in model.parameters():\n    p.grad.clamp_(-1, 1)"},
        {"step": "x = x.clip(0, 1)"},
    ],
)
def test_other_clipping_stays(slots: dict[str, str]) -> None:
    slots = {**slots, "step": slots["step"] + "\noptimizer.step()"}
    assert converted(script(**slots)) == lifted(**slots)


def test_with_a_grad_scaler_of_the_script_clipping_stays() -> None:
    slots = {
        "before": "scaler = torch.cuda.amp.GradScaler()",
        "step": "scaler.unscale_(optimizer)\nnn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        "scaler.step(optimizer)\nscaler.update()",
    }
    before = script(backward="scaler.scale(loss).backward()", **slots)
    assert converted(before) == lifted(backward="accelerator.backward(scaler.scale(loss))", **slots)


def test_without_the_rule_clipping_stays() -> None:
    step = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()"
    assert converted(script(step=step), ignore=("CLIP",)) == lifted(step=step)


FOCAL = """\
class Focal(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.CrossEntropyLoss()

    def forward(self, out, y):
        loss = self.inner(out, y)
        return {}"""
CURVED = "((1 - torch.exp(-loss)) ** 2 * loss).mean()"
CHOSEN = "import sys\nif len(sys.argv) > 1:\n    criterion = {}\nelse:\n    criterion = {}"


@pytest.mark.parametrize(
    ("returned", "first", "second", "codes"),
    [
        (CURVED, "Focal()", "nn.CrossEntropyLoss()", ["LOSS-INBATCH"]),
        (CURVED, "nn.CrossEntropyLoss()", "Focal()", ["LOSS-INBATCH"]),
        ("loss", "Focal()", "nn.CrossEntropyLoss()", []),
        ("loss * 2", "nn.CrossEntropyLoss()", "nn.MultiMarginLoss()", []),
        ("loss", "nn.CrossEntropyLoss()", "nn.CrossEntropyLoss(ignore_index=2)", ["LOSS-MASKMEAN"]),
        ("loss", "Focal()", "nn.CrossEntropyLoss(reduction='sum')", ["LOSS-UNKNOWN"]),
        ("loss", "nn.MultiMarginLoss()", "nn.CrossEntropyLoss(reduction='sum')", ["LOSS-UNKNOWN"]),
    ],
)
def test_of_two_losses_the_worse_one_is_told_of(returned: str, first: str, second: str, codes: list[str]) -> None:
    forward = "optimizer.zero_grad()\nloss = criterion(model(x), y)"
    text = script(definitions=FOCAL.format(returned), before=CHOSEN.format(first, second), forward=forward)
    assert findings(text) == codes


HARDEST = """\
class Hardest(nn.Module):
    def __init__(self):
        super().__init__()
        self.ranking = nn.MarginRankingLoss(margin=0.3)

    def forward(self, out, y):
        n = out.size(0)
        {dist}
        mask = y.expand(n, n).eq(y.expand(n, n).t())
        near, far = [], []
        for i in range(n):
            {each}
        near, far = torch.cat(near), torch.cat(far)
        return self.ranking(far, near, torch.ones_like(far)), (far > near).sum()"""
SQUARES = "dist = torch.pow(out, 2).sum(dim=1, keepdim=True).expand(n, n)\n        dist = dist + dist.t()"
ROWS = """\
near.append(dist[i][mask[i]].max().unsqueeze(0))
            far.append(dist[i][mask[i] == 0].min().unsqueeze(0))"""
DEEPER = ROWS.replace("    far", "        far")


@pytest.mark.parametrize(
    ("dist", "each", "inbatch"),
    [
        (f"{SQUARES} - 2 * out.mm(out.t())", ROWS, True),
        (f"{SQUARES}\n        dist.addmm_(out, out.t(), beta=1, alpha=-2)", ROWS, True),
        (
            f"{SQUARES} - 2 * out.mm(out.t())",
            f"if i > 0:\n                {ROWS.replace('    far', '        far')}",
            True,
        ),
        ("dist = out.sum(dim=1)", "near.append(dist[i].view(1))\n            far.append(dist[i].view(1) * 2)", False),
    ],
)
def test_the_hardest_samples_of_a_batch_are_found_by_comparing_them(dist: str, each: str, inbatch: bool) -> None:
    forward = "optimizer.zero_grad()\nloss, right = criterion(model(x), y)"
    text = script(definitions=HARDEST.format(dist=dist, each=each), before="criterion = Hardest()", forward=forward)
    assert ("LOSS-INBATCH" in findings(text)) == inbatch


@pytest.mark.parametrize(
    ("gradient", "codes"),
    [
        ("torch.ones_like(loss)", []),
        ("torch.ones_like(loss) / batch_size", []),
        ("gradient=weights[y]", []),
        ("torch.ones_like(loss) / len(loss)", ["LOSS-UNKNOWN"]),
        ("torch.full_like(loss, 1 / loss.numel())", ["LOSS-UNKNOWN"]),
    ],
)
def test_a_loss_for_each_sample_with_its_gradient_is_a_sum(gradient: str, codes: list[str]) -> None:
    forward = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y, reduction='none')"
    text = script(
        forward=forward, backward=f"loss.backward({gradient})", setup="batch_size = 16\nweights = torch.ones(3)"
    )
    assert ('reduction="sum"' in converted(text)) == (not codes)
    assert findings(text) == codes


SUMMED = """\
class Hard(nn.Module):
    def forward(self, out, y):
        each = F.cross_entropy(out, y, reduction="none")
        return unknown(each).sum() / unknown(each)


class Soft(nn.Module):
    def forward(self, out, y):
        return unknown(F.cross_entropy(out, y))


def hard(out, y):
    return Hard()(out, y)
"""


@pytest.mark.parametrize(
    ("loss", "severity"),
    [
        ("Hard()(model(x), y)", Severity.WARNING),
        ("hard(model(x), y)", Severity.WARNING),
        ("unknown(model(x).sum())", Severity.WARNING),
        ("Soft()(model(x), y)", Severity.NOTE),
        ("unknown(model(x).sum(dim=1))", Severity.NOTE),
    ],
)
def test_an_unknown_loss_that_adds_up_may_be_a_sum(loss: str, severity: Severity) -> None:
    slots = {"from_imports": "from elsewhere import unknown", "definitions": SUMMED}
    plan = convert(script(forward=f"optimizer.zero_grad()\nloss = {loss}", **slots)).plan
    assert plan is not None
    assert [f.severity for f in plan.findings if f.code == "LOSS-UNKNOWN"] == [severity]


EXAMPLE = "a = torch.ones(2, requires_grad=True)\nb = {}\nb.backward()\nprint(a.grad)"


@pytest.mark.parametrize(
    "loss",
    [
        "(a * a * 3).sum()",
        "F.relu(a - torch.tensor([0.5, 1.0])).mean()",
        "(a ** 2)[0]",
        "torch.dot(a, torch.ones(2, dtype=torch.float32))",
    ],
)
@pytest.mark.parametrize("slot", ["setup", "after"])
def test_an_example_that_trains_nothing_stays(slot: str, loss: str) -> None:
    text = script(**{slot: EXAMPLE.format(loss)})
    assert f"b = {loss}\nb.backward()\n" in converted(text)
    assert findings(text) == []


@pytest.mark.parametrize(
    "loss",
    [
        "model(torch.ones(1, 8).to(device)).sum()",  # of the prepared model
        "(a * model.layer.weight.sum()).sum()",
        "(a * unknown(3)).sum()",
        "(a * data[0][0].sum()).sum()",
        "(a * torch.load('a.pt')).sum()",
        "torch.zeros(1)\ndef f():\n    global b\n    b = model(data[0][0].to(device)).sum()\nf()",
        "torch.zeros(1)\nb += model(data[0][0].to(device)).sum()",
        "torch.zeros(1)\nb.add_(model(data[0][0].to(device)).sum())",
        "torch.zeros(1)\nb[0] = model(data[0][0].to(device)).sum()",
        "torch.zeros(1)\nfor x, y in data:\n    b = b + model(x.to(device)).sum()",
    ],
)
def test_what_may_be_more_than_an_example_goes_through_the_accelerator(loss: str) -> None:
    text = script(from_imports="from elsewhere import unknown", after=EXAMPLE.format(loss))
    assert "accelerator.backward(b)\n" in converted(text)


TAGGER = """\
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.crf = {}(3, batch_first=True)

    def forward(self, x, y):
        return -self.crf(self.layer(x), y{})
"""


@pytest.mark.parametrize(
    ("layer", "more", "reduction", "codes"),
    [
        ("CRF", "", ', reduction="sum"', []),
        ("CRF", ", None, 'sum'", ', reduction="sum"', []),
        ("CRF", ", reduction='mean'", "", []),
        ("CRF", ", reduction='token_mean'", "", ["LOSS-MASKMEAN"]),
        ("CRF", ", reduction=setting", "", ["LOSS-UNKNOWN"]),
        ("Other", "", "", ["LOSS-UNKNOWN"]),
    ],
)
def test_a_layer_of_a_library_that_adds_up_its_losses(layer: str, more: str, reduction: str, codes: list[str]) -> None:
    text = script(
        from_imports="from elsewhere import Other, setting\nfrom torchcrf import CRF",
        definitions=TAGGER.format(layer, more),
        model="model = Tagger().to(device)",
        forward="optimizer.zero_grad()\nloss = model(x, y)",
    )
    assert f"accelerator.backward(loss{reduction})\n" in converted(text)
    assert findings(text) == codes


FIT = """
def fit(model, compare, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = compare(model(x), y)
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("setup", "calls", "expected"),
    [
        ("", "fit(model, F.cross_entropy, optimizer)", []),
        ("compare = F.cross_entropy", "fit(model, compare, optimizer)", []),
        ("", "fit(model, F.cross_entropy, optimizer)\nfit(model, F.nll_loss, optimizer)", ["LOSS-UNKNOWN"]),
        ("", "fit(model, F.cross_entropy if best else F.nll_loss, optimizer)", ["LOSS-UNKNOWN"]),
        ("from elsewhere import compare", "fit(model, compare, optimizer)", ["LOSS-UNKNOWN"]),
    ],
)
def test_a_function_of_torch_that_is_handed_on(setup: str, calls: str, expected: list[str]) -> None:
    empty = dict.fromkeys(("loop", "move", "forward", "backward", "step"), "")
    text = script(definitions=FIT, setup=setup, **{**empty, "epochs": f"best = len(loader)\n{calls}"})
    found = [code for code in findings(text) if code.startswith("LOSS")]
    assert found == expected and "accelerator.backward(loss)" in added(text)


WHOLE = """
a = {data}
for _ in range(3):
    optimizer.zero_grad()
    guess = unknown(model(a).sum(), {target})
    guess.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("data", "target", "said"),
    [
        ("torch.ones(5, 8).to(device)", "1", []),
        ("data.tensors[0].to(device)", "data.tensors[1]", []),
        ("next(iter(loader))[0].to(device)", "1", ["LOSS-UNKNOWN"]),
        ("torch.ones(5, 8).to(device)", "x", ["LOSS-UNKNOWN"]),
    ],
)
def test_a_loss_of_the_same_data_on_all_processes_is_alike(data: str, target: str, said: list[str]) -> None:
    """After the training loop, whose last batch is `x`."""
    text = script(from_imports="from elsewhere import unknown", after=WHOLE.format(data=data, target=target))
    plan = convert(text).plan
    assert plan is not None
    assert [f.code for f in plan.findings if f.code == "LOSS-UNKNOWN"] == said
    assert "accelerator.backward(guess)" in converted(text)
