"""`accelift check` tells what Accelerate wraps, and what it leaves as it is: models in which nothing is trained."""

from __future__ import annotations

import pytest

from tests.codemod.checks import findings, marked, script

FORWARD = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)"
MADE_BY_NAME = """\
def make(spec, **more):
    return getattr(importlib.import_module(spec["module"]), spec["name"])(**more)
"""
SPECTRUM = """\
class Spectrum(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.ones(8))
        self.squash = nn.Tanh()

    def amounts(self, x):
        return self.squash(x * self.window)


class Weighted(Spectrum):
    def __init__(self):
        super().__init__()
        self.layer = {layer}
"""
METHOD = "guesses = other.amounts(x)"


def other_model(made: str, prepare: str = "other = accelerator.prepare(other)", layer: str = "nn.Linear(8, 8)") -> str:
    """A script that prepares a second model, and calls a method of it."""
    definitions = SPECTRUM.format(layer=layer)
    return script(definitions=definitions, before=f"{made}\n{prepare}", forward=f"{METHOD}\n{FORWARD}")


FROZEN_OTHER = "other = Weighted()\nfor p in other.parameters():\n    p.requires_grad = False"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (other_model("other = Weighted()"), ["DDP-METHOD"]),
        (other_model("other = Weighted()", layer="torch.hub.load('a', 'b')"), ["DDP-METHOD"]),
        (other_model("other = Weighted()\nother.layer.requires_grad_(True)"), ["DDP-METHOD"]),
        (other_model(FROZEN_OTHER.replace("other.p", "other.layer.p")), ["DDP-METHOD"]),
        # nothing in these is trained: on GPUs there is no wrapper around them
        (other_model("other = Spectrum()"), []),
        (other_model("other = Weighted()", layer="nn.Sequential(nn.ReLU(), nn.Flatten())"), []),
        (other_model("other = Weighted()", layer="from_elsewhere(optimizer)"), []),  # perhaps no network
        (other_model("other = Weighted()\nother.requires_grad_(False)"), []),
        (other_model(FROZEN_OTHER), []),
        (other_model("other = Weighted()\nfor p in other.parameters():\n    p.requires_grad = asked()"), []),
        # an optimizer gets some of its parameters
        (
            other_model(
                f"{FROZEN_OTHER}\nother.layer.requires_grad_(True)\nsecond = torch.optim.SGD(other.layer.parameters())"
            ),
            ["DDP-METHOD"],
        ),
    ],
)
def test_models_with_nothing_to_train_are_not_wrapped(text: str, expected: list[str]) -> None:
    assert [f.code for f in findings(text, "DDP-METHOD")] == expected


def test_a_frozen_model_is_neither_wrapped_nor_saved_with_a_prefix() -> None:
    save = "torch.save(other.state_dict(), 'other.pt')\nother.load_state_dict(torch.load('other.pt'))"
    for made, expected in ((FROZEN_OTHER, []), ("other = Weighted()", ["CKPT-KEYS", "SAVE-WRAPPED"])):
        text = other_model(made, f"other = accelerator.prepare(other)\n{save}")
        assert [f.code for code in ("CKPT-KEYS", "SAVE-WRAPPED") for f in findings(text, code)] == expected


@pytest.mark.parametrize("called", ["model.head(x)", "model(x)"])
def test_a_function_that_makes_anything_makes_another_object_with_each_call(called: str) -> None:
    """What one function makes by their names, models and optimizers, are not one object."""
    text = script(
        imports="import importlib",
        definitions=MADE_BY_NAME,
        model="model = make({})",
        optimizer="optimizer = make({}, params=model.parameters())",
        forward=f"optimizer.zero_grad()\nloss = F.cross_entropy({called}, y)",
        step="accelerator.clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()\noptimizer.param_groups[0]",
    )
    found = [f.message.partition(":")[0] for f in findings(text, "DDP-METHOD")]
    assert found == (["`model.head`"] if called == "model.head(x)" else [])


def test_where_deepspeed_makes_the_optimizer_no_wrapper_is_supposed() -> None:
    text = other_model("other = Weighted()")
    deepspeed = text.replace("optimizer = torch.optim.SGD", "optimizer = accelerate.utils.DummyOptim")
    deepspeed = f"import accelerate.utils\n{deepspeed}"
    assert deepspeed.count("DummyOptim") == 1
    assert findings(text, "DDP-METHOD") and not findings(deepspeed, "DDP-METHOD")


@pytest.mark.parametrize(
    ("made", "wrapped"),
    [
        ("accelerator = Accelerator()\nif accelerator.state.deepspeed_plugin is None:\n    print('plain')", True),
        ("plugin = make_plugin() if args.shard else None\naccelerator = Accelerator(fsdp_plugin=plugin)", True),
        ("accelerator = Accelerator(deepspeed_plugin=perhaps())", True),
        ("plugin = make_plugin()\naccelerator = Accelerator(fsdp_plugin=plugin)", False),
        ("accelerator = Accelerator(deepspeed_plugin=make_plugin())", False),
        ("settings = {'fsdp_plugin': make_plugin()}\naccelerator = Accelerator(**settings)", False),
        ("settings = {}\nsettings['deepspeed_plugin'] = make_plugin()\naccelerator = Accelerator(**settings)", False),
        ("settings = {'fsdp_plugin': perhaps()}\naccelerator = Accelerator(**settings)", True),
    ],
)
def test_a_model_is_wrapped_unless_another_way_of_sharing_it_out_is_set_up(made: str, wrapped: bool) -> None:
    perhaps = "def perhaps():\n    if not args.shard:\n        return None\n    return make_plugin()\n"
    text = other_model("other = Weighted()").replace("accelerator = Accelerator()", f"{perhaps}\n\n{made}")
    assert bool(findings(text, "DDP-METHOD")) is wrapped


ASKED = "if getattr(accelerator.state, 'fsdp_plugin', None) is not None:\n    print('sharded')"
PRETRAINED = "from transformers import AutoModelForCausalLM"


@pytest.mark.parametrize(("asked", "severity"), [(ASKED, "warning"), ("print('plain')", "error")])
def test_a_script_that_asks_for_another_way_of_sharing_a_model_out(asked: str, severity: str) -> None:
    """Every process has a part of it then, and saves it together with the others."""
    text = script(
        from_imports=PRETRAINED,
        model="model = AutoModelForCausalLM.from_pretrained('m')",
        before=asked,
        after="model.save_pretrained('m')",
    )
    (method,) = findings(text, "DDP-METHOD")
    (race,) = findings(text, "SAVE-RACE")
    assert method.severity.value == severity
    assert ("state_dict=accelerator.get_state_dict" in race.remedy) is (severity == "warning")


PREPARE = "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)"
SCALED = """\
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.scale = 1.0
        self.name = "a"

    def forward(self, x):
        return self.layer(x) * self.scale
"""


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("model.scale = 1 / (epoch + 1)", True),
        ("model.scale, other = 1, 2", True),
        ("accelerator.unwrap_model(model).scale = 1 / (epoch + 1)", False),
        ("model.module.scale = 1 / (epoch + 1)", False),
        ("if hasattr(model, 'module'):\n    model.module.scale = 2\nelse:\n    model.scale = 2", False),
        ("model.name = 'b'", False),  # which the model does not ask for
        ("model.training = True", False),  # which the wrapper hands on
        ("model.mark = epoch\nprint(model.mark)", False),  # which only the script reads
    ],
)
def test_what_is_set_on_the_wrapper_the_model_does_not_see(line: str, reported: bool) -> None:
    slots = {"definitions": SCALED, "model": "model = Scaled()", "epoch": line}
    found = [f.message for f in findings(script(**slots), "DDP-METHOD")]
    assert [" is set on the wrapper " in message for message in found] == ([True] if reported else [])
    assert findings(script("accelift", **slots), "DDP-METHOD") == []
    before = script(**{**slots, "prepare": f"epoch = 1\n{line}\n{PREPARE}", "epoch": ""})
    assert "module" in line or findings(before, "DDP-METHOD") == []


LOSSES = "losses = [F.cross_entropy(out, y), out.pow(2).mean()]"
RETAINS = "for part in losses:\n    accelerator.backward(part, retain_graph=True){}"


@pytest.mark.parametrize(
    ("forward", "told"),
    [
        (f"out = model(x)\n{LOSSES}\n{RETAINS}", True),
        (f"losses = model(x).unbind(1)\n{RETAINS.replace('part,', 'part.mean(),')}", True),
        (f"out = model(x).detach().requires_grad_()\n{LOSSES}\n{RETAINS}\n    model(x)", False),
        ("for part in (1, 2):\n    accelerator.backward(model(x).mean() * part, retain_graph=True){}", False),
        ("accelerator.backward(F.cross_entropy(model(x), y), retain_graph=True){}", False),
    ],
)
def test_several_rounds_of_a_loop_go_back_through_one_forward_pass(forward: str, told: bool) -> None:
    text = script(forward="optimizer.zero_grad()\n" + forward.format("  # HERE" * told), backward="")
    assert [f.line for f in findings(text, "DDP-TWOBWD")] == marked(text)
    ours = script(library="accelift", forward="optimizer.zero_grad()\n" + forward.format(""), backward="")
    assert findings(ours, "DDP-TWOBWD") == []


GIVEN = """\
import torch
from accelerate import Accelerator


class Trainer(torch.nn.Module):
    def __init__(self, net{annotated}):
        super().__init__()
        self.accelerator = Accelerator()
        self.net = net
        self.optimizer = torch.optim.Adam(net.parameters())
        self.net, self.optimizer = self.accelerator.prepare(self.net, self.optimizer)

    def step(self, x):
        self.accelerator.backward(self.net(x).mean())
        self.accelerator.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()

    def generate(self, x):
        return {whole}.generate(x)

    def restore(self, path):
        net = self.accelerator.unwrap_model(self.net)
        net.restore(path)
"""


@pytest.mark.parametrize("annotated", ["", ": Elsewhere"])
@pytest.mark.parametrize(("whole", "told"), [("self.net", True), ("self.accelerator.unwrap_model(self.net)", False)])
def test_a_trainer_that_is_given_a_network_of_which_nothing_is_known(annotated: str, whole: str, told: bool) -> None:
    text = GIVEN.format(annotated=annotated, whole=whole)
    assert [f.message.partition(":")[0] for f in findings(text, "DDP-METHOD")] == ["`self.net.generate`"] * told


TWICE = """\
optimizer.zero_grad()
out = model(x)
with {}:
    accelerator.backward(F.cross_entropy(out, y), retain_graph=True)
accelerator.backward(out.pow(2).mean()){}"""


@pytest.mark.parametrize("around", ["accelerator.no_sync(model)", "model.no_sync()", "accelerator.accumulate(model)"])
def test_a_second_backward_pass_where_the_first_one_is_under_no_sync(around: str) -> None:
    """The forward pass before it has told the wrapper to average."""
    text = script(forward="", backward=TWICE.format(around, "  # HERE"))
    assert [f.line for f in findings(text, "DDP-TWOBWD")] == marked(text)


@pytest.mark.parametrize(
    ("definitions", "loop"),
    [
        ("", "with accelerator.no_sync(model):\n    {}\n"),
        ("", "with paused:\n    {}\n"),
        ("def go(x, y):\n    {}\n", "with accelerator.no_sync(model):\n    go(x, y)"),
    ],
)
def test_a_forward_pass_under_no_sync_is_averaged_by_no_backward_pass(definitions: str, loop: str) -> None:
    twice = TWICE.format("accelerator.autocast()", "").replace("\n", "\n    ")
    slots = {
        "definitions": definitions.format(twice),
        "forward": "paused = model.no_sync()",
        "backward": loop.format(twice),
    }
    assert findings(script(**slots), "DDP-TWOBWD") == []


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("net.parameters()", True),
        ("[{'params': net.parameters(), 'lr': 0.1}]", True),
        ("filter(lambda p: p.requires_grad, net.parameters())", True),
        ("head.parameters()", False),
    ],
)
def test_a_network_of_which_an_optimizer_gets_the_parameters(given: str, found: bool) -> None:
    """Nothing else is known of it."""
    text = f"""\
import torch
from accelerate import Accelerator


class Fit:
    def __init__(self, net, head, loader):
        self.accelerator = Accelerator()
        optimizer = torch.optim.Adam({given})
        self.net, self.optimizer, self.loader = self.accelerator.prepare(net, optimizer, loader)

    def sample(self, x):
        return self.net.generate(x)
"""
    assert [f.line for f in findings(text, "DDP-METHOD")] == ([12] if found else [])
