"""Beyond the forward pass: through the wrapper that a prepared model may have."""

from __future__ import annotations

import pytest
from scripts import NO_LOOP, convert, converted, findings, lifted, script

NET = """\
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.width = 3

    def forward(self, x):
        return self.encode(x)

    def encode(self, x):
        return self.layer(x)

    def describe(self):
        return self.width

    def penalty(self):
        return self.layer.weight.pow(2).sum()
"""
OLD = {"definitions": NET, "model": "model = Encoder().to(device)"}
NEW = {"definitions": NET, "model": "model = Encoder()"}
MODEL = "accelerator.unwrap_model(model)"


@pytest.mark.parametrize(
    "line",
    [
        "n = MODEL.width",
        "n = MODEL.layer.weight.shape",
        "MODEL.width = 4",
        "n = MODEL.describe()",
        "f = MODEL.encode",
        "s = MODEL.state_dict()",
        "s = copy.deepcopy(MODEL.state_dict())\nMODEL.load_state_dict(s)",
        "s = {k: v.cpu() for k, v in MODEL.state_dict().items()}",
        "for n, p in MODEL.named_parameters():\n    pass",
        "MODEL.register_forward_hook(None)",
        "best = copy.deepcopy(MODEL)",
        "with torch.no_grad():\n    z = MODEL.encode(x)",
        "n = MODEL.penalty().item()",
        "n = (MODEL.width, MODEL.layer)",
        "n = type(MODEL).__name__",
        "n = str(MODEL)",
        "z = torch.func.functional_call(MODEL, {}, (x,))",
    ],
)
def test_reaching_through(line: str) -> None:
    before, after = line.replace("MODEL", "model"), line.replace("MODEL", MODEL)
    slots = {"imports": "import copy"}
    assert converted(script(epoch_end=before, **OLD, **slots)) == lifted(epoch_end=after, **NEW, **slots)
    assert findings(script(epoch_end=before, **OLD, **slots)) == []


@pytest.mark.parametrize(
    "line",
    [
        "model.train()",
        "model.eval()",
        "model.zero_grad()",
        "model.requires_grad_(True)",
        "n = sum(p.numel() for p in model.parameters())",
        "model.apply(len)",
        "z = model(x)",
        "z = model.forward(x)",
        "models = [model]",
    ],
)
def test_what_the_wrapper_answers_as_the_model_stays(line: str) -> None:
    assert converted(script(epoch_end=line, **OLD)) == lifted(epoch_end=line, **NEW)


@pytest.mark.parametrize("line", ["n = MODEL[0].weight", "n = len(MODEL)", "for layer in MODEL[:1]:\n    pass"])
def test_sequences(line: str) -> None:
    before, after = line.replace("MODEL", "model"), line.replace("MODEL", MODEL)
    net = "model = nn.Sequential(nn.Linear(8, 3))"
    assert converted(script(epoch_end=before, model=f"{net}.to(device)")) == lifted(epoch_end=after, model=net)


def test_methods_that_train_go_through_the_wrapper() -> None:
    """The bundled runtime sends such a call through the wrapper; Accelerate cannot."""
    slots = {"forward": "optimizer.zero_grad()\nloss = F.cross_entropy(model.encode(x), y)"}
    assert converted(script(**OLD, **slots)) == lifted(**NEW, **slots)
    assert findings(script(**OLD, **slots)) == []
    result = convert(script(**OLD, **slots), target="accelerate")
    assert result.plan is not None
    assert [str(f) for f in result.plan.findings if f.severity.value == "error"] == [
        "DDP-METHOD `model.encode(...)` reaches the backward pass without going through the wrapper; "
        "call it from forward, or convert with --target runtime"
    ]


def test_a_method_that_runs_the_whole_forward_pass_goes_through_the_wrapper() -> None:
    """`self(x)` in a method is the forward pass of the model itself, beside the wrapper."""
    own = {"definitions": f"{NET}\n    def step(self, x, y):\n        return F.cross_entropy(self(x), y)\n"}
    slots = {"forward": "optimizer.zero_grad()\nloss = model.step(x, y)"}
    assert converted(script(**OLD | own, **slots)) == lifted(**NEW | own, **slots)
    assert "DDP-METHOD" in {f.code for f in convert(script(**OLD | own, **slots), target="accelerate").plan.findings}  # type: ignore[union-attr]
    evaluated = {"epoch_end": "with torch.no_grad():\n    loss = {}.step(x, y)"}
    wrapped, bare = evaluated["epoch_end"].format("model"), evaluated["epoch_end"].format(MODEL)
    assert converted(script(epoch_end=wrapped, **OLD | own)) == lifted(epoch_end=bare, **NEW | own)


@pytest.mark.parametrize(
    "method",
    [
        "    @torch.no_grad()\n    def score(self, x):\n        return self(x).mean().item()",
        "    def score(self, x):\n        with torch.no_grad():\n            return self.layer(x).mean().item()",
        "    def score(self, x):\n        self.eval()\n        with torch.no_grad():\n            return self(x)",
    ],
)
def test_a_method_that_switches_gradients_off_does_not_train(method: str) -> None:
    own = {"definitions": f"{NET}\n{method}\n"}
    before = {"epoch_end": "z = model.score(x)"}
    assert converted(script(**OLD | own, **before)) == lifted(epoch_end=f"z = {MODEL}.score(x)", **NEW | own)


def test_a_method_that_calls_the_model_by_its_global_name_goes_through_the_wrapper_there() -> None:
    own = {"definitions": f"{NET}\n    def step(self, x, y):\n        return F.cross_entropy(model(x), y)\n"}
    before = "optimizer.zero_grad()\nloss = {}.step(x, y)"
    assert converted(script(**OLD | own, forward=before.format("model"))) == lifted(
        **NEW | own, forward=before.format(MODEL)
    )


def test_methods_that_run_no_layer() -> None:
    """A penalty on the weights adds to the gradients that the forward pass leaves to be averaged."""
    before = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y) + {}.penalty()"
    expected = lifted(forward=before.format(MODEL), **NEW)
    assert converted(script(forward=before.format("model"), **OLD)) == expected
    assert findings(script(forward=before.format("model"), **OLD)) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("s = model.module.state_dict()", f"s = {MODEL}.state_dict()"),
        ("z = model.module.width", f"z = {MODEL}.width"),
        ("z = model(x)", "z = model(x)"),
    ],
)
def test_data_parallel(before: str, after: str) -> None:
    model = "model = nn.DataParallel(Encoder()).to(device)"
    assert converted(script(definitions=NET, model=model, epoch_end=before)) == lifted(epoch_end=after, **NEW)


def test_functions_that_get_the_model() -> None:
    definitions = f"{NET}\n\ndef show(net):\n    return %s.width"
    old = {"definitions": definitions % "net", "model": "model = Encoder().to(device)"}
    new = {"definitions": definitions % "accelerator.unwrap_model(net)", "model": "model = Encoder()"}
    assert converted(script(epoch_end="show(model)", **old)) == lifted(epoch_end="show(model)", **new)
    assert converted(script(main=True, epoch_end="show(model)", **old)) == lifted(
        main=True,
        epoch_end="show(accelerator.unwrap_model(model))",
        model="model = Encoder()",
        definitions=old["definitions"],
    )


@pytest.mark.parametrize(
    ("setup", "line"),
    [
        ("class Box:\n    width = 2\n\nbox = Box()", "n = box.width"),
        ("teacher = nn.Linear(8, 3).to('cpu')", "n = teacher.weight"),
        ("names = {'model': 1}", "n = names['model']"),
    ],
)
def test_other_objects_stay(setup: str, line: str) -> None:
    slots = {"setup": setup, "epoch_end": line}
    output = converted(script(**slots))
    assert "unwrap_model" not in output and f"    {line}\n" in output


def test_before_prepare_the_model_is_itself() -> None:
    before = 'model = Encoder().to(device)\nmodel.load_state_dict(torch.load("m.pt"))'
    after = 'model = Encoder()\nmodel.load_state_dict(torch.load("m.pt"))'
    assert converted(script(definitions=NET, model=before)) == lifted(definitions=NET, model=after)


def test_left_out() -> None:
    slots = {"epoch_end": "n = model.width"}
    assert converted(script(**OLD, **slots), ignore=("UNWRAP",)) == lifted(**NEW, **slots)


@pytest.mark.parametrize(
    "line", ['n = getattr(model, "width")', 'n = hasattr(model, "width")', "n = isinstance(model, Encoder)"]
)
def test_builtins_that_ask_a_model(line: str) -> None:
    text = script(epoch_end=line, **OLD)
    assert f"({MODEL}, " in converted(text) or findings(text)


@pytest.mark.parametrize("kind", ["nn.Module", "(nn.Module, Encoder)"])
def test_whether_it_is_a_network_is_asked_of_the_wrapper(kind: str) -> None:
    line = f"n = isinstance(model, {kind})"
    assert converted(script(epoch_end=line, **OLD)) == lifted(epoch_end=line, **NEW)
    other = "n = isinstance({}, (nn.DataParallel, Encoder))"
    assert converted(script(epoch_end=other.format("model"), **OLD)) == lifted(epoch_end=other.format(MODEL), **NEW)


@pytest.mark.parametrize("value", ["MODEL.register_forward_hook(None)", "MODEL.named_buffers()"])
def test_methods_that_every_module_has(value: str) -> None:
    text = script(epoch_end=f"value = {value.replace('MODEL', 'model')}", **OLD)
    assert "DDP-METHOD" not in findings(text, target="accelerate")
    assert f"value = {value.replace('MODEL', MODEL)}\n" in converted(text)


def test_a_method_that_reaches_its_layers_through_the_global_trains() -> None:
    net = NET.replace("        return self.layer(x)", "        return model.layer(x)")
    slots = {"definitions": net, "forward": "optimizer.zero_grad()\nloss = F.cross_entropy(model.encode(x), y)"}
    assert converted(script(model=OLD["model"], **slots)) == lifted(model=NEW["model"], **slots)


SGD = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
MIX = "def mix(mean, net, rate=0.9):\n    new = dict({}.named_parameters())\n    return mean, new, rate\n"


@pytest.mark.parametrize("again", ["mix(mean, model)", "pass"])
def test_a_function_that_is_given_a_model_before_and_after_it_is_prepared(again: str) -> None:
    slots = {"imports": "import copy", "definitions": MIX.format("net"), "batch_end": again}
    output = converted(script(optimizer=f"{SGD}\nmean = copy.deepcopy(model)\nmix(mean, model, 0)", **slots))
    assert (MIX.format("accelerator.unwrap_model(net)") in output) == (again != "pass")


def test_a_function_that_is_given_one_model_before_another_is_prepared() -> None:
    fit = (
        "def fit(net, optimizer):\n    for x, y in loader:\n        F.cross_entropy(net(x), y).backward()\n"
        "        optimizer.step()\n    torch.save(net.state_dict(), 'net.pt')\n"
    )
    second = "other = Net()\nadam = torch.optim.Adam(other.parameters())"
    empty = NO_LOOP
    output = converted(script(definitions=fit, before=f"fit(model, optimizer)\n{second}\nfit(other, adam)", **empty))
    assert "accelerator.save(accelerator.unwrap_model(net).state_dict(), 'net.pt')" in output
    assert (
        f"fit(model, optimizer)\n{second}\nother, adam = accelerator.prepare(other, adam)\nfit(other, adam)" in output
    )


@pytest.mark.parametrize("source", ['torch.load("whole.pt")["net"]', 'saved["net"]', 'torch.load("net.pt")'])
def test_a_model_that_may_come_whole_from_a_checkpoint_is_saved_whole(source: str) -> None:
    model = f'saved = torch.load("whole.pt")\nmodel = Net()\nif len(saved):\n    model = {source}'
    save = 'state = {{"net": {}, "epoch": epoch}}\n{}(state, "whole.pt")'
    before = script(model=model, epoch_end=save.format("model", "torch.save"))
    wrapped = save.format(MODEL, "accelerator.save")
    assert converted(before).endswith("".join(f"    {line}\n" for line in wrapped.splitlines()))


@pytest.mark.parametrize("way", ["cpu()", "eval()", "to('cpu')", "half().cpu()", "train(False)"])
def test_the_state_of_what_a_method_returns_is_that_of_the_model_itself(way: str) -> None:
    save = f"torch.save(model.{way}.state_dict(), 'm.pt')"
    assert f"accelerator.save(accelerator.unwrap_model(model).{way}.state_dict(), 'm.pt')" in converted(
        script(after=save)
    )


@pytest.mark.parametrize(
    "used", ["model.eval()", "model.cpu()", "out = model.eval()(data[0][0])", "model.eval().train()"]
)
def test_what_a_method_returns_may_do_as_the_wrapper_does(used: str) -> None:
    assert "unwrap_model" not in converted(script(after=used))


UNWRAPPED = "accelerator.unwrap_model(model)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.save([model, 3], 'm.pt')", f"accelerator.save([{UNWRAPPED}, 3], 'm.pt')"),
        ("torch.save((model, epoch), 'm.pt')", f"accelerator.save(({UNWRAPPED}, epoch), 'm.pt')"),
        ("torch.save({'nets': [model]}, 'm.pt')", f"accelerator.save({{'nets': [{UNWRAPPED}]}}, 'm.pt')"),
        ("torch.save([{'net': model}], 'm.pt')", f"accelerator.save([{{'net': {UNWRAPPED}}}], 'm.pt')"),
        ("kept = [model, 3]\ntorch.save(kept, 'm.pt')", f"kept = [{UNWRAPPED}, 3]\naccelerator.save(kept, 'm.pt')"),
        ("torch.save(obj=[model], f='m.pt')", f"accelerator.save(obj=[{UNWRAPPED}], f='m.pt')"),
        ("kept = [model, 3]\nprint(len(kept))", "kept = [model, 3]\naccelerator.print(len(kept))"),
        ("torch.save([3], 'm.pt')\nkept = (model, 3)", "accelerator.save([3], 'm.pt')\nkept = (model, 3)"),
        ("torch.save([model(x)], 'm.pt')", "accelerator.save([model(x)], 'm.pt')"),
        (
            "torch.save([model.state_dict()], 'm.pt')",
            f"accelerator.save([{UNWRAPPED}.state_dict()], 'm.pt')",
        ),
    ],
)
def test_a_model_in_a_list_that_is_saved_is_the_model_itself(before: str, after: str) -> None:
    assert converted(script(epoch_end=before)) == lifted(epoch_end=after)


@pytest.mark.parametrize(
    ("saved", "codes"), [("[nets, 3]", ["CKPT-WRAPPED"]), ("[nets['e'].state_dict(), 3]", []), ("[3]", [])]
)
def test_a_container_of_models_in_a_list_that_is_saved(saved: str, codes: list[str]) -> None:
    optimizer = "optimizer = torch.optim.SGD([*nets['e'].parameters(), *nets['h'].parameters()], lr=0.1)"
    model = "nets = {'e': nn.Linear(8, 8).to(device), 'h': Net().to(device)}"
    forward = "optimizer.zero_grad()\nloss = F.cross_entropy(nets['h'](nets['e'](x)), y)"
    text = script(model=model, optimizer=optimizer, forward=forward, after=f"torch.save({saved}, 'n.pt')")
    assert findings(text) == codes


FAST = "fast = dict(MODEL.named_parameters())\n"


@pytest.mark.parametrize("call", ["torch.func.functional_call", "stateless.functional_call"])
def test_a_model_that_is_called_with_other_parameters(call: str) -> None:
    forward = f"optimizer.zero_grad()\n{FAST}out = {call}(MODEL, fast, (x,))\nloss = F.cross_entropy(out, y)"
    before = forward.replace("MODEL", "model")
    slots = {"from_imports": "from torch.nn.utils import stateless"}
    assert converted(script(forward=before, **slots)) == lifted(forward=forward.replace("MODEL", MODEL), **slots)
    assert "DDP-METHOD" in findings(script(forward=before, **slots), target="accelerate")
    frozen = before.replace("model, fast", "frozen, fast")
    assert "unwrap_model(frozen)" not in converted(script(before="frozen = Net()", forward=frozen, **slots))


def test_a_model_is_printed_without_its_wrapper() -> None:
    assert converted(script(epoch_end="print('the model', model)")) == lifted(
        epoch_end=f"accelerator.print('the model', {MODEL})"
    )


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("model = model.cpu()\nmodel(data.tensors[0])", "model = accelerator.unwrap_model(model).cpu()"),
        ('model = model.to("cpu").eval()', 'model = accelerator.unwrap_model(model).to("cpu").eval()'),
        ("small = model.cpu()\nsmall(data.tensors[0])", "small = accelerator.unwrap_model(model).cpu()"),
        ("show(model.cpu())", "show(accelerator.unwrap_model(model).cpu())"),
        ('model = model.to(device="cpu")', 'model = accelerator.unwrap_model(model).to(device="cpu")'),
    ],
)
def test_a_model_that_goes_to_the_cpu_leaves_its_wrapper(after: str, expected: str) -> None:
    text = script(after=after, definitions="def show(net):\n    net(torch.ones(1, 8))")
    assert expected in converted(text).splitlines()
    assert findings(text) == []


@pytest.mark.parametrize(
    ("slots", "told"),
    [
        ({"after": "model.cpu()\nmodel(data.tensors[0])"}, True),
        ({"after": 'model.to("cpu")\nshow(model)'}, True),
        ({"after": 'model.to("cpu:0")\nshow(model)'}, True),
        ({"before": 'cpu = torch.device("cpu:0")', "after": "model.to(cpu)\nshow(model)"}, True),
        ({"epoch_end": "model = model.cpu()\nmodel(data.tensors[0])\nmodel = model.to(device)"}, True),
        ({"after": 'model.cpu()\ntorch.save(model.state_dict(), "m.pt")'}, False),
        ({"epoch_end": 'model.cpu()\ntorch.save(model.state_dict(), "m.pt")\nmodel.to(device)'}, False),
        ({"after": "model.to(device)\nmodel(data.tensors[0].to(device))"}, False),
        ({"before": "model.train()"}, False),
        ({"device": 'device = "cpu"', "after": "model.cpu()\nmodel(data.tensors[0])"}, False),
    ],
)
def test_a_model_that_is_run_on_the_cpu_in_its_wrapper(slots: dict[str, str], told: bool) -> None:
    definitions = "def show(net):\n    net(torch.ones(1, 8))"
    assert ("DDP-CPU" in findings(script(definitions=definitions, **slots))) is told


def test_a_model_that_is_saved_on_the_cpu_and_trains_again_is_saved_without_its_wrapper() -> None:
    text = script(epoch_end='torch.save(model.cpu(), "m.pt")\nmodel.to(device)')
    assert '    accelerator.save(accelerator.unwrap_model(model).cpu(), "m.pt")' in converted(text).splitlines()
    assert findings(text) == []


TRAINER = """\
class Trainer:
    def __init__(self, model, optimizer, path=None):
        self.model = model
        if path is not None:
            self.model = torch.load(path)
        self.optimizer = optimizer

    def fit(self, loader):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
        torch.save(self.model.state_dict(), "m.pt")
"""


def test_a_model_is_asked_for_itself_only_where_a_trainer_may_have_prepared_it() -> None:
    text = script(
        definitions=TRAINER,
        before="print(model.layer)\ntrainer = Trainer(model, optimizer)\ntrainer.fit(loader)",
        after="print(model.layer)",
        **NO_LOOP,
    )
    output = converted(text)
    assert "self.model = accelerator.prepare(self.model)\n" in output
    assert 'accelerator.save(accelerator.unwrap_model(self.model).state_dict(), "m.pt")' in output
    assert "accelerator.print(model.layer)\ntrainer = Trainer(" in output  # it is not prepared yet
    assert output.endswith("accelerator.print(accelerator.unwrap_model(model).layer)\n")


BUILDS = "def build(net):\n    print(net.layer)\n    return net, torch.optim.SGD(net.parameters(), lr=0.1)\n"


@pytest.mark.parametrize(
    ("more", "before"),
    [
        ("", True),
        ("again, _ = build(Net())\n", True),
        ("def runs(n):\n    return build(Net())\n\nagain, _ = runs(1)\n", True),
        ("trainer.fit(loader)\nmodel, optimizer = build(model)\n", False),
    ],
)
def test_what_a_function_asks_of_a_model_before_a_trainer_has_it(more: str, before: bool) -> None:
    made = "model, optimizer = build(Net())\n"
    train = f"trainer = Trainer(model, optimizer)\n{'' if before else more}trainer.fit(loader)"
    text = script(
        definitions=f"{TRAINER}\n\n{BUILDS}",
        model="",
        optimizer=(more if before else "") + made,
        before=train,
        **NO_LOOP,
    )
    assert ("print(net.layer)" in converted(text)) is before


PLACEHOLDER = """\
import copy
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

model = None
criterion = None


def say():
    {line}


def main():
    global model, criterion
    loader = DataLoader(TensorDataset(torch.ones(64, 3), torch.ones(64, 1)), batch_size=8)
    model = nn.Linear(3, 1).cuda()
    criterion = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
    say()


main()
"""


@pytest.mark.parametrize(
    ("line", "unwrapped"),
    [
        ("print(model.in_features)", True),
        ("torch.save(model.state_dict(), 'm.pt')", True),
        ("torch.save(model, 'm.pt')", True),
        ("return copy.deepcopy(model)", True),
        ("return model is None", False),
        ("model.eval()", False),
    ],
)
def test_a_model_that_is_none_at_first(line: str, unwrapped: bool) -> None:
    text = PLACEHOLDER.format(line=line)
    assert ("unwrap_model(model)" in converted(text)) == unwrapped
    assert findings(text) == []  # the criterion is known, too


@pytest.mark.parametrize(("line", "unwrapped"), [("return copy.deepcopy(model)", False), ("return model.bias", True)])
def test_accelerate_cannot_unwrap_none(line: str, unwrapped: bool) -> None:
    result = convert(PLACEHOLDER.format(line=line), target="accelerate").output or b""
    assert (b"unwrap_model(model)" in result) == unwrapped


@pytest.mark.parametrize(
    ("call", "unwrapped"),
    [
        ("save_image(draw(model), 'a.png')", True),  # it may run the model, on one process
        ("save_image(draw(net=model), 'a.png')", True),
        ("save_image(torch.zeros(3), 'a.png')\nshown = draw(model)", False),  # all processes call it
    ],
)
def test_what_one_process_hands_to_unknown_functions_is_the_model_itself(call: str, unwrapped: bool) -> None:
    imports = "from pictures import draw\nfrom torchvision.utils import save_image"
    output = converted(script(from_imports=imports, epoch_end=call))
    assert ("accelerator.unwrap_model(model)" in output) == unwrapped
    assert "if accelerator.is_main_process:" in output


NAMES = 'for model in ["a", "b"]:\n    print(model)'


@pytest.mark.parametrize(
    ("slots", "unwrapped"),
    [
        ({"setup": NAMES, "after": "torch.save(model, 'm.pt')"}, True),
        ({"setup": "model = 'name'", "after": "torch.save(model, 'm.pt')"}, True),
        ({"after": "for model in [model, 'b']:\n    torch.save(model, 'm.pt')"}, False),
        ({"after": "if len(data) > 3:\n    model = 'b'\ntorch.save(model, 'm.pt')"}, False),
        ({"definitions": "def keep(it):\n    torch.save(it, 'm.pt')", "after": "keep('a')\nkeep(model)"}, False),
    ],
)
def test_a_variable_that_had_a_text_before_it_had_the_model(slots: dict[str, str], unwrapped: bool) -> None:
    model = "if len(data) > 3:\n    model = Net().to(device)\nelif len(data) > 2:\n    model = Net().to(device)"
    output = converted(script(**slots, model=model))
    assert ("accelerator.save(accelerator.unwrap_model(model)" in output) is unwrapped
    assert "unwrap_model(it)" not in output


KEEPER = """\
class Average:
    def __init__(self, model):
        self.model = model
        self.shadow = {n: p.clone() for n, p in self.model.named_parameters()}

    def update(self):
        for name, p in self.model.named_parameters():
            self.shadow[name] = 0.9 * self.shadow[name] + 0.1 * p.detach()
"""


@pytest.mark.parametrize(
    ("keeper", "later", "reads"),
    [
        (KEEPER, "", "in self.model.named_parameters():"),
        (
            f"{KEEPER}\n    def follow(self, other):\n        self.model = other\n",
            "average.follow(model)",
            "unwrap_model(",
        ),
    ],
)
def test_what_is_made_before_keeps_the_model_itself(keeper: str, later: str, reads: str) -> None:
    text = script(definitions=keeper, before="average = Average(model)", batch_end="average.update()", after=later)
    found = converted(text)
    update = found[found.index("def update") :]
    assert reads in update[: update.index("shadow")]
    assert "Average(model)\n" in found


@pytest.mark.parametrize(
    "inner",
    [
        'model.module if hasattr(model, "module") else model',
        'model if not hasattr(model, "module") else model.module',
        "model.module if isinstance(model, (nn.DataParallel,)) else model",
    ],
)
def test_what_is_taken_out_of_a_wrapper_if_there_is_one_is_unwrapped_once(inner: str) -> None:
    after = converted(script(after=f'plain = {inner}\ntorch.save(plain.state_dict(), "m.pt")\nprint(plain.layer)'))
    assert after.endswith(
        f'plain = {MODEL}\naccelerator.save(plain.state_dict(), "m.pt")\naccelerator.print(plain.layer)\n'
    )
    assert f"state = {MODEL}.state_dict()" in converted(script(after=f"state = ({inner}).state_dict()"))


def test_a_network_that_may_be_another_one_is_unwrapped_where_it_is_asked() -> None:
    inner = 'plain = model.module if hasattr(model, "module") else Net()'
    assert f"{MODEL[:-7]}(plain).state_dict()" in converted(script(after=f"{inner}\nstate = plain.state_dict()"))
    asked = "plain = model.module if len(data) > 9 else model\nprint(plain.layer)"
    assert f"{MODEL[:-7]}(plain).layer" in converted(script(after=asked))


@pytest.mark.parametrize(("own", "text"), [(True, f"{MODEL}.module"), (False, MODEL)])
def test_a_module_that_the_network_has_itself_is_no_wrapped_one(own: bool, text: str) -> None:
    definitions = NET.replace("self.width = 3", "self.module = nn.Linear(8, 3)") if own else NET
    slots = {"definitions": definitions, "after": 'torch.save(model.module.state_dict(), "a.pt")'}
    after = converted(script(model=OLD["model"], **slots))
    assert f'accelerator.save({text}.state_dict(), "a.pt")' in after
