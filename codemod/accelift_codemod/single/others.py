"""What a script calls that is not looked into, and may make a process group: other libraries, and files that are not
there."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator

from accelift_codemod.facts import Facts, Role, library
from accelift_codemod.facts.numbers import NAMES

# Libraries of which nothing makes a process group, beside those that something is known of and that are not loud.
_QUIET = sys.stdlib_module_names | frozenset(
    "albumentations cv2 easydict einops fire h5py imageio imgaug kornia lxml matplotlib medpy nibabel numpy onnx "
    "opencv pandas PIL prettytable ptflops psutil pycocotools requests scipy seaborn shapely SimpleITK skimage "
    "sklearn tabulate tensorboard tensorboardX termcolor thop tifffile torchinfo torchmetrics torchsummary wandb yacs "
    "yaml".split()
)
_LOUD = frozenset({*library.DISTRIBUTED, *library.FRAMEWORKS, *library.ACCELERATE, "timm.utils", "mmcv", "mmengine"})


def unknown(facts: Facts, dead: Callable[[ast.AST], bool]) -> Iterator[tuple[ast.Call, str]]:
    """The calls of what may make a process group, each with the module that it is of."""
    for call in facts.index.calls:
        qualified = facts.resolver.qualified(call.func)
        if qualified is not None and not _is_quiet(qualified) and facts.runs(call) and not dead(call):
            yield call, qualified.rpartition(".")[0]


def may_start(facts: Facts, call: ast.Call, module: str) -> bool:
    """Whether an unknown call may be there to make a process group.

    One whose result is used, and that is handed something that is no option, computes something; so does one of which
    another is handed the result.
    """
    given, around = [*call.args, *(k.value for k in call.keywords)], facts.index.parents.get(call)
    told = any(Role.ARGUMENTS in facts.resolver.roles(a) for a in given)
    alone = isinstance(around, ast.Expr) or not (given or isinstance(around, ast.Call))
    return told or alone or library.matches(module, _LOUD) is not None


def _is_quiet(qualified: str) -> bool:
    root = qualified.partition(".")[0]
    known = root in _QUIET or (root in library.PACKAGES and library.matches(qualified, _LOUD) is None)
    return known or library.matches(qualified, NAMES) is not None  # which is looked at by itself
