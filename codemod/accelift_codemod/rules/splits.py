"""Random splits of the data that every process has to make alike."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.chance import picked, seeds, splitting, streamed
from accelift_codemod.chance.chosen import chosen
from accelift_codemod.chance.constants import constants, in_place
from accelift_codemod.chance.looked_at import is_looked_at
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role
from accelift_codemod.facts.chance import SEEDS, drawn_from
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
    **splitting.SHUFFLES,
    **splitting.ESTIMATORS,
}
_SHUFFLED = "`{}` is shuffled {}: every process would have other samples"
_SAMPLES = "sklearn.datasets.make_"
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
            "The data is split at random without a seed, so every process splits it differently. A seed that is None "
            "unless somebody gives one is none.",
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
            "a loader as it is, with rows sampled from a table, with samples that are taken by drawn numbers, or by "
            "what an estimator of scikit-learn finds that is told no random_state (a GaussianMixture of their losses), "
            "and with what an IterableDataset deals, or a sampler that draws when it is made, or again after it has "
            "dealt something.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        known_of = [*self._shuffles(draft), *self._made_up(draft), *self._chosen(draft), *self._streamed(draft)]
        yield from known_of
        yield from self._once(draft, {finding.line for finding in known_of})
        for call in draft.calls:
            qualified = draft.facts.resolver.qualified(call.func) or ""
            if qualified == "torch.utils.data.random_split":
                known = self._given(draft, call, 2, "generator") or seeds.seeded(draft, call, seeds.TORCH)
            else:
                known = not splitting.at_random(draft, call) or seeds.seeded(draft, call, seeds.NUMPY)
            if not known and not (splitting.comes_after(draft, call) and picked.by(draft, call) is None):
                yield self._seed(draft, call, qualified)

    def _once(self, draft: Draft, told: set[int]) -> Iterator[Finding]:
        """What is drawn once without a seed and used on all of the data; for each variable, one of the draws."""
        used: set[tuple[ast.ClassDef | None, str]] = set()
        for call, use in constants(draft):
            cls, variable = draft.facts.index.enclosing_class(use), draft.facts.segment(use)
            if call.lineno in told or (cls, variable) in used:
                continue
            used.add((cls, variable))
            how = seeds.without(draft, call, SEEDS.get(drawn_from(draft.facts.resolver, call), ()))
            ordered = in_place(call) if draft.facts.resolver.class_role(cls) is Role.DATASET else None
            if ordered is not None:
                severity, message = Severity.ERROR, _SHUFFLED.format(draft.facts.segment(ordered), how)
            else:
                severity = Severity.WARNING
                message = f"`{draft.facts.segment(call)}` is drawn once {how}, and `{variable}` is used on the data: "
                message += "every process would use another one"
            yield draft.finding("DATA-UNSEEDED", severity, call, message, seeds.remedy(how))

    def _seed(self, draft: Draft, call: ast.Call, qualified: str) -> Edit | Finding:
        """A seed for a split, or the finding that it has none."""
        by_torch = qualified.startswith("torch.")
        seed = "torch.manual_seed" if by_torch else "numpy.random.seed, or random_state="
        how = seeds.without(draft, call, seeds.TORCH if by_torch else seeds.NUMPY)
        finding = draft.finding(
            "DATA-SPLIT-UNSEEDED",
            Severity.ERROR,
            call,
            f"the data is split at random {how}: every process would split it differently",
            seeds.remedy(how, f"seed the generator before the split ({seed})"),
        )
        torch = draft.facts.imported("torch", call)
        code = f"generator={torch}.Generator().manual_seed(0)" if by_torch else "random_state=0"
        given = any(k.arg in (None, "generator", "random_state") for k in call.keywords)
        if given or (by_torch and (not torch or len(call.args) > 2)):
            return finding
        reason = "every process has to split the data alike"
        return draft.edit(self.code, call, Operation.ADD_ARGUMENT, reason, code, assumes=_SEEDED, otherwise=finding)

    def _given(self, draft: Draft, call: ast.Call, place: int | None, name: str) -> bool:
        """Whether an argument is given, and not None."""
        argument = draft.facts.resolver.argument(call, place, name)
        return argument is not None and not seeds.unset(draft, argument)

    # ---- shuffled indices

    def _shuffles(self, draft: Draft) -> Iterator[Finding]:
        """Unseeded shuffles whose outcome picks the samples of a subset or sampler."""
        for call in draft.facts.index.methods.get("shuffle", []):
            assert isinstance(call.func, ast.Attribute)
            if picked.is_graphs(draft, call.func.value) and not seeds.seeded(draft, call, seeds.TORCH):
                yield draft.finding(
                    "DATA-SAMPLER-RNG",
                    Severity.ERROR,
                    call,
                    f"`{draft.facts.segment(call)}` is done without a seed: every process would have another order",
                    "seed the generator before",
                )
        for call in draft.calls:
            names = _SHUFFLES.get(draft.facts.resolver.qualified(call.func) or "")
            if names is None and splitting.samples_table(draft, call):
                names = seeds.NUMPY
            if names is None:
                known = not (_puts_in_order(call) and seeds.unseeded(draft, call))
            else:
                told = self._given(draft, call, None, "generator") or splitting.told(draft, call)
                known = told or seeds.seeded(draft, call, names)
            picks = picked.by(draft, call) if not known else None
            if picks is not None and is_looked_at(draft, picks):
                continue
            if picks is not None:
                found = draft.facts.resolver.qualified(call.func) in splitting.ESTIMATORS
                what = f"found by `{draft.facts.segment(call.func)}`" if found else "shuffled"
                yield self._drawn(draft, call, picks, seeds.without(draft, call, names or ()), what)
            elif not known and (kept := _of_data(draft, call)) is not None and not splitting.comes_after(draft, call):
                how = seeds.without(draft, call, names or ())
                yield draft.finding(
                    "DATA-UNSEEDED",
                    Severity.ERROR,
                    call,
                    _SHUFFLED.format(draft.facts.segment(kept), how),
                    seeds.remedy(how),
                )

    def _drawn(self, draft: Draft, call: ast.Call, picks: picked.Place, how: str, what: str) -> Finding:
        """What to say of samples that a call picks, or puts in order, unseeded."""
        name = draft.facts.segment(picks.func if isinstance(picks, ast.Call) else picks.value)
        code = "DATA-SAMPLER-RNG"
        message = f"the indices for `{name}` are {what} {how}: every process would pick other samples"
        if isinstance(picks, ast.Call) and picked.makes_data(draft, picks) and not picked.is_own(draft, picks):
            code = "DATA-UNSEEDED"
            message = f"what `{name}` is made of is {what} {how}: every process would have other samples"
        elif isinstance(picks, ast.Call) and picked.makes_loader(draft, picks):
            message = f"what `{name}` deals is chosen, or put in order, {how}: every process would have other "
            message += "samples, or another order"
        return draft.finding(code, Severity.ERROR, call, message, seeds.remedy(how))

    def _chosen(self, draft: Draft) -> Iterator[Finding]:
        """Samples that are taken, or left out, by numbers drawn without a seed."""
        for call, place, how in chosen(draft):
            segment = draft.facts.segment(place.func if isinstance(place, ast.Call) else place)
            yield draft.finding(
                "DATA-SAMPLER-RNG",
                Severity.ERROR,
                call,
                f"`{draft.facts.segment(call)}` decides {how} which samples `{segment}` gets: every process would "
                "have others, and perhaps another number of them",
                seeds.remedy(how),
            )

    def _streamed(self, draft: Draft) -> Iterator[Finding]:
        """Data sets and samplers that draw without a seed what they deal next."""
        for call, cls in streamed.shuffled(draft):
            yield draft.finding(
                "DATA-SAMPLER-RNG",
                Severity.ERROR,
                call,
                f"`{draft.facts.segment(call)}` draws without a seed in which order `{cls.name}` deals its samples: "
                "every process would have another one, and take its share of that",
                "seed the generator before",
            )
        dealt = (
            *((*one, ", again and again,") for one in streamed.dealt(draft)),
            *((*one, "") for one in streamed.made(draft)),
        )
        for call, cls, often in dealt:
            how = seeds.without(draft, call, SEEDS.get(drawn_from(draft.facts.resolver, call), ()))
            yield draft.finding(
                "DATA-SAMPLER-RNG",
                Severity.ERROR,
                call,
                f"`{draft.facts.segment(call)}` draws {how}{often} which samples `{cls.name}` deals: every "
                "process would deal others, and take its share of those",
                seeds.remedy(how),
            )

    def _made_up(self, draft: Draft) -> Iterator[Finding]:
        """Data sets of random numbers drawn without a seed; one finding for all of them."""
        for call in draft.calls:
            if not self._draws_unseeded(draft, call):
                continue
            picks = picked.by(draft, call)
            if picks is not None and is_looked_at(draft, picks):
                continue
            if isinstance(picks, ast.Call) and (picked.makes_data(draft, picks) or picked.deals_as_given(draft, picks)):
                library = drawn_from(draft.facts.resolver, call)
                how = seeds.without(draft, call, SEEDS.get(library, ()))
                yield draft.finding(
                    "DATA-UNSEEDED",
                    Severity.ERROR,
                    call,
                    f"the data set is made of random numbers {how}: every process would have another one",
                    seeds.remedy(how),
                )
                return

    def _draws_unseeded(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call draws numbers, of a generator that is not seeded, that a data set may be made of."""
        qualified = draft.facts.resolver.qualified(call.func) or ""
        if qualified in _SHUFFLES or (not qualified and _puts_in_order(call)):
            return False
        if qualified.startswith(_SAMPLES):
            return not splitting.told(draft, call) and not seeds.seeded(draft, call, seeds.NUMPY)
        library = drawn_from(draft.facts.resolver, call)
        return not seeds.seeded(draft, call, SEEDS[library]) if library else seeds.unseeded(draft, call)


def _of_data(draft: Draft, call: ast.Call) -> ast.Attribute | None:
    """What a call shuffles in place, if a data set keeps it: `shuffle(data.names)`, `shuffle(loader.dataset.names)`."""
    kept = call.args[0] if len(call.args) == 1 else None
    if not isinstance(kept, ast.Attribute) or not ast.unparse(call.func).endswith("shuffle"):
        return None
    owner, resolver = kept.value, draft.facts.resolver
    if isinstance(owner, ast.Attribute) and owner.attr == "dataset" and resolver.only(owner.value, Role.LOADER):
        return kept
    return kept if resolver.only(owner, Role.DATASET) else None


def _puts_in_order(call: ast.Call) -> bool:
    """Whether a call is of a method that puts things into a random order, or picks some of them."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("shuffle", "permutation", "choice", "sample")
