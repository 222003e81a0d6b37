"""What was reached through the wrapper of DataParallel, and what was saved under it."""

from __future__ import annotations

import ast
import textwrap

import pytest
from accelift_codemod.plan import Outcome
from scripts import NO_LOOP, added, convert, converted, findings, script, unchanged

WRAPPED = "model = nn.DataParallel(Net()).to(device)"
SAVE = "torch.save(model.state_dict(), 'm.pt')"
STRIP = 'torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")'


@pytest.mark.parametrize(
    ("slots", "line"),
    [
        (
            {"optimizer": "optimizer = torch.optim.SGD(model.module.parameters(), lr=0.1)"},
            "SGD(model.parameters(), lr=0.1)",
        ),
        ({"setup": f"{WRAPPED}\nmodel.module.apply(print)", "model": ""}, "\nmodel.apply(print)"),
        ({"after": "model.module.eval()"}, "\naccelerator.unwrap_model(model).eval()"),
        (
            {"before": "teacher = nn.DataParallel(Net()).to(device)\nteacher.module.eval()"},
            "teacher = Net().to(device)\nteacher.eval()",
        ),
    ],
)
def test_module(slots: dict[str, str], line: str) -> None:
    assert line in converted(script(**{"model": WRAPPED, **slots}))


@pytest.mark.parametrize(
    ("definitions", "setup"),
    [
        ("", "parts = {'net': Net().to(device)}\nparts['net'] = nn.DataParallel(parts['net'])"),
        (
            "class Both(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.net = Net()\n"
            "        self.net = nn.DataParallel(self.net)\n\n    def forward(self, x):\n        return self.net(x)",
            "",
        ),
    ],
)
def test_nothing_is_set_to_itself(definitions: str, setup: str) -> None:
    model = "model = Both().to(device)" if definitions else "model = parts['net']"
    output = converted(script(definitions=definitions, setup=setup, device="device = 'cuda'", model=model))
    assert "DataParallel" not in output and "self.net = self.net\n" not in output
    assert "parts['net'] = parts['net']" not in output


@pytest.mark.parametrize(
    ("between", "left"),
    [
        ("step = 0\n", 0),
        ("", 0),
        ("net = Net()\n", 1),  # another one
        ("show()\n", 1),  # which may do anything
    ],
)
def test_nothing_is_set_to_what_it_is_already(between: str, left: int) -> None:
    definitions = "def show():\n    print(1)"
    model = f"net = Net()\nmodel = net.to(device)\n{between}model = nn.DataParallel(net)"
    output = converted(script(definitions=definitions, model=model))
    assert output.count("model = net") == 1 + left


def test_a_module_of_the_models_own_cannot_be_told_apart() -> None:
    own = "class Own(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.module = None"
    slots = {"definitions": own, "model": "model = nn.DataParallel(Own()).to(device)"}
    assert unchanged(script(**slots)).code == "CLASH"


@pytest.mark.parametrize(
    "load",
    [
        "state = torch.load('m.pt')\nmodel.load_state_dict(state)",
        "state = torch.load('m.pt')\nmodel.load_state_dict(state_dict=state)",
    ],
)
def test_an_older_checkpoint_is_stripped_of_the_prefix(load: str) -> None:
    assert STRIP in "".join(added(script(model=f"{WRAPPED}\n{load}", after=SAVE))).replace("(    ", "(")


@pytest.mark.parametrize(
    ("model", "load"),
    [
        ("model = Net().to(device)", "model.load_state_dict(state)"),  # was never wrapped
        (WRAPPED, "model.module.load_state_dict(state)"),  # without a prefix then, too
        (WRAPPED, "model.load_state_dict(dict(state))"),  # nothing to hand to the function: a note says it
    ],
)
def test_other_state_dicts_are_loaded_as_they_are(model: str, load: str) -> None:
    assert "consume_prefix" not in converted(script(model=f"{model}\nstate = torch.load('m.pt')\n{load}", after=SAVE))


@pytest.mark.parametrize(
    "read", ["torch.load('m.pt')", "torch.load('m.pt', map_location='cpu')", "torch.load('m.pt')['model']"]
)
def test_an_older_checkpoint_that_is_read_where_it_is_loaded(read: str) -> None:
    output = converted(script(model=f"{WRAPPED}\nmodel.load_state_dict({read})", after=SAVE))
    tree = ast.unparse(ast.parse(output))
    assert f"load_state_dict({{key.removeprefix('module.'): value for key, value in {read}.items()}})" in tree


@pytest.mark.parametrize("model", ["model = Net().to(device)", f"{WRAPPED}\nmodel.module"])
def test_a_checkpoint_that_never_had_the_prefix(model: str) -> None:
    receiver = "model.module" if model.endswith(".module") else "model"
    load = f"{receiver}.load_state_dict(torch.load('m.pt'))"
    assert "removeprefix" not in converted(script(model=f"{model.removesuffix('model.module')}\n{load}", after=SAVE))


def test_a_model_that_is_wrapped_after_it_is_loaded() -> None:
    load = "model = Net()\nstate = torch.load('m.pt')\nmodel.load_state_dict(state)"
    assert "consume_prefix" not in converted(
        script(model=f"{load}\nmodel = nn.DataParallel(model).to(device)", after=SAVE)
    )


@pytest.mark.parametrize("after", ["", SAVE])
@pytest.mark.parametrize("state", ["get()", "torch.load('m.pt')['net']", "dict(get())", "ckpt['net']"])
@pytest.mark.parametrize("found", ["", "missing, _ = "])
def test_checkpoints_whatever_they_come_from(found: str, state: str, after: str) -> None:
    """With strict=False nothing of them would be loaded, and nothing would say so."""
    load = f"ckpt = get()\n{found}model.load_state_dict({state}, strict=False)"
    output = converted(script(imports="from lib import get", model=f"{WRAPPED}\n{load}", after=after))
    assert ("removeprefix" in output) == (state != "ckpt['net']")
    assert ("consume_prefix" in output) == (state == "ckpt['net']")


@pytest.mark.parametrize("state", ["other.state_dict()", "copy.deepcopy(other.state_dict())", "best"])
def test_states_that_are_not_from_a_file(state: str) -> None:
    load = f"other = Net()\nbest = model.state_dict()\nmodel.load_state_dict({state}, strict=False)"
    output = converted(script(imports="import copy", model=f"{WRAPPED}\n{load}"))
    assert "prefix" not in output


def test_a_script_that_never_saved_under_the_wrapper() -> None:
    load = "state = torch.load('m.pt')\nmodel.load_state_dict(state)"
    save = "torch.save(model.module.state_dict(), 'm.pt')"
    assert "consume_prefix" not in converted(script(model=f"{WRAPPED}\n{load}", after=save))


def test_both_arms_of_a_choice_are_unwrapped_where_the_model_is_saved() -> None:
    model = "model = Net().to(device)\nif len(data) > 9:\n    model = nn.DataParallel(model)"
    save = 'torch.save(model.module if len(data) > 9 else model, "m.pt")'
    output = converted(script(model=model, after=save))
    assert 'accelerator.save(accelerator.unwrap_model(model), "m.pt")' in output


def test_a_script_that_distributes_itself_or_uses_dataparallel() -> None:
    wrap = """\
model = Net().to(device)
if parallel:
    torch.distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(model)
else:
    model = nn.DataParallel(model)
print(model.module.layer)"""
    output = converted(script(setup="parallel = False", model=wrap))
    assert "DataParallel" not in output and ".module" not in output


OWN = (
    "class Middle(nn.DataParallel):\n    pass\n\n\nclass Own({}):\n    def scatter(self, *given):\n        return given"
)


@pytest.mark.parametrize("base", ["nn.DataParallel", "Middle"])
def test_a_data_parallel_of_the_scripts_own_is_refused(base: str) -> None:
    text = script(definitions=OWN.format(base), model="model = Own(Net()).to(device)")
    assert unchanged(text).code == "MODEL-PARALLEL" and convert(text).outcome is Outcome.REFUSED


def test_the_wrapper_around_what_a_table_makes() -> None:
    """The class is not known, and yet the model is the one that was wrapped."""
    table = "TABLE = {'net': Net}\n\n\ndef create(name):\n    return TABLE[name]()"
    slots = {
        "imports": "import sys",
        "definitions": table,
        "optimizer": "optimizer = torch.optim.SGD(model.module.parameters(), lr=0.1)",
    }
    text = script(model="model = nn.DataParallel(create(sys.argv[1])).to(device)", **slots)
    assert "torch.optim.SGD(model.parameters(), lr=0.1)" in converted(text)


INSIDE = """\
class Split(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
{}
"""
FORWARD = "optimizer.zero_grad()\nloss = F.cross_entropy({}, y)"
CALL = "nn.parallel.data_parallel(self.layer, x, range(2))"


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (f"return {CALL}", "return self.layer(x)"),
        (
            f"if x.is_cuda:\n    out = {CALL}\nelse:\n    out = self.layer(x)\nreturn out",
            "out = self.layer(x)\nreturn out",
        ),
        (
            f"if x.is_cuda:\n    out = {CALL}\nelse:\n    out = 2 * self.layer(x)\nreturn out",
            "if x.is_cuda:\n    out = self.layer(x)\nelse:\n    out = 2 * self.layer(x)\nreturn out",
        ),
        (f"return {CALL[:-1]}, module_kwargs={{}})", "return self.layer(x)"),
        (
            f"if x.is_cuda:\n    # several\n    out = {CALL}\nelse:\n    out = self.layer(x)\nreturn out",
            "if x.is_cuda:\n    # several\n    out = self.layer(x)\nelse:\n    out = self.layer(x)\nreturn out",
        ),
    ],
)
def test_a_call_on_several_gpus_is_one_on_the_process_s_own(body: str, left: str) -> None:
    slots = {"model": "model = Split().to(device)"}
    output = converted(script(definitions=INSIDE.format(textwrap.indent(body, " " * 8)), **slots))
    assert textwrap.indent(left, " " * 8) in output and "data_parallel" not in output


@pytest.mark.parametrize(
    ("module", "ours"),
    [("torch.nn.parallel.data_parallel", False), ("torch.nn.parallel", False), ("elsewhere.parallel", True)],
)
def test_the_module_that_a_wrapper_lies_in_may_be_named(module: str, ours: bool) -> None:
    call = script(imports=f"from {module} import data_parallel", forward=FORWARD.format("data_parallel(model, x)"))
    assert ("model(x)" in converted(call)) is not ours
    if not ours:
        wrapped = script(imports=f"from {module} import DataParallel", model="model = DataParallel(Net()).to(device)")
        assert "DataParallel" not in converted(wrapped)


@pytest.mark.parametrize(
    "body",
    [
        "return nn.parallel.data_parallel(self.layer, (x,), range(2))",
        "return nn.parallel.data_parallel(self.layer if x.dim() else self.layer, x, range(2))",
        f"return {CALL[:-1]}, None, 0, {{'bias': None}})",
        "return nn.parallel.parallel_apply(nn.parallel.replicate(self.layer, [0, 1]), x.chunk(2))[0]",
    ],
)
def test_models_that_are_run_on_several_gpus_by_hand_are_refused(body: str) -> None:
    text = script(definitions=INSIDE.format(textwrap.indent(body, " " * 8)), model="model = Split().to(device)")
    assert unchanged(text).code == "MODEL-PARALLEL" and convert(text).outcome is Outcome.REFUSED


CHANGED = """\
if len(data) > 99:
    from {} import amp
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
model = nn.DataParallel(model)"""


@pytest.mark.parametrize("library", ["apex", "other"])
def test_a_model_that_a_library_may_have_changed(library: str) -> None:
    """Under its wrapper it is still the one that is prepared."""
    loaded = "model.module.load_state_dict(model.module.state_dict())"
    text = script(before=f"{CHANGED.format(library)}\n{loaded}", after="torch.save(model.module.state_dict(), 'm.pt')")
    output = converted(text)
    assert ".module" not in output
    assert "\nmodel.load_state_dict(model.state_dict())\n" in output
    assert "accelerator.save(accelerator.unwrap_model(model).state_dict(), 'm.pt')" in output


WIDE = """\
class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)
        {wrap}

    def forward(self, x):
        return self.head(self.features(x))
"""
IN_ITS_CLASS = {
    "definitions": WIDE.format(wrap="self.features = nn.DataParallel(self.features)"),
    "model": "model = Wide()",
}
FROM_OUTSIDE = {
    "definitions": WIDE.format(wrap="pass"),
    "model": "model = Wide().to(device)\nmodel.features = nn.DataParallel(model.features)",
}
NESTED = {"model": "model = nn.Sequential(nn.DataParallel(Net()), nn.ReLU()).to(device)"}


@pytest.mark.parametrize("slots", [IN_ITS_CLASS, FROM_OUTSIDE, NESTED])
@pytest.mark.parametrize(
    ("used", "codes"),
    [
        ({"after": SAVE}, ["CKPT-KEYS"]),
        ({"before": "model.load_state_dict(torch.load('m.pt'))"}, ["CKPT-KEYS"]),
        ({"after": "torch.save({'model': model.state_dict(), 'epoch': 2}, 'm.pt')"}, ["CKPT-KEYS"]),
        ({"after": "torch.save(model, 'm.pt')"}, ["CKPT-KEYS"]),
        ({}, []),
        ({"after": "torch.save(optimizer.state_dict(), 'o.pt')"}, []),
        ({"after": "torch.save(torch.ones(3), 'ones.pt')"}, []),
    ],
)
def test_a_part_of_a_network_that_was_wrapped_has_other_keys(
    slots: dict[str, str], used: dict[str, str], codes: list[str]
) -> None:
    result = convert(script(**slots, **used))
    assert result.plan is not None
    assert [f.code for f in result.plan.findings] == codes
    assert all(f.severity.value == "warning" for f in result.plan.findings)


@pytest.mark.parametrize("slots", [{"model": WRAPPED}, {"model": "model = Net()\nmodel = nn.DataParallel(model)"}])
def test_a_network_that_was_wrapped_whole_gets_the_note(slots: dict[str, str]) -> None:
    result = convert(script(**slots, after=SAVE))
    assert result.plan is not None
    assert [(f.code, f.severity.value) for f in result.plan.findings] == [("CKPT-KEYS", "note")]


def test_a_trainer_that_wraps_its_network_gets_the_note() -> None:
    trainer = (
        "class Trainer:\n    def __init__(self, net):\n        self.net = net\n"
        "        self.net = nn.DataParallel(self.net)\n\n    def save(self):\n"
        "        torch.save(self.net.state_dict(), 'm.pt')"
    )
    text = script(definitions=trainer, before="trainer = Trainer(model)", after="trainer.save()")
    result = convert(text)
    assert result.plan is not None
    assert not [f for f in result.plan.findings if f.code == "CKPT-KEYS" and f.severity.value == "warning"]


def test_module_of_a_part_that_was_wrapped() -> None:
    used = {"before": "model.features.module.eval()", "after": "torch.save(model.features.module.state_dict(), 'm.pt')"}
    output = converted(script(**FROM_OUTSIDE, **used))
    assert "\nmodel.features.eval()" in output
    assert "accelerator.save(accelerator.unwrap_model(model).features.state_dict(), 'm.pt')" in output


def test_module_of_something_else_with_that_name() -> None:
    other = "\n\n\nclass Other:\n    def __init__(self):\n        self.features = nn.DataParallel(Net())"
    slots = {**FROM_OUTSIDE, "definitions": FROM_OUTSIDE["definitions"] + other}
    used = "def show(what):\n    print(what.features.module)"
    slots["definitions"] += f"\n\n\n{used}"
    assert unchanged(script(**slots, before="show(model)\nshow(Other())")).code == "CLASH"


GIVEN = """\
class Given(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.part(x))
"""
WRAP = "part = nn.DataParallel(nn.Linear(8, 8))"
AS_ARGUMENT = {"definitions": GIVEN, "model": f"{WRAP}\nmodel = Given(part).to(device)"}
IN_A_FUNCTION = {
    "definitions": f"{GIVEN}\n\ndef build(part):\n    part = nn.DataParallel(part)\n    return Given(part)",
    "model": "model = build(nn.Linear(8, 8)).to(device)",
}
BY_NAME = {
    "definitions": GIVEN.replace("part):", "several=True):").replace(
        "        self.part = part",
        "        part = nn.Linear(8, 8)\n        if several:\n            part = nn.DataParallel(part)\n"
        "        self.part = part",
    ),
    "model": "model = Given().to(device)",
}
AS_ENTRY = {
    "definitions": GIVEN.replace("part):", "):").replace(
        "self.part = part", 'self.parts = nn.ModuleDict({"part": nn.DataParallel(nn.Linear(8, 8))})'
    ),
    "model": "model = Given().to(device)",
}
AS_ENTRY["definitions"] = AS_ENTRY["definitions"].replace("self.part(x)", 'self.parts["part"](x)')


@pytest.mark.parametrize("slots", [AS_ARGUMENT, IN_A_FUNCTION, BY_NAME])
def test_module_of_a_part_that_came_as_a_value(slots: dict[str, str]) -> None:
    used = "model.part.module.eval()\nfor p in model.part.module.parameters():\n    p.requires_grad = False"
    output = converted(script(**slots, before=used))
    assert "\nmodel.part.eval()\nfor p in model.part.parameters():\n" in output
    assert "DataParallel" not in output


@pytest.mark.parametrize(
    ("slots", "used"),
    [
        (AS_ENTRY, 'model.parts["part"].module.eval()'),
        (AS_ENTRY, "for part in model.parts.values():\n    part.module.eval()"),
        (NESTED, "model[0].module.eval()"),
        (AS_ARGUMENT, "for child in model.children():\n    child.module.eval()"),
        (AS_ARGUMENT, 'getattr(model.part, "module").eval()'),
    ],
)
def test_a_module_that_cannot_be_followed(slots: dict[str, str], used: str) -> None:
    assert unchanged(script(**slots, before=used)).code == "CLASH"


@pytest.mark.parametrize(
    ("slots", "used"),
    [
        (AS_ENTRY, 'model.parts["part"].eval()'),
        (NESTED, "part = model[0]\nif isinstance(part, nn.DataParallel):\n    part = part.module\npart.eval()"),
        (NESTED, 'part = model[0]\npart = part.module if hasattr(part, "module") else part\npart.eval()'),
        (AS_ARGUMENT, "ema = torch.optim.swa_utils.AveragedModel(Net())\nema.module.eval()"),
        (AS_ARGUMENT, "print(torch.nn.modules.module.Module)"),
    ],
)
def test_a_module_that_is_no_wrappers_or_asked_for(slots: dict[str, str], used: str) -> None:
    output = converted(script(**slots, before=used))
    assert used.splitlines()[-1] in output and "nn.DataParallel(n" not in output


@pytest.mark.parametrize(
    "used",
    [
        'for name, p in model.named_parameters():\n    p.requires_grad = name != "part.module.bias"',
        'for name, p in model.named_parameters():\n    p.requires_grad = not name.startswith("part.module.")',
        'for name, p in model.named_parameters():\n    p.requires_grad = "module." not in name',
        'for name, p in model.named_parameters():\n    p.requires_grad = "module" not in name.split(".")',
        'model.get_submodule("part.module").eval()',
        'print(model.state_dict()["part.module.weight"].shape)',
    ],
)
def test_names_with_the_wrapper_of_a_part(used: str) -> None:
    assert unchanged(script(**AS_ARGUMENT, before=used)).code == "CLASH"
    whole = f"{WRAPPED}\n{used.replace('model.', 'Given(Net()).')}"
    assert "CLASH" not in findings(script(definitions=GIVEN, model=whole))


@pytest.mark.parametrize(
    "used",
    [
        'for name, p in model.named_parameters():\n    p.requires_grad = name != "part.bias"',
        'print([name.replace("module.", "") for name, _ in model.named_parameters()])',
        'print([name for name, _ in model.named_parameters() if name.startswith("module.")])',
        'print("the module. is made", len([*model.named_modules()]))',
        'print({"module": 1}, len([*model.named_modules()]))',
    ],
)
def test_names_without_the_wrapper_of_a_part(used: str) -> None:
    assert "CLASH" not in findings(script(**AS_ARGUMENT, before=used))


@pytest.mark.parametrize(
    ("slots", "keys"),
    [(AS_ARGUMENT, "`part.module.…` is `part.…` now"), (BY_NAME, "`part.module.…` is"), (AS_ENTRY, ""), (NESTED, "")],
)
def test_keys_of_a_part_are_right_or_not_said(slots: dict[str, str], keys: str) -> None:
    result = convert(script(**slots, after=SAVE))
    assert result.plan is not None
    [finding] = result.plan.findings
    assert finding.code == "CKPT-KEYS"
    assert keys in finding.message if keys else "`" not in finding.message.replace("`module.`", "")


HELPER = """\
def on_all(model, *inputs):
    gpus = list(range(torch.cuda.device_count()))
    replicas = torch.nn.parallel.replicate(model, gpus)
    inputs = torch.nn.parallel.scatter(inputs, gpus)
    replicas = replicas[:len(inputs)]
    outputs = torch.nn.parallel.parallel_apply(replicas, inputs)
    joined = torch.nn.parallel.gather(outputs, gpus[0])
    return joined
"""
FORWARD = "optimizer.zero_grad()\n{}\nloss = F.cross_entropy(out, y)"
CHOICE = "if torch.cuda.device_count() > 1:\n    out = on_all(model, x)\nelse:\n    out = model(x)"


@pytest.mark.parametrize("forward", [CHOICE, "out = on_all(model, x)", "out = on_all(model, *[x])"])
def test_a_function_that_runs_a_model_on_all_gpus_is_a_call_of_the_model(forward: str) -> None:
    output = converted(script(definitions=HELPER, forward=FORWARD.format(forward)))
    plain = "out = model(*[x])" if "*" in forward else "out = model(x)"
    assert f"        optimizer.zero_grad()\n        {plain}\n        loss =" in output


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("    return joined", "    return joined * 2"),
        ("    gpus =", "    inputs = [2 * i for i in inputs]\n    gpus ="),
        ("    gpus =", "    model = model.layer\n    gpus ="),
        ("    return joined", "    return outputs[0]"),
        ("(replicas, inputs)", "(inputs, replicas)"),
        ("gather(outputs, gpus[0])", "gather(outputs, gpus[0], 1)"),
        ("gather(outputs, gpus[0])", "gather(outputs, gpus[0], dim=1)"),
        ("replicas[:len(inputs)]", "replicas[:1]"),
        ("replicate(model, gpus)", "replicate(model.layer, gpus)"),
        ("model, *inputs", "model, inputs"),
        ("    return joined", "    print(joined)\n    return joined"),
        ("    return joined", "    if joined.sum() > 0:\n        joined = joined + 1\n    return joined"),
    ],
)
def test_a_function_that_does_something_else_on_several_gpus_is_refused(written: str, instead: str) -> None:
    assert written in HELPER
    text = script(definitions=HELPER.replace(written, instead), forward=FORWARD.format(CHOICE))
    assert unchanged(text).code == "MODEL-PARALLEL"


def test_such_a_function_that_is_handed_on_is_refused() -> None:
    text = script(definitions=HELPER, forward=FORWARD.format(CHOICE), after="print(on_all)")
    assert unchanged(text).code == "MODEL-PARALLEL"


@pytest.mark.parametrize(
    ("used", "codes"),
    [
        ("for k, v in model.state_dict().items():\n    print(k, v.shape)", []),
        ("best = model.state_dict()\nmodel.load_state_dict(best)", []),
        ("best = model.state_dict()\nkeep_checkpoint(best)", ["CKPT-KEYS"]),
    ],
)
def test_a_state_that_no_file_has_makes_no_old_checkpoints(used: str, codes: list[str]) -> None:
    text = script(model=WRAPPED, after=used, from_imports="from project import keep_checkpoint")
    assert [code for code in findings(text) if code == "CKPT-KEYS"] == codes


@pytest.mark.parametrize(("saved", "codes"), [(SAVE, ["CKPT-KEYS"]), ("print(model)", [])])
def test_a_network_that_one_branch_wraps(saved: str, codes: list[str]) -> None:
    wrapped = "if torch.cuda.is_available():\n    model = nn.DataParallel(Net().cuda())\nelse:\n    model = Net()"
    assert findings(script(model=wrapped, after=saved)) == codes
    assert findings(script(model=wrapped.replace("nn.DataParallel(Net().cuda())", "Net().cuda()"), after=saved)) == []


@pytest.mark.parametrize(
    ("wrapper", "key", "codes"),
    [
        ("model = nn.DataParallel(model)", '"module." + k', ["CKPT-KEYS"]),
        ("model = nn.DataParallel(model)", 'f"module.{k}"', ["CKPT-KEYS"]),
        ("model = nn.DataParallel(model)", 'k.replace("module.", "")', []),
        ("model = nn.DataParallel(model)", 'k + "module."', []),
        ("pass", '"module." + k', []),
    ],
)
def test_keys_that_get_the_prefix_of_the_wrapper(wrapper: str, key: str, codes: list[str]) -> None:
    load = f"model.load_state_dict({{{key}: v for k, v in torch.load('m.pt').items()}})"
    text = script(model=f"model = Net().to(device)\nif torch.cuda.device_count() > 1:\n    {wrapper}\n    {load}")
    result = convert(text)
    assert result.plan is not None
    assert [f.code for f in result.plan.findings if f.severity.value == "warning"] == codes


OTHER = "held = DataLoader(data, batch_size=16, collate_fn=other)"
WRAPS = "model = nn.DataParallel(Net()).cuda()"


def wrapped(loop: str) -> str:
    """A script that wraps its model, with a loop over batches of a loader that is not prepared."""
    text = script(
        device="", move="x, y = x.cuda(), y.cuda()", loader=f"loader = DataLoader(data, 16)\n{OTHER}", model=WRAPS
    )
    return text.replace("class Net", "from other import other\n\n\nclass Net") + loop


@pytest.mark.parametrize(
    ("called", "expected"),
    [
        ("model(a)", "model(a.to(accelerator.device))"),  # the wrapper moved it
        ("model(a.float())", "model(a.float().to(accelerator.device))"),
        ("model(*[a])", "model(*[a])"),
        ("model(x=a)", "model(x=a.to(accelerator.device))"),
        ("model(torch.randn(4, 8))", "model(torch.randn(4, 8).to(accelerator.device))"),
        ("model(a.cuda())", "model(a.to(accelerator.device))"),
        ("model(torch.randn(4, 8, device=b.device))", "model(torch.randn(4, 8, device=b.device))"),
        ("F.relu(a)", "F.relu(a)"),
    ],
)
def test_what_the_wrapper_moved_is_moved_where_no_loader_does(called: str, expected: str) -> None:
    loop = f"for a, b in held:\n    print(a.shape)\n    print({called}.sum())\n"
    assert f"accelerator.print({expected}.sum())" in converted(wrapped(loop))


def test_a_batch_that_is_moved_in_one_case_only() -> None:
    loop = "for a, b in held:\n    if len(b) > 3:\n        a = a.cuda()\n    print(model(a).sum())\n"
    assert "print(model(a.to(accelerator.device)).sum())" in converted(wrapped(loop))
    loop = loop.replace("    if len(b) > 3:\n        a", "    a")
    assert "print(model(a).sum())" in converted(wrapped(loop))


@pytest.mark.parametrize(("given", "moved"), [("a", "x.float().to(accelerator.device)"), ("a.cuda()", "x.float()")])
def test_what_a_function_hands_to_the_wrapper(given: str, moved: str) -> None:
    loop = f"def run(x):\n    return model(x.float()).sum()\n\n\nfor a, b in held:\n    print(run({given}))\n"
    assert f"return model({moved}).sum()" in converted(wrapped(loop))


@pytest.mark.parametrize("loop", ["for a in held", "for a, b in held"])
def test_what_may_be_no_tensor_that_the_wrapper_moved_is_reported(loop: str) -> None:
    assert "DEV-LEFT" in findings(wrapped(f"{loop}:\n    print(model(a).sum())\n"))
    assert "DEV-LEFT" not in findings(wrapped(f"{loop}:\n    print(F.relu(a).sum())\n"))


def test_what_seems_to_be_no_tensor_beside_what_is_moved_is_not() -> None:
    text = wrapped("for a, b in held:\n    a = a.cuda()\n    print(model(a, b).sum())\n")
    assert "print(model(a, b).sum())" in converted(text) and "DEV-LEFT" not in findings(text)


@pytest.mark.parametrize(
    ("before", "given"),
    [
        ("mask = None\nif len(data) > 9:\n    mask = torch.ones(4, 8)\n", "mask"),
        ("mask = 1.0\nif len(data) > 9:\n    mask = torch.ones(4, 8)\n", "mask"),
    ],
)
def test_what_is_a_tensor_only_in_some_cases_is_reported(before: str, given: str) -> None:
    text = wrapped(f"{before}for a, b in held:\n    a = a.cuda()\n    print(model(a, {given}).sum())\n")
    assert f"print(model(a, {given}).sum())" in converted(text) and "DEV-LEFT" in findings(text)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("[x.cuda().float(), y]", "[x.float(), y]"),
        ("[x.cuda(), y[:, None].float()]", "[x, y[:, None].float()]"),
        ("{'a': x.cuda(), 'b': (y, 1)}", "{'a': x, 'b': (y, 1)}"),
        ("x.cuda(), y=y.long()", "x, y=y.long()"),
    ],
)
def test_what_the_wrapper_moved_of_a_batch_beside_what_the_script_moves(given: str, left: str) -> None:
    """The loader moves all of it, be it cast, or in a list that the network is called with."""
    slots = {"device": "", "model": WRAPS, "move": ""}
    text = converted(script(**slots, forward=f"loss = model({given}).mean()"))
    assert f"loss = model({left}).mean()" in text and "model, optimizer, loader = accelerator.prepare(" in text
    # Not what is used on the CPU besides, or given to something else.
    used = f"y.add_(torch.ones(1))\nloss = model({given}).mean()"
    for forward in (used, f"loss = F.relu(model(x.cuda())).mean({given})"):
        text = converted(script(**slots, forward=forward))
        assert "accelerator.prepare_data_loader(loader, device_placement=False)" in text


@pytest.mark.parametrize(
    ("before", "numbers", "told"),
    [
        ("import argparse\nargs = argparse.ArgumentParser().parse_args()", "args.gpus", True),
        ("import os\ngpus = [int(g) for g in os.environ['GPUS'].split(',')]", "gpus", True),
        ("from settings import first", "[first]", True),
        # The launch config has them.
        ("gpus = [0, 1]", "gpus", False),
        ("", "list(range(2))", False),
        ("", "None", False),
        # All of them.
        ("n = torch.cuda.device_count()", "list(range(n))", False),
        ("", "range(torch.cuda.device_count())", False),
    ],
)
def test_numbers_of_gpus_that_are_known_at_run_time(before: str, numbers: str, told: bool) -> None:
    text = script(
        before=before, device="", move="", model=f"model = nn.DataParallel(Net(), device_ids={numbers}).cuda()"
    )
    assert "model = Net()\n" in converted(text)
    assert ("DEV-INDEX" in findings(text)) is told


FOLDS = """\
from nets import {made}


def run():
    for x, y in loader:
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(model.module.state_dict(), "m.pt")


model = Att(8, 3).cuda()
model = nn.DataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for fold in range(2):
    run()
    model = {between}
    model.load_state_dict(torch.load("m.pt"))
    model = {last}
    model = nn.DataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


@pytest.mark.parametrize(
    ("made", "between", "last", "taken"),
    [
        ("Att", "Att(8, 3).cuda()", "Att(8, 3).cuda()", True),
        ("Att", "Att(8, 3).cuda()", "0\n    model = Att(8, 3).cuda()", True),
        ("Att, other", "other(8, 3).cuda()", "Att(8, 3).cuda()", False),
    ],
)
def test_a_variable_that_has_networks_with_and_without_the_wrapper(
    made: str, between: str, last: str, taken: bool
) -> None:
    """The networks are of a library: where `module` is asked for, it is that of the wrapper."""
    text = script(
        **NO_LOOP, optimizer="", device="", after=FOLDS.format(made=made, between=between, last=last), model=""
    )
    assert (".module" not in converted(text)) is taken


PAIRS = """\
class Pairs(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, at):
        return torch.ones(8), f"caption {at}", at % 3"""


def test_texts_of_a_batch_are_not_moved() -> None:
    """Torch's default puts them into lists."""
    loader = "loader = DataLoader(data, 16)\nheld = DataLoader(Pairs(), batch_size=8)"
    text = script(device="", move="x, y = x.cuda(), y.cuda()", loader=loader, model=WRAPS, definitions=PAIRS)
    loop = "for a, text, b in held:\n    a = a.cuda()\n    print(model(a, text).sum())\n    kept = text\n"
    assert "text.to(" not in converted(text + loop)


@pytest.mark.parametrize("test", ["torch.cuda.is_available()", "use_cuda"])
def test_what_is_moved_wherever_a_gpu_is_used_is_not_moved_again(test: str) -> None:
    slots = {
        "setup": "use_cuda = torch.cuda.is_available()",
        "device": "",
        "model": f"model = Net()\nif {test}:\n    model = nn.DataParallel(model).cuda()",
        "loader": f"loader = DataLoader(data, 16)\n{OTHER}",
        "move": f"if {test}:\n    x, y = x.cuda(), y.cuda()",
    }
    loop = f"for a, b in held:\n    if {test}:\n        a = a.cuda()\n    print(model(a).sum())\n"
    text = script(**slots).replace("class Net", "from other import other\n\n\nclass Net") + loop
    assert "print(model(a).sum())" in converted(text)


def test_batches_that_a_prepared_loader_moves_are_not_moved_again() -> None:
    text = script(device="", model=WRAPS, move="y = y.cuda()")
    assert "model(x)" in converted(text) and ".to(" not in converted(text)


def test_all_that_a_wrapped_network_is_called_with_that_stays_is_told_of() -> None:
    """What is asked for on the CPU keeps the loader from moving the batch, of which the script moves the labels."""
    slots = {"device": "", "model": WRAPS, "move": "print(y.numpy())\ny = y.cuda()"}
    assert "DEV-LEFT" in findings(script(**slots, forward="loss = F.cross_entropy(model(x), y)"))
    # Beside what is moved, it may be the names of the samples.
    assert "DEV-LEFT" not in findings(script(**slots, forward="loss = F.cross_entropy(model(y, x), y)"))


TRAINER = """\
class Trainer:
    def __init__(self, net, gpus):
        {before}
        {test}
            self.net = nn.DataParallel(net, device_ids=gpus)


def several(gpus):
    return len(gpus) > 1
"""


@pytest.mark.parametrize("test", ["if len(gpus) > 1:", "if torch.cuda.device_count() > 1 and gpus:"])
@pytest.mark.parametrize("before", ["self.net = net.to(device)", "self.net = net\n        self.gpus = gpus"])
def test_a_network_is_not_bound_again_where_its_wrapper_goes(before: str, test: str) -> None:
    text = script(definitions=TRAINER.format(before=before, test=test), before="trainer = Trainer(model, [0, 1])")
    output = converted(text)
    assert "if " not in output[output.index("class Trainer") : output.index("def several")]


@pytest.mark.parametrize(
    ("before", "test"),
    [("self.net = net", "if several(gpus):"), ("self.net = None", "if len(gpus) > 1:"), ("pass", "for _ in gpus:")],
)
def test_a_network_is_bound_where_its_wrapper_goes_if_it_may_be_another(before: str, test: str) -> None:
    text = script(definitions=TRAINER.format(before=before, test=test), before="trainer = Trainer(model, [0, 1])")
    assert f"        {test}\n            self.net = net\n" in converted(text)
