"""Trainers that derive from nn.Module and are no networks: they hold some, and nobody calls them or asks for their
parameters. To such an object the base is a place to keep attributes in, as any object is."""

from __future__ import annotations

import ast

from accelift_codemod.facts.classes import Classes
from accelift_codemod.facts.index import FUNCTIONS, Index
from accelift_codemod.facts.tree import walk

_MODULE = frozenset({"torch.nn.Module", "torch.nn.modules.module.Module"})
# What a network does with all that it holds, and what it runs to find that.
HARMLESS = frozenset({"train", "eval"})
_RUN = HARMLESS | {"children", "modules", "named_children", "named_modules"}


def only_holds(index: Index, names: Classes, chain: list[ast.ClassDef], outside: list[ast.expr]) -> bool:
    """Whether a class, with its bases in the program, only holds networks.

    `outside` are the bases that the program does not define.
    """
    if not outside or any(names.qualified(base) not in _MODULE for base in outside):
        return False
    methods = [(place, s) for place, cls in enumerate(chain) for s in cls.body if isinstance(s, FUNCTIONS)]
    own = {m.name for _, m in methods} | {name for cls in chain for name in index.scopes[cls].bindings}
    read = set[str]()
    for place, method in methods:
        first = (*method.args.posonlyargs, *method.args.args)[:1]
        above = {m.name for number, m in methods if number > place} | {"__init__"}
        for node in walk(method):
            if isinstance(node, ast.Attribute) and _is_super(names, node.value) and node.attr not in above:
                return False
            if not (isinstance(node, ast.Name) and first and node.id == first[0].arg):
                continue
            parent = index.parents[node]
            if isinstance(parent, ast.Attribute):
                (read if isinstance(parent.ctx, ast.Load) else own).add(parent.attr)
            elif not _is_super(names, parent):
                return False  # `self(x)`, or somebody else is given the network
    inherited = read - own
    return "forward" not in read and inherited <= HARMLESS and not (inherited and own & _RUN)


def _is_super(names: Classes, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and names.builtin(node.func) == "super"
