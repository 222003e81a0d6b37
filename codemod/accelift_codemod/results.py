"""What became of a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accelift_codemod.plan import Finding, Outcome, Plan

if TYPE_CHECKING:
    from accelift_codemod.project.sharing import Sharer


@dataclass(frozen=True)
class FileResult:
    """What became of one file.

    `error` is set for a file that could not be processed; `skipped` for one that has nothing to do with torch;
    `fault` if one of the checks on the tool's own output failed. `diff` is text whatever the `encoding` of the file:
    `diff.encoded` makes of it what can be applied to the file.

    `distributes` tells that the script distributes itself, in a way that is converted.

    `members` are the other files that a script's conversion changes, among those of its `program`; `sharers` are other
    scripts that use what it changes in them, and `instead` is what can be done if those stay as they are.
    """

    path: str
    plan: Plan | None = None
    diff: str = ""
    encoding: str = "utf-8"
    output: bytes | None = None
    config: str = ""
    error: str = ""
    skipped: bool = False
    fault: bool = False
    distributes: bool = False
    members: tuple[FileResult, ...] = ()
    program: tuple[str, ...] = ()
    sharers: tuple[Sharer, ...] = ()
    instead: FileResult | None = None

    @classmethod
    def refused(cls, path: str, digest: str, finding: Finding) -> FileResult:
        """What became of a file that is left alone, for a reason."""
        return cls(path, Plan(path, digest, (), (finding,), Outcome.REFUSED, finding.message))

    @property
    def outcome(self) -> Outcome:
        return self.plan.outcome if self.plan is not None else Outcome.NOTHING

    def to_json(self) -> dict[str, Any]:
        """The result as plain data: the same keys for every file, empty if they do not apply.

        A file with an `error` may have edits all the same: those of a conversion that could not be written.
        """
        data = (self.plan or Plan(self.path, "")).to_json()
        if self.skipped:
            data["reason"] = "does not mention torch"
        if self.error:
            data["outcome"] = "error"
        return {**data, "error": self.error, "diff": self.diff, "launch_config": self.config}
