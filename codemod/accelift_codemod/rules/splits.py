"""Random splits of the data that every process has to make alike."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule

_SEEDS_TORCH = ("torch.manual_seed", "torch.random.manual_seed", "pytorch_lightning.seed_everything")
_SEEDS_NUMPY = ("numpy.random.seed",)


class Splits(Rule):
    """Reports a random split of the data that is not seeded: every process would make another one.

    Samples of one process's training set would then be in another's test set, and some samples would be in neither.
    """

    code = "SPLIT"
    name = "random splits"
    findings = (
        Explained(
            "DATA-SPLIT-UNSEEDED",
            Severity.ERROR,
            "a random split without a seed",
            "The data is split at random without a seed, so every process splits it differently.",
        ),
        Explained(
            "DATA-SAMPLER-RNG",
            Severity.ERROR,
            "a sampler with random numbers of its own",
            "A sampler of the script's own draws from numpy's or Python's random numbers without a seed: the processes "
            "would draw different orders, and some samples would be dealt twice, others not at all.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for call in draft.calls:
            qualified = draft.facts.resolver.qualified(call.func) or ""
            if qualified == "torch.utils.data.random_split":
                seeded = draft.facts.resolver.argument(call, 2, "generator") is not None or self._seeded(
                    draft, call, _SEEDS_TORCH
                )
            elif qualified == "sklearn.model_selection.train_test_split":
                shuffle = draft.facts.resolver.argument(call, None, "shuffle")
                off = isinstance(shuffle, ast.Constant) and shuffle.value is False
                seeded = (
                    off
                    or draft.facts.resolver.argument(call, None, "random_state") is not None
                    or self._seeded(draft, call, _SEEDS_NUMPY)
                )
            else:
                continue
            if not seeded:
                yield draft.finding(
                    "DATA-SPLIT-UNSEEDED",
                    Severity.ERROR,
                    call,
                    "the data is split at random without a seed: every process would split it differently",
                    "seed the generator before the split (torch.manual_seed, or random_state=)",
                )

    def _seeded(self, draft: Draft, call: ast.Call, names: tuple[str, ...]) -> bool:
        """Whether some seeding may run before a call (also in a helper of the project)."""
        for other in draft.calls:
            qualified = draft.facts.resolver.qualified(other.func) or ""
            if qualified in names or "seed" in qualified.rpartition(".")[2].lower():
                return True
        return False
