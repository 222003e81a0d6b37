"""Names of folders that every process makes up for itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.accelerate import LIBRARIES
from accelift_codemod.facts.own_values import is_time
from accelift_codemod.facts.values import Evidence
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.plan import Finding, Severity

_FOLDERS = frozenset({"os.makedirs", "os.mkdir"})
_STATES = {"save_state": "output_dir", "load_state": "input_dir"}
_HANDED_ON = ("broadcast_object_list", "gather_object", "all_gather_object")


class OwnName(Lint):
    """A name that is made of the time, or of a random identifier, is another one on every process: they come to that
    line in other seconds. A state that all processes save together is spread over several folders, from which it cannot
    be loaded, and each process makes its own. (A name in which the main process alone writes may differ.)
    """

    code = "NAME-OWN"
    severity = Severity.WARNING
    title = "every process makes up a name of its own"
    wrong = """\
folder = f"runs/{datetime.now():%H-%M-%S}"
accelerator.save_state(folder)
"""
    right = """\
names = broadcast_object_list([f"runs/{datetime.now():%H-%M-%S}"])
accelerator.save_state(names[0])
"""

    def check(self, world: World) -> Iterator[Finding]:
        if any(map(world.mentions, _HANDED_ON)):
            return
        seen: set[ast.AST] = set()
        for call in world.calls:
            path = self._path(world, call)
            if path is None or not world.facts.runs(call) or world.ranks.perhaps_alone(call):
                continue
            if world.ranks.from_elsewhere(call):
                continue
            made = self._made(world, path)
            if made is None or made in seen:
                continue
            seen.add(made)
            yield Finding(
                self.code,
                self.severity,
                made.lineno,
                f"`{world.text(made)}` differs from process to process, and so does the path that all of them use in "
                f"`{world.text(call)}` (line {call.lineno})",
                "make the name once, and hand it to the others: broadcast_object_list([name])[0]",
                (Evidence(call.lineno, f"`{world.text(call)}` is done by every process"),),
            )

    def _path(self, world: World, call: ast.Call) -> ast.expr | None:
        """The folder in which all processes do something by a call."""
        argument = world.resolver.argument
        verb = world.together.verb(call)
        if verb in _STATES:
            return argument(call, 0, _STATES[verb])
        root, _, name = world.qualified(call).partition(".")
        if root in LIBRARIES and name.rpartition(".")[2] == "ProjectConfiguration":
            return argument(call, 0, "project_dir")
        if call in world.accelerators:
            return argument(call, None, "project_dir")
        if world.qualified(call) in _FOLDERS:
            return argument(call, 0, "name") or argument(call, 0, "path")
        func = call.func
        makes = isinstance(func, ast.Attribute) and func.attr == "mkdir" and not world.qualified(call)
        return func.value if makes and isinstance(func, ast.Attribute) else None

    def _made(self, world: World, path: ast.expr) -> ast.Call | None:
        """The call that gives a path what differs; None if nothing does, or the path may be handed on."""
        found: ast.Call | None = None
        for part in world.flow.sources(path):
            if world.ranks.is_rank(part):
                return None  # each process is to have a folder of its own
            if isinstance(part, ast.Call):
                if world.together.of(part):
                    return None
                if found is None and is_time(world.facts, part) and not world.ranks.perhaps_alone(part):
                    found = part
        return found
