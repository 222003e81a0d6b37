"""Values of all processes that are joined wrongly."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.index import How
from accelift_codemod.facts.layout.pairs import EVEN
from accelift_codemod.facts.values import Role
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.lints.data import asks_for_process
from accelift_codemod.plan import Finding, Severity

_GATHERING = frozenset({"gather", "reduce", "batch_mean", "gather_for_metrics", "gather_object"})
_REDUCTIONS = frozenset({"sum", "mean", "max"})


class CountedTwice(Lint):
    """Gathered values are the same on every process. Reduced to a sum afterwards, each is counted once for each
    process. So are the batches of a loader that is not prepared, when they are gathered: every process has all of them.
    """

    code = "METRIC-TWICE"
    severity = Severity.ERROR
    title = "what every process has is joined again"
    wrong = """\
guesses, targets = accelerator.gather_for_metrics((guesses, targets))
correct = accelerator.reduce((guesses == targets).sum())
"""
    right = """\
guesses, targets = accelerator.gather_for_metrics((guesses, targets))
correct = (guesses == targets).sum()
"""

    def check(self, world: World) -> Iterator[Finding]:
        for call in world.calls:
            verb = world.together.of(call)
            if verb not in _GATHERING or not call.args or world.ranks.perhaps_alone(call):
                continue
            if getattr(world.index.parents[call], "attr", "") in EVEN:
                continue  # of what is there several times, what it is of one
            if verb == "reduce":
                word = world.resolver.argument(call, 1, "reduction")
                if not (isinstance(word, ast.Constant) and word.value == "sum") and (
                    word is not None or not world.together.verb(call)
                ):
                    continue
            first = self._gathered(world, call.args[0])
            if world.shared_among(call) or world.ranks.counted(call):
                continue
            if first is not None:
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    f"`{world.text(call)}` joins what `{world.text(first)}` (line {first.lineno}) has joined already: "
                    "each value counts N times",
                    "leave it out: gathered values are the same on every process",
                )
            elif verb != "reduce" and self._replicated(world, call.args[0]):
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    f"`{world.text(call)}` joins batches of a loader that was not prepared: every process has all of "
                    "them, and each counts N times",
                    "prepare the loader, or leave it out",
                )

    def _gathered(self, world: World, node: ast.expr) -> ast.Call | None:
        """The operation that a value comes from, if nothing of it differs from process to process."""
        found: ast.Call | None = None
        for part in world.flow.sources(node, lambda n: isinstance(n, ast.Call) and bool(world.together.of(n))):
            if isinstance(part, ast.Call):
                verb = world.together.of(part)
                if verb in ("gather", "gather_for_metrics"):
                    found = found or part
                elif verb or world.flow.unknown(part):
                    return None
            if isinstance(part, ast.Name) and world.flow.from_batch(part) is not None:
                return None
        return found

    def _replicated(self, world: World, node: ast.expr) -> bool:
        """Whether a value certainly is of a batch that every process has."""
        if world.unknown_given or asks_for_process(world):
            return False
        parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
        for part in (self._unpadded(world, part) for part in parts):
            values = world.resolver.values(part)
            loaders = [v for value in values for inner in value.inner for v in inner]
            if not values or any(v.role not in (Role.BATCH, Role.DATA) for v in values):
                return False
            if not loaders or any(v.role is not Role.LOADER or world.is_given(v) for v in loaders):
                return False
            if any({"sampler", "batch_sampler"} & set(world.facts.objects.loader(v).arguments) for v in loaders):
                return False
        return True

    def _unpadded(self, world: World, node: ast.expr, steps: int = 3) -> ast.expr:
        """What a value was before it was padded to the length that it has on other processes."""
        made: ast.expr | None = node
        if isinstance(node, ast.Name):
            bindings = world.resolver.bindings(node)
            made = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
        if isinstance(made, ast.Call) and world.together.of(made) == "pad_across_processes" and steps:
            given = world.resolver.argument(made, 0, "tensor")
            return self._unpadded(world, given, steps - 1) if given is not None else node
        return node


class Reduction(Lint):
    """Accelerate's `reduce` knows "sum", "mean" and "max". With any other word, "min" and "none" included, it sums, and
    says nothing. The bundled runtime knows "min" and "none".
    """

    code = "REDUCE-OP"
    severity = Severity.ERROR
    title = "reduce sums whatever it is asked for"
    library = "accelerate"
    wrong = """\
best = accelerator.reduce(best, reduction="min")
"""
    right = """\
best = accelerator.gather(best).min()
"""

    def check(self, world: World) -> Iterator[Finding]:
        for call in world.calls:
            if world.together.of(call) != "reduce":
                continue
            word = world.resolver.argument(call, 1, "reduction")
            values = world.resolver.values(word) if word is not None else ()
            if not values or any(v.role is not Role.CONSTANT for v in values):
                continue
            unknown = [v.keys[0] for v in values if v.keys[0] not in _REDUCTIONS]
            if len(unknown) == len(values):
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    f"`{world.text(call)}` sums: Accelerate's reduce does not know {unknown[0]!r} and says nothing",
                    "gather the values and reduce them with torch",
                )


class GatherObject(Lint):
    """`gather_object` joins lists. Of a string it returns the characters, of a dict the keys, and a number raises an
    error; on one process it returns what it was given.
    """

    code = "GATHEROBJ"
    severity = Severity.ERROR
    title = "gather_object of something that is no list"
    library = "accelerate"
    wrong = """\
results = gather_object({"loss": loss})
"""
    right = """\
results = gather_object([{"loss": loss}])
"""

    def check(self, world: World) -> Iterator[Finding]:
        for call in world.calls:
            if world.together.of(call) == "gather_object" and call.args:
                kind = self._kind(world, call.args[0])
                if kind is not None:
                    result = {"dict": "the keys of the dicts", "str": "single characters"}.get(kind, "an error")
                    yield Finding(
                        self.code,
                        self.severity,
                        call.lineno,
                        f"`{world.text(call)}` is given a {kind} and joins lists: it returns {result} on N processes",
                        f"put the {kind} in a list",
                    )

    def _kind(self, world: World, node: ast.expr, depth: int = 0) -> str | None:
        """What an expression certainly is, if it is no list."""
        if isinstance(node, (ast.Dict, ast.DictComp)):
            return "dict"
        if isinstance(node, ast.JoinedStr):
            return "str"
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, float)):
            return type(node.value).__name__
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args:
                return "number"
            name = world.resolver.builtin(node.func)
            return {"len": "number", "str": "str", "dict": "dict", "float": "number", "int": "number"}.get(name or "")
        if isinstance(node, ast.Name) and depth < 4:
            bindings = world.resolver.bindings(node)
            if len(bindings) == 1 and bindings[0].how is How.ASSIGN and not bindings[0].path:
                value = bindings[0].value
                return self._kind(world, value, depth + 1) if value is not None else None
        return None
