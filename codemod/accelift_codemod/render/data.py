"""Results for programs: JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable

from accelift_codemod.report import Report
from accelift_codemod.results import FileResult

VERSION = 1


def as_json(results: Iterable[FileResult], report: Report, exit_code: int) -> str:
    """One JSON document: every file with its edits, findings, diff and launch config, and the counts.

    It is plain ASCII, so that it can be written whatever the encoding of the terminal and the names of the files.
    """
    document = {
        "version": VERSION,
        "files": [r.to_json() for r in results],
        "summary": report.to_json(),
        "exit_code": exit_code,
    }
    return json.dumps(document, indent=2) + "\n"
