"""Scripts that use Accelerate, made from the slots of `scripts.py`, and what `accelift check` says of them.

A line that is to be reported ends with the comment `# HERE`.
"""

from __future__ import annotations

from accelift_codemod.checker import Choice, check_bytes
from accelift_codemod.plan import Finding

from tests.codemod.scripts import lifted

OURS = "from accelift import Accelerator, DataLoaderConfiguration"
HF = "from accelerate import Accelerator"
LOADERS = """\
loader = DataLoader(data, batch_size=16, shuffle=True)
test_loader = DataLoader(data, batch_size=9)
"""
# An evaluation on a prepared loader, in the place of `after`.
EVALUATION = """\
correct = 0
with torch.no_grad():
    for x, y in test_loader:
        {body}
accelerator.print(correct / len(data))
"""


def script(library: str = "accelerate", **slots: str) -> str:
    """A right script for N processes on one of the libraries, with other statements in some slots."""
    defaults = {"accelerate": HF, "device": "accelerator = Accelerator()"} if library == "accelerate" else {}
    return lifted(**{**defaults, **slots})


def evaluating(body: str, library: str = "accelerate", **slots: str) -> str:
    """A script that also evaluates on a prepared loader; `body` is what the loop does with `x` and `y`."""
    lines = f"\n{' ' * 8}".join(body.strip("\n").split("\n"))
    return script(
        library,
        **{
            "loader": LOADERS,
            "prepare": "model, optimizer, loader, test_loader = accelerator.prepare(\n"
            "    model, optimizer, loader, test_loader\n)",
            "after": EVALUATION.format(body=lines),
            **slots,
        },
    )


def findings(text: str, code: str = "") -> list[Finding]:
    """What is found in a script: of one code, or whatever is worse than a note."""
    result = check_bytes(text.encode(), "/train.py", Choice(select=(code,) if code else ()))
    assert not result.error, result.error
    assert result.plan is not None, "not checked"
    return [f for f in result.plan.findings if code or f.severity.value != "note"]


def marked(text: str) -> list[int]:
    """The numbers of the lines that are to be reported."""
    return [number for number, line in enumerate(text.splitlines(), start=1) if line.endswith("# HERE")]
