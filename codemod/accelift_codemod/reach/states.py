"""Code that asks for the state of the processes, `PartialState()`, because the accelerator does not reach it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Function, Role, position
from accelift_codemod.facts.command_line import is_main
from accelift_codemod.facts.conditions import FALSE
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import STATE, Edit
from accelift_codemod.reasons import refuse

if TYPE_CHECKING:
    from accelift_codemod.reach import Reach

_NAME = STATE.partition("(")[0]
_FORKS = frozenset(
    """
    multiprocessing.Pool multiprocessing.pool.Pool multiprocessing.Process torch.multiprocessing.Pool os.fork
    torch.multiprocessing.Process concurrent.futures.ProcessPoolExecutor
    concurrent.futures.process.ProcessPoolExecutor
    """.split()
)


def suffices(draft: Draft, edit: Edit) -> bool:
    """Whether an edit stands in a class that cannot keep the accelerator, or in a function that other files call as it
    is, and the state of the processes is enough."""
    if edit.node is None:
        return False
    if stays(draft, edit.node):
        return edit.by_state(device=True) is not None
    function = draft.function(edit.node)
    return (
        edit.by_state() is not None
        and function is not None
        and isinstance(draft.facts.index.parents.get(function), ast.ClassDef)
        and draft.facts.resolver.instance(function) is None
    )


def stays(draft: Draft, node: ast.AST) -> bool:
    """Whether a node is in a function that other files call as it is, and that is to ask for the state."""
    around = (n for n in draft.facts.index.ancestors(node) if isinstance(n, FUNCTIONS))
    return draft.facts.by_state and any(function.name in draft.facts.wanted for function in around)


def required(reach: Reach, edit: Edit) -> Edit:
    """An edit that has to be made, asking for the state.

    Raises:
        Refused: its place may run where there is none.
    """
    found = asked(reach, edit, uncalled=True)
    if found is None:
        assert edit.node is not None
        function = reach.draft.function(edit.node)
        raise refuse(
            "ACC-REACH",
            edit.span.line,
            f"the method {function.name if function else ''}() needs the accelerator, and belongs to no object that is "
            "followed",
            "pass what it needs as plain arguments",
        )
    return found


def asked(reach: Reach, edit: Edit, uncalled: bool = False) -> Edit | None:
    """An edit that asks for the state of the processes; None where that may be asked too early, or elsewhere, or in a
    method that nothing in the script calls, unless `uncalled` ones may ask, too.

    It may be asked before there is an accelerator if nothing keeps the script on the CPU, but only by the processes of
    the job themselves: a loader's workers run functions that they are handed, and the methods of data sets, and where
    they begin anew, they import the script, but for what stands under `if __name__ == "__main__":`.
    """
    assert edit.node is not None
    other = edit.by_state() or (edit.by_state(device=True) if stays(reach.draft, edit.node) else None)
    makers = _makers(reach, edit.node) if uncalled else []
    here = _called_here(reach, edit.node, bool(makers)) or _starts(reach, edit.node)
    if other is None or reach.facts.stateless or not here or _NAME in reach.facts.bound:
        return None
    nodes: list[ast.AST] = [*makers] or [edit.node]
    if edit.by_state() is None and reach.cpu != FALSE:
        return None  # who calls the function elsewhere may mean the CPU
    if all(_is_late(reach, node) for node in nodes):
        return other
    if edit.by_state() is None:
        return None
    return other if reach.cpu == FALSE and not any(_is_before_settings(reach, node) for node in nodes) else None


def has_device(reach: Reach, node: ast.AST) -> bool:
    """Whether a node only runs once there is an accelerator, in the job's own processes: the state has its device."""
    free = not reach.facts.stateless and _NAME not in reach.facts.bound
    return free and _called_here(reach, node, False) and _is_late(reach, node)


def _is_late(reach: Reach, node: ast.AST) -> bool:
    """Whether a node only runs once there is an accelerator."""
    moments = reach.timeline.moments(node, reach.home)
    if not moments:
        return reach.timeline.follows(node, reach.home, others=True)
    made = reach.block[reach.place] if reach.place < len(reach.block) else reach.block[-1]
    return reach.timeline.within(node, reach.home) and min(moments) >= position(made)


def _is_before_settings(reach: Reach, node: ast.AST) -> bool:
    """Whether a node may run before the environment is set that CUDA reads once it is asked for anything."""
    moments = reach.timeline.moments(node, reach.home)
    first = min(moments) if moments else (0, 0)
    if any(position(statement) > first for statement in reach.tying):
        return True
    places = reach.timeline.places(node, reach.home) if reach.tying else []
    around = {outer for place in places for outer in (place, *reach.index.ancestors(place))}
    return not around.isdisjoint(reach.tying) and _is_set_behind(reach, node, set())


def _is_set_behind(reach: Reach, node: ast.AST, seen: set[ast.AST]) -> bool:
    """Whether the environment is set behind a node in its function, or behind a call of that: `setup(gpu)` prints which
    GPU it is, and picks it then."""
    function = reach.index.function(node)
    statement = reach.index.statement(node)
    for outer in (statement, *reach.index.ancestors(statement)):
        if outer is function or outer in reach.tying or not isinstance(outer, ast.stmt):
            break
        block, place = reach.index.block(outer)
        if any(reach.making.ties_devices(later, ()) for later in block[place + 1 :]):
            return True
    if function is None or function is reach.home or function in seen:
        return False
    seen.add(function)
    return any(_is_set_behind(reach, site, seen) for site in reach.resolver.sites(function))


def _makers(reach: Reach, node: ast.AST) -> list[ast.Call]:
    """Where the object is made that a method belongs to, if the script calls the method nowhere: who does, has one."""
    function = reach.index.function(node)
    cls = reach.index.parents.get(function) if function is not None else None
    if function is None or not isinstance(cls, ast.ClassDef) or reach.resolver.sites(function):
        return []
    return reach.resolver.sites(cls)


def _starts(reach: Reach, node: ast.AST) -> bool:
    """Whether a node stands under `if __name__ == "__main__":` in the file in which the accelerator is made, and
    nothing there sets the environment later, picks a GPU, or starts processes, which would be begun with the state."""
    if reach.index.function(node) is not None or not reach.facts.same_file(node, reach.site):
        return False
    blocks = (a for a in reach.index.ancestors(node) if isinstance(a, ast.If) and is_main(a))
    top = next(blocks, None)
    if top is None or reach.index.parents.get(top) is not reach.facts.tree or not _is_run(top, node):
        return False
    later = [s for s in reach.facts.tree.body if position(s) >= position(top)]
    return not any(reach.making.ties_devices(s, ()) or _picks_gpu(reach, s) or _forks(reach, s) for s in later)


def _is_run(block: ast.If, node: ast.AST) -> bool:
    """Whether a node only runs in what is started, and in nothing that imports it: under `__name__ == "__main__"`."""
    test = block.test
    parts = [test.left, *test.comparators] if isinstance(test, ast.Compare) and len(test.ops) == 1 else []
    is_it = any(isinstance(n, ast.Constant) and n.value == "__main__" for n in parts)
    equal = is_it and isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq)
    return equal and any(node in {*walk(statement)} for statement in block.body)


def _picks_gpu(reach: Reach, statement: ast.stmt) -> bool:
    """Whether a statement may make a GPU torch's own, which one process computes on, if there is no state before."""
    if "set_device" not in reach.index.attributes:
        return False
    nodes = (n for root in (statement, *reach.timeline.calls_into(statement)) for n in walk(root))
    return any(isinstance(n, ast.Call) and reach.resolver.qualified(n.func) == "torch.cuda.set_device" for n in nodes)


def _forks(reach: Reach, statement: ast.stmt) -> bool:
    """Whether a statement starts processes that are copies of this one, with all that it has asked of its GPU."""
    nodes = (n for root in (statement, *reach.timeline.calls_into(statement)) for n in walk(root))
    return any(isinstance(n, ast.Call) and reach.resolver.qualified(n.func) in _FORKS for n in nodes)


def _called_here(reach: Reach, node: ast.AST, uncalled: bool) -> bool:
    """Whether a node only runs in functions that the script itself calls, or is in a method that it calls nowhere."""
    function = reach.index.function(node)
    seen: set[Function] = set()
    while function is not None and function not in seen:  # nested functions are known where they are made
        seen.add(function)
        cls = reach.index.parents.get(function)
        if isinstance(cls, ast.ClassDef):
            if reach.resolver.class_role(cls) in (Role.DATASET, Role.MODEL):
                return False
        elif reach.facts.references(function):
            return False
        if not reach.resolver.sites(function) and not uncalled:
            return False
        function = reach.index.function(function)
    return bool(seen)
