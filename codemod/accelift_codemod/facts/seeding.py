"""Whether the generators of all processes are seeded alike when something is drawn."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from accelift_codemod.facts.chance import SEEDS, seeds
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.tree import walk

if TYPE_CHECKING:
    from accelift_codemod.facts.world import World

_KNOWN = ("torch.", "numpy.", "random.", "os.")  # libraries whose functions all seed what is known


class Seeding:
    """Asks what seeds a global generator. Names are read here only to be silent."""

    def __init__(self, world: World) -> None:
        self.world = world

    def alike(self, draw: ast.Call, family: str) -> bool:
        """Whether every process may draw the same numbers from the generator of a library: torch, numpy or random."""
        if self.world.index.star_imports or (self.world.index.function(draw) is not None and not self._starts):
            return True  # whoever runs it may seed
        return any(
            self._unknown(call) or (self._seeds(call, family) and not self._otherwise(call, draw))
            for call in self.world.calls
            if self.world.facts.runs(call)
        )

    @cached_property
    def _starts(self) -> bool:
        """Whether the script runs something by itself, and is no library: one that only makes what its functions use
        (`log = get_logger()`) runs nothing."""
        facts = self.world.facts
        own = facts.body(facts.tree.body[-1]) if facts.tree.body else []
        statements = (s for s in own if not isinstance(s, (*FUNCTIONS, ast.ClassDef)))
        calls = ((s, n) for s in statements for n in walk(s) if isinstance(n, ast.Call))
        return any(self._runs(n, isinstance(s, (ast.Assign, ast.AnnAssign))) for s, call in calls for n in _parts(call))

    def _runs(self, node: ast.expr, kept: bool) -> bool:
        """Whether a part of a call is a function or class of the script (of its file, if the result is only `kept`), or
        a method of an object of one."""
        facts, resolver = self.world.facts, self.world.resolver
        if isinstance(node, ast.Attribute):  # `trainer.fit()`
            return not kept and any(v.declaration is not None for v in resolver.values(node.value))
        bindings = resolver.bindings(node) if isinstance(node, ast.Name) else []
        defined = (b.node for b in bindings if b.how in (How.FUNCTION, How.CLASS))
        return any(not kept or facts.same_file(one, facts.tree.body[-1]) for one in defined)

    def apart(self, family: str) -> ast.Call | None:
        """A call that seeds the generator of each process otherwise, on purpose."""
        for call in self.world.calls:
            if self.world.facts.runs(call) and self._seeds(call, family) and self._by_rank(call):
                return call
        return None

    def _seeds(self, call: ast.Call, family: str) -> bool:
        qualified = self.world.qualified(call)
        return seeds(self.world.resolver, call) and (
            qualified in SEEDS[family] or qualified.partition(".")[0] in ("accelerate", "accelift")
        )

    def _otherwise(self, call: ast.Call, draw: ast.Call) -> bool:
        """Whether a call seeds every process otherwise, or one only, or certainly after something was drawn."""
        world = self.world
        late = world.certainly_before(draw, call) and not world.index.enclosing_loops(draw)
        return late or self._by_rank(call) or world.ranks.guard(call) is not None

    def _by_rank(self, call: ast.Call) -> bool:
        told = next((k.value for k in call.keywords if k.arg == "device_specific"), None)
        if isinstance(told, ast.Constant) and told.value:
            return True

        def other(node: ast.AST) -> bool:
            return isinstance(node, ast.Call) and self.world.resolver.builtin(node.func) is None

        parts = (part for a in call.args for part in self.world.flow.sources(a, other))
        return any(map(self.world.ranks.is_rank, parts))

    def _unknown(self, call: ast.Call) -> bool:
        """Whether a call of something unknown may seed generators, by its name or an argument."""
        func, qualified = call.func, self.world.qualified(call)
        if qualified.startswith(_KNOWN) or seeds(self.world.resolver, call):
            return False
        target = self.world.resolver.callee(call)
        if isinstance(target, (*FUNCTIONS, ast.ClassDef)):
            return False
        name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
        if name in ("manual_seed", "add_argument"):
            return False  # of a generator; an option
        names = [name, *(k.arg or "" for k in call.keywords)]
        return any("seed" in n.lower() or "determin" in n.lower() for n in names)


def _parts(call: ast.Call) -> list[ast.expr]:
    """What a call runs, and what it is given, which it may run."""
    return [call.func, *call.args]
