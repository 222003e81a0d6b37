"""The author's model behind what was put around it."""

from __future__ import annotations

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from accelift import precision

_AROUND = (DistributedDataParallel, nn.DataParallel)


def is_compiled_module(module: nn.Module) -> bool:
    """Whether it is what ``torch.compile`` returned."""
    return _compiled(module) is not module


def _compiled(module: nn.Module) -> nn.Module:
    """The model that was given to ``torch.compile``, or the model itself."""
    original: nn.Module = module._modules.get("_orig_mod") or module
    return original


def extract_model_from_parallel(
    model: nn.Module, keep_fp32_wrapper: bool = True, keep_torch_compile: bool = True, recursive: bool = False
) -> nn.Module:
    """The model as the author made it.  The given one is not changed.

    Args:
        model: a prepared model, or any other, which is returned as it is.
        keep_fp32_wrapper: with mixed precision, whether calls of the result still run under
            autocast; ``False`` gives the very object that was prepared.
        keep_torch_compile: whether a model that the author gave to ``torch.compile`` stays what that
            returned.  What was compiled with DistributedDataParallel around it does not.
        recursive: must be ``False``.

    Raises:
        ValueError: for ``recursive=True``.
    """
    if recursive:
        raise ValueError(
            "extract_model_from_parallel(recursive=True) is not offered: call it for each part of the model that "
            "was wrapped by itself."
        )
    while isinstance(inside := _compiled(model), _AROUND):
        model = inside.module
    if not keep_torch_compile:
        model = _compiled(model)
    return model if keep_fp32_wrapper else precision.without_autocast(model)
