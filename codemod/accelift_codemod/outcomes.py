"""What becomes of a file, and how sure or bad it is: what is told of files that have nothing to do with torch, too."""

from __future__ import annotations

from enum import Enum


class Safety(str, Enum):
    """How sure an edit is to be right.

    SAFE: it is proved. REVIEW: it is right if an assumption holds, which nearly always does and which a look at the
    line tells. UNSAFE: it needs somebody's word, so it is only made with `--unsafe`.
    """

    SAFE = "safe"
    REVIEW = "review"
    UNSAFE = "unsafe"


class Severity(str, Enum):
    """How bad what a finding reports is on several processes."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Outcome(str, Enum):
    """What became of a file."""

    CONVERTED = "converted"
    CONVERTED_WITH_FINDINGS = "converted with findings"
    REFUSED = "refused"
    NOTHING = "nothing to do"
    CHECKED = "checked"
