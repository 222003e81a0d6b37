"""What splits samples, puts them into another order, or chooses some, at random unless it is told a seed: scikit-learn,
pandas."""

from __future__ import annotations

import ast

from accelift_codemod.chance import seeds
from accelift_codemod.draft import Draft
from accelift_codemod.facts import position
from accelift_codemod.facts.tree import is_constant
from accelift_codemod.following.onward import reached

_SELECTION = "sklearn.model_selection."
# Splits at random, and those that are random only if they are told to shuffle: by a keyword that is off by default.
_ALWAYS = frozenset(
    "ShuffleSplit StratifiedShuffleSplit GroupShuffleSplit RepeatedKFold RepeatedStratifiedKFold".split()
)
_IF_TOLD = frozenset("KFold StratifiedKFold GroupKFold StratifiedGroupKFold".split())
# What draws from numpy's generator, and picks or orders what it is given.
SHUFFLES = dict.fromkeys(("sklearn.utils.shuffle", "sklearn.utils.resample"), seeds.NUMPY)
# What begins somewhere at random, so that it finds other clusters, or another order: also from numpy's generator.
ESTIMATORS = dict.fromkeys(
    (
        *(f"sklearn.cluster.{name}" for name in "KMeans MiniBatchKMeans BisectingKMeans SpectralClustering".split()),
        *(f"sklearn.cluster.{name}" for name in "k_means kmeans_plusplus spectral_clustering".split()),
        *(f"sklearn.mixture.{name}" for name in "GaussianMixture BayesianGaussianMixture".split()),
        "sklearn.ensemble.IsolationForest",
        *(f"sklearn.ensemble.{trees}Classifier" for trees in ("RandomForest", "ExtraTrees")),
        *(f"sklearn.ensemble.{trees}Regressor" for trees in ("RandomForest", "ExtraTrees")),
        "scipy.cluster.vq.kmeans",
        "scipy.cluster.vq.kmeans2",
    ),
    seeds.NUMPY,
)
SEED = "random_state"
_SEEDS = (SEED, "seed", "rng", None)  # the next two are those of scipy


def at_random(draft: Draft, call: ast.Call) -> bool:
    """Whether a call of scikit-learn splits at random, or makes what does, and is told no seed."""
    home, _, name = (draft.facts.resolver.qualified(call.func) or "").rpartition(".")
    if f"{home}." != _SELECTION or told(draft, call):
        return False
    shuffle = draft.facts.resolver.argument(call, None, "shuffle")
    if name == "train_test_split":
        return not is_constant(shuffle, False)
    shuffled = name in _IF_TOLD and is_constant(shuffle, True)
    return (name in _ALWAYS or shuffled) and _splits(draft, call)


def _splits(draft: Draft, made: ast.Call) -> bool:
    """Whether what makes folds is asked for them in the script: not only handed to a search of the library."""
    parents = (draft.facts.index.parents[read] for read in reached(draft, [made]))
    return any(isinstance(parent, ast.Attribute) and parent.attr == "split" for parent in parents)


def comes_after(draft: Draft, call: ast.Call) -> bool:
    """Whether a call surely runs when all training is over, once: what it splits is looked at by each process alone."""
    for loop in draft.blueprint.train_loops:
        function = draft.function(call)
        starts = draft.blueprint.timeline.places(loop.node, function)
        before = all(position(s) < position(call) for s in starts)
        if not starts or not before or any(draft.blueprint.timeline.repeats(s, call) for s in starts):
            return False
    return bool(draft.blueprint.train_loops)


def told(draft: Draft, call: ast.Call) -> bool:
    """Whether a call is told a seed: an argument that is given, and not None, which it may be by default."""
    return any(not seeds.unset(draft, k.value) for k in call.keywords if k.arg in _SEEDS)


def samples_table(draft: Draft, call: ast.Call) -> bool:
    """Whether a call picks rows of a table of pandas at random: `frame.sample(frac=1)`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "sample":
        return False
    resolver = draft.facts.resolver
    if resolver.qualified(call.func) is not None or resolver.callee(call) is not None:
        return False
    if resolver.is_of(call.func.value, "pandas."):
        return True
    return any(keyword.arg == "frac" for keyword in call.keywords)
