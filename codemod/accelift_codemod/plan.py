"""A plan: edits and findings as data, made for one exact source."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from accelift_codemod.outcomes import Outcome as Outcome
from accelift_codemod.outcomes import Safety as Safety
from accelift_codemod.outcomes import Severity as Severity

if TYPE_CHECKING:
    from accelift_codemod.facts.values import Evidence


@dataclass(frozen=True)
class Assumption:
    """What an edit takes for granted and the tool cannot prove: words that follow "if"."""

    text: str
    safety: Safety = Safety.REVIEW


class Span(NamedTuple):
    """A place in the source: lines from 1, columns in UTF-8 bytes from 0, as in `ast`."""

    line: int
    column: int
    end_line: int
    end_column: int

    @classmethod
    def of(cls, node: ast.AST) -> Span:
        """The place of a node; of a decorated definition without its decorators."""
        return cls(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def contains(self, other: Span) -> bool:
        start, end = (self.line, self.column), (self.end_line, self.end_column)
        return start <= (other.line, other.column) and (other.end_line, other.end_column) <= end


class Operation(str, Enum):
    """What an edit does to the node at its place.

    Expressions: BECOME replaces it by `code`; RECEIVER keeps what a method is called on, or an attribute read of
    (`x.to(d)` -> `x`); LEFT keeps the left operand (`x / k`, `x == k` -> `x`), of a choice
    the first arm; INNER keeps the argument at `place`,
    or of the keyword `code` (`f(x, a)` -> `x`); DIRECT calls what processes are started with
    (`spawn(f, args=(x,), nprocs=n)` -> `f(code, x)`);
    CALL_ON hands the receiver to a function (`x.m(a)` -> `code(x, a)`); SURROUND puts the
    expression, the value of a keyword argument, or a call's argument at `place` into `code`, in place of its `{}`;
    NAME_ARGUMENTS gives the names in `code` to positional arguments;
    ADD_ARGUMENT gives a call one more argument, `code`, at `place` (None: as the last one); ARGUMENT replaces the
    positional argument at `place`.
    Parts: KEYWORD renames or replaces a keyword argument, PARAMETER a parameter, with its annotation and
    default, by `code`; ADD_PARAMETER gives a function one more, at `place`; DROP_ARGUMENT
    removes the argument that an expression is from its call, or the one at `place` of a call (of a literal or an
    f-string, which has no address), DROP_PARAMETER a parameter, DROP_NAME a name from an import.
    TEST replaces the test of an `if` or `while`.
    Statements: UNPAIR takes out of `x, y = x, f(y)` what is set to itself when its parts are edited; DROP removes it,
    SWAP puts `code` in its place, BEFORE and AFTER put `code` next to it, ENCLOSE puts
    the statements of the span under the header `code`, BARE takes away the header of the statement, and what was under
    it stands in its place.
    """

    BECOME = "become"
    RECEIVER = "receiver"
    LEFT = "left"
    INNER = "inner"
    CALL_ON = "call-on"
    DIRECT = "direct"
    SURROUND = "surround"
    METHOD = "method"
    NAME_ARGUMENTS = "name-arguments"
    ADD_ARGUMENT = "add-argument"
    ARGUMENT = "argument"
    KEYWORD = "keyword"
    PARAMETER = "parameter"
    ADD_PARAMETER = "add-parameter"
    DROP_ARGUMENT = "drop-argument"
    DROP_PARAMETER = "drop-parameter"
    DROP_NAME = "drop-name"
    TEST = "test"
    UNPAIR = "unpair"
    DROP = "drop"
    SWAP = "swap"
    BEFORE = "before"
    AFTER = "after"
    ENCLOSE = "enclose"
    BARE = "bare"


STATEMENT_OPERATIONS = frozenset(
    {Operation.DROP, Operation.SWAP, Operation.BEFORE, Operation.AFTER, Operation.ENCLOSE, Operation.BARE}
)


FOR_EACH = "another process may make it at the same time, and each needs it"  # why folders may be there already
TAKEN_OUT = "only the script's own distribution has a use for it"
DEALT = "the prepared loader moves it"  # why the moves of batches go
STATE = "PartialState()"  # what code asks about the processes where the accelerator is not at hand
TYPED = ": Accelerator"  # behind the name of a parameter that gets it, where parameters have types
_STATE_CAN = frozenset("print is_main_process is_local_main_process main_process_first wait_for_everyone".split())


class Need(str, Enum):
    """Whether the code that an edit writes uses the accelerator.

    STRONG: the conversion is wrong without the edit, so the accelerator is brought to its place. WEAK: the edit is
    made where the accelerator is at hand anyway, and becomes its `otherwise` finding elsewhere.
    """

    NONE = "none"
    WEAK = "weak"
    STRONG = "strong"


_LINES = r"`[^`]*`|\blines? (\d+(?:, \d+)*)(?!\d|, \d)"


def renamed_lines(text: str, named: Callable[[int], str], of: str = "") -> str:
    """Words with other names for the lines that they mention (`line 3`), those in quoted code left alone.

    It is the lines that are said to be of a file (`line 3 of utils.py`), or those of which that is not said.
    """
    said = rf"(?= of {re.escape(of)}(?!\w))" if of else r"(?! of \S)"

    def rename(found: re.Match[str]) -> str:
        return ", ".join(named(int(n)) for n in found[1].split(", ")) if found[1] else found[0]

    return re.sub(_LINES + said, rename, text)


@dataclass(frozen=True)
class Finding:
    """Something a person should know: what happens on several processes, where, and what to do."""

    code: str
    severity: Severity
    line: int
    message: str
    remedy: str
    evidence: tuple[Evidence, ...] = ()
    fix: tuple[Edit, ...] = field(default=(), compare=False, repr=False)  # what sets it right, if that is certain
    also: tuple[int, ...] = field(default=(), compare=False, repr=False)  # further lines of which it says the same
    # What it tells of, besides what its own statement sets, where it is about numbers alone, which decide nothing.
    tells: tuple[str, ...] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.code} {self.message}; {self.remedy}"

    def to_json(self) -> dict[str, Any]:
        """The finding as plain data."""
        return {
            "code": self.code,
            "severity": self.severity.value,
            "line": self.line,
            "message": self.message,
            "remedy": self.remedy,
            "evidence": [asdict(e) for e in self.evidence],
        }


@dataclass(frozen=True)
class Edit:
    """One change of one node. The code may write `{accelerator}` for the accelerator's name."""

    rule: str
    span: Span
    operation: Operation
    reason: str
    code: str = ""
    place: int | None = None
    assumes: Assumption | None = None
    need: Need = Need.NONE
    evidence: tuple[Evidence, ...] = ()
    otherwise: Finding | None = None
    node: ast.AST | None = field(default=None, compare=False, repr=False)

    @property
    def safety(self) -> Safety:
        """How sure it is to be right."""
        return self.assumes.safety if self.assumes is not None else Safety.SAFE

    @property
    def why(self) -> str:
        """The reason, with what it takes for granted."""
        return f"{self.reason}, if {self.assumes.text}" if self.assumes is not None else self.reason

    def offered(self) -> Finding:
        """The finding in the place of an unsafe edit that nobody has asked for."""
        assert self.otherwise is not None and self.assumes is not None
        return replace(self.otherwise, remedy=f"{self.otherwise.remedy}, or use --unsafe if {self.assumes.text}")

    def to_json(self) -> dict[str, Any]:
        """The edit as plain data."""
        return {
            "rule": self.rule,
            "span": list(self.span),
            "operation": self.operation.value,
            "code": self.code,
            "place": self.place,
            "safety": self.safety.value,
            "reason": self.reason,
            "assumes": self.assumes.text if self.assumes is not None else "",
            "evidence": [asdict(e) for e in self.evidence],
        }

    def by_state(self, device: bool = False) -> Edit | None:
        """The edit with the state of the processes in the accelerator's place; None if the state cannot do it. It has
        the `device` once there is an accelerator."""
        asked = {*re.findall(r"\{accelerator\}\.?(\w*)", self.code)} - ({"device"} if device else set())
        if "{accelerator}" not in self.code or not _STATE_CAN.issuperset(asked):
            return None
        return replace(self, code=self.code.replace("{accelerator}", STATE), need=Need.NONE)

    def named(self, accelerator: str) -> Edit:
        """The edit with the accelerator's name filled in."""
        return replace(self, code=self.code.replace("{accelerator}", accelerator))


@dataclass(frozen=True)
class Plan:
    """What to do to one source, and what a person should know of it."""

    path: str
    digest: str
    edits: tuple[Edit, ...] = ()
    findings: tuple[Finding, ...] = ()
    outcome: Outcome = Outcome.NOTHING
    reason: str = ""

    @property
    def pending(self) -> tuple[Finding, ...]:
        """Findings that ask for somebody's attention."""
        return tuple(f for f in self.findings if f.severity is not Severity.NOTE)

    def to_json(self) -> dict[str, Any]:
        """The plan as plain data."""
        return {
            "path": self.path,
            "digest": self.digest,
            "outcome": self.outcome.value,
            "reason": self.reason,
            "edits": [e.to_json() for e in self.edits],
            "findings": [f.to_json() for f in self.findings],
        }
