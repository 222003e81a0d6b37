"""What became of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from accelift_codemod.outcomes import Outcome

if TYPE_CHECKING:
    from accelift_codemod.plan import Finding, Plan
    from accelift_codemod.project.sharing import Sharer
    from accelift_codemod.rewrite import Change


@dataclass(frozen=True)
class FileResult:
    """What became of one file.

    `error` is set for a file that could not be processed; `skipped` for one that has nothing to do with torch; `fault`
    if one of the checks on the tool's own output failed. `diff` is text whatever the `encoding` of the file:
    `diff.encoded` makes of it what can be applied to the file.

    `distributes` tells that the script distributes itself, in a way that is converted; `cpu`, that it may want the CPU
    although there are GPUs. `hunks` are the lines that differ.

    `members` are the other files that a script's conversion changes, among those of its `program`; `separable` tells
    that they can stay as they are; `left` are the files of a script that is left alone. `changes` has a digest of the
    edits of each global of these files, by file and name; `sharers` are other files that use what means something else
    then. `otherwise` is what becomes of a script if others are in its way: it keeps its own distribution, or what is
    shared.
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
    cpu: bool = False
    hunks: tuple[Change, ...] = ()
    members: tuple[FileResult, ...] = ()
    program: tuple[str, ...] = ()
    separable: bool = False
    left: tuple[str, ...] = ()
    changes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    sharers: tuple[Sharer, ...] = ()
    otherwise: FileResult | None = None

    @classmethod
    def refused(cls, path: str, digest: str, finding: Finding) -> FileResult:
        """What became of a file that is left alone, for a reason."""
        from accelift_codemod.plan import Plan  # late, as below: most files of a tree have no plan

        return cls(path, Plan(path, digest, (), (finding,), Outcome.REFUSED, finding.message))

    def light(self) -> FileResult:
        """The result without the syntax trees that its edits, and those of its findings, point into."""
        plan = self.plan
        if plan is not None and plan.edits:
            plan = replace(plan, edits=tuple(replace(edit, node=None) for edit in plan.edits))
        if plan is not None and any(finding.fix for finding in plan.findings):
            plan = replace(plan, findings=tuple(replace(finding, fix=()) for finding in plan.findings))
        otherwise = self.otherwise.light() if self.otherwise is not None else None
        return replace(self, plan=plan, members=tuple(m.light() for m in self.members), otherwise=otherwise)

    @property
    def outcome(self) -> Outcome:
        return self.plan.outcome if self.plan is not None else Outcome.NOTHING

    def to_json(self) -> dict[str, Any]:
        """The result as plain data: the same keys for every file, empty if they do not apply.

        A file with an `error` may have edits all the same: those of a conversion that could not be written.
        """
        from accelift_codemod.plan import Plan

        data = (self.plan or Plan(self.path, "")).to_json()
        if self.skipped:
            data["reason"] = "does not mention torch"
        if self.error:
            data["outcome"] = "error"
        return {**data, "error": self.error, "diff": self.diff, "launch_config": self.config}
