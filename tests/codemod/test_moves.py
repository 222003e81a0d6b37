"""MOVE: moves that prepare makes needless go, all others stay and mean the accelerator's device."""

from __future__ import annotations

import pytest
from scripts import CREATED, REBOUND, TRAINS, added, converted, findings, lifted, removed, script

KEPT_LOADER = (
    "model, optimizer = accelerator.prepare(model, optimizer)\n"
    "loader = accelerator.prepare_data_loader(loader, device_placement=False)"
)


def test_moves_of_model_and_batch_go() -> None:
    assert converted(script()) == lifted()
    assert findings(script()) == []


@pytest.mark.parametrize(
    "model",
    [
        "model = Net().to(device)",
        "model = Net()\nmodel.to(device)",
        "model = Net()\nmodel = model.to(device)",
        "model = Net().cuda()",
        "model = Net()\nmodel.cuda()",
        "model = Net().to(device=device)",
    ],
)
def test_the_move_of_a_trained_model_goes(model: str) -> None:
    assert converted(script(model=model)) == lifted()


FIT = f"def fit(model, loader, optimizer, device):\n    {{move}}\n{TRAINS}        {{more}}"
FITS = dict.fromkeys(("loop", "move", "forward", "backward", "step"), "") | {
    "epoch": "fit(model, loader, optimizer, device)"
}


@pytest.mark.parametrize(
    ("moves", "left"),
    [
        ("model.to(device), other.to(device)", None),
        ("model.cuda(), (other.cuda())", None),
        ("model.to(device), other.to(device).train()", "model, other.train()"),
    ],
)
def test_two_models_that_are_moved_in_one_statement(moves: str, left: str | None) -> None:
    together = "optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1)"
    slots = {"optimizer": together, "forward": "optimizer.zero_grad()\nloss = F.cross_entropy(model(x) + other(x), y)"}
    prepare = "model, other, optimizer, loader = accelerator.prepare(model, other, optimizer, loader)"
    made = "model = Net()\nother = Net()"
    before = script(**slots, model=f"{made}\n{moves}")
    after = lifted(**slots, model=f"{made}\n{left}" if left is not None else made, prepare=prepare)
    assert converted(before) == after


@pytest.mark.parametrize(
    "move", ["model.to(device)", "model = model.to(device)", "model.cuda()", "model.train().to(device)"]
)
@pytest.mark.parametrize("more", ["pass", "print(loss.detach().cpu(), y.cpu())", "x.to(torch.device('cpu'))"])
def test_a_move_of_the_prepared_model_goes(move: str, more: str) -> None:
    """Nothing moves it elsewhere."""
    text = converted(script(definitions=FIT.format(move=move, more=more), **FITS))
    assert "model.to(" not in text and "model.cuda(" not in text and "model.train().to(" not in text


@pytest.mark.parametrize(
    ("more", "definitions"),
    [
        ("model.cpu()", ""),
        ("model.to('cpu')", ""),
        ("model.to(torch.device('cpu'))", ""),
        ("model.to(where())", "def where():\n    return input()\n\n\n"),
        ("park(model)", "def park(net):\n    net.cpu()\n\n\n"),
        ("nn.Module.cpu(model)", ""),
        ("model.to(**{'device': 'cpu'})", ""),
        ("park(model.cpu)", "def park(away):\n    away()\n\n\n"),
        ("getattr(model, 'cpu')()", ""),
        ("park({'model': model})", "def park(all):\n    for net in all.values():\n        net.cpu()\n\n\n"),
    ],
)
def test_a_move_of_a_prepared_model_stays_that_may_have_been_elsewhere(more: str, definitions: str) -> None:
    for move in ("model.to(device)", "model = model.to(device)"):
        text = converted(script(definitions=definitions + FIT.format(move=move, more=more), **FITS))
        assert move.replace("device", "accelerator.device") in text


@pytest.mark.parametrize(
    ("more", "stays"),
    [
        ("model.extra = nn.Linear(3, 3)", True),
        ("model.register_buffer('seen', torch.ones(1))", True),
        ("model.note(torch.ones(1))", True),
        ("for part in model.modules():\n            part.calibrate()", True),
        ("for _, part in model.named_children():\n            calibrated(part)", True),
        ("for part in model.modules():\n            part.eval()", False),
        ("for part in model.modules():\n            print(type(part))", False),
        ("for name, p in model.named_parameters():\n            print(name, p.shape)", False),
        ("model.epoch = len(x)", False),
    ],
)
def test_a_move_of_a_prepared_model_stays_that_may_bring_what_it_was_given_since(more: str, stays: bool) -> None:
    note = (
        "class Noting(Net):\n    def note(self, seen):\n        self.register_buffer('seen', seen)\n\n\n"
        "def calibrated(part):\n    part.calibrate()\n\n\n"
    )
    slots = FITS | {"model": "model = Noting().to(device)"}
    text = converted(script(definitions=note + FIT.format(move="model.to(device)", more=more), **slots))
    assert ("    model.to(accelerator.device)\n" in text) is stays


@pytest.mark.parametrize(
    ("loop", "move", "left"),
    [
        ("for x, y in loader:", "x = x.to(device)\ny = y.to(device)", ""),
        ("for x, y in loader:", "x, y = x.cuda(), y.cuda()", ""),
        ("for x, y in loader:", "x, y = x.cuda(non_blocking=True), y.to(device, non_blocking=True)", ""),
        ("for batch in loader:", "x, y = batch[0].to(device), batch[1].to(device)", "x, y = batch[0], batch[1]"),
        ("for batch in loader:", "x, y = [t.to(device) for t in batch]", "x, y = batch"),
        ("for batch in loader:", "x, y = tuple(t.cuda() for t in batch)", "x, y = batch"),
        ("for batch in loader:", "x, y = (t.cuda() for t in batch)", "x, y = batch"),
        ("for batch in loader:", "x, y = (  # all\n    t.cuda() for t in batch\n)", "x, y = (  # all\n    batch\n)"),
        ("for batch in loader:", "batch = tuple(t.to(device) for t in batch)\nx, y = batch", "x, y = batch"),
        (
            "for batch in loader:",
            "batch = [t.to(device) for t in batch]\nx, y = batch[0], batch[1]",
            "x, y = batch[0], batch[1]",
        ),
        (
            "for batch in loader:",
            'batch = {k: v.to(device) for k, v in batch.items()}\nx, y = batch["x"], batch["y"]',
            'x, y = batch["x"], batch["y"]',
        ),
    ],
)
def test_the_moves_of_a_batch_go(loop: str, move: str, left: str) -> None:
    assert converted(script(loop=loop, move=move)) == lifted(loop=loop, move=left)


@pytest.mark.parametrize(
    ("move", "left"),
    [
        ("batch = [t.cuda() for t in batch]\nx, y = picked(batch)", "batch = list(batch)\nx, y = picked(batch)"),
        ("x, *rest = [t.cuda() for t in batch]\ny = rest[0]", "x, *rest = list(batch)\ny = rest[0]"),
        ("x, y = picked([t.cuda() for t in batch])", "x, y = picked(list(batch))"),
        ("x, y = picked(tuple(t.cuda() for t in batch))", "x, y = picked(tuple(batch))"),
        ("copy = [t.cuda() for t in batch]\nx, y = copy", "copy = list(batch)\nx, y = copy"),
    ],
)
def test_a_copy_of_the_batch_that_may_have_to_be_a_list_stays(move: str, left: str) -> None:
    slots = {"loop": "for batch in loader:", "definitions": "def picked(pair):\n    return pair"}
    assert converted(script(move=move, **slots)) == lifted(move=left, **slots)


def test_a_copy_stays_whole_where_list_is_something_else() -> None:
    slots = {"loop": "for batch in loader:", "definitions": "def list(pair):\n    return pair"}
    move = "x, *rest = [t.{} for t in batch]\ny = rest[0]"
    kept = move.format("to(accelerator.device)")
    assert converted(script(move=move.format("cuda()"), **slots)) == lifted(move=kept, **slots)


DETECTION = """\
class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, at):
        return torch.ones(8), {"labels": torch.tensor(at % 3)}


def together(batch):
    return tuple(zip(*batch))


class Detector(Net):
    def forward(self, images, targets):
        return F.cross_entropy(self.layer(torch.stack(images)), torch.stack([t["labels"] for t in targets]))
"""


@pytest.mark.parametrize(
    ("copied", "left"),
    [
        ("[{k: v.to(device) for k, v in t.items()} for t in targets]", "[dict(t) for t in targets]"),
        (
            "[{str(k): v.to(device) for k, v in t.items()} for t in targets]",
            "[{str(k): v for k, v in t.items()} for t in targets]",
        ),
    ],
)
def test_images_and_targets_of_a_detector_are_copied_without_moves(copied: str, left: str) -> None:
    slots = {"definitions": DETECTION, "data": "data = Samples()", "loop": "for images, targets in loader:"}
    loader = "loader = DataLoader(data, batch_size=16, shuffle=True, collate_fn=together)"
    moves = f"images = list(image.to(device) for image in images)\ntargets = {copied}"
    forward = "optimizer.zero_grad()\nloss = model(images, targets)"
    text = script(loader=loader, model="model = Detector().to(device)", move=moves, forward=forward, **slots)
    assert f"    images = list(images)\n        targets = {left}\n" in converted(text)


def test_moves_inside_expressions_go() -> None:
    before = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x.to(device)), y.to(device))"
    after = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)"
    assert converted(script(move="", forward=before)) == lifted(forward=after)


def test_a_model_that_a_function_uses_before_prepare_is_moved_as_before() -> None:
    shown = "def shown():\n    return model(torch.ones(2, 4).cuda())"
    before = script(definitions=shown, model="model = Net().cuda()\nshown()")
    assert "model = Net().to(accelerator.device)\nshown()" in converted(before)
    later = script(definitions=shown, model="model = Net().cuda()", after="shown()")
    assert "model = Net()\n" in converted(later)


def test_moves_in_variables_of_old_torch_go() -> None:
    slots = {"from_imports": "from torch.autograd import Variable"}
    before = script(**slots, move="x, y = Variable(x.cuda()), Variable(y.cuda())")
    assert converted(before) == lifted(**slots, move="x, y = Variable(x), Variable(y)")


def test_a_cast_that_comes_with_the_move_stays_with_it() -> None:
    before = script(move="x, y = x.to(device, torch.float32), y.to(device)")
    assert converted(before) == lifted(device=REBOUND, move="x = x.to(device, torch.float32)")


@pytest.mark.parametrize(
    ("move", "left"),
    [
        ("x, y = x.to(device), y.to(device).view(-1)", "y = y.view(-1)"),
        ("x, y = (x.to(device) * 2, y.to(device))", "x = x * 2"),
        ("(x, y) = x.to(device).float(), y.to(device)", "x = x.float()"),
        ("x, y, z = x.to(device), y.to(device).long(), x", "y, z = y.long(), x"),
        (
            "x, y = (\n    x.to(device),  # inputs\n    y.to(device).view(-1),\n)",
            "x, y = (\n    x,  # inputs\n    y.view(-1),\n)",
        ),
        ("x, y = y.to(device).float(), x.to(device).long()", "x, y = y.float(), x.long()"),
    ],
)
def test_what_would_be_set_to_itself_goes(move: str, left: str) -> None:
    assert converted(script(move=move)) == lifted(move=left)


def test_a_batch_computed_on_the_cpu_first_keeps_the_authors_moves() -> None:
    move = "x = x / x.max()\nx, y = x.to(device), y.to(device)"
    assert converted(script(move=move)) == lifted(device=REBOUND, prepare=KEPT_LOADER, move=move)


def test_a_batch_moved_by_a_function_keeps_its_moves() -> None:
    slots = {
        "definitions": "def to_device(batch, device):\n    return [t.to(device) for t in batch]",
        "loop": "for batch in loader:",
        "move": "x, y = to_device(batch, device)",
    }
    assert converted(script(**slots)) == lifted(**slots, device=REBOUND, prepare=KEPT_LOADER)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.randn(4).cuda()", "torch.randn(4).to(accelerator.device)"),
        ("torch.randn(4).cuda(non_blocking=True)", "torch.randn(4).to(accelerator.device, non_blocking=True)"),
        ('torch.randn(4).to("cuda")', "torch.randn(4).to(accelerator.device)"),
        ('torch.randn(4).to("cuda:0")', "torch.randn(4).to(accelerator.device)"),
        ('torch.randn(4).to(device="cuda")', "torch.randn(4).to(device=accelerator.device)"),
        ('torch.randn(4).to(torch.device("cuda"))', "torch.randn(4).to(accelerator.device)"),
        ('torch.randn(4).to("cuda", torch.float16)', "torch.randn(4).to(accelerator.device, torch.float16)"),
        ('torch.zeros(3, device="cuda")', "torch.zeros(3, device=accelerator.device)"),
        ('torch.load("a.pt", map_location="cuda:0")', 'torch.load("a.pt", map_location=accelerator.device)'),
    ],
)
def test_a_gpu_spelled_out_becomes_the_accelerators_device(before: str, after: str) -> None:
    assert converted(script(before=f"noise = {before}")) == lifted(before=f"noise = {after}")
    assert findings(script(before=f"noise = {before}")) == []


@pytest.mark.parametrize(
    "line",
    [
        "noise = torch.randn(4).to(device)",
        "noise = torch.zeros(3, device=device)",
        'state = torch.load("a.pt", map_location=device)',
        "teacher = Net().to(device)",
        "positions = [torch.zeros(2).to(device) for _ in range(3)]",
    ],
)
def test_moves_of_anything_else_stay(line: str) -> None:
    assert converted(script(before=line)) == lifted(device=REBOUND, before=line)


@pytest.mark.parametrize(
    "line",
    [
        "noise = torch.zeros(3).to(torch.float32)",
        'noise = torch.zeros(3).to("cpu")',
        "noise = torch.zeros(3).to(data.tensors[0].device)",
        'noise = torch.zeros(3, device="cpu")',
        "noise = torch.zeros(3).half().float()",
        "noise = torch.zeros(3).cpu()",
        'state = torch.load("a.pt", map_location="cpu")',
        'name = "cuda:0"',
        'help = "x.to(device) and x.cuda()"',
        'settings = {"device": "cuda"}',
    ],
)
def test_what_only_looks_like_a_move_stays(line: str) -> None:
    assert converted(script(before=line)) == lifted(before=line)


@pytest.mark.parametrize("line", ["x = x.float()", "y = y.long()", "x = x.half().float()", "rows = x.cpu().numpy()"])
def test_casts_and_moves_to_the_cpu_stay_in_the_loop(line: str) -> None:
    move = "x, y = x.to(device), y.to(device)\n"
    assert converted(script(move=move + line)) == lifted(move=line)


def test_a_loss_without_tensors_need_not_move_but_class_weights_do() -> None:
    forward = "optimizer.zero_grad()\nloss = criterion(model(x), y)"
    plain = script(before="criterion = nn.CrossEntropyLoss().to(device)", forward=forward)
    assert converted(plain) == lifted(before="criterion = nn.CrossEntropyLoss()", forward=forward)
    weights = "criterion = nn.CrossEntropyLoss(weight=torch.ones(3)).to(device)"
    weighted = script(before=weights, forward=forward)
    assert converted(weighted) == lifted(device=REBOUND, before=weights, forward=forward)
    assert findings(weighted) == ["LOSS-MASKMEAN"]


def test_a_frozen_network_is_moved_but_not_prepared() -> None:
    slots = {"forward": "optimizer.zero_grad()\nloss = F.mse_loss(model(x), teacher(x))"}
    before = script(model="model = Net().cuda()\nteacher = Net().eval().cuda()", **slots)
    after = lifted(model="model = Net()\nteacher = Net().eval().to(accelerator.device)", **slots)
    assert converted(before) == after


def test_batches_of_a_plain_list_keep_their_moves() -> None:
    slots = {"before": "pairs = [(torch.randn(4, 8), 0)]", "after": "for a, _ in pairs:\n    a = a.to(device)"}
    assert converted(script(**slots)) == lifted(device=REBOUND, **slots)


def test_a_model_initialised_after_its_move_is_moved_first() -> None:
    """Its random numbers are drawn on the device it was on."""
    slots = {
        "definitions": "def weights(m):\n    if isinstance(m, nn.Linear):\n        nn.init.normal_(m.weight)",
        "model": "model = Net().to(device)\nmodel.apply(weights)",
    }
    assert converted(script(**slots)) == lifted(device=REBOUND, **slots)


def test_a_model_used_before_prepare_keeps_its_move() -> None:
    slots = {"model": "model = Net().to(device)\nsize = model(torch.zeros(1, 8).to(device)).shape"}
    assert converted(script(**slots)) == lifted(device=REBOUND, **slots)


@pytest.mark.parametrize(
    "between",
    [
        "for m in model.modules():\n    if isinstance(m, nn.Linear):\n        m.weight.data.mul_(2)",
        "for m, n in zip(model.modules(), Net().modules()):\n    if hasattr(m, 'weight'):\n"
        "        weight = m.weight\n        weight.data.mul_(2)",
        "for name, m in model.named_modules():\n    if name == 'layer':\n        nn.init.zeros_(m.weight)",
        "for m in list(model.children()):\n    m.weight.data = m.weight.data * torch.ones(1).to(device)",
        "for m in model.modules():\n    for p in m.parameters():\n        p.data *= 2",
        "norm = sum(p.pow(2).sum() for p in model.parameters())",
        "for k, v in model.state_dict().items():\n    v[...] = torch.ones(1).to(device)",
        "model.layer.weight.data.mul_(torch.ones(1).to(device))",
        "model.layer.weight.data[0] = 0",
    ],
)
def test_a_model_whose_parts_are_computed_with_before_prepare_keeps_its_move(between: str) -> None:
    made = f"model = Net().to(device)\n{between}"
    assert "\nmodel = Net().to(device)\n" in converted(script(model=made))


@pytest.mark.parametrize(
    "between",
    [
        "for p in model.parameters():\n    p.requires_grad = True",
        "count = sum(p.numel() for p in model.parameters() if p.requires_grad)",
        "kept = [p for n, p in model.named_parameters() if 'bias' not in n]",
        "kept = []\nfor name, p in model.named_parameters():\n    print(name, p.shape[0] * 2)\n    kept.append(p)",
        "for m in model.modules():\n    if isinstance(m, nn.Dropout):\n        m.eval()",
        "for m in model.children():\n    for p in m.parameters():\n        p.requires_grad_(True)",
        "names = {k: v.shape for k, v in model.state_dict().items()}",
        "model.layer.weight.requires_grad = True",
    ],
)
def test_a_model_whose_parts_are_only_looked_at_does_not(between: str) -> None:
    output = converted(script(model=f"model = Net().to(device)\n{between}"))
    assert "\nmodel = Net()\n" in output and "\nmodel = Net().to(device)\n" not in output


def test_moves_under_a_question_for_the_gpu_go_with_it() -> None:
    before = script(
        device="use_cuda = torch.cuda.is_available()",
        model="model = Net()\nif use_cuda:\n    model.cuda()",
        move="if use_cuda:\n    x, y = x.cuda(), y.cuda()",
    )
    assert "accelerator.prepare(model, optimizer, loader)" in "\n".join(added(before))
    gone = ["use_cuda = torch.cuda.is_available()", "if use_cuda:", "model.cuda()"]
    assert removed(before) == [*gone, "if use_cuda:", "x, y = x.cuda(), y.cuda()", "loss.backward()"]


def test_without_the_rule_the_moves_stay_and_mean_the_accelerators_device() -> None:
    unmoved = script()
    after = lifted(device=REBOUND, model="model = Net().to(device)", move="x, y = x.to(device), y.to(device)")
    assert converted(unmoved, ignore=("MOVE",)) == after


def test_a_module_global_that_functions_read_stays() -> None:
    slots = {
        "definitions": "def noise(n):\n    return torch.randn(n).to(device)",
        "before": "noise(3)",
    }
    assert converted(script(**slots)) == lifted(device=REBOUND, **slots)


def test_the_device_stays_where_it_is_used_as_a_string() -> None:
    slots = {"before": 'if device == "cuda":\n    torch.backends.cudnn.benchmark = True'}
    before = script(device='device = "cuda" if torch.cuda.is_available() else "cpu"', **slots)
    assert converted(before) == lifted(device=f"{CREATED}\ndevice = accelerator.device.type", **slots)


@pytest.mark.parametrize("test", ["x.is_cuda", "y.is_cuda"])
def test_the_place_of_a_tensor_is_no_choice(test: str) -> None:
    """`where` is the device that a tensor has already, not one that the script chooses."""
    definitions = (
        f"def loss_of(model, x, y):\n    where = torch.device('cuda') if {test} else torch.device('cpu')\n"
        "    return F.cross_entropy(model(x), y, weight=torch.ones(3).to(where))"
    )
    slots = {"definitions": definitions, "forward": "optimizer.zero_grad()\nloss = loss_of(model, x, y)"}
    assert converted(script(**slots)) == lifted(**slots)


def test_a_batch_that_becomes_a_tensor_of_the_cpu_is_moved_after_that() -> None:
    move = "x = x.type(torch.FloatTensor)\nx, y = x.cuda(), y.cuda()"
    output = converted(script(device="", model="model = Net().cuda()", move=move))
    assert "x = x.type(torch.FloatTensor)\n        x, y = x.to(accelerator.device), y" in output
    assert "loader = accelerator.prepare_data_loader(loader, device_placement=False)" in output


def test_a_function_that_is_asked_to_move_as_another_tensor_was() -> None:
    """Where `x` is, is no other choice than the flag's."""
    moved = "def cuda(tensor, is_cuda):\n    if is_cuda:\n        return tensor.cuda()\n    return tensor"
    output = converted(
        script(
            imports="import sys",
            definitions=moved,
            device="use = bool(sys.argv[1:]) and torch.cuda.is_available()",
            model="model = cuda(Net(), use)",
            move="x, y = cuda(x, use), cuda(y, use)\nx = x + cuda(torch.zeros(8), x.is_cuda)",
        )
    )
    assert "cpu=not bool(sys.argv[1:])" in output


@pytest.mark.parametrize(
    "line",
    [
        "noise = torch.zeros(3).type(torch.cuda.FloatTensor)",
        "noise = torch.cuda.FloatTensor(3)",
        "Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor\nnoise = Tensor(3)",
    ],
)
def test_types_of_gpu_tensors_stay(line: str) -> None:
    assert converted(script(before=line)) == lifted(before=line)


@pytest.mark.parametrize(
    "kept",
    [
        "copy = x.cpu()",
        "copy = x.to('cpu')",
        "cpu = torch.device('cpu')\ncopy = x.to(cpu)",
        "buffer = []\nbuffer.append(x.to('cpu'))",
        "copy = torch.empty_like(x, device='cpu')\ncopy.copy_(x)",
        "copy = x.detach().cpu().clone().numpy()",
        "copy = {'x': x.cpu()}['x']",
    ],
)
def test_a_copy_on_the_cpu_stays(kept: str) -> None:
    slots = {"imports": "import numpy", "batch_end": kept}
    assert converted(script(**slots)) == lifted(**slots)


@pytest.mark.parametrize(
    "used", ["x.numpy().sum()", "pickle.dumps(x)", "total += x.sum()", "torch.equal(x, moved.cpu())"]
)
def test_a_batch_that_is_used_where_it_was_beside_its_copy_on_the_device(used: str) -> None:
    output = converted(
        script(
            imports="import pickle",
            before="total = 0",
            move="moved = x.to(device)\ny = y.to(device)",
            forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(moved), y)",
            batch_end=used,
        )
    )
    assert "moved = x.to(device)" in output
    assert "device_placement=False" in output


RUN = """\
from torch.utils.data import DataLoader, TensorDataset
import torch
import torch.nn as nn


def run(epochs=2, device="cuda:1"):
    data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)
    loader = DataLoader(data, batch_size=16)
    model = nn.Linear(8, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        {batch}
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


{call}
"""


@pytest.mark.parametrize(
    ("batch", "call", "given"),
    [
        ("z = torch.zeros(3, device=device)", "run()", "device=accelerator.device"),
        ("z = torch.zeros(3).to(device)", "run(epochs=3)", ".to(accelerator.device)"),
        ("z = print(device)", "run()", "print(accelerator.device)"),
    ],
)
def test_a_gpu_that_is_the_default_of_the_function_that_trains(batch: str, call: str, given: str) -> None:
    text = RUN.format(batch=batch, call=call)
    assert given in converted(text)
    assert "DEV-LEFT" not in findings(text)


@pytest.mark.parametrize(
    ("batch", "call"),
    [
        ("z = torch.zeros(3, device=device)", "run(device='cuda:0')"),
        ("z = device == 'cuda:1'", "run()"),
        ("z = torch.zeros(3, device=device)", "start = run\nstart()\nrun()"),
    ],
)
def test_a_gpu_that_may_be_another_one_stays(batch: str, call: str) -> None:
    output = converted(RUN.format(batch=batch, call=call))
    assert batch.rpartition("\n")[2].strip() in output


@pytest.mark.parametrize(
    ("use", "stays"),
    [
        ("summary(model.cuda(), (8,))", "summary(model.to(device), (8,))"),
        ("summary(model.to(device).eval(), (8,))", "summary(model.to(device).eval(), (8,))"),
        ("print(model.to(device))", ""),
        ("print(len(list(model.to(device).parameters())))", ""),
    ],
)
def test_a_model_that_is_handed_on_as_it_is_moved_keeps_its_move(use: str, stays: str) -> None:
    output = converted(script(from_imports="from torchsummary import summary", model=f"model = Net()\n{use}"))
    moved = [line for line in output.splitlines() if "model" in line and ".to(" in line]
    assert [line.replace("accelerator.device", "device") for line in moved] == ([stays] if stays else [])


PARSED = """\
parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int, default=0)
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ('f"cuda:{args.gpu}"', "accelerator.device"),
        ('"cuda:" + str(args.gpu)', "accelerator.device"),
        ('torch.device(f"cuda:{str(args.gpu)}")', "accelerator.device"),
        ('f"cuda:{number}"', 'f"cuda:{number}"'),  # one for each of several
        ('f"cpu{args.gpu}"', 'f"cpu{args.gpu}"'),
    ],
)
def test_where_a_checkpoint_is_read_to(place: str, expected: str) -> None:
    before = 'for number in range(2):\n    state = torch.load("a.pt", map_location={})'
    out = converted(script(imports="import argparse", setup=PARSED, before=before.format(place)))
    assert before.format(expected) in out


RESUMED = """\
checkpoint = None
if checkpoint is None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
else:
    saved = {saved}
    model, optimizer = saved["model"], saved["optimizer"]
{move}"""


@pytest.mark.parametrize(("saved", "stays"), [("torch.load('a.pt')", False), ("held('a.pt')", True)])
def test_a_model_that_may_have_been_saved_whole_is_moved_by_prepare(saved: str, stays: bool) -> None:
    slots = {"from_imports": "from library import held", "optimizer": "", "epoch": "model.to(device)"}
    after = converted(script(model=RESUMED.format(saved=saved, move="model = model.to(device)"), **slots))
    assert ("model = model.to(device)" in after) == stays
    assert ("    model.to(device)" in after) == stays


def test_a_model_that_was_saved_whole_and_is_handed_on_by_itself_is_moved() -> None:
    run = "with torch.no_grad():\n        return net(torch.ones(1, 8, device=device))"
    look = f"def look(net):\n    net.to(device)\n    {run}"
    after = "look(model)\nlook(torch.load('a.pt'))"
    assert "    net.to(device)\n" in converted(script(definitions=look, after=after))
    assert "    net.to(device)\n" not in converted(script(definitions=look, after="look(model)"))


@pytest.mark.parametrize(
    ("moves", "left"),
    [
        ("enc.to(device), dec.to(device)", ""),
        ("enc.to(device), other.to(device)", "enc, other.to(device)"),
        ("enc.to(device), print(3)", "enc, accelerator.print(3)"),
    ],
)
def test_moves_that_stand_side_by_side_go_with_their_statement(moves: str, left: str) -> None:
    model = f"enc, dec, other = nn.Linear(8, 4), nn.Linear(4, 3), torch.zeros(3)\n{moves}"
    optimizer = "optimizer = torch.optim.SGD([*enc.parameters(), *dec.parameters()], lr=0.1)"
    forward = "optimizer.zero_grad()\nloss = F.cross_entropy(dec(enc(x)), y)"
    after = converted(script(model=model, optimizer=optimizer, forward=forward)).splitlines()
    assert moves not in after
    assert [line for line in after if line.startswith("enc, ") and "=" not in line] == [left] * bool(left)
