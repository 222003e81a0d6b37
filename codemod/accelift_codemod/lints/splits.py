"""Data sets that every process splits for itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.chance import drawn_from, shuffles
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.values import Evidence
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.lints.sampling import prepared_loaders, why_apart
from accelift_codemod.plan import Finding, Severity


class UnseededSplit(Lint):
    """A random split without a seed is another one on every process: samples that one process holds out are trained on
    by another. So it is with `random_split` of torch, `train_test_split` of scikit-learn and datasets, and two parts of
    what was shuffled. A seed that is another one on every process (`device_specific=True`) is none for a split.
    """

    code = "DATA-SPLIT-UNSEEDED"
    severity = Severity.ERROR
    title = "every process splits the data differently"
    wrong = """\
train_set, test_set = random_split(dataset, [800, 200])
"""
    right = """\
train_set, test_set = random_split(dataset, [800, 200], generator=torch.Generator().manual_seed(0))
"""

    def check(self, world: World) -> Iterator[Finding]:
        for call in world.calls:
            family, seed = self._missing(world, call)
            if family and world.facts.runs(call) and not world.seeding.alike(call, family):
                yield self._finding(world, call, call, family, f"give it {seed}, or call set_seed before")
        yield from self._by_hand(world)

    def _finding(self, world: World, call: ast.Call, place: ast.expr, family: str, remedy: str) -> Finding:
        return Finding(
            self.code,
            self.severity,
            place.lineno,
            f"`{world.text(place)}` splits differently on every process, since {why_apart(world, family)}: what one "
            "holds out others train on",
            remedy,
            () if place is call else (Evidence(call.lineno, f"`{world.text(call)}`"),),
        )

    def _missing(self, world: World, call: ast.Call) -> tuple[str, str]:
        """The library from whose generator a call splits data, and the argument with which it does not; empty if it is
        given that, or splits nothing at random."""
        given = {k.arg: k.value for k in call.keywords}
        if None in given:
            return "", ""
        if world.qualified(call) == "torch.utils.data.random_split":
            told = world.resolver.argument(call, 2, "generator") is not None
            return ("", "") if told else ("torch", "generator=torch.Generator().manual_seed(0)")
        state, shuffle = given.get("random_state"), given.get("shuffle")
        at_random = shuffle is None or is_constant(shuffle, True)
        if world.qualified(call) == "sklearn.model_selection.train_test_split":
            return ("numpy", "random_state=0") if _is_unset(state) and at_random else ("", "")
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr == "train_test_split" and not world.qualified(call):
            ours = world.resolver.is_of(func.value, "datasets.")
            if ours and at_random and _is_unset(given.get("seed")) and "generator" not in given and len(call.args) < 5:
                return "numpy", "seed=0"
        return "", ""

    def _by_hand(self, world: World) -> Iterator[Finding]:
        """Two parts of what was put into a random order, of which one is prepared: `order[:80]`, `order[80:]`."""
        cuts = [n for n in walk(world.index.tree) if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Slice)]
        used: set[ast.AST] = set()
        for _, value in prepared_loaders(world) if cuts else ():
            dataset = world.facts.objects.loader(value).arguments.get("dataset")
            used |= set(world.flow.sources(dataset)) if dataset is not None else set()
        for cut in (c for c in cuts if c in used):
            shuffled = self._shuffled(world, cut.value)
            if shuffled is None or not any(self._is_rest(world, cut, other) for other in cuts):
                continue
            family = drawn_from(world.resolver, shuffled)
            if not world.index.enclosing_loops(cut) and not world.seeding.alike(shuffled, family):
                yield self._finding(world, shuffled, cut, family, "call set_seed before")

    def _shuffled(self, world: World, node: ast.expr) -> ast.Call | None:
        """The call that has put what a variable holds into a random order."""
        if not isinstance(node, ast.Name):
            return None
        bindings = world.resolver.bindings(node)
        value = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "tolist":
            value = value.func.value
        if isinstance(value, ast.Call) and shuffles(world.resolver, value):
            return value
        for load in world.facts.loads_of(node):
            call = world.index.parents.get(load)
            if isinstance(call, ast.Call) and call.args[:1] == [load] and shuffles(world.resolver, call):
                if world.qualified(call).endswith(".shuffle") and world.certainly_before(call, node):
                    return call
        return None

    def _is_rest(self, world: World, cut: ast.Subscript, other: ast.Subscript) -> bool:
        """Whether one part begins where the other ends, of one variable."""
        one, rest = cut.slice, other.slice
        if not (isinstance(one, ast.Slice) and isinstance(rest, ast.Slice) and cut is not other):
            return False
        if one.lower is not None or one.upper is None or rest.upper is not None or rest.lower is None:
            return False
        same = isinstance(cut.value, ast.Name) and isinstance(other.value, ast.Name)
        return (
            same
            and world.resolver.bindings(cut.value) == world.resolver.bindings(other.value)  # type: ignore[arg-type]
            and ast.dump(one.upper) == ast.dump(rest.lower)
        )


def _is_unset(node: ast.expr | None) -> bool:
    return node is None or is_constant(node, None)
