"""Averages, across processes, what the training loop measures and the script decides by."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, How, Role, Scope, position
from accelift_codemod.facts.effects import Effects, flatten, loads, stores
from accelift_codemod.facts.index import FUNCTIONS, Binding
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Edit, Finding, Need, Operation, Severity
from accelift_codemod.rules import Explained, Rule

_RULE = "REDUCE"
_WHY = "a decision or an average over the whole data set depends on it: it must be that of all processes"
_Loop = ast.For | ast.AsyncFor | ast.While
_REDUCTIONS = {Layout.MEAN: "mean", Layout.WEIGHTED: "mean", Layout.SUM: "sum"}


class TrainMetrics(Rule):
    """Reduces, across processes, a value of the training loop by which the script later takes a decision.

    Each process measures its own share, so a learning-rate schedule, an early stop or a "best so far" that follows
    such a value would differ from process to process: the models drift apart, or one process waits for the others for
    ever. A sum that is divided by the size of the whole data set is reduced, too. Any other running loss that is only
    printed is left alone, and reported.
    """

    code = _RULE
    name = "decisions on training values"
    before = """\
running += loss.item()
...
scheduler.step(running / len(loader))
"""
    after = """\
running += accelerator.reduce(loss.detach(), reduction="mean").item()
...
scheduler.step(running / len(loader))
"""
    findings = (
        Explained(
            "METRIC-TRAIN",
            Severity.NOTE,
            "training statistics of one process's share",
            "What the training loop adds up (a running loss, an accuracy), or leaves behind (the last loss), covers "
            "the share of the process that prints it: means are estimates, sums and counts are smaller by the number "
            "of processes.",
        ),
        Explained(
            "COLL-RANKFLOW",
            Severity.ERROR,
            "a decision that processes may take differently",
            "A decision depends on a value that differs from process to process: some leave a loop, or change the "
            "learning rate, and others do not.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for loop in draft.blueprint.train_loops:
            if not isinstance(loop.node, ast.comprehension):
                yield from self._loop(draft, loop, loop.node)

    def _loop(self, draft: Draft, loop: BatchLoop, node: _Loop) -> Iterator[Edit | Finding]:
        local = self._local_names(draft, loop, node)
        kept = self._kept(draft, node, local)
        decided = {name for name, statement in kept.items() if self._decides(draft, node, statement)}
        edits = {name: list(self._reduce(draft, loop, kept[name])) for name in sorted(decided)}
        if all(edits.values()):  # a ratio of one reduced and one local value would be neither
            for reductions in edits.values():
                yield from reductions
        else:
            for name in edits:
                yield draft.finding(
                    "COLL-RANKFLOW",
                    Severity.ERROR,
                    kept[name],
                    f"`{name}` is measured on one process's share of the data, and a decision depends on it",
                    "average it across processes with accelerator.reduce before it is used",
                )
        others = self._others(draft, node, local - set(kept))
        yield from others.values()
        yield from self._inside(draft, loop, node, local)
        printed = [name for name in kept if name not in decided]
        scaled = [name for name in printed if self._by_the_whole(draft, loop, node, kept[name])]
        sums = {name: list(self._reduce(draft, loop, kept[name])) for name in scaled}
        for name in scaled:
            yield from sums[name]
        printed = [name for name in printed if not sums.get(name)]
        scaled = [name for name in scaled if not sums[name]]
        if scaled:
            names = ", ".join(f"`{n}`" for n in scaled)
            yield draft.finding(
                "METRIC-TRAIN",
                Severity.WARNING,
                kept[scaled[0]],
                f"what {names} adds up on one process is divided by the size of the whole data set: on N processes the "
                "result is too small by a factor of about N",
                "sum it across processes with accelerator.reduce before the division",
            )
        places: dict[str, ast.AST] = {name: kept[name] for name in printed if name not in scaled}
        last = {name: self._said_after(draft, node, name) for name in sorted(local - set(kept) - set(others))}
        places |= {name: read for name, read in last.items() if read is not None}
        said = self._said_inside(draft, node, local - set(others) - decided)
        places |= {name: read for name, read in said.items() if name not in scaled and not sums.get(name)}
        if places:
            printed = list(places)
            names = ", ".join(f"`{n}`" for n in printed)
            yield draft.finding(
                "METRIC-TRAIN",
                Severity.NOTE,
                places[printed[0]],
                f"{names} {'covers' if len(printed) == 1 else 'cover'} only the share of the process that prints it",
                "gather the values if the exact figure matters",
            )

    def _by_the_whole(self, draft: Draft, loop: BatchLoop, node: _Loop, statement: ast.AugAssign) -> bool:
        """Whether a sum over samples is divided by the length of a data set, which is that of the whole job."""
        env = draft.environment(loop, statement)
        layout = draft.facts.layouts.read(statement.value, env) if env is not None else Layout.UNKNOWN
        if layout is not Layout.SUM:
            return False
        assert isinstance(statement.target, ast.Name)
        parents = draft.facts.index.parents
        for load in self._reads_after(draft, node, statement.target.id):
            number: ast.AST = load
            parent = parents.get(number)
            while isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult):  # `100 * correct / len(data)`
                number, parent = parent, parents.get(parent)
            if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div) and parent.left is number:
                if self._is_whole(draft, loop, parent.right):
                    return True
        owner = draft.facts.index.scope(node).owner(statement.target.id)
        return owner is not None and any(
            isinstance(s := draft.facts.index.statement(b.node), ast.AugAssign)
            and isinstance(s.op, ast.Div)
            and s.lineno > (node.end_lineno or 0)
            and self._is_whole(draft, loop, s.value)
            for b in owner.bindings[statement.target.id]
        )

    def _is_whole(self, draft: Draft, loop: BatchLoop, node: ast.expr) -> bool:
        """The length of a data set: `len(dataset)`, `len(loader.dataset)`."""
        if not (isinstance(node, ast.Call) and draft.facts.resolver.builtin(node.func) == "len" and node.args):
            return False
        data = node.args[0]
        of_loader = isinstance(data, ast.Attribute) and data.attr == "dataset"
        if of_loader or Role.DATASET in draft.facts.resolver.roles(data):
            return True
        if not isinstance(data, ast.Name):
            return False
        owner = draft.facts.index.scope(data).owner(data.id)
        if loop in draft.blueprint.handmade:
            bound = owner.bindings[data.id] if owner is not None else []
            return not any(loop.node in draft.facts.index.ancestors(b.node) for b in bound)
        given = (draft.facts.objects.loader(value).arguments.get("dataset") for value in loop.loaders)
        return any(
            isinstance(d, ast.Name) and d.id == data.id and draft.facts.index.scope(d).owner(d.id) is owner
            for d in given
        )

    def _others(self, draft: Draft, node: _Loop, names: set[str]) -> dict[str, Finding]:
        """Decisions on what the loop measures other than by adding up: last values, lists, moving averages, meters."""
        found: dict[str, Finding] = {}
        steps = [c for s in node.body for c in walk(s) if isinstance(c, ast.Call) and self._schedules(draft, c)]
        for name in sorted(names):
            inside = [n for call in steps for n in walk(call) if isinstance(n, ast.Name) and n.id == name]
            places = inside or [n for n in self._reads_after(draft, node, name) if self._flows(draft, [n])]
            if places:
                found[name] = draft.finding(
                    "COLL-RANKFLOW",
                    Severity.ERROR,
                    places[0],
                    f"`{name}` is measured on one process's share of the data, and a decision depends on it",
                    "average it across processes with accelerator.reduce before it is used",
                )
        return found

    def _schedules(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call steps a schedule."""
        func = call.func
        return (
            isinstance(func, ast.Attribute)
            and func.attr == "step"
            and Role.SCHEDULER in draft.facts.resolver.roles(func.value)
        )

    def _reads_after(self, draft: Draft, node: _Loop, name: str) -> list[ast.Name]:
        """Reads after the loop of what it left in a variable, or in an object that a variable held before."""
        owner = draft.facts.index.scope(node).owner(name)
        if owner is None:
            return []
        last = node.end_lineno or 0
        if owner.is_class:
            return self._outside(draft, node, owner, name)
        later = [n for n in draft.facts.loads(owner, name) if n.lineno > last]
        later = [n for n in later if draft.function(n) is draft.function(node)]

        def inside(binding: Binding) -> bool:
            return node.lineno <= position(binding.node)[0] <= last

        bound_inside = any(inside(b) and b.how is not How.AUGMENT for b in owner.bindings.get(name, []))
        found = []
        for load in later:
            reaching = draft.facts.resolver.reaching(load, owner)
            before = any(position(b.node) < position(node) for b in reaching)
            if any(map(inside, reaching)) or (before and not bound_inside):
                found.append(load)
        return found

    def _said_after(self, draft: Draft, node: _Loop, name: str) -> ast.Name | None:
        """Where what the last iteration left in a variable is an argument of a call for its effect: printed, logged."""
        for load in self._reads_after(draft, node, name):
            statement = draft.facts.index.statement(load)
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                return load
        return None

    def _said_inside(self, draft: Draft, node: _Loop, names: set[str]) -> dict[str, ast.AST]:
        """Where an iteration prints what it has measured; how many samples it has seen is not asked about."""
        found: dict[str, ast.AST] = {}
        for call in (c for s in node.body for c in walk(s) if isinstance(c, ast.Call)):
            if draft.facts.resolver.builtin(call.func) != "print":
                continue
            for name in (n for n in walk(call) if isinstance(n, ast.Name) and n.id in names):
                parent = draft.facts.index.parents[name]
                sized = isinstance(parent, ast.Attribute) and parent.attr in ("size", "shape")
                if not sized and not (
                    isinstance(parent, ast.Call) and draft.facts.resolver.builtin(parent.func) == "len"
                ):
                    found.setdefault(name.id, name)
        return found

    def _outside(self, draft: Draft, node: ast.AST, owner: Scope, name: str) -> list[ast.Name]:
        """Reads outside a loop of an attribute of self: of any method, for those may run after it."""
        inside = {node, *walk(node)}
        loads = draft.facts.loads(owner, name)
        return [n for n in loads if n not in inside and not _into_attribute(draft.facts.index.statement(n))]

    def _local_names(self, draft: Draft, loop: BatchLoop, node: _Loop) -> set[str]:
        """Variables of the loop body whose value differs from process to process."""
        effects = Effects(draft.facts.resolver, node)
        roles = draft.facts.resolver
        names = {
            n.id
            for n in walk(node)
            if isinstance(n, ast.Name)
            and isinstance(n.ctx, ast.Store)
            and any(v.role in (Role.BATCH, Role.DATA) for b in _bindings_of(draft, n) for v in roles.bound(b))
        }
        if not names and not isinstance(node, ast.While):
            names = stores(node.target)
        step = draft.blueprint.handmade.get(loop)
        if step is not None:
            names = set(step.names)
        for _ in range(2):  # what one iteration leaves behind, the next one reads
            for statement in flatten(node.body):
                names |= effects.tainted(statement, names) | _filled(statement, names)
                for function in draft.blueprint.timeline.calls_into(statement):
                    names |= roles.kept(function, data=True)
        return names

    def _kept(self, draft: Draft, node: _Loop, local: set[str]) -> dict[str, ast.AugAssign]:
        """Sums over the iterations: variables made before the loop that it adds local values to."""
        fresh = {n for s in node.body for inner in walk(s) if isinstance(inner, ast.Assign) for n in stores(inner)}
        found: dict[str, ast.AugAssign] = {}
        for statement in (s for outer in node.body for s in walk(outer)):
            if not isinstance(statement, ast.AugAssign) or not isinstance(statement.target, ast.Name):
                continue
            if local & {n.id for n in loads(statement.value)} and statement.target.id not in fresh:
                found.setdefault(statement.target.id, statement)
        return found

    # ---- decisions

    def _decides(self, draft: Draft, node: _Loop, statement: ast.AugAssign) -> bool:
        """Whether a sum flows into a schedule's step or a test that leaves a loop or saves a checkpoint."""
        target = statement.target
        assert isinstance(target, ast.Name)
        owner = draft.facts.index.scope(node).owner(target.id)
        if owner is None:
            return False
        resolver = draft.facts.resolver
        starts = resolver.reaching(target, owner)
        if owner.is_class:
            return self._flows(draft, self._outside(draft, node, owner, target.id))
        after = [n for n in draft.facts.loads(owner, target.id) if n.lineno > (node.end_lineno or 0)]
        return self._flows(draft, [n for n in after if any(b in starts for b in resolver.reaching(n, owner))])

    def _flows(self, draft: Draft, starts: list[ast.Name], depth: int = 0) -> bool:
        if depth > 4:
            return False
        parents = draft.facts.index.parents
        for load in starts:
            statement = draft.facts.index.statement(load)
            for parent in draft.facts.index.ancestors(load):
                if (
                    isinstance(parent, ast.Call)
                    and isinstance(parent.func, ast.Attribute)
                    and parent.func.attr == "step"
                ):
                    if Role.SCHEDULER in draft.facts.resolver.roles(parent.func.value):
                        return True
                if isinstance(parent, ast.stmt):
                    break
            if isinstance(statement, (ast.If, ast.While)) and _within(statement.test, load, parents):
                if any(
                    isinstance(n, (ast.Break, ast.Return)) or self._saves(draft, n)
                    for s in statement.body
                    for n in walk(s)
                ):
                    return True
            if isinstance(statement, ast.Return):
                function = draft.function(statement)
                for site in draft.facts.resolver.sites(function) if isinstance(function, FUNCTIONS) else ():
                    outer = draft.facts.index.statement(site)
                    if isinstance(outer, ast.Assign) and self._flows(draft, _reads_of(draft, outer), depth + 1):
                        return True
                    if isinstance(outer, ast.Expr) and self._flows_into_step(draft, site):
                        return True
            elif isinstance(statement, (ast.Assign, ast.AugAssign)) and self._flows(
                draft, [n for n in _reads_of(draft, statement) if n not in starts], depth + 1
            ):
                return True
        return False

    def _flows_into_step(self, draft: Draft, node: ast.AST) -> bool:
        for parent in draft.facts.index.ancestors(node):
            if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func.attr == "step":
                return Role.SCHEDULER in draft.facts.resolver.roles(parent.func.value)
            if isinstance(parent, ast.stmt):
                return False
        return False

    def _saves(self, draft: Draft, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and draft.facts.resolver.qualified(node.func) == "torch.save"

    def _reduce(self, draft: Draft, loop: BatchLoop, statement: ast.AugAssign) -> Iterator[Edit]:
        """Reduce the `.item()` of a sum's increment, if how it depends on the batch is known."""
        weighed = self._weighed(draft, loop, statement)
        if weighed is not None:
            # In float64, as Python's own product was; on the CPU, as not every device has that.
            assert isinstance(weighed.func, ast.Attribute)
            yield draft.edit(_RULE, weighed.func.value, Operation.SURROUND, _WHY, "{}.detach().cpu()")
            yield draft.edit(_RULE, weighed, Operation.METHOD, _WHY, "double()", need=Need.STRONG)
            yield draft.edit(
                _RULE, statement.value, Operation.SURROUND, _WHY, _total(draft, "{}") + ".item()", need=Need.STRONG
            )
            return
        for call in walk(statement.value):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "item"):
                continue
            env = draft.environment(loop, statement)
            if env is None:
                continue
            layout = draft.facts.layouts.read(call.func.value, env)
            reduction = _REDUCTIONS.get(layout) if isinstance(layout, Layout) else None
            if reduction is None or self._counts(statement, call):
                return
            yield draft.edit(
                _RULE,
                call.func.value,
                Operation.SURROUND,
                _WHY,
                _total(draft, "{}.detach()")
                if reduction == "sum"
                else '{accelerator}.reduce({}.detach(), reduction="mean")',
                need=Need.STRONG,
            )

    def _weighed(self, draft: Draft, loop: BatchLoop, statement: ast.AugAssign) -> ast.Call | None:
        """The `.item()` of a mean that is weighed by the size of its batch: `loss.item() * x.size(0)`."""
        product, env = statement.value, draft.environment(loop, statement)
        if (
            not draft.runtime
            or env is None
            or not (isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult))
        ):
            return None
        for mean, count in ((product.left, product.right), (product.right, product.left)):
            if isinstance(mean, ast.Call) and isinstance(mean.func, ast.Attribute) and mean.func.attr == "item":
                layouts = draft.facts.layouts.read(mean.func.value, env), draft.facts.layouts.read(count, env)
                if layouts == (Layout.MEAN, Layout.COUNT):
                    return mean
        return None

    def _counts(self, statement: ast.AugAssign, call: ast.Call) -> bool:
        """Whether the increment also has a factor that differs by process (`loss.item() * x.size(0)`)."""
        others = [
            n
            for n in walk(statement.value)
            if isinstance(n, ast.Attribute) and n.attr in ("size", "shape") and n not in set(walk(call))
        ]
        lengths = [
            n
            for n in walk(statement.value)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "len"
        ]
        return bool(others or lengths)

    def _inside(self, draft: Draft, loop: BatchLoop, node: _Loop, local: set[str]) -> Iterator[Finding]:
        """Tests inside the loop on local values that leave it or skip a step."""
        for statement in (s for outer in node.body for s in walk(outer)):
            if not isinstance(statement, (ast.If, ast.While)):
                continue
            if not local & {n.id for n in loads(statement.test)}:
                continue
            inside = [n for s in statement.body for n in walk(s)]
            leaves = any(isinstance(n, (ast.Break, ast.Continue, ast.Return)) for n in inside)
            if leaves or any(n in draft.facts.loops.backwards for n in inside):
                what = "leave the loop" if leaves else "run the backward pass"
                yield draft.finding(
                    "COLL-RANKFLOW",
                    Severity.ERROR,
                    statement,
                    f"`{draft.facts.segment(statement.test)}` differs from process to process, and some would {what} "
                    "while others do not, and wait",
                    "decide on a value that is the same everywhere (accelerator.reduce, or set_trigger and "
                    "check_trigger)",
                )
            elif self._weighs_up(statement.test) and self._losses(draft, node) & {n for s in inside for n in stores(s)}:
                yield draft.finding(
                    "COLL-RANKFLOW",
                    Severity.ERROR,
                    statement,
                    f"`{draft.facts.segment(statement.test)}` differs from process to process, and some would train "
                    "on another loss than others",
                    "decide on a value that is the same everywhere, averaged by accelerator.reduce",
                )

    def _weighs_up(self, test: ast.expr) -> bool:
        """Whether a test compares numbers; not whether something is there, or of what kind it is."""
        return any(isinstance(n, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for n in walk(test))

    def _losses(self, draft: Draft, node: _Loop) -> set[str]:
        """Variables that backward passes in a loop start from."""
        inside = {call for call in draft.facts.loops.backwards if node in draft.facts.index.ancestors(call)}
        return {n.id for call in inside if isinstance(call.func, ast.Attribute) for n in loads(call.func.value)}


def _total(draft: Draft, part: str) -> str:
    """The sum of every process's part, where a batch that went to all of them whole counts once."""
    if draft.runtime:
        return f"{{accelerator}}.gather_for_metrics({part}).sum()"
    return f'{{accelerator}}.reduce({part}, reduction="sum")'


def _filled(statement: ast.stmt, names: set[str]) -> set[str]:
    """The objects that a statement puts local values into: `losses.append(loss.item())`, `meter.update(...)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        arguments = (*call.args, *(k.value for k in call.keywords))
        if names & {n.id for a in arguments for n in walk(a) if isinstance(n, ast.Name)}:
            return {call.func.value.id}
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, (ast.Subscript, ast.Attribute)):
        root = statement.target.value
        if isinstance(root, ast.Name) and names & {n.id for n in loads(statement.value)}:
            return {root.id}
    return set()


def _into_attribute(statement: ast.stmt) -> bool:
    """Whether a statement puts what it computes into an attribute of self, which is asked about by itself."""
    return isinstance(statement, ast.Assign) and any("." in name for name in stores(statement))


def _bindings_of(draft: Draft, name: ast.Name) -> list:  # type: ignore[type-arg]
    owner = draft.facts.index.scope(name).owner(name.id)
    return [b for b in owner.bindings[name.id] if b.node is name] if owner else []


def _reads_of(draft: Draft, statement: ast.stmt) -> list[ast.Name]:
    """The loads that read what an assignment binds."""
    found: list[ast.Name] = []
    for target in walk(statement):
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
            owner = draft.facts.index.scope(target).owner(target.id)
            if owner is not None:
                found += (
                    load
                    for load in draft.facts.loads(owner, target.id)
                    if any(b.node is target for b in draft.facts.resolver.reaching(load, owner))
                )
    return found


def _within(tree: ast.AST, node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    current: ast.AST | None = node
    while current is not None:
        if current is tree:
            return True
        current = parents.get(current)
    return False
