"""What losses make of the layouts of what they compare: a mean, a sum, or one number for each sample."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType

from accelift_codemod.facts import torch_ops as ops
from accelift_codemod.facts.layout.algebra import CURVING, FIXED, Layout, Shape
from accelift_codemod.facts.layout.arithmetic import COMPARING, altered
from accelift_codemod.facts.tree import is_constant
from accelift_codemod.facts.values import Value

_WEIGHTS = frozenset({"weight", "ignore_index"})  # what makes a mean one by weights


def functional_loss(call: ast.Call, name: str, arguments: list[Shape], marked: bool = False) -> Shape:
    tensors = 2 - sum(k.arg in ("input", "target") for k in call.keywords)
    given = _given(call, name, tensors)
    if given is None:
        return Layout.UNKNOWN
    return _reduced(
        given,
        _compared(name, arguments),
        ops.FUNCTIONAL_LOSSES[name] and (bool(given.keys() & _WEIGHTS) or (marked and name in ops.IGNORING)),
    )


def loss(
    value: Value, arguments: list[Shape], marked: bool = False, later: Mapping[str, ast.expr] = MappingProxyType({})
) -> Shape:
    """What a loss gives; `marked` says that some targets may be marked as those to be ignored, and `later` what it is
    told once it is made."""
    return told(value.name.rpartition(".")[2], value.origin, arguments, marked, later)


def told(
    name: str,
    call: ast.AST,
    arguments: list[Shape],
    marked: bool = False,
    later: Mapping[str, ast.expr] = MappingProxyType({}),
) -> Shape:
    """What a loss of torch makes of what it compares, by the call that makes it."""
    given = _given(call, name, 0) if isinstance(call, ast.Call) else None
    if given is None:
        return Layout.UNKNOWN
    given |= later
    return _reduced(
        given,
        _compared(name, arguments),
        name in ops.WEIGHTED_LOSSES and (marked or bool(given.keys() & _WEIGHTS)),
    )


def _compared(name: str, arguments: list[Shape]) -> list[Shape]:
    """What a loss compares, by samples: that of CTC has one number for each, also if their targets are joined. What
    has them in dimension 1 is broadcast along what has them in dimension 0."""
    if name in ops.ELEMENTWISE_LOSSES and any(pair <= {*arguments[:2]} for pair in COMPARING):
        return [Layout.MIXED]
    if name not in ops.OF_EACH_SAMPLE:
        return arguments
    return [*arguments[:1], *(Layout.ROWS if given is Layout.PICKED else given for given in arguments[1:])]


def summed_loss(call: ast.Call, arguments: list[Shape]) -> Shape:
    """A loss of a library that is a sum over the samples unless it is told another reduction."""
    given = next((k.value for k in call.keywords if k.arg == "reduction"), None)
    given = call.args[3] if given is None and len(call.args) > 3 else given
    by_tokens = isinstance(given, ast.Constant) and given.value == "token_mean"
    reduction = ast.Constant("mean") if by_tokens else given or ast.Constant("sum")
    return _reduced({"reduction": reduction}, arguments, by_tokens)


def _given(call: ast.Call, name: str, tensors: int) -> dict[str, ast.expr] | None:
    """The arguments of a loss other than its tensors, by name, None left out; None if they cannot be told."""
    if any(k.arg is None for k in call.keywords):
        return None
    found = {k.arg: k.value for k in call.keywords if k.arg}
    names = ops.LOSS_PARAMETERS.get(name)
    if names is not None:
        more = call.args[tensors:]
        if len(more) > len(names) or any(isinstance(a, ast.Starred) for a in call.args):
            return None
        found.update(zip(names, more, strict=False))
    return {k: v for k, v in found.items() if not is_constant(v, None)}


def _reduced(keywords: dict[str, ast.expr], arguments: list[Shape], weighted: bool) -> Shape:
    if any(a in (Layout.MIXED, Layout.SHIFTED, Layout.RATE, *CURVING) for a in arguments):
        return Layout.MIXED  # of a statistic of the batch, or weighted by one
    if Layout.UNSURE in arguments:
        return Layout.UNSURE
    if Layout.PLACES in arguments:
        return Layout.MIXED  # which sample of the batch it is, is to be told
    if {Layout.ROWS, Layout.TURNED} <= set(arguments):
        return Layout.MIXED
    if Layout.WIDE in arguments or Layout.TALL in arguments:
        return altered([Layout.WIDE], lambda parts: _reduced(keywords, parts, weighted))
    if Layout.TURNED in arguments:
        return altered([Layout.TURNED], lambda parts: _reduced(keywords, parts, weighted))
    if arguments and all(a in FIXED for a in arguments):
        return Layout.CONST
    if Layout.CHOSEN in arguments and Layout.ROWS not in arguments:  # with those, they are as many as these
        found = _reduced(keywords, [Layout.ROWS if a is Layout.CHOSEN else a for a in arguments], weighted)
        return Layout.CHOSEN if found is Layout.ROWS else found if found is Layout.SUM else Layout.UNKNOWN
    if Layout.PICKED in arguments:
        return altered([Layout.PICKED], lambda parts: _reduced(keywords, parts, weighted))
    reduction = keywords.get("reduction")
    averaged = keywords.get("size_average")
    reduced = keywords.get("reduce")
    if is_constant(averaged, False):
        return Layout.SUM
    if is_constant(reduced, False):
        return Layout.ROWS
    if reduction is not None:
        word = reduction.value if isinstance(reduction, ast.Constant) else None
        if word == "sum":
            return Layout.SUM
        if word == "none":
            return Layout.ROWS
        if word not in ("mean", "batchmean", "elementwise_mean"):
            return Layout.UNKNOWN
    return Layout.WEIGHTED if weighted else Layout.MEAN
