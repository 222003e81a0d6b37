"""What is decided by drawn numbers: which networks run, and which of their layers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from accelift_codemod.chance import seeds
from accelift_codemod.chance.decided import is_for_each_row
from accelift_codemod.chance.moved import is_for_share
from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, Role
from accelift_codemod.facts.chance import SEEDS, drawn_from, stream
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import leaves, walk
from accelift_codemod.following.onward import reached, reads_of
from accelift_codemod.measured.asked import deciding
from accelift_codemod.plan import Finding, Severity

if TYPE_CHECKING:
    from accelift_codemod.measured.sums import Loop

Choice = ast.If | ast.While


def differing(draft: Draft, place: ast.AST, draw: ast.Call, consequence: str) -> Finding:
    """What is told of numbers that every process draws for itself, where they decide something."""
    return draft.finding(
        "COLL-RANKFLOW",
        Severity.ERROR,
        place,
        f"`{draft.facts.segment(draw)}` draws other numbers on every process, {consequence}",
        "seed the generator before, or draw once and broadcast it",
    )


def drawn(draft: Draft, test: ast.expr) -> ast.Call | None:
    """A call in a test, or in what its variables were set to, that draws from a generator that nothing seeds."""
    return next((call for call, home in coins(draft, test) if not seeds.seeded(draft, call, SEEDS[home])), None)


def coins(draft: Draft, test: ast.expr) -> Iterator[tuple[ast.Call, str]]:
    """The calls in a test, or in what its variables were set to, that draw from a global generator, and from which."""
    for call in (n for n in deciding(draft, test) if isinstance(n, ast.Call)):
        home = drawn_from(draft.facts.resolver, call)
        if home:
            yield call, home


def for_share(draft: Draft, node: Loop, test: ast.expr) -> ast.Call | None:
    """A call by which a test for a whole batch goes that draws for each sample of a process's share."""
    loop = draft.blueprint.loops.get(node)
    if loop is None or is_for_each_row(draft, test):
        return None
    calls = (n for n in deciding(draft, test) if isinstance(n, ast.Call) and stream(draft.facts.resolver, n))
    return next((call for call in calls if is_for_share(draft, loop, call)), None)


def fewer(draft: Draft, place: ast.AST, draw: ast.Call) -> Finding:
    """What is told of that: all processes decide alike, if they are seeded alike and their shares are as large."""
    return draft.finding(
        "COLL-RANKFLOW",
        Severity.WARNING,
        place,
        f"what trains is decided by `{draft.facts.segment(draw)}`, which is drawn for each sample of a process's "
        "share: there are fewer of them than samples in the batch, and it comes out otherwise than on one process",
        "draw as many numbers as the whole batch has samples",
    )


def matters(draft: Draft, node: Loop, choice: Choice, trains: list[int]) -> bool:
    """Whether processes that decide otherwise would do other things together: leave, train (the times that each arm
    does), run other networks, or other parts of them."""
    arms = [[n for s in arm for n in walk(s)] for arm in (choice.body, choice.orelse)]
    ends = (n for arm in arms for n in arm if isinstance(n, (ast.Break, ast.Continue, ast.Return)))
    if any(isinstance(n, ast.Return) or draft.facts.index.enclosing_loops(n)[:1] == [node] for n in ends):
        return True
    if trains[0] != trains[1] or _networks(draft, arms[0]) != _networks(draft, arms[1]):
        return True
    switches = (n for arm in arms for n in arm if isinstance(n, ast.Assign) and _is_switch(n.value))
    return any(_reaches_network(draft, switch) for switch in switches)


def switched(draft: Draft, statement: ast.stmt) -> ast.Call | None:
    """What draws, unseeded, in an expression of a statement that leaves out an input: `y if random() > p else None`."""
    for choice in (n for n in walk(statement) if isinstance(n, ast.IfExp)):
        if any(map(_is_switch, (choice.body, choice.orelse))) and (coin := drawn(draft, choice.test)) is not None:
            parent = draft.facts.index.parents[choice]
            call = draft.facts.index.parents[parent] if isinstance(parent, ast.keyword) else parent
            kept = (
                isinstance(statement, ast.Assign) and statement.value is choice and _reaches_network(draft, statement)
            )
            if kept or _runs_network(draft, call):
                return coin
    return None


def picking(draft: Draft, node: Loop) -> Iterator[tuple[ast.Subscript, ast.Call]]:
    """Where a loop picks one of several networks or optimizers by unseeded draws, once for each, with what draws."""
    told: set[ast.Call] = set()
    for part in picks(draft, node):
        coin = drawn(draft, part.slice)
        if coin is not None and coin not in told:
            told.add(coin)
            yield part, coin


def picks(draft: Draft, node: Loop) -> Iterator[ast.Subscript]:
    """Where a loop picks one of several networks or optimizers."""
    for part in (n for s in node.body for n in walk(s) if isinstance(n, ast.Subscript)):
        if any(v.role in (Role.MODEL, Role.OPTIMIZER) for v in draft.facts.resolver.values(part)):
            yield part


def layers_by_chance(draft: Draft) -> Iterator[tuple[Choice, ast.Call]]:
    """Tests in the networks that are trained which decide by unseeded draws whether layers run, with what draws."""
    for cls in draft.facts.index.classes:
        if draft.facts.resolver.class_role(cls) is not Role.MODEL:
            continue
        for function in (n for n in cls.body if isinstance(n, FUNCTIONS) and n.name != "__init__"):
            for choice in (n for n in walk(function) if isinstance(n, Choice)):
                coin = drawn(draft, choice.test)
                if coin is not None and _skips_layers(draft, function, choice):
                    yield choice, coin


def _skips_layers(draft: Draft, function: ast.AST, choice: Choice) -> bool:
    """Whether layers run, or do not, as a test in a method of a network decides."""
    arms = [_layers(draft, arm) for arm in (choice.body, choice.orelse)]
    if arms[0] != arms[1]:
        return True
    statements = [*choice.body, *choice.orelse]
    around = draft.facts.index.enclosing_loops(choice) if leaves(statements) else []
    if any(isinstance(n, ast.Return) for s in statements for n in walk(s)):
        around = [function]
    later = [s for s in ast.iter_child_nodes(around[0]) if s is not choice] if around else []
    return bool(_layers(draft, later))


def _layers(draft: Draft, nodes: list[ast.stmt] | list[ast.AST]) -> set[str]:
    """The parts of a network that some nodes run, as they are spelled."""
    calls = (n for node in nodes for n in walk(node) if isinstance(n, ast.Call))
    return {ast.unparse(call.func) for call in calls if _is_layer(draft, call.func)}


def _is_layer(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression is a part of a network: known for one, or one of several that an attribute holds."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) or bool(draft.facts.objects.models(node))
    bindings = draft.facts.resolver.bindings(node) if isinstance(node, ast.Name) else []
    held = (n for b in bindings if b.how is How.LOOP and b.value is not None for n in walk(b.value))
    return any(isinstance(n, ast.Attribute) for n in held) or bool(draft.facts.objects.models(node))


def _networks(draft: Draft, nodes: list[ast.AST]) -> set[ast.AST]:
    """The prepared networks that some nodes run."""
    calls = (n for n in nodes if isinstance(n, ast.Call))
    return {value.origin for call in calls for value in draft.blueprint.prepared_models(call.func)}


def _is_switch(node: ast.expr) -> bool:
    """Whether an expression is no tensor, but tells a network what to leave out."""
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))


def _reaches_network(draft: Draft, statement: ast.stmt) -> bool:
    """Whether what a statement sets is given to a prepared network."""
    for read in reached(draft, reads_of(draft, statement)):
        parent = draft.facts.index.parents[read]
        if _runs_network(draft, draft.facts.index.parents[parent] if isinstance(parent, ast.keyword) else parent):
            return True
    return False


def _runs_network(draft: Draft, node: ast.AST) -> bool:
    """Whether a node is a call of a prepared network, or of a method of one."""
    return isinstance(node, ast.Call) and bool(draft.blueprint.prepared_part(node.func)[1])
