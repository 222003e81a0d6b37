"""Processes that wait for ever: what all have to do together is done by some."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.flow import Local
from accelift_codemod.facts.index import FUNCTIONS, LOOPS, position
from accelift_codemod.facts.ranks import Guard
from accelift_codemod.facts.together import Together
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.values import Evidence, Role
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint, alone, own_items
from accelift_codemod.plan import Finding, Severity

_STEPS = 3  # of functions that call each other
_LEAVING = (ast.Break, ast.Continue, ast.Return)
_EXITS = frozenset({"sys.exit", "os._exit"})


class MainOnly(Lint):
    """A collective operation (gather, reduce, wait_for_everyone, backward, ...) is done together by all processes.
    Under a test for the main process, in a function decorated with on_main_process, or after the other processes have
    returned, some never come to it, and those that do wait for them until a timeout ends the job. `save_state` has to
    be called by all processes, too: each writes its own random state. And a prepared DataLoader gives each process its
    own share: the main process alone sees a part of the data, and an iterator of one that shuffles waits for the
    others. The forward pass of a prepared model that has buffers (BatchNorm's averages) is such an operation, too, also
    without gradients: the wrapper hands the main process's buffers to the others before it. `unwrap_model` gives the
    model that can be run alone.
    """

    code = "COLL-MAIN"
    severity = Severity.ERROR
    title = "a collective operation on some processes only"
    wrong = """\
if accelerator.is_main_process:
    losses = accelerator.gather(losses)
    print(losses.mean())
"""
    right = """\
losses = accelerator.gather(losses)
if accelerator.is_main_process:
    print(losses.mean())
"""

    def check(self, world: World) -> Iterator[Finding]:
        found: list[tuple[ast.AST, Together, Guard]] = []
        for call in world.calls:
            verb = world.together.of(call)
            together = Together(call, verb) if verb else world.together.called(call)
            if together is None:
                continue
            guard = world.ranks.guard(call)
            if guard is not None:
                found.append((call, together, guard))
        for one in found:
            if not any(self._balances(world, one, other) for other in found):
                yield self._finding(world, *one)
        yield from self._loops(world)
        yield from self._alone(world)

    def _alone(self, world: World) -> Iterator[Finding]:
        """Iterators of prepared loaders, and forward passes of prepared models with buffers, of some processes."""
        known: list[tuple[ast.Call, ast.AST, Guard, str]] = []
        for call in world.calls:
            what = alone.draws(world, call) or alone.hands_buffers(world, call)
            node, guard = self._guarded(world, call) if what else (call, None)
            if guard is not None:
                known.append((call, node, guard, what))
        for call, node, guard, what in known:
            if any(alone.balanced(world, (call, guard), (one, other)) for one, _, other, _ in known):
                continue
            yield Finding(
                self.code,
                self.severity,
                call.lineno,
                f"`{world.text(call)}` runs {_where(world, guard, node)}: {what}",
                alone.REMEDIES[world.resolver.builtin(call.func) == "iter"],
                (Evidence(guard.node.lineno, f"`{world.text(guard.node)}`"),),  # type: ignore[attr-defined]
            )

    def _balances(
        self, world: World, one: tuple[ast.AST, Together, Guard], other: tuple[ast.AST, Together, Guard]
    ) -> bool:
        """Whether the other processes do the same elsewhere in the function."""
        return one[1].verb == other[1].verb and alone.balanced(world, (one[0], one[2]), (other[0], other[2]))

    def _finding(self, world: World, call: ast.AST, together: Together, guard: Guard) -> Finding:
        where = _where(world, guard, call)
        line = call.lineno  # type: ignore[attr-defined]
        evidence = (
            Evidence(guard.node.lineno, f"`{world.text(guard.node)}`"),  # type: ignore[attr-defined]
            *together.path,
        )
        if together.path:
            last = together.node.lineno  # type: ignore[attr-defined]
            evidence = (*evidence, Evidence(last, f"`{world.text(together.node)}`"))
        name = _named(together.verb)
        through = f" (in {', '.join(s.text.removeprefix('calls ') for s in together.path)})" if together.path else ""
        if world.together.harmless(together) and not (together.verb == "save_state" and self._counts_folders(world)):
            what = "the random states of the others are not saved, and sharded models hang"
            if together.verb == "load_state":
                what = "the others keep the state they have"
            message = f"`{name}`{through} runs {where}: {what}"
            return Finding(self.code, Severity.WARNING, line, message, "call it on every process", evidence)
        message = f"`{name}`{through} runs {where}: it waits for the other processes until the job times out"
        return Finding(self.code, self.severity, line, message, "do it on every process, outside the guard", evidence)

    def _counts_folders(self, world: World) -> bool:
        """Whether `save_state` names its folders itself: then its processes wait for each other."""
        return any(
            k.arg == "automatic_checkpoint_naming" and is_constant(k.value, True)
            for call in world.calls
            for k in call.keywords
        )

    def _loops(self, world: World) -> Iterator[Finding]:
        """Loops of some processes over their shares of the data."""
        for loop in world.loops:
            if not loop.direct or not world.all_prepared(loop) or isinstance(loop.node, ast.While):
                continue
            node, guard = self._guarded(world, loop.node)
            guard = guard or self._chosen_in(world, loop.node.iter)
            if guard is None or self._is_guarded_inside(world, node, guard):
                continue
            place = loop.node.iter
            where = _where(world, guard, place if node is loop.node else node)
            yield Finding(
                self.code,
                self.severity,
                place.lineno,
                f"the loop over the prepared `{world.text(place)}` runs {where}: it sees that "
                "process's share of the data alone, and if the loader shuffles, it may wait for the others for ever",
                "run it on every process and gather the results, or iterate over a loader that was not prepared",
                (Evidence(guard.node.lineno, f"`{world.text(guard.node)}`"),),  # type: ignore[attr-defined]
            )

    def _guarded(self, world: World, node: ast.AST, steps: int = _STEPS) -> tuple[ast.AST, Guard | None]:
        """The test under which alone a node runs on some processes, or all calls of its function do; and the node, or
        the call, that stands there."""
        guard, function = world.ranks.guard(node), world.index.function(node)
        if guard is not None or function is None or not steps or world.timeline.handed_on(function):
            return node, guard
        found = [self._guarded(world, site, steps - 1) for site in world.resolver.sites(function)]
        return found[0] if found and all(inner is not None for _, inner in found) else (node, None)

    def _is_guarded_inside(self, world: World, loop: ast.AST, guard: Guard) -> bool:
        """Whether the other processes iterate, too."""
        return any(
            other.node is not loop
            and (g := world.ranks.guard(other.node)) is not None
            and g.chosen is not guard.chosen
            and world.index.function(other.node) is world.index.function(loop)
            for other in world.loops
        )

    def _chosen_in(self, world: World, node: ast.expr) -> Guard | None:
        """`loader if accelerator.is_main_process else ()`, as what is iterated over."""
        if isinstance(node, ast.IfExp):
            yes, no = world.ranks.splits(node.test)
            sides = [
                s for s, part in ((yes, node.body), (no, node.orelse)) if Role.LOADER in world.resolver.roles(part)
            ]
            if len(sides) == 1 and sides[0] is not None:
                return Guard(node.test, sides[0])
        return None


class RankFlow(Lint):
    """A process that leaves a loop or a function (by `exit()`, too), or skips the rest of an iteration, because of a
    value of its own does not take part in the collective operations that the other processes still do: those wait for
    it until a timeout ends the job. The loss of a process's own share of the batch is such a value; so is whether it is
    the main process, how many items it was dealt, the time, and a number that it draws without a seed. A collective
    operation under a test of such a value is reached by some processes only, too. And a schedule that goes by such a
    value (ReduceLROnPlateau) gives every process a learning rate of its own.
    """

    code = "COLL-RANKFLOW"
    severity = Severity.ERROR
    title = "a process leaves on a value of its own"
    wrong = """\
for inputs, targets in loader:
    loss = criterion(model(inputs), targets)
    if torch.isnan(loss):
        continue
    accelerator.backward(loss)
"""
    right = """\
for inputs, targets in loader:
    loss = criterion(model(inputs), targets)
    if torch.isnan(accelerator.gather(loss)).any():
        continue
    accelerator.backward(loss)
"""

    def check(self, world: World) -> Iterator[Finding]:
        seen: set[ast.AST] = set()
        for node in sorted((n for n in walk(world.index.tree) if self._leaves(world, n)), key=position):
            test = self._decides(world, node)
            if test is None or test[0] in seen:
                continue
            missed = self._missed(world, node, test[0])
            if missed is None:
                continue
            seen.add(test[0])
            yield self._finding(world, node, test, missed)
        yield from self._under(world)
        yield from self._scheduled(world)

    def _leaves(self, world: World, node: ast.AST) -> bool:
        """Whether a statement leaves a loop: `exit()`, too, but not with an error, with which the job ends."""
        if isinstance(node, ast.Expr) and isinstance(call := node.value, ast.Call):
            if world.resolver.builtin(call.func) in ("exit", "quit") or world.qualified(call) in _EXITS:
                return all(isinstance(a, ast.Constant) and a.value in (0, None) for a in call.args)
        return isinstance(node, _LEAVING)

    def _under(self, world: World) -> Iterator[Finding]:
        """What all do together, under a test that each process decides by a value of its own."""
        seen: set[ast.AST] = set()
        for call in world.calls:
            verb = world.together.of(call)
            together = Together(call, verb) if verb else world.together.called(call)
            saves = together is not None and together.verb == "save_state" and world.together.harmless(together)
            if together is None or (world.together.harmless(together) and not saves):
                continue
            found = self._own_test(world, call)
            if found is None or found[0] in seen or self._in_both(world, found[0], together.verb):
                continue
            statement, local = found
            seen.add(statement)
            last = together.node.lineno  # type: ignore[attr-defined]
            what = "those that do wait for the others until the job times out"
            if saves:
                what = "the random states of the others are not saved, or are those of another step"
            yield Finding(
                self.code,
                Severity.WARNING if saves else self.severity,
                call.lineno,
                f"`{_named(together.verb)}` under `if {world.text(statement.test)}`: a process decides by a value of "
                f"its own whether it takes part, and {what}",
                "decide by a gathered value, or do it on every process",
                (
                    Evidence(local.node.lineno, local.text),  # type: ignore[attr-defined]
                    *together.path,
                    Evidence(last, f"`{world.text(together.node)}` is done together"),
                ),
            )

    def _scheduled(self, world: World) -> Iterator[Finding]:
        """Schedules that each process steps by a value of its own."""
        for call in world.index.methods.get("step", []):
            assert isinstance(call.func, ast.Attribute)
            schedules = world.resolver.only(call.func.value, Role.SCHEDULER) and not world.ranks.perhaps_alone(call)
            given = world.resolver.argument(call, 0, "metrics") if schedules else None
            local = world.flow.local(given) if given is not None else None
            if local is not None:
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    f"`{world.text(call)}`: the schedule goes by a value of the process's own, so that each has "
                    "another learning rate from some step on, and they train apart",
                    "give it a value that is the same everywhere: accelerator.reduce(..., 'mean'), or one computed "
                    "from gathered results",
                    (Evidence(local.node.lineno, local.text),),  # type: ignore[attr-defined]
                )

    def _own_test(self, world: World, node: ast.AST) -> tuple[ast.If, Local] | None:
        """The `if` around a node, in its function, that a process decides by a value of its own."""
        child = node
        for parent in world.index.ancestors(node):
            if isinstance(parent, (*FUNCTIONS, ast.ClassDef)):
                return None
            if isinstance(parent, ast.If) and child is not parent.test:
                local = own_items.decides(world, parent.test)
                if local is not None:
                    return parent, local
            child = parent
        return None

    def _in_both(self, world: World, test: ast.If, verb: str) -> bool:
        """Whether both sides of a test do the same together; the other one of a side that leaves is what follows."""
        block, place = world.index.block(test)
        sides = (test.body, [*test.orelse, *(block[place + 1 :] if isinstance(test.body[-1], _LEAVING) else [])])
        return all(any(found.verb == verb for found in world.together.within_statements(side)) for side in sides)

    def _finding(self, world: World, node: ast.AST, test: tuple[ast.If, Local], missed: Together) -> Finding:
        statement, local = test
        words = {ast.Break: "break", ast.Continue: "continue", ast.Return: "return"}
        word = next((word for kind, word in words.items() if isinstance(node, kind)), world.text(node))
        last = missed.node.lineno  # type: ignore[attr-defined]
        return Finding(
            self.code,
            self.severity,
            node.lineno,  # type: ignore[attr-defined]
            f"`{word}` under `if {world.text(statement.test)}`: a process decides by a value of its own, and the "
            f"others wait for it in `{_named(missed.verb)}` (line {last}) until the job times out",
            "let all processes leave, and put only the rest under the test for the main process"
            if local.node is statement.test and world.ranks.splits(statement.test) != (None, None)
            else "decide by a gathered value, or by accelerator.set_trigger() and check_trigger()",
            (
                Evidence(local.node.lineno, local.text),  # type: ignore[attr-defined]
                *missed.path,
                Evidence(last, f"`{world.text(missed.node)}` is done together"),
            ),
        )

    def _decides(self, world: World, node: ast.AST) -> tuple[ast.If, Local] | None:
        """The `if` around a `break` that a process decides by a value of its own."""
        for parent in world.index.ancestors(node):
            if isinstance(parent, (*FUNCTIONS, ast.ClassDef, *LOOPS)):
                if not isinstance(node, (ast.Return, ast.Expr)) or not isinstance(parent, LOOPS):
                    return None
            if isinstance(parent, ast.If):
                yes, no = world.ranks.splits(parent.test)
                if yes is not None or no is not None:
                    return parent, Local(parent.test, f"`{world.text(parent.test)}` differs from process to process")
                local = own_items.decides(world, parent.test)
                if local is not None:
                    return parent, local
        return None

    def _missed(self, world: World, node: ast.AST, test: ast.If) -> Together | None:
        """What the other processes still do together when one has left."""
        loops = world.index.enclosing_loops(test)
        if not loops:
            return self._left_out(world, node, test)
        inside = set(walk(test))
        if isinstance(node, (ast.Return, ast.Expr)):
            places = loops
        else:
            places = loops[:1]
        for loop in places:
            for found in world.together.within_statements(loop.body):  # type: ignore[attr-defined]
                if found.node in inside or world.together.harmless(found):
                    continue
                if isinstance(node, ast.Continue) and position(found.node) < position(test) and not found.path:
                    continue
                if world.ranks.guard(found.node) is not None:
                    continue
                if isinstance(node, ast.Continue) and found.path and found.path[0].line < test.lineno:
                    continue
                return found
        return None

    def _left_out(self, world: World, node: ast.AST, test: ast.If) -> Together | None:
        """What the rest of a function does together, which a process leaves before; by its number: COLL-MAIN."""
        leaves = isinstance(node, (ast.Return, ast.Expr)) and world.ranks.splits(test.test) == (None, None)
        if not leaves or any(world.together.within_statements([*test.body, *test.orelse])):
            return None
        for block, place in map(world.index.block, reversed(world.index.chain(test))):
            for found in world.together.within_statements(block[place + 1 :]):
                if not world.together.harmless(found) and world.ranks.guard(found.node) is None:
                    return found
        return None


def _where(world: World, guard: Guard, node: ast.AST) -> str:
    text = world.text(guard.node)
    if isinstance(world.index.parents.get(guard.node), FUNCTIONS):
        return f"in a function decorated with `{text}`"
    if guard.left:
        last = guard.node.lineno  # type: ignore[attr-defined]
        return f"only on the processes that go on after `if {text}` (line {last})"
    parent = world.index.parents.get(guard.node)
    inside = {*world.index.ancestors(node), node}
    other = isinstance(parent, (ast.If, ast.IfExp)) and any(
        n in inside for n in (parent.orelse if isinstance(parent.orelse, list) else [parent.orelse])
    )
    return f"only where not `{text}`" if other else f"only where `{text}`"


def _named(verb: str) -> str:
    return verb if "." in verb else f"{verb}()"
