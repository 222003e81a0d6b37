"""What is said of a fault in the tool itself."""

from __future__ import annotations

import traceback
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def told(error: Exception) -> str:
    """A sentence for whoever meets the fault, with what its report has to say: the error, and where it came up."""
    kind, place = type(error).__name__, _place(error)
    what = " ".join(str(error).split())
    detail = f"{kind}: {what}" if what else kind
    return f"was given up because of a fault in accelift itself ({detail}{place}); please report it"


def _place(error: Exception) -> str:
    """The last line of the tool that ran, for what goes wrong in a library is asked for there."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename).resolve()
        if file.is_relative_to(_PACKAGE):
            return f", in {file.relative_to(_PACKAGE).as_posix()}, line {frame.lineno}"
    return ""
