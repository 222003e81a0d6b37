"""Functions that a file has for itself: only the block leads to them that runs when the file is run."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Sequence

from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import walk
from accelift_codemod.project.program import Unit, main_names

_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)


def without(body: list[ast.stmt], units: Sequence[Unit], kept: Collection[str]) -> list[ast.stmt]:
    """The statements of a program without such functions of the files that its script imports.

    Each file notes their names (`Unit.apart`). What is `kept` may be asked for otherwise than by a name in the program.
    """
    started = {unit.marked(name) for unit in units if unit.key for name in main_names(unit.index)}
    count = Counter(s.name for s in body if isinstance(s, _DEFINITIONS))
    own = {s.name: s for s in body if isinstance(s, FUNCTIONS) and count[s.name] == 1 and not s.decorator_list}
    queue = [name for name in started if name in own]
    if not queue:
        return body
    named = {s: {n.id for n in walk(s) if isinstance(n, ast.Name)} for s in body}
    led: dict[str, ast.stmt] = {}
    while queue:
        name = queue.pop()
        if name not in led:
            led[name] = own[name]
            queue += named[own[name]] & own.keys()
    read = set(kept).union(*(named[s] for s in named.keys() - led.values()))
    while taken := led.keys() & read:
        read = read.union(*(named[led.pop(name)] for name in taken))
    for unit in units if led else ():
        unit.apart = frozenset(name for name in unit.index.module.bindings if unit.marked(name) in led)
    return [s for s in body if s not in led.values()]
