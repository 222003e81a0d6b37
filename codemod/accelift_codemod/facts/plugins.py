"""Which other ways of sharing a model out than DistributedDataParallel a script sets up."""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk

_SETTINGS = frozenset("fsdp_plugin parallelism_config deepspeed_plugin deepspeed_plugins megatron_lm_plugin".split())
_STEPS = 4  # from one variable or function to another


def sets_up_another(resolver: Resolver) -> bool:
    """Whether a call is certainly given such a setting: to ask for one (`accelerator.state.fsdp_plugin`) sets up none,
    nor does one that is None unless the command line says otherwise."""
    index = resolver.index
    stored = any(isinstance(n.ctx, ast.Store) for name in _SETTINGS for n in index.attributes.get(name, ()))
    given = [k.value for call in index.calls for k in call.keywords if k.arg in _SETTINGS]
    # In a dict, for `Accelerator(**kwargs)`.
    pairs = ((n.keys, n.values) for n in walk(index.tree) if isinstance(n, ast.Dict))
    given += (value for keys, values in pairs for key, value in zip(keys, values, strict=True) if _is_setting(key))
    entries = ((s.value, t) for s in index.items for t in s.targets if isinstance(t, ast.Subscript))
    given += (value for value, target in entries if _is_setting(target.slice))
    return stored or any(not _perhaps_none(resolver, value) for value in given)


def may_share_otherwise(resolver: Resolver) -> bool:
    """Whether a script may be run so that FullyShardedDataParallel or DeepSpeed shares the model out: it has such a
    setting, or asks for one that the launch config may have (`getattr(accelerator.state, "fsdp_plugin", None)`)."""
    index = resolver.index
    if any(index.attributes.get(name) for name in _SETTINGS) or sets_up_another(resolver):
        return True
    asked = (call.args[1] for call in index.calls if resolver.builtin(call.func) == "getattr" and len(call.args) > 1)
    return any(map(_is_setting, asked)) or any(k.arg in _SETTINGS for call in index.calls for k in call.keywords)


def _is_setting(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and key.value in _SETTINGS


def _perhaps_none(resolver: Resolver, node: ast.expr | None, steps: int = _STEPS) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is None
    if isinstance(node, ast.IfExp):
        return any(_perhaps_none(resolver, branch, steps) for branch in (node.body, node.orelse))
    if not steps:
        return False
    if isinstance(node, ast.Name):
        held = [b.value for b in resolver.bindings(node) if b.how is How.ASSIGN and not b.path]
        return any(_perhaps_none(resolver, value, steps - 1) for value in held)
    if isinstance(node, ast.Call):
        function = resolver.callee(node)
        returns = resolver.returns(function) if isinstance(function, FUNCTIONS) else []
        return any(_perhaps_none(resolver, statement.value, steps - 1) for statement in returns)
    return False
