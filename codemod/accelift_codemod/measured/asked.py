"""What a test asks for: how a number comes out, say, but not whether there is one, nor how many there are."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, torch_ops
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import Binding
from accelift_codemod.facts.kinds import Kind
from accelift_codemod.facts.tree import children, walk
from accelift_codemod.following.keys import parts_asked
from accelift_codemod.measured.choices import weighs_up

_ABOUT = torch_ops.ABOUT | {"keys"}
_TELL_NOTHING = frozenset("len isinstance issubclass hasattr callable type id".split())
_TEXTS = frozenset({"str", "repr", "format"})
_FILLS = frozenset("append add extend insert appendleft".split())
_STEPS = 4  # of numbers that are set to others
_FINITE = frozenset("isnan isfinite isinf".split())
_OF_PATHS = ("os.path.", "pathlib.")


def deciding(draft: Draft, test: ast.expr) -> Iterator[ast.AST]:
    """The parts of a test, and of what its variables are set to, by which it comes out one way or the other.

    A name that is drawn for a run (`f"runs/{uuid.uuid4()}"`) is there on every process, and of settings only the one
    counts that is asked for: the `eval` of `args.eval`. Numbers are followed further, and to the tests on which they
    are counted up.
    """
    queue: list[tuple[ast.AST, int]] = [(test, 0)]
    seen: set[ast.AST] = {test}

    def follow(nodes: Iterable[ast.AST], steps: int) -> None:
        queue.extend((node, steps) for node in nodes if node not in seen)
        seen.update(nodes)

    for node, steps in queue:
        if isinstance(node, ast.Call) and (kept := _counted(draft, node)) is not None and steps < _STEPS:
            follow(kept, steps + 1)
        if _tells_nothing(draft, node) or (steps and _is_text(draft, node)):
            continue
        yield node
        if isinstance(node, ast.Name):
            if not steps or (steps < _STEPS and draft.facts.kinds.of(node) is Kind.PLAIN):
                follow([*_bound(draft, node), *_tests_of(draft, node)], steps + 1)
        elif (setting := _setting(node)) is not None and (entries := _entries(draft, *setting, not steps)) is not None:
            follow(entries, 1)
            follow(_tests_of_attribute(draft, node) if steps < _STEPS else (), steps + 1)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            follow([node.func.value, *node.args, *node.keywords], steps)
        else:
            follow([*children(node)], steps)


def weighs_numbers(draft: Draft, test: ast.expr) -> bool:
    """Whether a test compares numbers, or a variable of it has been set to what a comparison says, or on one:
    `ahead = loss.item() < 1`, `if loss.item() < 1: ahead = True`, `step = "a" if loss.item() < 1 else "b"`."""
    if weighs_up(test) or any(isinstance(n, ast.Call) and _asks_if_finite(draft, n) for n in walk(test)):
        return True
    bound = [b.value for n in loads(test) for b in draft.facts.resolver.bindings(n) if not b.path]
    asked = {part for n in loads(test) for part in parts_asked(draft, n)}
    function = draft.function(test) or draft.facts.tree
    sets = (s for s in walk(function) if isinstance(s, ast.Assign)) if asked else ()
    bound += [s.value for s in sets if any(ast.unparse(target) in asked for target in s.targets)]
    tests = (one for n in loads(test) for one in _tests_of(draft, n))
    bound += [value.test for value in bound if isinstance(value, ast.IfExp)]
    said = (value for value in bound if isinstance(value, (ast.Compare, ast.BoolOp, ast.UnaryOp)))
    return any(map(weighs_up, (*said, *tests)))


def _asks_if_finite(draft: Draft, call: ast.Call) -> bool:
    """Whether a call asks if a number is one: `torch.isnan(loss)`, `loss.isfinite()`."""
    name = draft.facts.resolver.qualified(call.func)
    return (name.rpartition(".")[2] if name else getattr(call.func, "attr", "")) in _FINITE


def numbers(draft: Draft, iterated: ast.expr) -> Iterator[ast.expr]:
    """What says how often a loop runs: the arguments of `range`, and where a slice ends."""
    for node in walk(iterated):
        if isinstance(node, ast.Call) and draft.facts.resolver.builtin(node.func) == "range":
            yield from node.args
        elif isinstance(node, ast.Slice):
            yield from (end for end in (node.lower, node.upper) if end is not None)


def _tells_nothing(draft: Draft, node: ast.AST) -> bool:
    """Whether an expression says only that there is something, of what kind or size it is."""
    if isinstance(node, ast.Compare):
        nothing = any(isinstance(side, ast.Constant) and side.value is None for side in (node.left, *node.comparators))
        return nothing and isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq))
    if isinstance(node, ast.Call):
        of = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        return of in _ABOUT or draft.facts.resolver.builtin(node.func) in _TELL_NOTHING
    return isinstance(node, ast.Attribute) and node.attr in _ABOUT


def _is_text(draft: Draft, node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        resolver = draft.facts.resolver
        return resolver.builtin(node.func) in _TEXTS or (resolver.qualified(node.func) or "").startswith(_OF_PATHS)
    return isinstance(node, ast.JoinedStr)


def _bound(draft: Draft, name: ast.Name) -> list[ast.expr]:
    bindings = draft.facts.resolver.bindings(name)
    added = (b for b in _all_bindings(draft, name) if b.how is How.AUGMENT)
    held = (*(b for b in bindings if b.how is How.ASSIGN and not b.path), *added)
    put = (fill.value for b in bindings for fill in draft.facts.resolver.fills(b.scope, b.name).entries)
    return [*(b.value for b in held if b.value is not None), *put]


def _counted(draft: Draft, call: ast.Call) -> list[ast.expr] | None:
    """The tests on which a list is filled, if a call asks how long it is."""
    asked = call.args[0] if draft.facts.resolver.builtin(call.func) == "len" and call.args else None
    if not isinstance(asked, ast.Name):
        return None
    parents = draft.facts.index.parents
    fills = (parents[n] for n in draft.facts.loads_of(asked))
    return [test for f in fills if isinstance(f, ast.Attribute) and f.attr in _FILLS for test in _around(draft, f)]


def _tests_of(draft: Draft, name: ast.Name) -> list[ast.expr]:
    """The tests on which a variable is counted up, or set to what is written out: `stop = True`."""
    found: list[ast.expr] = []
    for bound in _all_bindings(draft, name):
        found += _around(draft, bound.node) if _is_told(draft, bound) else []
    return found


def _tests_of_attribute(draft: Draft, node: ast.AST) -> list[ast.expr]:
    """The same of an attribute of the object in a variable: `state.late += 1`."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return []
    bindings = draft.facts.index.attribute_bindings.get(node.attr, ())
    owners = ((b, b.node.value) for b in bindings if isinstance(b.node, ast.Attribute) and _is_told(draft, b))
    same = (b for b, owner in owners if isinstance(owner, ast.Name) and owner.id == node.value.id)
    return [test for bound in same for test in _around(draft, bound.node)]


def _is_told(draft: Draft, bound: Binding) -> bool:
    """Whether something is counted up, or set to what is written out."""
    if bound.how is How.AUGMENT:
        return draft.facts.kinds.of(bound.value) is Kind.PLAIN
    return bound.how is How.ASSIGN and not bound.path and isinstance(bound.value, ast.Constant)


def _around(draft: Draft, node: ast.AST) -> list[ast.expr]:
    """The tests that decide in a function whether something is done."""
    return [*draft.facts.index.tests_around(node, draft.facts.index.function(node))]


def _all_bindings(draft: Draft, name: ast.Name) -> Sequence[Binding]:
    owner = draft.facts.index.scope(name).owner(name.id)
    return owner.bindings.get(name.id, ()) if owner is not None else ()


def _setting(node: ast.AST) -> tuple[ast.Name, str] | None:
    """A variable and the name of what is asked of it: of `args.eval`, of `config["eval"]`."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value, node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Constant):
        return (node.value, node.slice.value) if isinstance(node.slice.value, str) else None
    return None


def _entries(draft: Draft, name: ast.Name, key: str, follows: bool) -> list[ast.expr] | None:
    """What settings have by a name, as far as it is written out; None if the variable holds something else."""
    found: list[ast.expr] = []
    for value in _bound(draft, name) if follows else ():
        if isinstance(value, ast.Call):
            found += (k.value for k in value.keywords if k.arg == key)
        elif isinstance(value, ast.Dict):
            pairs = zip(value.keys, value.values, strict=True)
            found += (entry for k, entry in pairs if isinstance(k, ast.Constant) and k.value == key)
        else:
            return None
    return found
