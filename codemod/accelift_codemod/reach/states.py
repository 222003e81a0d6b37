"""Code that asks for the state of the processes, `PartialState()`, because the accelerator does not reach it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Function, Role, position
from accelift_codemod.facts.conditions import FALSE
from accelift_codemod.plan import STATE, Edit
from accelift_codemod.reasons import refuse

if TYPE_CHECKING:
    from accelift_codemod.reach import Reach

_NAME = STATE.partition("(")[0]


def suffices(draft: Draft, edit: Edit) -> bool:
    """Whether an edit stands in a class that cannot keep the accelerator, and the state of the processes is enough."""
    if edit.node is None or edit.by_state() is None:
        return False
    function = draft.function(edit.node)
    return (
        function is not None
        and isinstance(draft.facts.index.parents.get(function), ast.ClassDef)
        and draft.facts.resolver.instance(function) is None
    )


def required(reach: Reach, edit: Edit) -> Edit:
    """An edit that has to be made, asking for the state.

    Raises:
        Refused: its place may run where there is none.
    """
    found = asked(reach, edit)
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


def asked(reach: Reach, edit: Edit) -> Edit | None:
    """An edit that asks for the state of the processes; None where that may be asked too early, or elsewhere.

    It may be asked before there is an accelerator if nothing keeps the script on the CPU, but only by the processes of
    the job themselves: a loader's workers run functions that they are handed, and the methods of data sets.
    """
    assert edit.node is not None
    other = edit.by_state()
    if other is None or reach.facts.stateless or not _called_here(reach, edit.node) or _NAME in reach.facts.bound:
        return None
    moments = reach.timeline.moments(edit.node, reach.home)
    made = reach.block[reach.place] if reach.place < len(reach.block) else reach.block[-1]
    late = bool(moments) and reach.timeline.within(edit.node, reach.home) and min(moments) >= position(made)
    late = late or (not moments and reach.timeline.follows(edit.node, reach.home))
    return other if late or reach.cpu == FALSE else None


def _called_here(reach: Reach, node: ast.AST) -> bool:
    """Whether a node only runs in functions that the script itself calls."""
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
        if not reach.resolver.sites(function):
            return False
        function = reach.index.function(function)
    return bool(seen)
