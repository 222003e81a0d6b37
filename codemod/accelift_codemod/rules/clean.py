"""Takes out what the conversion itself has made useless."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from accelift_codemod.devices import unread_parameters
from accelift_codemod.devices.asking import only_asks
from accelift_codemod.devices.surviving import is_spelled
from accelift_codemod.draft import Draft, mentioned
from accelift_codemod.facts import How, Scope
from accelift_codemod.facts.conditions import TRUE, negate
from accelift_codemod.facts.effects import assignments
from accelift_codemod.facts.index import FUNCTIONS, MARK, Binding
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Edit, Finding, Operation
from accelift_codemod.rewrite.layout import comments
from accelift_codemod.rules import Rule
from accelift_codemod.settling.arms import come_out_alike

_RULE = "CLEAN"
_ANYWAY = "the accelerator's device is the CPU where this does not hold"
_ASKING = frozenset({"len", "isinstance", "hasattr", "getattr", "bool"})
_SETTINGS = frozenset({"os.environ.get", "os.getenv"})
_OF_TEXT = frozenset({"split", "strip", "lstrip", "rstrip", "lower", "upper", "startswith", "endswith"})
_PREFIX = re.compile(rf"[^\W\d][\w›]*{MARK}")  # a file's name before that of its global


class Clean(Rule):
    """Removes `if use_cuda:` blocks that the conversion has emptied, choices whose arms it has made the same, variables
    and parameters that only they read, and imports that it has left without a use. What was unused before stays.

    `if use_cuda:` also goes from above moves to the accelerator's device: where it does not hold, that is the CPU, and
    they change nothing.
    """

    code = _RULE
    name = "leftovers"
    required = True
    always = True
    closing = 3
    before = """\
use_cuda = torch.cuda.is_available()
if use_cuda:
    model.cuda()
"""
    after = ""

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        self._same_arms(draft)
        for edit in [*self._needless_ifs(draft)]:
            draft.add(edit)
        while True:
            edits = [*self._empty_ifs(draft), *self._empty_functions(draft), *self._unread_variables(draft)]
            edits = edits or [*unread_parameters.dropped(draft, _RULE, partial(self._is_pure, draft))]
            if not edits:
                break
            for edit in edits:
                draft.add(edit)
        yield from self._imports(draft)

    # ---- choices

    def _same_arms(self, draft: Draft) -> None:
        """Choices whose arms the conversion has made the same: `net.cuda() if use_cuda else net`."""
        parents = draft.facts.index.parents
        around = (a for e in draft.edits if e.node is not None for a in _choices(parents, e.node))
        for choice in dict.fromkeys(around):
            if draft.gone(choice) or not self._is_pure(draft, choice.test):
                continue
            arms = ([choice.body], [choice.orelse]) if isinstance(choice, ast.IfExp) else (choice.body, choice.orelse)
            if isinstance(choice, ast.If):
                if not choice.orelse or self._is_elif(draft, choice) or not self._is_plain(draft, choice):
                    continue
            if not draft.edits_at(choice) and come_out_alike(draft, *arms):
                self._keep_first(draft, choice, [choice.test, *arms[1]])
            elif isinstance(choice, ast.IfExp):
                self._move_both(draft, choice)

    def _keep_first(self, draft: Draft, choice: ast.IfExp | ast.If, others: list[ast.AST]) -> None:
        """Keep the first arm of a choice, without what is asked and the other arm."""
        for edit in [e for other in others for n in walk(other) for e in draft.edits_at(n)]:
            draft.remove(edit)
        reason = "both arms are the same now"
        if isinstance(choice, ast.IfExp):
            draft.add(draft.edit(_RULE, choice, Operation.LEFT, reason))
            return
        draft.add(draft.edit(_RULE, choice, Operation.BARE, reason))
        for statement in choice.orelse:
            draft.add(draft.edit(_RULE, statement, Operation.DROP, reason))

    def _is_plain(self, draft: Draft, choice: ast.If) -> bool:
        """Whether the second arm of a choice stands below a line of its own, `else:`, and no comment says for which
        arm it is."""
        lines, start = draft.facts.source.lines_of(draft.facts.original(choice)), choice.lineno
        first, last, other = choice.body[0].lineno, choice.body[-1].end_lineno or 0, choice.orelse[0].lineno
        between = "".join(lines[last - start + 1 : other - start]).strip()
        apart = between == lines[other - start - 1].strip() == "else:"
        return apart and not any("#" in line for line in (*lines[: first - start], *lines[last - start + 1 :]))

    def _move_both(self, draft: Draft, choice: ast.IfExp) -> None:
        """`net.cuda() if use_cuda else net` is a move to the accelerator's device, which may be done without asking."""
        call, other = choice.body, choice.orelse
        edits = [e for e in draft.edits_at(call) if e.operation is Operation.METHOD and e.rule == "MOVE"]
        receiver = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
        plain = isinstance(other, (ast.Name, ast.Attribute, ast.Call)) and receiver is not None
        if not plain or not edits or draft.edits_at(call) != edits or any(map(draft.edits_at, walk(choice.test))):
            return
        if not self._is_needless(draft, choice.test) or self._moved(draft, call) is None:
            return
        if ast.dump(receiver) == ast.dump(other) and not any(draft.edits_at(n) for n in walk(other)):  # type: ignore[arg-type]
            (edit,) = edits
            draft.remove(edit)
            text = f"{draft.facts.segment(other)}.{edit.code}"
            become = draft.edit(_RULE, choice, Operation.BECOME, _ANYWAY, text, need=edit.need)
            draft.add(replace(become, otherwise=edit.otherwise))

    # ---- blocks

    def _needless_ifs(self, draft: Draft) -> Iterator[Edit]:
        """Questions for a GPU above nothing but moves to the accelerator's device, which may be done without asking."""
        parents = draft.facts.index.parents
        moved = (draft.facts.index.statement(e.node) for e in draft.edits if e.rule == "MOVE" and e.node is not None)
        for node in dict.fromkeys(parents[s] for s in moved):
            if not isinstance(node, ast.If) or node.orelse or self._is_elif(draft, node):
                continue
            if any(e.operation not in (Operation.BEFORE, Operation.AFTER) for e in draft.edits_at(node)):
                continue
            if all(self._dropped(draft, s) for s in node.body):
                continue  # it goes with all that is in it
            moves = all(self._dropped(draft, s) or self._only_moves(draft, s) for s in node.body)
            if moves and self._is_pure(draft, node.test) and self._is_needless(draft, node.test):
                yield draft.edit(_RULE, node, Operation.BARE, _ANYWAY)

    def _is_needless(self, draft: Draft, test: ast.expr) -> bool:
        """Whether the accelerator's device is the CPU, or no GPU of CUDA's, where a test fails: moves need not ask."""
        condition = draft.facts.devices.conditions.read(test)
        imported = any(isinstance(n, ast.Name) and n.id == "__name__" for n in walk(test))  # it need not hold at all
        return not imported and (condition == TRUE or negate(condition) == draft.reach.cpu)

    def _is_elif(self, draft: Draft, node: ast.If) -> bool:
        parent = draft.facts.index.parents[node]
        return isinstance(parent, ast.If) and parent.orelse == [node] and node.col_offset == parent.col_offset

    def _only_moves(self, draft: Draft, statement: ast.stmt) -> bool:
        """Whether a statement does nothing but move things where they are kept: `x = x.to(accelerator.device)`."""
        if isinstance(statement, ast.Expr):
            return self._moved(draft, statement.value) is not None
        pairs = [(self._moved(draft, value), target) for target, value in assignments(statement)]
        return bool(pairs) and all(m is not None and ast.unparse(m) == ast.unparse(target) for m, target in pairs)

    def _moved(self, draft: Draft, node: ast.expr | None) -> ast.expr | None:
        """What a call moves to the device, and does nothing else to: it stays as it is where it is there already."""
        move = draft.facts.moves.of.get(node) if isinstance(node, ast.Call) else None
        return move.receiver if move is not None and move.only_moves else None

    def _empty_ifs(self, draft: Draft) -> Iterator[Edit]:
        candidates: dict[ast.AST, None] = {}
        for edit in draft.edits:
            if edit.operation is Operation.DROP and edit.node is not None:
                parent = draft.facts.index.parents[edit.node]
                if isinstance(parent, ast.If) or any(e.operation is Operation.BARE for e in draft.edits_at(parent)):
                    candidates.setdefault(parent)
        for node in candidates:
            if self._dropped(draft, node):
                continue
            if isinstance(node, ast.With):  # of which only what is in it would be left
                if all(self._dropped(draft, s) for s in node.body):
                    yield draft.edit(_RULE, node, Operation.DROP, "nothing is left in it")
                continue
            assert isinstance(node, ast.If)
            if all(self._dropped(draft, s) for s in (*node.body, *node.orelse)) and self._is_pure(draft, node.test):
                yield draft.edit(_RULE, node, Operation.DROP, "nothing is left in it")

    def _empty_functions(self, draft: Draft) -> Iterator[Edit]:
        """Functions of which nothing is left, with the statements that call them."""
        for function in draft.facts.index.functions:
            body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
            if not any(draft.edits_at(s) for s in body) or not all(self._dropped(draft, s) for s in body):
                continue
            if function.name in draft.facts.wanted:
                continue
            calls = [draft.facts.index.parents[c] for c in draft.facts.resolver.sites(function)]
            if self._dropped(draft, function) or draft.edits_at(function) or draft.facts.references(function):
                continue
            if comments(draft.facts.segment(function)):
                continue  # they would stand alone
            if all(isinstance(s, ast.Expr) and self._only_reads(s.value) for s in calls):
                for statement in (function, *calls):
                    yield draft.edit(_RULE, statement, Operation.DROP, "nothing is left in it")

    def _only_reads(self, call: ast.expr) -> bool:
        """Whether the arguments of a call are plain variables and constants."""
        assert isinstance(call, ast.Call)
        given = [*call.args, *(k.value for k in call.keywords)]
        return all(isinstance(a, (ast.Name, ast.Attribute, ast.Constant)) for a in given)

    def _dropped(self, draft: Draft, statement: ast.AST) -> bool:
        return isinstance(statement, ast.Pass) or any(e.operation is Operation.DROP for e in draft.edits_at(statement))

    def _is_pure(self, draft: Draft, node: ast.expr) -> bool:
        """Whether evaluating an expression does nothing but ask."""
        if draft.facts.processes.part(node) is not None:
            return True
        for part in walk(node):
            if isinstance(part, ast.Call):
                if not draft.facts.devices.conditions.is_availability(part) and not self._asks(draft, part):
                    return False
            elif isinstance(part, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
                return False
        return True

    def _asks(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call only asks for something: the length of a list, a piece of a text, an environment variable."""
        resolver = draft.facts.resolver
        builtin = resolver.builtin(call.func)
        if builtin is not None:
            return builtin in _ASKING
        if (resolver.qualified(call.func) or "") in _SETTINGS:
            return True
        of_text = isinstance(call.func, ast.Attribute) and call.func.attr in _OF_TEXT
        return of_text and resolver.callee(call) is None and all(isinstance(a, ast.Constant) for a in call.args)

    # ---- variables

    def _unread_variables(self, draft: Draft) -> Iterator[Edit]:
        """Variables all of whose reads the conversion has removed; of several that are set at once, all of them."""
        lost = list(self._lost(draft))
        for scope, name in lost:
            bindings = scope.bindings.get(name, [])
            if len(bindings) != 1 or bindings[0].how is not How.ASSIGN:
                continue
            if is_spelled(draft, name) if scope.is_module else unread_parameters.reads_all(draft, scope.node):
                continue
            binding = bindings[0]
            statement = draft.facts.index.statement(binding.node)
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                continue
            if any(e.operation not in (Operation.BEFORE, Operation.AFTER) for e in draft.edits_at(statement)):
                continue
            target = statement.targets[0]
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            if not all(isinstance(n, ast.Name) and (scope, n.id) in lost for n in names):
                continue
            value = statement.value
            if (self._is_pure(draft, value) and self._about_devices(draft, value)) or only_asks(draft, value):
                yield draft.edit(_RULE, statement, Operation.DROP, "nothing reads it any more")

    def _about_devices(self, draft: Draft, node: ast.expr) -> bool:
        if draft.facts.processes.part(node) is not None:
            return True
        return any(
            isinstance(n, ast.expr) and draft.facts.devices.conditions.is_availability(n) for n in walk(node)
        ) or draft.facts.devices.is_device(node)

    def _lost(self, draft: Draft) -> Iterator[tuple[Scope, str]]:
        """Variables that were read before the conversion and are not any more."""
        written: dict[object, set[str]] = {}
        for edit in draft.edits:
            unit = draft.facts.source.unit(edit.span.line)
            written.setdefault(unit, set()).update(mentioned(_PREFIX.sub("", edit.code)))
        for scope in draft.facts.index.scopes.values():
            if scope.is_class:
                continue
            taken = draft.facts.wanted if scope.is_module else ()
            for name, bindings in scope.bindings.items():
                if name in taken:
                    continue
                loads = draft.facts.loads(scope, name)
                if loads and all(draft.gone(load) for load in loads):
                    here = draft.facts.source.unit(bindings[0].node.lineno)  # type: ignore[attr-defined]
                    if name.rpartition(MARK)[2] not in written.get(here, ()):
                        yield scope, name

    # ---- imports

    def _imports(self, draft: Draft) -> Iterator[Edit]:
        lost: dict[ast.Import | ast.ImportFrom, list[ast.alias]] = {}
        for scope, name in self._lost(draft):
            for alias in self._imported(draft, scope.bindings[name]):
                statement = draft.facts.index.parents[alias]
                assert isinstance(statement, (ast.Import, ast.ImportFrom))
                lost.setdefault(statement, []).append(alias)
        reason = "nothing uses it any more"
        for statement, aliases in lost.items():
            if len(aliases) == len(statement.names):
                yield draft.edit(_RULE, statement, Operation.DROP, reason)
                continue
            for alias in aliases:
                yield draft.edit(_RULE, alias, Operation.DROP_NAME, reason)

    def _imported(self, draft: Draft, bindings: list[Binding]) -> list[ast.alias]:
        """The imports that bind a name, written twice perhaps; none if something else does, or one is tried."""
        aliases = [b.node for b in bindings if b.how is How.IMPORT and isinstance(b.node, ast.alias)]
        parents = draft.facts.index.parents
        if len(aliases) < len(bindings):
            return []
        tried = any(isinstance(parents.get(parents[a]), (ast.Try, ast.ExceptHandler, *FUNCTIONS)) for a in aliases)
        return [] if tried else aliases


def _choices(parents: Mapping[ast.AST, ast.AST], node: ast.AST) -> Iterator[ast.IfExp | ast.If]:
    """The choices around a node, the innermost first."""
    around = parents.get(node)
    while around is not None and not isinstance(around, FUNCTIONS):
        if isinstance(around, (ast.IfExp, ast.If)):
            yield around
        around = parents.get(around)
