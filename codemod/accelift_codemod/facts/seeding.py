"""Whether the generators of all processes are seeded alike when something is drawn."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.chance import SEEDS, seeds
from accelift_codemod.facts.index import FUNCTIONS

if TYPE_CHECKING:
    from accelift_codemod.facts.world import World

_KNOWN = ("torch.", "numpy.", "random.", "os.")  # libraries whose functions all seed what is known


class Seeding:
    """Asks what seeds a global generator. Names are read here only to be silent."""

    def __init__(self, world: World) -> None:
        self.world = world

    def alike(self, draw: ast.Call, family: str) -> bool:
        """Whether every process may draw the same numbers from the generator of a library: torch, numpy or random."""
        function = self.world.index.function(draw)
        elsewhere = isinstance(function, FUNCTIONS) and function not in self.world.facts.run_here
        if elsewhere or self.world.index.star_imports:
            return True  # whoever runs it may seed
        return any(
            self._unknown(call) or (self._seeds(call, family) and not self._otherwise(call, draw))
            for call in self.world.calls
            if self.world.facts.runs(call)
        )

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
