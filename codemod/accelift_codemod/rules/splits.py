"""Random splits of the data that every process has to make alike."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Function, position
from accelift_codemod.facts.effects import stores
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Assumption, Edit, Finding, Operation, Safety, Severity
from accelift_codemod.rules import Explained, Rule

_SEEDS_TORCH = ("torch.manual_seed", "torch.random.manual_seed", "pytorch_lightning.seed_everything")
_SEEDS_NUMPY = ("numpy.random.seed",)
_SEEDS_PYTHON = ("random.seed",)
_SEEDS = (*_SEEDS_TORCH, *_SEEDS_NUMPY, *_SEEDS_PYTHON)
# What shuffles, and what seeds the generator that it draws from.
_SHUFFLES = {
    "torch.randperm": _SEEDS_TORCH,
    "numpy.random.shuffle": _SEEDS_NUMPY,
    "numpy.random.permutation": _SEEDS_NUMPY,
    "numpy.random.choice": _SEEDS_NUMPY,
    "random.shuffle": _SEEDS_PYTHON,
    "random.sample": _SEEDS_PYTHON,
}
# What draws random numbers that a data set may be made of.
_NOISE = {
    **dict.fromkeys(("torch.randn", "torch.rand", "torch.randint", "torch.normal"), _SEEDS_TORCH),
    **dict.fromkeys(
        ("numpy.random.randn", "numpy.random.rand", "numpy.random.randint", "numpy.random.normal"), _SEEDS_NUMPY
    ),
}
_DATASETS = ("torch.utils.data.TensorDataset", "torch.utils.data.dataset.TensorDataset")
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
            "A data set is made of random numbers drawn without a seed, so every process has another data set.",
        ),
        Explained(
            "DATA-SAMPLER-RNG",
            Severity.ERROR,
            "indices shuffled without a seed",
            "The indices for a Subset or SubsetRandomSampler are shuffled without a seed, so every process picks other "
            "samples: some would be dealt twice, others not at all.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        yield from self._shuffles(draft)
        yield from self._made_up(draft)
        for call in draft.calls:
            qualified = draft.facts.resolver.qualified(call.func) or ""
            if qualified == "torch.utils.data.random_split":
                seeded = self._given(draft, call, 2, "generator") or self._seeded(draft, call, _SEEDS_TORCH)
            elif qualified == "sklearn.model_selection.train_test_split":
                shuffle = draft.facts.resolver.argument(call, None, "shuffle")
                off = isinstance(shuffle, ast.Constant) and shuffle.value is False
                seeded = (
                    off or self._given(draft, call, None, "random_state") or self._seeded(draft, call, _SEEDS_NUMPY)
                )
            else:
                continue
            if not seeded:
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

    def _seeded(self, draft: Draft, call: ast.Call, names: tuple[str, ...]) -> bool:
        """Whether the generator that a call draws from is seeded before it (perhaps in a helper of the project)."""
        for other in draft.calls:
            qualified = draft.facts.resolver.qualified(other.func) or ""
            name = qualified or (other.func.id if isinstance(other.func, ast.Name) else "")
            if qualified not in names and (qualified in _SEEDS or "seed" not in name.rpartition(".")[2].lower()):
                continue
            if draft.function(other) is not draft.function(call) or position(other) < position(call):
                return True
        return False

    # ---- shuffled indices

    def _shuffles(self, draft: Draft) -> Iterator[Finding]:
        """Unseeded shuffles whose outcome picks the samples of a subset or sampler."""
        for call in draft.calls:
            names = _SHUFFLES.get(draft.facts.resolver.qualified(call.func) or "")
            if names is None or self._given(draft, call, None, "generator") or self._seeded(draft, call, names):
                continue
            statement = draft.facts.index.statement(call)
            shuffled = stores(statement)
            if isinstance(statement, ast.Expr) and call.args and isinstance(call.args[0], ast.Name):
                shuffled = {call.args[0].id}
            picks = self._picks(draft, draft.function(call), shuffled)
            if picks is not None:
                yield draft.finding(
                    "DATA-SAMPLER-RNG",
                    Severity.ERROR,
                    call,
                    f"the indices for `{draft.facts.segment(picks.func)}` are shuffled without a seed: every process "
                    "would pick other samples",
                    "seed the generator before",
                )

    def _made_up(self, draft: Draft) -> Iterator[Finding]:
        """Data sets of random numbers drawn without a seed; one finding for all of them."""
        for call in draft.calls:
            names = _NOISE.get(draft.facts.resolver.qualified(call.func) or "")
            if names is None or self._given(draft, call, None, "generator") or self._seeded(draft, call, names):
                continue
            outer = (p for p in draft.facts.index.ancestors(call) if isinstance(p, ast.Call))
            inside = any((draft.facts.resolver.qualified(p.func) or "") in _DATASETS for p in outer)
            made = stores(draft.facts.index.statement(call))
            if inside or self._picks(draft, draft.function(call), made, _DATASETS):
                yield draft.finding(
                    "DATA-UNSEEDED",
                    Severity.ERROR,
                    call,
                    "the data set is made of random numbers without a seed: every process would train on another one",
                    "seed the generator before",
                )
                return

    def _picks(
        self, draft: Draft, function: Function | None, names: set[str], pickers: tuple[str, ...] = _PICKERS
    ) -> ast.Call | None:
        """The subset or sampler of a function that is made from variables, or from what is computed from them."""
        names = set(names)
        scope = draft.facts.index.scopes[function] if function is not None else draft.facts.index.module
        for binding in sorted((b for bound in scope.bindings.values() for b in bound), key=lambda b: position(b.node)):
            if binding.value is not None and names & {n.id for n in walk(binding.value) if isinstance(n, ast.Name)}:
                names.add(binding.name)
        for call in draft.calls:
            qualified = draft.facts.resolver.qualified(call.func) or ""
            if qualified in pickers and draft.function(call) is function:
                arguments = (*call.args, *(k.value for k in call.keywords))
                if names & {n.id for a in arguments for n in walk(a) if isinstance(n, ast.Name)}:
                    return call
        return None
