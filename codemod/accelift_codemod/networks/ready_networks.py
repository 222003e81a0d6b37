"""Networks that libraries have ready, and which layers they have that see the batch or draw random numbers."""

from __future__ import annotations

import ast
import sys

from accelift_codemod.draft import Draft
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import walk
from accelift_codemod.networks import modes

# How the names of networks begin that have layers of BatchNorm; those of torchvision, and those of timm as well.
_NORMED = (
    "resnet resnext wide_resnet seresnet densenet mobilenet efficientnet tf_efficientnet googlenet inception xception "
    "mnasnet regnet shufflenet r3d_ mc3_ r2plus1d_ s3d fcn_ deeplabv3 lraspp maxvit dla hrnet"
).split()
_DROPPED = "alexnet vgg squeezenet googlenet inception mobilenet efficientnet tf_efficientnet mnasnet".split()
_CLASSIFYING = ("alexnet", "vgg", "squeezenet", "mobilenet")  # these have dropout in their classifier alone
_FEATURES = {"features", "load_state_dict"}
_BY_NAME = frozenset(
    {"torchvision.models.get_model", "timm.create_model", "timm.models.create_model", "torch.hub.load"}
)
_ALL_NORMED = ("segmentation_models_pytorch.", "efficientnet_pytorch.")

# Libraries that make no networks, and places of torch and torchvision that do.
_WITHOUT = sys.stdlib_module_names | frozenset(
    "torch torchvision numpy scipy sklearn pandas matplotlib PIL tqdm yaml tensorboard wandb accelift".split()
)
_MAKES = ("torch.hub", "torch.load", "torch.jit", "torch.package", "torch.export", "torchvision.models")


# What is written where a network computes otherwise while it trains.
_OF_MODES = ("BatchNorm", "InstanceNorm", "ropout", "RReLU", "Transformer")


def has_no_batch_norm(draft: Draft) -> bool:
    """Whether no network of a script has BatchNorm: it is written nowhere, and no network is got from elsewhere."""
    return _is_nowhere(draft, ("BatchNorm",))


def has_no_buffers(draft: Draft) -> bool:
    """Whether no network of a script has buffers, but for those of layers without parameters."""
    return _is_nowhere(draft, ("BatchNorm", "buffer"))


def has_one_mode(draft: Draft) -> bool:
    """Whether all networks of a script compute the same whether they train or not."""
    return _is_nowhere(draft, _OF_MODES) and "training" not in draft.facts.index.attributes


@kept
def _is_nowhere(draft: Draft, words: tuple[str, ...]) -> bool:
    """Whether none of some words is written in a script, and no network is got from elsewhere."""
    resolver = draft.facts.resolver
    for node in walk(draft.facts.tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            level = node.level if isinstance(node, ast.ImportFrom) else 0
            names = [f"{module}.{alias.name}" if module else alias.name for alias in node.names]
            if level or any(n.partition(".")[0] not in _WITHOUT or n[-1] == "*" for n in names):
                return False
            if any(word in name for word in words for name in names):
                return False
        named = {ast.Attribute: "attr", ast.Constant: "value", ast.keyword: "arg"}.get(type(node), "")
        written = getattr(node, named, None)
        if isinstance(written, str) and any(word in written for word in words):
            return False
        if isinstance(node, (ast.Name, ast.Attribute)) and (resolver.qualified(node) or "").startswith(_MAKES):
            return False
        if isinstance(node, ast.Call) and resolver.builtin(node.func) in ("eval", "exec", "__import__"):
            return False
    return True


def has_batch_norm(draft: Draft, call: ast.Call) -> bool:
    """Whether a call makes such a network with BatchNorm, and trains it, or may compute with it while training."""
    return is_normed(draft, call) and not modes.only_evaluates(draft, call)


def is_normed(draft: Draft, call: ast.Call) -> bool:
    """Whether a call makes such a network with BatchNorm."""
    name = _name(draft, call)
    normed = name.startswith(tuple(_NORMED)) or (name.startswith("vgg") and name.endswith("_bn"))
    return normed or _is_of(draft, call, _ALL_NORMED)


def has_dropout(draft: Draft, call: ast.Call) -> bool:
    """Whether a call makes such a network with dropout, and trains it, or may compute with it while training."""
    dropped = _name(draft, call).startswith(tuple(_DROPPED)) and not _is_only_features(draft, call)
    return dropped and not modes.only_evaluates(draft, call)


def _is_only_features(draft: Draft, call: ast.Call) -> bool:
    """Whether of a network that has dropout in its classifier nothing but the convolutions is taken."""
    parents = draft.facts.index.parents
    reads: list[ast.AST] = [call]
    around = parents[call]
    if isinstance(around, ast.Assign) and isinstance(around.targets[0], ast.Name) and len(around.targets) == 1:
        scope = draft.facts.index.scope(call).owner(around.targets[0].id)
        reads = [*draft.facts.loads(scope, around.targets[0].id)] if scope is not None else []
    taken = {getattr(parents[read], "attr", "") for read in reads}
    return "features" in taken <= _FEATURES and _name(draft, call).startswith(_CLASSIFYING)


def _name(draft: Draft, call: ast.Call) -> str:
    """What the library calls the network; empty for other calls."""
    qualified = draft.facts.resolver.qualified(call.func) or ""
    if qualified in _BY_NAME:
        place = 1 if qualified == "torch.hub.load" else 0
        given = draft.facts.resolver.argument(call, place, "model" if place else "name")
        given = given or draft.facts.resolver.argument(call, place, "model_name")
        return given.value.lower() if isinstance(given, ast.Constant) and isinstance(given.value, str) else ""
    made = qualified.rpartition(".")[2]
    return made.lower() if qualified.startswith("torchvision.models.") and not made.endswith("_Weights") else ""


def _is_of(draft: Draft, call: ast.Call, libraries: tuple[str, ...]) -> bool:
    qualified = draft.facts.resolver.qualified(call.func) or ""
    return qualified.startswith(libraries) and any(
        v.origin is call and draft.facts.objects.is_model(v) for v in draft.facts.resolver.values(call)
    )
