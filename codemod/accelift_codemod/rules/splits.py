"""Random splits of the data that every process has to make alike."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.chance import seeds
from accelift_codemod.chance.constants import constants
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, position
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured.onward import targets
from accelift_codemod.plan import Assumption, Edit, Finding, Operation, Safety, Severity
from accelift_codemod.rules import Explained, Rule

# What shuffles, and what seeds the generator that it draws from.
_SHUFFLES = {
    "torch.randperm": seeds.TORCH,
    "numpy.random.shuffle": seeds.NUMPY,
    "numpy.random.permutation": seeds.NUMPY,
    "numpy.random.choice": seeds.NUMPY,
    "random.shuffle": seeds.PYTHON,
    "random.sample": seeds.PYTHON,
}
# What draws random numbers that a data set may be made of.
_NOISE = {
    **dict.fromkeys(("torch.randn", "torch.rand", "torch.randint", "torch.normal"), seeds.TORCH),
    **dict.fromkeys(
        ("numpy.random.randn", "numpy.random.rand", "numpy.random.randint", "numpy.random.normal"), seeds.NUMPY
    ),
}
_PICKERS = (
    "torch.utils.data.Subset",
    "torch.utils.data.dataset.Subset",
    "torch.utils.data.SubsetRandomSampler",
    "torch.utils.data.sampler.SubsetRandomSampler",
)
_SEEDED = Assumption("the same split in every run is what you want: it changes which samples train", Safety.UNSAFE)


class Splits(Rule):
    """Reports a random split of the data that is not seeded: every process would make another one.

    Samples of one process's training set would then be in another's test set, and some samples would be in neither.
    With `--unsafe` the split is given a seed of its own, so that it is the same on every process, and in every run.
    """

    code = "SPLIT"
    name = "random splits"
    assumptions = (_SEEDED,)
    findings = (
        Explained(
            "DATA-SPLIT-UNSEEDED",
            Severity.ERROR,
            "a random split without a seed",
            "The data is split at random without a seed, so every process splits it differently.",
        ),
        Explained(
            "DATA-UNSEEDED",
            Severity.ERROR,
            "made-up data without a seed",
            "A data set is made of random numbers drawn without a seed, so every process has another data set. So it "
            "is with what is drawn once and used on every batch or sample: a permutation of pixels, a projection.",
        ),
        Explained(
            "DATA-SAMPLER-RNG",
            Severity.ERROR,
            "indices shuffled without a seed",
            "The indices for a Subset or SubsetRandomSampler are shuffled without a seed, so every process picks other "
            "samples: some would be dealt twice, others not at all. So it is with a list that is shuffled and given to "
            "a loader as it is.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        known_of = [*self._shuffles(draft), *self._made_up(draft)]
        yield from known_of
        for call, use in constants(draft):
            if call.lineno not in {finding.line for finding in known_of}:
                yield draft.finding(
                    "DATA-UNSEEDED",
                    Severity.WARNING,
                    call,
                    f"`{draft.facts.segment(call)}` is drawn once without a seed, and `{draft.facts.segment(use)}` is "
                    "used on the data: every process would use another one",
                    "seed the generator before",
                )
        for call in draft.calls:
            qualified = draft.facts.resolver.qualified(call.func) or ""
            if qualified == "torch.utils.data.random_split":
                known = self._given(draft, call, 2, "generator") or seeds.seeded(draft, call, seeds.TORCH)
            elif qualified == "sklearn.model_selection.train_test_split":
                shuffle = draft.facts.resolver.argument(call, None, "shuffle")
                off = isinstance(shuffle, ast.Constant) and shuffle.value is False
                known = off or self._given(draft, call, None, "random_state") or seeds.seeded(draft, call, seeds.NUMPY)
            else:
                continue
            if not known:
                yield self._seed(draft, call, qualified)

    def _seed(self, draft: Draft, call: ast.Call, qualified: str) -> Edit | Finding:
        """A seed for a split, or the finding that it has none."""
        finding = draft.finding(
            "DATA-SPLIT-UNSEEDED",
            Severity.ERROR,
            call,
            "the data is split at random without a seed: every process would split it differently",
            "seed the generator before the split (torch.manual_seed, or random_state=)",
        )
        torch = draft.facts.imported("torch", call)
        code = f"generator={torch}.Generator().manual_seed(0)" if qualified.startswith("torch.") else "random_state=0"
        given = any(k.arg in (None, "generator", "random_state") for k in call.keywords)
        if given or (qualified.startswith("torch.") and (not torch or len(call.args) > 2)):
            return finding
        reason = "every process has to split the data alike"
        return draft.edit(self.code, call, Operation.ADD_ARGUMENT, reason, code, assumes=_SEEDED, otherwise=finding)

    def _given(self, draft: Draft, call: ast.Call, place: int | None, name: str) -> bool:
        """Whether an argument is given, and not None."""
        argument = draft.facts.resolver.argument(call, place, name)
        return argument is not None and not (isinstance(argument, ast.Constant) and argument.value is None)

    # ---- shuffled indices

    def _shuffles(self, draft: Draft) -> Iterator[Finding]:
        """Unseeded shuffles whose outcome picks the samples of a subset or sampler."""
        for call in draft.facts.index.methods.get("shuffle", []):
            assert isinstance(call.func, ast.Attribute)
            if self._is_graphs(draft, call.func.value) and not seeds.seeded(draft, call, seeds.TORCH):
                yield draft.finding(
                    "DATA-SAMPLER-RNG",
                    Severity.ERROR,
                    call,
                    f"`{draft.facts.segment(call)}` is done without a seed: every process would have another order",
                    "seed the generator before",
                )
        for call in draft.calls:
            names = _SHUFFLES.get(draft.facts.resolver.qualified(call.func) or "")
            if names is None:
                known = not (_puts_in_order(call) and seeds.unseeded(draft, call))
            else:
                known = self._given(draft, call, None, "generator") or seeds.seeded(draft, call, names)
            picks = self._picked(draft, call) if not known else None
            if picks is None:
                continue
            name = draft.facts.segment(picks.func if isinstance(picks, ast.Call) else picks.value)
            if isinstance(picks, ast.Call) and self._makes_data(draft, picks) and not self._is_own(draft, picks):
                yield draft.finding(
                    "DATA-UNSEEDED",
                    Severity.ERROR,
                    call,
                    f"what `{name}` is made of is shuffled without a seed: every process would have other samples",
                    "seed the generator before",
                )
            elif isinstance(picks, ast.Call) and self._makes_loader(draft, picks):
                yield draft.finding(
                    "DATA-SAMPLER-RNG",
                    Severity.ERROR,
                    call,
                    f"what `{name}` deals is chosen, or put in order, without a seed: every process would have "
                    "other samples, or another order",
                    "seed the generator before",
                )
            else:
                yield draft.finding(
                    "DATA-SAMPLER-RNG",
                    Severity.ERROR,
                    call,
                    f"the indices for `{name}` are shuffled without a seed: every process would pick other samples",
                    "seed the generator before",
                )

    def _made_up(self, draft: Draft) -> Iterator[Finding]:
        """Data sets of random numbers drawn without a seed; one finding for all of them."""
        for call in draft.calls:
            names = _NOISE.get(draft.facts.resolver.qualified(call.func) or "")
            if names is None or self._given(draft, call, None, "generator") or seeds.seeded(draft, call, names):
                continue
            picks = self._picked(draft, call)
            if isinstance(picks, ast.Call) and self._makes_data(draft, picks):
                yield draft.finding(
                    "DATA-UNSEEDED",
                    Severity.ERROR,
                    call,
                    "the data set is made of random numbers without a seed: every process would train on another one",
                    "seed the generator before",
                )
                return

    def _is_graphs(self, draft: Draft, node: ast.expr) -> bool:
        """Whether an expression is a data set of torch_geometric, which can be indexed and shuffled as a whole."""
        values = draft.facts.resolver.values(node)
        return any(v.role is Role.DATASET and v.name.startswith("torch_geometric.") for v in values)

    def _picked(self, draft: Draft, start: ast.Call) -> ast.Call | ast.Subscript | None:
        """The subset, sampler or data set that is made from what a call draws or shuffles, or what is computed from it.

        That is followed through variables, into the functions that get it, and out of those that return it.
        """
        home = draft.function(start)
        queue: list[ast.AST] = [start]
        in_place = isinstance(start.func, ast.Attribute) and start.func.attr == "shuffle"
        if in_place and start.args and isinstance(start.args[0], ast.Name):
            loads = self._loads(draft, start.args[0])
            queue = [n for n in loads if draft.function(n) is not home or position(n) > position(start)]
        seen = set(queue)
        while queue:
            node = queue.pop()
            found = list(self._next(draft, node, home))
            if found and isinstance(found[0], ast.Call):
                if self._is_picker(draft, found[0]) or self._makes_loader(draft, found[0]):
                    return found[0]
            if found and isinstance(found[0], ast.Subscript):
                return found[0]
            queue += [n for n in found if n not in seen]
            seen.update(found)
        return None

    def _next(self, draft: Draft, node: ast.AST, home: Function | None) -> Iterator[ast.AST]:
        """Where the value of an expression goes: the call that picks samples by it alone, or all that reads it.

        What was drawn in the `home` of another function is also where that function is handed to: `Lambda(permuted)`.
        """
        resolver = draft.facts.resolver
        child = node
        for parent in draft.facts.index.ancestors(node):
            if isinstance(parent, ast.Attribute) and parent.attr in ("shape", "size"):
                return
            if isinstance(parent, ast.Subscript) and child is parent.slice and self._is_graphs(draft, parent.value):
                yield parent
                return
            if isinstance(parent, ast.Call) and child is not parent.func:
                if self._is_picker(draft, parent) or self._is_dealt(draft, parent, child):
                    yield parent
                    return
                if resolver.builtin(parent.func) == "len":
                    return
                target = resolver.callee(parent)
                if isinstance(target, ast.ClassDef):
                    return  # an object that keeps it, a transform of each sample, is no order of them
                given = resolver.bind(parent, target) if isinstance(target, FUNCTIONS) else None
                for parameter, argument in (given or {}).items():
                    if argument is child or argument is getattr(child, "value", None):
                        yield from draft.facts.loads(draft.facts.index.scopes[target], parameter)  # type: ignore[index]
            if isinstance(parent, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
                for name in (n for n in walk(parent) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)):
                    yield from self._loads(draft, name)
                for entry in (t for t in targets(parent) if isinstance(t, ast.Subscript) and child is not t):
                    if isinstance(entry.value, ast.Name):  # of a dict of splits, say
                        yield from (n for n in self._loads(draft, entry.value) if n is not entry.value)
            elif isinstance(parent, ast.Return) and (function := draft.function(parent)) is not None:
                yield from resolver.sites(function)
                if draft.facts.index.function(function) is home and isinstance(function, ast.FunctionDef):
                    yield from draft.facts.loads(draft.facts.index.scope(function), function.name)
            if isinstance(parent, ast.stmt):
                return
            child = parent

    def _loads(self, draft: Draft, name: ast.Name) -> list[ast.Name]:
        owner = draft.facts.index.scope(name).owner(name.id)
        return draft.facts.loads(owner, name.id) if owner is not None else []

    def _class_of_method(self, draft: Draft, call: ast.Call) -> ast.AST | None:
        """The class that a class method makes an object of: `cls(samples)`."""
        function = draft.facts.index.function(call)
        if function is None or not isinstance(call.func, ast.Name):
            return None
        marks = {d.id for d in function.decorator_list if isinstance(d, ast.Name)}
        first = function.args.args[0].arg if function.args.args else ""
        return draft.facts.index.enclosing_class(call) if "classmethod" in marks and call.func.id == first else None

    def _is_picker(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call makes a subset, a sampler or a data set, one of the script's own classes, too."""
        picks = (draft.facts.resolver.qualified(call.func) or "") in _PICKERS
        return picks or self._is_own(draft, call) or self._makes_data(draft, call)

    def _makes_loader(self, draft: Draft, call: ast.Call) -> bool:
        return Role.LOADER in draft.facts.resolver.roles(call)

    def _is_dealt(self, draft: Draft, call: ast.Call, part: ast.AST) -> bool:
        """Whether a part of a call is what a loader deals, or by which it does: `DataLoader(data[order])`."""
        given = (
            draft.facts.resolver.argument(call, 0, "dataset"),
            draft.facts.resolver.argument(call, None, "sampler"),
        )
        part = part.value if isinstance(part, ast.keyword) else part
        return part in given and self._makes_loader(draft, call)

    def _is_own(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call makes a data set of the script's own."""
        target = draft.facts.resolver.callee(call) or self._class_of_method(draft, call)
        return isinstance(target, ast.ClassDef) and draft.facts.resolver.class_role(target) is Role.DATASET

    def _makes_data(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call makes a data set of what it is given: not a part of another one."""
        qualified = draft.facts.resolver.qualified(call.func) or ""
        known = draft.facts.resolver.library_role(qualified) is Role.DATASET
        return self._is_own(draft, call) or (known and qualified not in _PICKERS)


def _puts_in_order(call: ast.Call) -> bool:
    """Whether a call is of a method that puts things into a random order, or picks some of them."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("shuffle", "permutation", "choice", "sample")
