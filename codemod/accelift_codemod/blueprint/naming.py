"""Names for variables of the converted script that mean nothing in the script yet."""

from __future__ import annotations

import ast

from accelift_codemod.facts import Facts
from accelift_codemod.facts.index import MARK
from accelift_codemod.facts.tree import walk

_ACCELERATORS = ("accelerator", "accel", "hf_accelerator", "accelift_accelerator")
_NETWORKS = ("net", "model", "network", "wrapped")


def accelerator(facts: Facts) -> str:
    """A name for the accelerator, that nothing in the script has."""
    taken = {name for scope in facts.written.scopes.values() for name in (*scope.bindings, *scope.loads)}
    taken.update(facts.written.attributes if facts.instances.followed else ())
    taken |= {name.rpartition(MARK)[2] for name in taken}
    if any(function.args.kwarg for function in facts.written.functions):  # it takes what any name is given
        nodes = [*walk(facts.tree)]
        taken |= {node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg}
        keys = (key for node in nodes if isinstance(node, ast.Dict) for key in node.keys)
        taken |= {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    return next((name for name in _ACCELERATORS if name not in taken), "accelift_main_accelerator")


def network(facts: Facts, method: ast.AST) -> str:
    """A name for a network in one of its methods, that nothing has there."""
    names = {n.id for n in walk(method) if isinstance(n, ast.Name)} | {*facts.index.scopes[method].bindings}
    names |= {n.arg for n in walk(method) if isinstance(n, ast.arg)}
    taken = {name.rpartition(MARK)[2] for name in names}
    return next((name for name in _NETWORKS if name not in taken), "accelift_network")
