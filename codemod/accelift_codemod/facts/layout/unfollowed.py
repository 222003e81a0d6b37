"""What is not known of samples because a function of torch is not followed in which they may meet."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.layout.algebra import Layout, Shape

_HOMES = frozenset({"torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special", "torch.signal"})
_SAMPLES = frozenset({Layout.ROWS, Layout.COLUMNS, Layout.WIDE, Layout.TALL, Layout.TURNED})
_TURNED = frozenset({Layout.COLUMNS, Layout.TALL})
_FOLLOWED = torch_ops.ROW_WISE | torch_ops.ELEMENTWISE | torch_ops.COMPARES | torch_ops.LIKE | torch_ops.REDUCES.keys()
# Functions and methods that only put numbers into another shape or order, or somewhere else, or tell of them.
_PLAIN = frozenset(
    """
    view view_as reshape reshape_as permute transpose movedim moveaxis swapaxes swapdims unflatten flatten ravel squeeze
    unsqueeze narrow select index_select split chunk unbind tensor_split hsplit vsplit dsplit gather take take_along_dim
    take_along_axis scatter expand expand_as broadcast_to repeat tile repeat_interleave stack cat concat concatenate
    hstack vstack dstack column_stack rot90 flip roll index_put masked_scatter index_copy index_fill t
    item tolist numpy size numel nelement dim ndimension stride storage data_ptr element_size is_contiguous get_device
    backward register_hook retain_grad requires_grad_ to type type_as cpu cuda share_memory_ nonzero argwhere where
    masked_select cdist inner mm matmul bmm dot addmm baddbmm einsum tensordot save load is_tensor is_floating_point
    pack pad sort argsort topk bincount embedding one_hot linear bilinear conv_transpose2d zeros ones full rand randn
    zeros_like ones_like tensor as_tensor from_numpy arange linspace mean sum
    """.split()
)


def may_meet(call: ast.Call, qualified: str | None, operands: Iterable[Shape]) -> bool:
    """Whether samples that a call is given may meet in it, of which nothing is known."""
    func = call.func
    home, _, name = (qualified or "").rpartition(".")
    if qualified is None:
        name = func.attr.removesuffix("_") if isinstance(func, ast.Attribute) else ""
    elif home not in _HOMES:
        return False
    # What is known to be done with each row is not done with each sample where these are in dimension 1.
    those = _TURNED if torch_ops.out_of_place(name) in _FOLLOWED else _SAMPLES
    return bool(name) and name not in _PLAIN and any(_has(part, those) for part in operands)


def _has(part: Shape, those: frozenset[Layout]) -> bool:
    return any(_has(one, those) for one in part) if isinstance(part, tuple) else part in those
