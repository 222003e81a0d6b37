"""Errors that one process deals with by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.library import RAISED_BY_ALL
from accelift_codemod.facts.tree import leaves, walk
from accelift_codemod.facts.values import Evidence
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.plan import Finding, Severity

_EXITS = frozenset({"sys.exit", "os._exit"})


class Caught(Lint):
    """Only one process may meet an error: a bad file, a batch that needs too much memory. If the script catches it and
    goes on, that process has left what all do together, and the others wait for it until they time out.
    """

    code = "COLL-EXCEPT"
    severity = Severity.WARNING
    title = "a process goes on after an error, and the others wait"
    wrong = """\
for batch in loader:
    try:
        accelerator.backward(model(batch).loss)
    except torch.cuda.OutOfMemoryError:
        continue
"""
    right = """\
for batch in loader:
    try:
        accelerator.backward(model(batch).loss)
    except torch.cuda.OutOfMemoryError:
        print(f"out of memory on {accelerator.process_index}")
        raise
"""

    def check(self, world: World) -> Iterator[Finding]:
        for block in filter(world.facts.runs, world.index.tries):
            within = world.together.within_statements(block.body)
            together = next((t for t in within if world.ranks.guard(t.node) is None), None)
            for handler in block.handlers if together is not None else ():
                if self._meets(world, handler) and self._goes_on(world, handler):
                    last = together.node.lineno  # type: ignore[union-attr]
                    yield Finding(
                        self.code,
                        self.severity,
                        handler.lineno,
                        "a process that meets an error here goes on by itself, and the others wait for it in "
                        f"`{world.text(together.node)}` (line {last})",  # type: ignore[union-attr]
                        "raise it again at the end of the handler, so that the launcher ends all processes",
                        (Evidence(last, "this is done together"),),
                    )

    def _meets(self, world: World, handler: ast.ExceptHandler) -> bool:
        """Whether a handler catches an error of Python or torch, which one process may meet alone: others are raised
        where a script wants to, perhaps by all."""
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        of_torch = any((world.resolver.qualified(k) or "").startswith("torch.") for k in kinds if k is not None)
        return of_torch or bool(world.resolver.caught(handler) - RAISED_BY_ALL - {""})

    def _goes_on(self, world: World, handler: ast.ExceptHandler) -> bool:
        """Whether the process does not end with a handler."""
        last = handler.body[-1]
        call = last.value if isinstance(last, ast.Expr) else None
        ends = isinstance(call, ast.Call) and (
            world.qualified(call) in _EXITS or world.resolver.builtin(call.func) in ("exit", "quit")
        )
        returns = any(isinstance(n, ast.Return) for s in handler.body for n in walk(s))
        return returns or leaves(handler.body) or not (ends or isinstance(last, ast.Raise))
