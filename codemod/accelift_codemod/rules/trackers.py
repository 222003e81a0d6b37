"""Runs experiment trackers on the main process only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, Value
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import is_constant, targets, walk
from accelift_codemod.following.attributes import attribute_reads
from accelift_codemod.following.onward import Read, function_of, reached
from accelift_codemod.main_process.alone import self_contained, worked_out
from accelift_codemod.plan import Edit, Finding, Need, Operation, Severity
from accelift_codemod.rules import Explained, Rule

_RULE = "TRACKER"
# What starts a run of other trackers: one more for each process.
_STARTS = frozenset(
    "swanlab.init comet_ml.Experiment comet_ml.start clearml.Task.init neptune.init neptune.init_run "
    "neptune.new.init neptune.new.init_run aim.Run trackio.init".split()
)
# What a run of wandb fetches, which a disabled one does not.
_FETCHES = frozenset({"use_artifact", "use_model", "restore"})
_ASKS = frozenset({"isinstance", "type", "hasattr", "id", "print", "callable", "bool"})


class Trackers(Rule):
    """Makes a `SummaryWriter` or a `Visdom` on the main process only and guards what it logs; gives `wandb.init`
    `mode="disabled"` on the other processes, which turns every later call of wandb there into nothing.

    Where the script takes files from the run (`wandb.use_artifact`), every process needs one, and it stays.

    A writer is None on the other processes. That is done only if every use of it can be guarded, or is under the
    script's own `if writer:`, where nothing else may stand that every process has to do; otherwise each process keeps
    its writer, and only the logging is guarded.
    """

    code = _RULE
    name = "experiment trackers"
    before = """\
writer = SummaryWriter("runs")
writer.add_scalar("loss", loss.item(), step)
"""
    after = """\
writer = SummaryWriter("runs") if accelerator.is_main_process else None
if accelerator.is_main_process:
    writer.add_scalar("loss", loss.item(), step)
"""
    findings = (
        Explained(
            "TRACK-ALL",
            Severity.WARNING,
            "a tracker runs on every process",
            "A tracker runs on every process: several event files, windows or runs of one training.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for call, value in draft.facts.objects_of(Role.WRITER):
            if draft.facts.runs(call):
                yield from self._writer(draft, call, value)
        for call in draft.calls:
            if draft.facts.resolver.qualified(call.func) == "wandb.init":
                yield self._needed(draft, call) or self._wandb(draft, call)
            elif draft.facts.resolver.qualified(call.func) in _STARTS and not draft.facts.processes.managed:
                yield draft.finding(
                    "TRACK-ALL",
                    Severity.WARNING,
                    call,
                    f"{draft.facts.segment(call.func)} runs on every process: one training becomes several runs",
                    "start the run, and log, under `if accelerator.is_main_process:`",
                )
            elif draft.facts.resolver.qualified(call.func) == "mlflow.start_run":
                statement = draft.facts.index.statement(call)
                if not (isinstance(statement, ast.Expr) and statement.value is call):  # guarded as a side effect
                    yield draft.finding(
                        "TRACK-ALL",
                        Severity.WARNING,
                        call,
                        "mlflow.start_run runs on every process: one training becomes several runs",
                        "start the run on the main process only; what it logs is guarded already",
                    )

    def _writer(self, draft: Draft, call: ast.Call, value: Value) -> Iterator[Edit | Finding]:
        statement = draft.facts.index.statement(call)
        uses = [
            node
            for node in (n for names in draft.facts.index.attributes.values() for n in names)
            if value in draft.facts.resolver.values(node.value)
        ]
        guards: list[ast.stmt] = []
        hidden = self._hidden(draft, statement, value)
        whole = isinstance(statement, ast.Assign) and (statement.value is call or _is_optional(statement.value, call))
        complete = whole and not hidden and all(self._skips(draft, q, statement) for q in self._asked(draft, value))
        tested: list[ast.stmt] = []
        for node in sorted(uses, key=lambda n: (n.lineno, n.col_offset)):
            use = draft.facts.index.statement(node)
            parent = draft.facts.index.parents.get(node)
            if not (isinstance(use, ast.Expr) and isinstance(parent, ast.Call) and use.value is parent):
                complete = False
            elif self._blocked(draft, use):
                before = [] if self._tested(draft, node.value) else [*worked_out(draft, _RULE, parent)]
                if before:
                    yield from before
                    guards.append(use)
                    continue
                complete = False
                yield draft.finding(
                    "COLL-MAIN",
                    Severity.ERROR,
                    use,
                    "what is logged is computed by all processes together, so the line is not guarded",
                    "compute the value on a line of its own, and log it under `if accelerator.is_main_process:`",
                )
            elif self._tested(draft, node.value):
                tested.append(use)
            else:
                guards.append(use)
        need = Need.STRONG if complete else Need.WEAK
        if complete:
            yield draft.edit(
                _RULE,
                call,
                Operation.SURROUND,
                "one process writes the log",
                "{} if {accelerator}.is_main_process else None",
                need=Need.STRONG,
            )
        elif uses or hidden:
            yield draft.finding(
                "TRACK-ALL",
                Severity.WARNING,
                call,
                f"what {value.name.rpartition('.')[2]} makes is used in a way that needs it on every process: each one "
                "writes a log of its own",
                "make it on the main process only",
            )
        for use in dict.fromkeys(guards if complete else [*guards, *tested]):
            yield draft.edit(
                _RULE,
                use,
                Operation.ENCLOSE,
                "one process logs, not all of them",
                "if {accelerator}.is_main_process:",
                need=need,
            )

    def _hidden(self, draft: Draft, statement: ast.stmt, value: Value) -> bool:
        """Whether a writer is put where it may be used and nobody knows it: into a container, or code of others."""
        if any(isinstance(target, ast.Subscript) for target in targets(statement)):
            return True
        stored = [t for target in targets(statement) for t in walk(target) if isinstance(t, ast.Name)]
        starts: list[Read] = [load for t in stored if isinstance(t.ctx, ast.Store) for load in draft.facts.loads_of(t)]
        for target in (t for t in targets(statement) if isinstance(t, ast.Attribute)):
            starts += attribute_reads(draft, target)
        return any(self._is_away(draft, read, value) for read in reached(draft, starts))

    def _is_away(self, draft: Draft, read: Read, value: Value) -> bool:
        """Whether what is read goes where no use of it is seen, or is used where it is not known for what it is."""
        parent = draft.facts.index.parents[read]
        if isinstance(parent, (ast.Dict, ast.List, ast.Set)) or _is_yielded(draft, read):
            return True
        if isinstance(parent, ast.Attribute):
            return value not in draft.facts.resolver.values(read)
        if isinstance(parent, (ast.Assign, ast.AnnAssign)):
            owners = [t.value for t in targets(parent) if isinstance(t, ast.Attribute)]
            reads = [n for o in owners if isinstance(o, ast.Name) and o.id != "self" for n in draft.facts.loads_of(o)]
            kept = any(isinstance(target, ast.Subscript) for target in targets(parent))
            return kept or any(self._is_handed_away(draft, n) for n in reads)
        return not self._tested(draft, read) and self._is_handed_away(draft, read)

    def _is_handed_away(self, draft: Draft, read: Read) -> bool:
        """Whether an expression is an argument that no parameter of a function of the script gets."""
        parent = draft.facts.index.parents[read]
        call = draft.facts.index.parents[parent] if isinstance(parent, (ast.keyword, ast.Starred)) else parent
        if not isinstance(call, ast.Call) or read is call.func or draft.facts.resolver.builtin(call.func) in _ASKS:
            return False
        function = function_of(draft, call)
        given = draft.facts.resolver.bind(call, function) if function is not None else None
        return read not in (given or {}).values()

    def _blocked(self, draft: Draft, statement: ast.Expr) -> bool:
        """Whether logging runs something that all processes have to run together."""
        if draft.blueprint.timeline.calls_into(statement):
            return draft.collective(statement) is not None
        return any(draft.blueprint.prepared_models(c.func) for c in walk(statement) if isinstance(c, ast.Call))

    def _tested(self, draft: Draft, node: ast.expr) -> bool:
        """Whether a use of a writer stands under the script's own `if writer:`."""
        name = ast.dump(node)
        child: ast.AST = node
        for parent in draft.facts.index.ancestors(node):
            if isinstance(parent, ast.If) and child in parent.body:
                test = parent.test
                if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot):
                    test = test.left
                if ast.dump(test) == name:
                    return True
            child = parent
        return False

    def _asked(self, draft: Draft, value: Value) -> Iterator[ast.expr]:
        """Where the script asks whether there is a writer: `if writer:`, `writer is not None`."""
        for node in walk(draft.facts.tree):
            parts: list[ast.expr] = []
            if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
                parts = [node.test]
            elif isinstance(node, ast.BoolOp):
                parts = node.values
            elif isinstance(node, ast.UnaryOp):
                parts = [node.operand]
            elif isinstance(node, ast.Compare):
                parts = [node.left, *node.comparators]
            for part in parts:
                if isinstance(part, (ast.Name, ast.Attribute)) and value in draft.facts.resolver.values(part):
                    yield part

    def _skips(self, draft: Draft, question: ast.expr, made: ast.stmt) -> bool:
        """Whether a process that has no writer leaves out nothing but logging where the script asks for it."""
        test, holder = question, draft.facts.index.parents[question]
        while isinstance(holder, (ast.BoolOp, ast.UnaryOp, ast.Compare)):
            test, holder = holder, draft.facts.index.parents[holder]
        if not isinstance(holder, ast.If) or holder.test is not test:
            return False
        if holder.body == [made]:
            return True  # it is made there
        block, place = draft.facts.index.block(holder)
        rest: list[ast.stmt] = [holder]
        function = draft.facts.index.parents[holder]
        if isinstance(function, FUNCTIONS) and _leaves(holder.body) and not holder.orelse:
            if not _says_there_is_none(test, question):
                return False
            rest = block[place + 1 :]  # `if writer is None: return`
        return all(self_contained(draft, statement) for statement in rest)

    def _needed(self, draft: Draft, call: ast.Call) -> Finding | None:
        """What is said of a run that every process needs, because the script takes files from it."""
        for fetch in draft.calls:
            func = fetch.func
            if not isinstance(func, ast.Attribute) or func.attr not in _FETCHES or not draft.facts.runs(fetch):
                continue
            of_run = any(value.name == "wandb.init" for value in draft.facts.resolver.values(func.value))
            used = not isinstance(draft.facts.index.parents.get(fetch), ast.Expr)
            if used and (of_run or (draft.facts.resolver.qualified(func) or "").startswith("wandb.")):
                return draft.finding(
                    "TRACK-ALL",
                    Severity.WARNING,
                    call,
                    f"wandb.init runs on every process, each needs a run to fetch by `{draft.facts.segment(func)}`: "
                    "one training becomes several runs",
                    "fetch it on the main process, and hand its path to the others: broadcast_object_list([path])[0]",
                )
        return None

    def _wandb(self, draft: Draft, call: ast.Call) -> Edit:
        reason = "one run per job: the other processes log to nowhere"
        otherwise = draft.finding(
            "TRACK-ALL",
            Severity.WARNING,
            call,
            "wandb.init runs on every process: one training becomes several runs",
            "call it where accelerator.is_main_process is known",
        )
        for keyword in call.keywords:
            if keyword.arg == "mode":
                code = '{} if {accelerator}.is_main_process else "disabled"'
                return draft.edit(_RULE, keyword, Operation.SURROUND, reason, code, need=Need.WEAK, otherwise=otherwise)
        code = 'mode=None if {accelerator}.is_main_process else "disabled"'
        return draft.edit(_RULE, call, Operation.ADD_ARGUMENT, reason, code, need=Need.WEAK, otherwise=otherwise)


def _says_there_is_none(test: ast.expr, asked: ast.expr) -> bool:
    """Whether a test holds where there is no such object: `not writer`, `writer is None`."""
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not) and test.operand is asked
    return isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.Eq))


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether a function gives back nothing at once."""
    last = body[0]
    return isinstance(last, ast.Return) and (last.value is None or is_constant(last.value, None))


def _is_yielded(draft: Draft, read: Read) -> bool:
    """Whether a generator hands out what is read, perhaps among other things: `with logging_to(path) as writer`."""
    parent = draft.facts.index.parents[read]
    outer = draft.facts.index.parents[parent] if isinstance(parent, ast.Tuple) else parent
    return isinstance(outer, (ast.Yield, ast.YieldFrom))


def _is_optional(node: ast.expr, call: ast.Call) -> bool:
    """Whether an expression is what a call makes, or None: `SummaryWriter() if args.log else None`."""
    return (
        isinstance(node, ast.IfExp)
        and node.body is call
        and isinstance(node.orelse, ast.Constant)
        and node.orelse.value is None
    )
