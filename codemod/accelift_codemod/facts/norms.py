"""Layers that normalize batches."""

from __future__ import annotations

import ast

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.names import Names
from accelift_codemod.facts.tree import is_constant


def keeps_averages(names: Names, call: ast.Call) -> bool:
    """Whether a call makes a layer of BatchNorm that surely keeps averages of the batches that it sees."""
    module, _, name = (names.qualified(call.func) or "").rpartition(".")
    if not module.startswith("torch.nn") or name not in torch_ops.BATCH_NORM:
        return False
    told = next((k.value for k in call.keywords if k.arg in ("track_running_stats", None)), None)
    return told is None or is_constant(told, True)
