"""Small complete training scripts made from slots, and questions about what the tool makes of them.

A test says what goes into a slot before and after the conversion, and compares whole files:

    assert converted(script(backward="loss.backward()")) == lifted(backward="accelerator.backward(loss)")
"""

from __future__ import annotations

import ast
import textwrap
from functools import lru_cache

from accelift_codemod.api import convert_bytes
from accelift_codemod.options import Options
from accelift_codemod.plan import Finding, Outcome
from accelift_codemod.results import FileResult

# At the root of the file system no project's settings change the length of lines: it is black's, 88.
PATH = "/train.py"

# What takes the place of `device = ...` at module level: if nothing reads the device any more, and if something does.
CREATED = "accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(split_batches=True))"
REBOUND = f"{CREATED}\ndevice = accelerator.device"

# Slots of a script without a training loop of its own; and without models and optimizers, too.
NO_LOOP = dict.fromkeys(("epochs", "loop", "move", "forward", "backward", "step"), "")
NO_BODY = {**NO_LOOP, "model": "", "optimizer": ""}

# One epoch of training, as the body of a function.
TRAINS = """\
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
"""

# The same, as a method of a trainer.
FIT = """\
    def fit(self):
        for x, y in self.loader:
            x, y = x.to(device), y.to(device)
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
"""

_HEAD = """\
{imports}
import torch
import torch.nn as nn
import torch.nn.functional as F
{accelerate}
from torch.utils.data import DataLoader, TensorDataset
{from_imports}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        return self.layer(x)


{definitions}
"""

# In this order, the slots of the script's body. Those of the batch loop and of the epoch come indented.
_BODY = ("setup", "device", "data", "loader", "model", "optimizer", "prepare", "before", "epochs")
_EPOCH = ("epoch", "loop")
_BATCH = ("move", "forward", "backward", "step", "batch_end")
_SLOTS = frozenset(("imports", "from_imports", "definitions", *_BODY, *_EPOCH, *_BATCH, "epoch_end", "after")) - {
    "prepare"
}

_LEGACY = {
    "accelerate": "",
    "device": 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
    "data": "data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)",
    "loader": "loader = DataLoader(data, batch_size=16, shuffle=True)",
    "model": "model = Net().to(device)",
    "optimizer": "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
    "epochs": "for epoch in range(2):",
    "loop": "for x, y in loader:",
    "move": "x, y = x.to(device), y.to(device)",
    "forward": "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)",
    "backward": "loss.backward()",
    "step": "optimizer.step()",
}
_LIFTED = {
    **_LEGACY,
    "accelerate": "from accelift import Accelerator, DataLoaderConfiguration",
    "device": CREATED,
    "model": "model = Net()",
    "prepare": "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)",
    "move": "",
    "backward": "accelerator.backward(loss)",
}


def script(*, main: bool = False, **slots: str) -> str:
    """A training script as people write it for one GPU: a `Net`, SGD, a DataLoader, two epochs.

    Args:
        main: the script's body is the function `main()`, run under `if __name__ == "__main__":`; otherwise it stands at
            module level.
        slots: statements, without indentation, in place of the default ones: `imports` (at the very top),
            `from_imports` (after those of torch), `definitions` (at module level), `setup` (before the device is
            chosen), `device`, `data`, `loader`, `model`, `optimizer`, `before` (the loop over epochs), `epochs` (its
            header), `epoch` (at its start), `loop` (the header of the batch loop), `move` (of the batch), `forward`,
            `backward`, `step`, `batch_end`, `epoch_end`, `after` (training).
            An empty slot leaves nothing.
    """
    return _build(_LEGACY, main, slots)


def lifted(*, main: bool = False, **slots: str) -> str:
    """What the conversion makes of `script()`, with other statements in some of its slots.

    Two slots more: `prepare` (the call of `accelerator.prepare`, before `before`) and `accelerate` (its import).
    """
    defaults = dict(_LIFTED)
    if main:  # one level deeper, the line is too long for black
        defaults["device"] = (
            "accelerator = Accelerator(\n    dataloader_config=DataLoaderConfiguration(split_batches=True)\n)"
        )
    return _build(defaults, main, slots)


def _build(defaults: dict[str, str], main: bool, slots: dict[str, str]) -> str:
    known = _SLOTS | ({"prepare", "accelerate"} if defaults["accelerate"] else set())
    unknown = set(slots) - known
    assert not unknown, f"no such slot: {', '.join(sorted(unknown))}"
    filled = {**dict.fromkeys((*_SLOTS, "prepare"), ""), **defaults, **slots}
    lines: list[str] = []
    for depth, names in enumerate((_BODY, _EPOCH, _BATCH)):
        lines += (_indented(filled[name], depth) for name in names)
    lines += (_indented(filled["epoch_end"], 1), _indented(filled["after"], 0))
    body = "".join(lines)
    if main:
        body = f"def main():\n{_indented(body, 1)}\n\nif __name__ == '__main__':\n    main()\n"
    head = "".join(_line(line, filled) for line in _HEAD.splitlines(keepends=True))
    return f"{head.rstrip()}\n\n\n{body}"


def _line(line: str, filled: dict[str, str]) -> str:
    """A line of the head; a slot with its statements, an empty one without an empty line."""
    return _indented(filled[line.strip()[1:-1]], 0) if line.startswith("{") else line


def _indented(code: str, depth: int) -> str:
    text = textwrap.dedent(code).strip("\n")
    return textwrap.indent(text, "    " * depth) + "\n" if text else ""


# ---- what the tool makes of a script


def filled(template: str, slots: dict[str, str]) -> str:
    """A text with statements in the lines that are a slot, `{name}`."""
    lines = []
    for line in template.splitlines():
        indent, slot = line[: len(line) - len(line.lstrip())], line.strip()
        inner = slots[slot[1:-1]].splitlines() if slot.startswith("{") else None
        lines += [line] if inner is None else [indent + part for part in inner]
    return "\n".join(lines) + "\n"


def convert(text: str, **options: object) -> FileResult:
    """What becomes of a script, whatever it is. `options` are those of `accelift_codemod.options.Options`."""
    return _convert(text, Options(**options))  # type: ignore[arg-type]


@lru_cache(maxsize=64)  # many tests ask several things of one script
def _convert(text: str, options: Options) -> FileResult:
    return convert_bytes(text.encode(), PATH, options)


def converted(text: str, **options: object) -> str:
    """The converted script. It is one, it parses, and converting it again changes nothing."""
    result = convert(text, **options)
    assert not result.error, result.error
    assert result.output is not None, f"not converted: {found_in(result)}"
    output = result.output.decode()
    ast.parse(output)
    again = convert(output, **options)
    assert again.output is None and again.outcome is Outcome.NOTHING, "converting the output again changes it"
    return output


def severities(text: str, code: str, **options: object) -> list[str]:
    """How severe the findings of one code are."""
    plan = convert(text, **options).plan
    assert plan is not None
    return [finding.severity.value for finding in plan.findings if finding.code == code]


def unchanged(text: str, **options: object) -> Finding:
    """The one finding that says why a script is left alone: it has no output and no diff."""
    result = convert(text, **options)
    assert not result.error, result.error
    assert result.output is None and result.diff == "", "converted"
    assert result.outcome in (Outcome.REFUSED, Outcome.NOTHING)
    assert result.plan is not None and len(result.plan.findings) == 1, found_in(result)
    return result.plan.findings[0]


def findings(text: str, **options: object) -> list[str]:
    """The codes of the findings, in the order of their lines."""
    return found_in(convert(text, **options))


def found_in(result: FileResult) -> list[str]:
    """The codes of a result's findings, in the order of their lines."""
    assert result.plan is not None, result.error
    return [finding.code for finding in result.plan.findings]


def removed(text: str, **options: object) -> list[str]:
    """The lines that the conversion takes out, in order, without their indentation."""
    return _signed(convert(text, **options), "-")


def added(text: str, **options: object) -> list[str]:
    """The lines that the conversion puts in, in order, without their indentation."""
    return _signed(convert(text, **options), "+")


def _signed(result: FileResult, sign: str) -> list[str]:
    lines = [line for line in result.diff.splitlines() if not line.startswith(("---", "+++"))]
    return [line[1:].strip() for line in lines if line.startswith(sign)]


def creation(text: str, **options: object) -> str:
    """The call that makes the accelerator in the converted script, on one line."""
    calls = [
        node
        for node in ast.walk(ast.parse(converted(text, **options)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Accelerator"
    ]
    assert len(calls) == 1, f"{len(calls)} accelerators"
    return ast.unparse(calls[0])
