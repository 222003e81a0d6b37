"""Objects that have left the function in which they are prepared, seen from a function that calls both."""

from __future__ import annotations

import ast

from accelift_codemod.facts import position
from accelift_codemod.facts.index import Binding, Function, How
from accelift_codemod.facts.timeline import Timeline
from accelift_codemod.facts.tree import unmoved


def later_call(timeline: Timeline, node: ast.AST, anchor: ast.AST) -> bool:
    """Whether a node runs only in calls that come after one in which an object was prepared: `test(train(net))`.

    Such calls stand together in one function, or in several; each has to say so. One call that leads to both says
    nothing of their order.
    """
    index = timeline.index
    homes = timeline.callers(index.function(node)) & timeline.callers(index.function(anchor))
    told = [_told(timeline, node, anchor, home) for home in homes]
    known = [answer for answer in told if answer is not None]
    return bool(known) and all(known)


def comes_back(timeline: Timeline, node: ast.AST, anchor: ast.AST) -> bool:
    """Whether a node is what a call gives that has an object prepared, or a variable that is set to that only:
    `net = train()`, also where another call follows."""
    home = timeline.index.function(node)
    places, todo, seen = timeline.places(anchor, home), [node], set[Binding]()
    while todo:
        one = unmoved(todo.pop()) if places else None  # type: ignore[arg-type]
        if isinstance(one, ast.Name):
            bindings = timeline.resolver.bindings(one)
            if not bindings or any(b.how is not How.ASSIGN or b.value is None for b in bindings):
                return False
            todo += [b.value for b in bindings if b.value is not None and b not in seen]
            seen.update(bindings)
        elif isinstance(one, ast.IfExp):
            todo += [one.body, one.orelse]
        elif one not in places or not isinstance(one, ast.Call):
            return False
    return True


def _told(timeline: Timeline, node: ast.AST, anchor: ast.AST, home: Function | None) -> bool | None:
    """What one function says of the order; None if one of its calls leads to both, or none to one of them."""
    starts, ends = timeline.places(anchor, home), timeline.places(node, home)
    if not starts or not ends or any(end in starts for end in ends):
        return None
    return all(any(_is_before(timeline, start, end) for start in starts) for end in ends)


def _is_before(timeline: Timeline, start: ast.AST, end: ast.AST) -> bool:
    """Whether a call is done before another one begins: it stands before it, or among what it is given."""
    if timeline.exclusive(start, end):
        return False
    return position(start) < position(end) or end in timeline.index.ancestors(start)
