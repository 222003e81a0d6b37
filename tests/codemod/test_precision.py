"""AMP: mixed precision of the script's own stays its own, or is left to the accelerator where the user wants that."""

from __future__ import annotations

import textwrap

import pytest
from scripts import convert, converted, findings, found_in, lifted, script

AMP = "from torch.cuda.amp import GradScaler, autocast"
SCALED = """\
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
"""
OWN = {
    "from_imports": AMP,
    "setup": "scaler = GradScaler()",
    "forward": "optimizer.zero_grad()\nwith autocast():\n    loss = F.cross_entropy(model(x), y)",
    "backward": SCALED,
    "step": "",
}
FP16 = """\
accelerator = Accelerator(
    mixed_precision="fp16" if torch.cuda.is_available() else "no",
    dataloader_config=DataLoaderConfiguration(split_batches=True),
)
"""
MANAGED = {
    "device": FP16,
    "forward": "optimizer.zero_grad()\nwith accelerator.autocast():\n    loss = F.cross_entropy(model(x), y)",
    "backward": "accelerator.backward(loss)",
    "step": "optimizer.step()",
}


def managed(text: str) -> str:
    return converted(text, precision="managed")


def kept(text: str) -> str:
    """Why a script keeps its own precision though the accelerator was to have it."""
    result = convert(text, precision="managed")
    assert result.output is None or b"mixed_precision" not in result.output
    assert result.plan is not None
    (told,) = [f for f in result.plan.findings if f.code == "AMP-KEPT"]
    return told.message


def test_it_stays_the_scripts_own_unless_asked_for() -> None:
    stays = {
        **OWN,
        "backward": SCALED.replace("scaler.scale(loss).backward()", "accelerator.backward(scaler.scale(loss))"),
    }
    assert converted(script(**OWN)) == lifted(**stays)
    assert "AMP-KEPT" in findings(script(**OWN))
    assert "AMP-KEPT" not in findings(script())


def test_it_is_left_to_the_accelerator() -> None:
    assert managed(script(**OWN)) == lifted(**MANAGED)


@pytest.mark.parametrize(
    ("slots", "precision"),
    [
        ({"setup": "scaler = GradScaler(enabled=True)"}, '"fp16" if torch.cuda.is_available() else "no"'),
        (
            {
                "setup": "import sys\namp = len(sys.argv) > 1\nscaler = GradScaler(enabled=amp)",
                "forward": OWN["forward"].replace("autocast()", "autocast(enabled=amp)"),
            },
            '"fp16" if len(sys.argv) > 1 and torch.cuda.is_available() else "no"',
        ),
        (
            {
                "from_imports": "",
                "setup": 'scaler = torch.amp.GradScaler("cuda")',
                "forward": OWN["forward"].replace("autocast()", 'torch.autocast("cuda", dtype=torch.float16)'),
            },
            '"fp16" if torch.cuda.is_available() else "no"',
        ),
        (
            {
                "from_imports": "",
                "setup": "",
                "forward": OWN["forward"].replace("autocast()", "torch.autocast(device.type, dtype=torch.bfloat16)"),
                "backward": "loss.backward()",
                "step": "optimizer.step()",
            },
            '"bf16"',
        ),
        (
            {
                "from_imports": "",
                "setup": "",
                "before": 'amp = device.type == "cuda"\nscaler = torch.amp.GradScaler(enabled=amp)',
                "forward": OWN["forward"].replace("autocast()", "torch.autocast(device.type, enabled=amp)"),
            },
            '"fp16" if torch.cuda.is_available() else "no"',
        ),
        (  # without a GPU the script's autocast does nothing
            {"device": 'device = torch.device("cuda")'},
            '"fp16"',
        ),
        ({"device": "device = 'cpu'"}, ""),
    ],
)
def test_what_the_accelerator_is_told(slots: dict[str, str], precision: str) -> None:
    output = managed(script(**{**OWN, **slots}))
    assert f"mixed_precision={precision}" in output if precision else "mixed_precision" not in output
    assert "accelerator.autocast()" in output and "scaler" not in output.lower()


def test_gradients_are_unscaled_by_who_reads_them_first() -> None:
    clip = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    backward, *steps = SCALED.splitlines()
    before = "\n".join([backward, "scaler.unscale_(optimizer)", clip, *steps])
    after = "accelerator.backward(loss)\naccelerator.clip_grad_norm_(model.parameters(), 1.0)"
    assert managed(script(**{**OWN, "backward": before})) == lifted(**{**MANAGED, "backward": after})
    norm = "norm = model.layer.weight.grad.norm()"
    before = "\n".join([backward, "scaler.unscale_(optimizer)", norm, *steps])
    seen = norm.replace("model.", "accelerator.unwrap_model(model).")
    after = f"accelerator.backward(loss)\naccelerator.unscale_gradients(optimizer)\n{seen}"
    assert managed(script(**{**OWN, "backward": before})) == lifted(**{**MANAGED, "backward": after})


FUNCTION = """\
def train_step(model, x, y, optimizer{parameter}):
    optimizer.zero_grad()
    with {context}:
        loss = F.cross_entropy(model(x), y)
{backward}
"""


@pytest.mark.parametrize(
    ("parameter", "argument"),
    [(", scaler", ", scaler"), (", scaler", ", scaler=scaler"), (", *, scaler: GradScaler", ", scaler=scaler")],
)
def test_functions_are_not_handed_the_scaler_any_more(parameter: str, argument: str) -> None:
    before = script(
        **{
            **OWN,
            "definitions": FUNCTION.format(
                parameter=parameter, context="autocast()", backward=textwrap.indent(SCALED, "    ").rstrip()
            ),
            "forward": f"train_step(model, x, y, optimizer{argument})",
            "backward": "",
        }
    )
    star = ", *" if "*" in parameter else ""
    output = managed(before)
    assert "scaler" not in output and "GradScaler" not in output
    assert "train_step(model, x, y, optimizer)\n" in output or star
    assert "def train_step(model, x, y, optimizer):" in output


def test_a_function_with_arguments_on_lines_of_their_own() -> None:
    definition = FUNCTION.format(
        parameter="", context="autocast()", backward=textwrap.indent(SCALED, "    ").rstrip()
    ).replace("(model, x, y, optimizer)", "(\n    model,\n    x,\n    y,\n    optimizer,\n    scaler,\n)", 1)
    call = "train_step(\n    model,\n    x,\n    y,\n    optimizer,\n    scaler\n)"
    output = managed(script(**{**OWN, "definitions": definition, "forward": call, "backward": ""}))
    assert "def train_step(\n    model,\n    x,\n    y,\n    optimizer,\n):" in output
    assert "        optimizer\n        )" in output


TRAINER = """\
class Trainer:
    def __init__(self, amp):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = Net().to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.zeros(64).long()), batch_size=16)
        self.amp = amp
        self.scaler = GradScaler(enabled=self.amp)

    def loss(self, x, y):
        with autocast(enabled=self.amp):
            return F.cross_entropy(self.model(x), y)

    def fit(self):
        for x, y in self.loader:
            loss = self.loss(x.to(self.device), y.to(self.device))
            self.optimizer.zero_grad()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()


Trainer(True).fit()
"""
EMPTY = dict.fromkeys(
    ("device", "data", "loader", "model", "optimizer", "epochs", "loop", "move", "forward", "backward", "step"), ""
)


def test_a_trainer() -> None:
    output = managed(script(from_imports=AMP, definitions=TRAINER, **EMPTY))
    assert "scaler" not in output
    assert "self.optimizer.step()" in output and "with self.accelerator.autocast():" in output
    assert 'mixed_precision="fp16" if torch.cuda.is_available() else "no"' in " ".join(output.split())


@pytest.mark.parametrize(
    ("slots", "why"),
    [
        ({"forward": "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)"}, "nothing is under autocast"),
        (
            {"after": "model.eval()\nprint(model(data.tensors[0].to(device)).sum())"},
            "`model` is called outside of autocast here",
        ),
        ({"after": "torch.save(scaler.state_dict(), 'scaler.pt')"}, "`scaler.state_dict()` is more than scaling"),
        ({"setup": "scaler = GradScaler(init_scale=1024)"}, "settings of its own"),
        ({"setup": "scaler = GradScaler()\nother = GradScaler()"}, "more than one GradScaler"),
        (
            {"backward": "scaler.scale(loss).backward()\noptimizer.step()"},
            "the GradScaler makes no step",
        ),
        (
            {
                "setup": "",
                "before": "scaler = GradScaler()",
                "forward": OWN["forward"].replace("autocast()", "autocast(enabled=str(device) == 'cuda')"),
            },
            "it hangs on the device",
        ),
        ({"setup": "amp = len('x') > 1\nscaler = GradScaler(enabled=amp)"}, "not switched on where autocast is"),
        ({"setup": "scaler = GradScaler() if torch.cuda.is_available() else None"}, "not simply kept in a variable"),
        ({"setup": "scalers = [GradScaler()]\nscaler = scalers[0]"}, "not simply kept in a variable"),
        (
            {"forward": f"context = autocast()\n{OWN['forward'].replace('autocast()', 'context')}"},
            "not entered by a `with`",
        ),
        (
            {"forward": OWN["forward"].replace("autocast()", "autocast(dtype=torch.bfloat16)")},
            "losses are scaled beside bfloat16",
        ),
        (
            {"setup": "", "backward": "loss.backward()", "step": "optimizer.step()"},
            "no GradScaler scales the losses",
        ),
        (
            {"backward": SCALED.replace("scaler.scale(loss).backward()", "big = scaler.scale(loss)\nbig.backward()")},
            "`scaler.scale(loss)` is more than scaling",
        ),
        ({"batch_end": "if scaler.get_scale() < 2:\n    print('small')"}, "`scaler.get_scale()` is more than scaling"),
        (
            {"forward": OWN["forward"] + "\nwith autocast(enabled=False):\n    model(x)"},
            "`model` is called outside of autocast here",
        ),
        (
            {"forward": OWN["forward"] + "\nwith autocast(dtype=torch.bfloat16):\n    model(x)"},
            "autocast is not the same here",
        ),
    ],
)
def test_it_stays_where_not_all_is_known(slots: dict[str, str], why: str) -> None:
    text = script(**{**OWN, **slots})
    assert why in kept(text)
    assert "AMP-KEPT" in findings(text, precision="managed")


def test_a_function_that_is_also_called_without_a_scaler_keeps_it() -> None:
    definition = FUNCTION.format(
        parameter=", scaler=None",
        context="autocast()",
        backward="    if scaler:\n        " + SCALED.replace("\n", "\n        ").rstrip(),
    )
    text = script(
        **{
            **OWN,
            "definitions": definition,
            "forward": "train_step(model, x, y, optimizer, scaler)\ntrain_step(model, x, y, optimizer)",
            "backward": "",
        }
    )
    assert kept(text)


def test_autocast_inside_a_network_stays() -> None:
    text = script(**{**OWN, "forward": "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)"})
    text = text.replace("        return self.layer(x)", "        with autocast():\n            return self.layer(x)")
    assert "does not reach" in kept(text)


def test_a_condition_that_is_not_known_where_the_accelerator_is_made() -> None:
    definition = FUNCTION.format(
        parameter="", context="autocast(enabled=y.sum() > 3)", backward=textwrap.indent(SCALED, "    ").rstrip()
    )
    text = script(**{**OWN, "definitions": definition, "forward": "train_step(model, x, y, optimizer)", "backward": ""})
    assert "AMP-KEPT" in found_in(convert(text, precision="managed"))


def test_the_accelerator_is_made_when_it_is_known_whether_autocast_is_switched_on() -> None:
    setup = {
        "imports": "import argparse",
        "device": 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\nparser = '
        'argparse.ArgumentParser()\nparser.add_argument("--amp", action="store_true")\nargs = parser.parse_args()',
        "setup": "",
        "before": "scaler = GradScaler(enabled=args.amp)",
        "forward": OWN["forward"].replace("autocast()", "autocast(enabled=args.amp)"),
    }
    output = managed(script(**{**OWN, **setup}))
    assert output.index("args = parser.parse_args()") < output.index("accelerator = Accelerator(")
    assert 'mixed_precision="fp16" if args.amp and torch.cuda.is_available() else "no"' in output
