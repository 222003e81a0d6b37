"""The plan in the making: what rules see, and what they have said so far."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, TypeGuard, cast

from accelift_codemod.blueprint import Blueprint
from accelift_codemod.facts import BatchLoop, Facts, Function, files, gradients, position
from accelift_codemod.facts.effects import stores
from accelift_codemod.facts.index import FUNCTIONS, LOOPS
from accelift_codemod.facts.layout import Environment, Layouts
from accelift_codemod.facts.layout.algebra import dealt, merge
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.reading import Reading
from accelift_codemod.facts.signatures import defaulted, given
from accelift_codemod.facts.tree import children, walk
from accelift_codemod.facts.values import Evidence
from accelift_codemod.main_process import waiting
from accelift_codemod.options import Options
from accelift_codemod.plan import Assumption, Edit, Finding, Need, Operation, Severity, Span

if TYPE_CHECKING:
    from accelift_codemod.main_process.caches import Caches
    from accelift_codemod.own_precision import OwnPrecision
    from accelift_codemod.reach import Reach

_STATEMENTS = 20  # that are looked back at
_CALLS = 4  # that lead from a loop to what is asked about in it
_IN_MEMORY = frozenset({"io.StringIO", "io.BytesIO"})


class Draft:
    """Facts and decisions for the rules to read, and the edits and findings yielded so far."""

    def __init__(self, facts: Facts, blueprint: Blueprint) -> None:
        self.facts = facts
        self.blueprint = blueprint
        self.findings: list[Finding] = []
        self._edits: dict[int, Edit] = {}  # by identity: two may be alike
        self._by_node: dict[ast.AST, list[Edit]] = {}

    @property
    def options(self) -> Options:
        return self.blueprint.options

    @property
    def runtime(self) -> bool:
        """Whether the converted script imports the bundled runtime (else Hugging Face Accelerate)."""
        return self.options.target == "runtime"

    # ---- making edits and findings

    def edit(
        self,
        rule: str,
        node: ast.AST,
        operation: Operation,
        reason: str,
        code: str = "",
        *,
        last: ast.AST | None = None,
        place: int | None = None,
        need: Need = Need.NONE,
        assumes: Assumption | None = None,
        subject: ast.AST | None = None,
        otherwise: Finding | None = None,
    ) -> Edit:
        """An edit of a node (or of the statements from it to `last`), with the evidence for `subject`."""
        span = Span.of(node)
        if last is not None:
            end = Span.of(last)
            span = Span(span.line, span.column, end.end_line, end.end_column)
        evidence: tuple[Evidence, ...] = self.facts.evidence(subject) if subject is not None else ()
        return Edit(rule, span, operation, reason, code, place, assumes, need, evidence, otherwise, node)

    def finding(self, code: str, severity: Severity, node: ast.AST | int, message: str, remedy: str) -> Finding:
        """A finding at a node or line."""
        line = node if isinstance(node, int) else node.lineno  # type: ignore[attr-defined]
        return Finding(code, severity, line, message, remedy)

    # ---- questions that several rules ask

    @cached_property
    def seeding(self) -> list[tuple[ast.Call, str]]:
        """The calls whose name speaks of a seed, with the name that a library has for them."""
        named = ((call, self.facts.resolver.qualified(call.func) or "") for call in self.calls)
        return [(c, q) for c, q in named if "seed" in (q or getattr(c.func, "id", "")).rpartition(".")[2].lower()]

    @cached_property
    def reading(self) -> Reading:
        """Which files calls read by name."""
        return Reading(self.facts.resolver)

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        """Calls that running the script may make, in source order."""
        return tuple(sorted(filter(self.facts.runs, self.facts.index.calls), key=position))

    @memoised
    def inside(self, node: ast.AST) -> frozenset[ast.AST]:
        """A node, with all that is in it."""
        return frozenset(walk(node))

    @memoised
    def names_in(self, node: ast.AST) -> dict[str, list[ast.Name]]:
        """The names in a node, by what they are."""
        found: dict[str, list[ast.Name]] = {}
        for name in walk(node):
            if isinstance(name, ast.Name):
                found.setdefault(name.id, []).append(name)
        return found

    @property
    def edits(self) -> list[Edit]:
        """The edits so far."""
        return list(self._edits.values())

    def edits_at(self, node: ast.AST) -> list[Edit]:
        """The edits of exactly this node."""
        return self._by_node.get(node, [])

    def add(self, edit: Edit) -> None:
        """Take an edit into the plan, if it is not in it already."""
        if edit.node is not None and edit in self.edits_at(edit.node):
            return
        self._edits[id(edit)] = edit
        if edit.node is not None:
            self._by_node[edit.node] = [*self.edits_at(edit.node), edit]  # a new list: somebody may go through the old

    def remove(self, edit: Edit) -> None:
        """Take an edit out of the plan again."""
        if self._edits.pop(id(edit), None) is not None and edit.node is not None:
            self._by_node[edit.node] = [e for e in self.edits_at(edit.node) if e is not edit]

    def gone(self, node: ast.AST) -> bool:
        """Whether the edits so far remove a node from the script."""
        by_node, parents = self._by_node, self.facts.index.parents
        child, parent = node, cast("ast.AST | None", node)
        while parent is not None:
            for edit in by_node.get(parent, ()):
                if edit.operation is Operation.DROP_ARGUMENT and edit.place is not None:
                    if given(cast("ast.Call", parent))[edit.place] is child:
                        return True
                    continue
                if edit.operation in (Operation.DROP, Operation.SWAP, Operation.DROP_ARGUMENT):
                    return True
                if edit.operation in (Operation.PARAMETER, Operation.DROP_PARAMETER) and parent is not node:
                    return True  # its annotation
                if edit.operation is Operation.BARE and child not in parent.body:  # type: ignore[attr-defined]
                    return True
                if edit.operation in (Operation.BECOME, Operation.KEYWORD):
                    return not (isinstance(node, ast.Name) and node.id in mentioned(edit.code))
                if edit.operation is Operation.RECEIVER and isinstance(parent, ast.Call) and parent.func is not child:
                    return True
                if edit.operation is Operation.METHOD and isinstance(parent, ast.Call) and parent.func is not child:
                    return True
                if edit.operation is Operation.DIRECT and isinstance(parent, ast.Call) and parent.args[0] is child:
                    return True
                if edit.operation is Operation.LEFT and parent is not node and child is not _left(parent):
                    return True
                if edit.operation is Operation.INNER and isinstance(parent, ast.Call) and _leaves(parent, child, edit):
                    return True
            if isinstance(parent, ast.arguments) and isinstance(child, ast.expr):
                owner = defaulted(parent, child)
                if any(e.operation in (Operation.PARAMETER, Operation.DROP_PARAMETER) for e in by_node.get(owner, ())):
                    return True
            child, parent = parent, parents.get(parent)
        return False

    def gradients_off(self, node: ast.AST) -> bool:
        """Whether a node only runs with gradients switched off."""
        return gradients.off(self.facts.resolver, node)

    def guarded(self, node: ast.AST) -> bool:
        """Whether a node is in a statement that is put under a main-process guard."""
        by_node, parents = self._by_node, self.facts.index.parents
        outer: ast.AST | None = node
        while outer is not None:
            for edit in by_node.get(outer, ()):
                if edit.operation is Operation.ENCLOSE and "is_main_process" in edit.code:
                    return True
            outer = parents.get(outer)
        return False

    def goes_first(self, node: ast.AST) -> Edit | None:
        """The edit by which a statement is run by one process before the others, if there is one."""
        edits = (e for e in self.edits_at(node) if e.operation is Operation.ENCLOSE)
        return next((e for e in edits if "main_process_first" in e.code), None)

    def awaited(
        self,
        rule: str,
        reads: Iterable[ast.Call],
        need: Need = Need.STRONG,
        otherwise: str = "",
        around: ast.stmt | None = None,
    ) -> Iterator[Edit]:
        """Before calls that read files, or a statement around them: wait for the main process, which may still be
        writing them.

        Where the accelerator is not at hand a warning of the code `otherwise` tells that.
        """
        waited: set[ast.stmt] = set()
        for read, statement in ((r, s) for r in reads for s in ([around] if around is not None else self.asking(r))):
            waits = any(map(waiting.is_wait, self.edits_at(statement))) or waiting.is_handling(self, statement)
            if statement not in waited and not waits and not self.guarded(read):
                waited.add(statement)
                told = "the main process may still be writing what is read here, and nothing waits for it"
                remedy = f"call accelerator.{waiting.WAIT} before it, or read it where the accelerator is at hand"
                yield self.edit(
                    rule,
                    statement,
                    Operation.BEFORE,
                    "the main process may still be writing the file",
                    f"{{accelerator}}.{waiting.WAIT}",
                    need=need,
                    otherwise=self.finding(otherwise, Severity.WARNING, read, told, remedy) if otherwise else None,
                )

    def asking(self, read: ast.Call) -> list[ast.stmt]:
        """Where all processes may ask for a file: at a read itself, or where a lambda or a function is called that has
        it."""
        return [*dict.fromkeys(self.asked(read, place) for place in waiting.run_by_all(self, read))]

    def asked(self, read: ast.Call, place: ast.AST | None = None) -> ast.stmt:
        """The statement of a read (or of another place, where it is run), or around it the condition that may ask what
        there is to read, which is up to every process for itself, or what opens the file; or what looks before whether
        it is there."""
        index, place = self.facts.index, place or read
        statement = index.statement(place)
        while True:
            parent = index.parents[statement]
            if not (isinstance(parent, ast.If) or self._opens_to_read(parent)) or self.does_more(parent, place):
                return self._looked_at(statement, read)
            statement = parent

    def _looked_at(self, statement: ast.stmt, read: ast.Call) -> ast.stmt:
        """The first of the statements just before that looks for the file which a call reads, or finds it."""
        resolver = self.facts.resolver
        first = resolver.argument(read, 0, "f")
        spelled = {self.reading.spelled(path) for path in (*self.reading.paths(read), *([first] if first else ()))}
        found = files.listing(resolver, statement.test) if isinstance(statement, ast.If) else None
        block, place = self.facts.index.block(statement)
        for earlier in reversed(block[max(0, place - _STATEMENTS) : place]) if found or spelled - {None} else ():
            calls = [n for n in walk(earlier) if isinstance(n, ast.Call)]
            if found in calls:
                return earlier
            if isinstance(earlier, (*FUNCTIONS, ast.ClassDef)) or self.does_more(earlier):
                break
            looked = (files.looked_at(resolver, call) for call in calls)
            if any(path is not None and self.reading.spelled(path) in spelled - {None} for path in looked):
                statement = earlier
        return statement

    def _opens_to_read(self, node: ast.AST) -> TypeGuard[ast.With]:
        """Whether a statement keeps a file open to be read, while what stands in it runs."""
        calls = [i.context_expr for i in node.items] if isinstance(node, ast.With) else []
        modes = [files.mode(self.facts.resolver, c) for c in calls if isinstance(c, ast.Call)]
        return any(mode is not None and not files.writes(mode) for mode in modes)

    def does_more(self, branch: ast.stmt, read: ast.AST | None = None) -> bool:
        """Whether more than reading stands in a statement, before a read in it: training, or what writes."""
        around = {read, *self.facts.index.ancestors(read)} if read is not None else set()
        before = (n for n in walk(branch) if isinstance(n, (ast.stmt, ast.expr)) and n not in around)
        return any(
            isinstance(n, LOOPS)
            or any(e.rule in _WRITING_RULES for e in self.edits_at(n))
            or (isinstance(n, ast.Call) and self.blueprint.timeline.calls_into(n))
            for n in before
            if read is None or position(n) < position(read)
        )

    def ends(self, last: ast.stmt) -> bool:
        """Whether a statement ends the process."""
        call = last.value if isinstance(last, ast.Expr) else None
        if not isinstance(call, ast.Call):
            return isinstance(last, ast.Raise)
        resolver = self.facts.resolver
        return resolver.qualified(call.func) in _EXITS or resolver.builtin(call.func) in ("exit", "quit")

    def caught(self, handler: ast.ExceptHandler) -> set[str]:
        """See :meth:`Resolver.caught`."""
        return self.facts.resolver.caught(handler)

    def collective(self, statement: ast.stmt) -> ast.AST | None:
        """A part of a statement that every process has to run together: a model's forward, a batch loop, a gather."""
        functions: list[ast.AST] = [statement, *self.blueprint.timeline.runs(statement)]
        for function in functions:
            for node in walk(function):
                loop = self.blueprint.loops.get(node)
                if loop is not None and self.blueprint.shares_batches(loop):
                    return node
                if isinstance(node, ast.Call) and self.blueprint.prepared_models(node.func):
                    return node
                if any(e.rule in _COLLECTIVE_RULES for e in self.edits_at(node)):
                    return node
        return None

    def environment(
        self, loop: BatchLoop, node: ast.AST, calls: int = _CALLS, layouts: Layouts | None = None
    ) -> Environment | None:
        """How variables depend on the batch just before a node in the body of a loop, or in functions that it calls,
        perhaps as another interpreter sees it."""
        layouts = layouts or self.facts.layouts
        step = self.blueprint.handmade.get(loop)
        if step is not None:
            return self.facts.handmade.environment(step, node)
        if not isinstance(loop.node, (ast.For, ast.AsyncFor)):
            return None
        if loop.node not in self._loops_around(node):
            return self._inside(loop, node, calls - 1, layouts) if calls else None
        env: Environment = {}
        batch = self.facts.collated.batch(loop.loaders)
        layouts.assign(loop.node.target, dealt(self.facts.resolver.values(loop.node.iter), batch), env)
        return layouts.before(node, loop.node.body, env)

    def _inside(self, loop: BatchLoop, node: ast.AST, calls: int, layouts: Layouts) -> Environment | None:
        """The environment of a node in a function that a loop calls, whichever of its calls that is."""
        function = self.function(node)
        if function is None:
            return None
        begun: Environment = {}
        for site in self.facts.resolver.sites(function):
            env = self.environment(loop, site, calls, layouts)
            if env is None:
                continue  # another loop calls it there
            entered = layouts.entered(site, function, env)
            if entered is None:
                return None
            merge(begun, entered)
        return layouts.before(node, function.body, begun) if begun else None

    def training_around(self, node: ast.AST) -> list[BatchLoop]:
        """The loops with backward passes in whose iterations a node may run, perhaps in functions that they call."""
        around = dict.fromkeys(self._loops_around(node))
        functions = [self.function(node)]
        for function in functions:
            for site in self.facts.resolver.sites(function) if function is not None else ():
                around.update(dict.fromkeys(self._loops_around(site)))
                if self.function(site) not in functions:
                    functions.append(self.function(site))
        loops = (self.blueprint.loops.get(loop) for loop in around)
        found = {loop for loop in loops if loop is not None and (loop.trains or loop.attacks)} | {
            *self.blueprint.handmade
        }
        return sorted(found, key=lambda loop: position(loop.node))

    def _loops_around(self, node: ast.AST) -> list[ast.AST]:
        """The loops around a node, perhaps around the closure without parameters that it is in."""
        function = self.facts.index.function(node)
        inside = self.facts.index.enclosing_loops(node)
        if function is None or _parameters(function):
            return inside
        return [*inside, *self.facts.index.enclosing_loops(function)]

    def after_training(self, node: ast.AST) -> bool:
        """Whether a node may be evaluated after a training loop has been entered."""
        if self.facts.unfollowed(node) is not None:
            return False
        return self.follows(node, [loop.node for loop in self.blueprint.train_loops])

    def follows(self, node: ast.AST, others: list[ast.AST]) -> bool:
        """Whether a node may be evaluated after one of others has begun to be."""
        function = self.function(node)
        timeline = self.blueprint.timeline
        seen: set[ast.AST] = set()
        while True:  # seen from the function of the node, or from one that leads to both
            starts = [place for other in others for place in timeline.places(other, function)]
            places = timeline.places(node, function)
            if starts and places:
                return any(position(c) > position(s) and not timeline.exclusive(s, c) for s in starts for c in places)
            if function is None:
                return False
            seen.add(function)  # a function may call itself
            callers = map(self.function, self.facts.resolver.sites(function))
            function = next((caller for caller in callers if caller not in seen), None)

    def in_memory(self, call: ast.Call) -> bool:
        """Whether a call saves into a buffer in memory."""
        return self.is_buffer(self.facts.resolver.argument(call, 1, "f"))

    def is_buffer(self, file: ast.expr | None) -> bool:
        """Whether a file is in memory: every process has one for itself, and may read it again."""
        values = self.facts.resolver.values(file)
        return bool(values) and all(value.name in _IN_MEMORY for value in values)

    @cached_property
    def caches(self) -> Caches:
        """The files that are made if they are missing."""
        from accelift_codemod.main_process.caches import Caches

        return Caches(self)

    def cached(self, call: ast.Call) -> bool:
        """Whether a call makes a file that was missing where one process does so first, or for unknown callers."""
        return self.options.chooses("CACHE") and (call in self.caches.made or call in self.caches.left)

    @cached_property
    def own_precision(self) -> OwnPrecision:
        """What the script does with autocast and a GradScaler of its own."""
        from accelift_codemod.own_precision import OwnPrecision

        return OwnPrecision(self)

    @cached_property
    def reach(self) -> Reach:
        """Where the accelerator is made and used: asked by the closing rules, when the ordinary ones have spoken."""
        from accelift_codemod.reach import Reach

        return Reach(self)

    def relied_on(self, node: ast.AST) -> bool:
        """Whether a node stands in what other files call, or in a statement that binds what they take."""
        if not self.facts.wanted:
            return False
        parents = self.facts.index.parents
        around = (node, *self.facts.index.ancestors(node))
        top = next(s for s in around if isinstance(parents.get(s, self.facts.tree), ast.Module))
        return bool(stores(top) & self.facts.wanted)

    def function(self, node: ast.AST) -> Function | None:
        """The function whose body contains a node."""
        return self.facts.index.function(node)


def _left(node: ast.AST) -> ast.AST | None:
    """What LEFT keeps of an operation, or of a choice."""
    return node.body if isinstance(node, ast.IfExp) else getattr(node, "left", None)


def _leaves(call: ast.Call, part: ast.AST, edit: Edit) -> bool:
    """Whether INNER leaves a part of a call out."""
    if edit.place is not None:
        return call.args[edit.place] is not part
    return not (isinstance(part, ast.keyword) and part.arg == edit.code)


def _parameters(function: Function) -> bool:
    return bool(children(function.args))


def mentioned(code: str) -> set[str]:
    """The names that code reads (and does not just give arguments of that name)."""
    return set(_READ.findall(_TEXT.sub(lambda text: text[0] if "f" in text[1].lower() else "", code)))


_TEXT = re.compile(r"""((?<!\w)[fFrRbBuU]*)(["'])(?:\\.|(?!\2)[^\\\n])*\2""")
_READ = re.compile(r"(?<![\w.])\w+\b(?!=[^=])")
_EXITS = frozenset({"sys.exit", "os._exit", "os.abort"})
_WRITING_RULES = frozenset({"GUARD", "SAVE"})  # they speak before those that have readers wait
_COLLECTIVE_RULES = frozenset({"METRIC", "REDUCE", "BACKWARD", "SHARD"})
