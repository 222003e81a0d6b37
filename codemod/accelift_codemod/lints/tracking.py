"""Runs, curves and logs that every process makes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.values import Role
from accelift_codemod.facts.world import World
from accelift_codemod.lints.output import Writing
from accelift_codemod.plan import Finding, Severity

_HANDLERS = frozenset(
    f"logging.{name}"
    for name in "FileHandler handlers.RotatingFileHandler handlers.TimedRotatingFileHandler "
    "handlers.WatchedFileHandler".split()
)
# What makes the run of a process one of its own, or none.
_APART = frozenset({"mode", "group", None})
_NAMES = frozenset({"name", "id", "dir"})


class Tracked(Writing):
    """Every process runs the whole script: `wandb.init` starts a run for each of them, a `SummaryWriter` writes each
    curve as many times as there are processes, and a log file is appended to by all of them at once.
    """

    code = "TRACK-ALL"
    severity = Severity.WARNING
    title = "every process keeps track of the training"
    wrong = """\
wandb.init(project="project")
wandb.log({"loss": loss.item()})
"""
    right = """\
accelerator = Accelerator(log_with="wandb")
accelerator.init_trackers("project")
accelerator.log({"loss": loss.item()})
"""

    def check(self, world: World) -> Iterator[Finding]:
        for call in world.calls:
            what = self._tracks(world, call)
            if what and world.facts.runs(call) and not self._alone(world, call):
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    f"`{world.text(call)}` {what}",
                    "put it, and what uses it, under `if accelerator.is_main_process:`"
                    if world.qualified(call).startswith("logging.")
                    else "use accelerator.init_trackers and accelerator.log, or put it under a guard",
                )

    def _alone(self, world: World, call: ast.Call) -> bool:
        return world.ranks.perhaps_alone(call) or world.ranks.from_elsewhere(call)

    def _tracks(self, world: World, call: ast.Call) -> str:
        """What a call does on every process; nothing if it may do it on one only, or apart from the others."""
        qualified = world.qualified(call)
        if qualified in ("wandb.init", "mlflow.start_run"):
            named = [k.value for k in call.keywords if k.arg in _NAMES]
            apart = any(k.arg in _APART for k in call.keywords) or any(self._names_process(world, n) for n in named)
            return "" if apart else "starts a run on every process"
        writer = any(v.role is Role.WRITER and v.origin is call for v in world.resolver.values(call))
        if writer and not self._own(world, call):
            return "writes each curve on every process"
        logs = qualified in _HANDLERS or (
            qualified == "logging.basicConfig" and world.resolver.argument(call, None, "filename") is not None
        )
        return "opens the same log file on every process" if logs and not self._own(world, call) else ""

    def _names_process(self, world: World, node: ast.expr) -> bool:
        return any(world.ranks.is_rank(part) for part in world.flow.sources(node))
