"""What a loop compares: two tensors that have the same rows, or it would be an error."""

from __future__ import annotations

import ast

from accelift_codemod.facts import Facts, torch_ops
from accelift_codemod.facts.values import Role


def compared(facts: Facts, node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """The two sides of a comparison, or of a loss; None of anything else."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        return node.left, node.comparators[0]
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("eq", "ne") and len(node.args) == 1:
        return node.func.value, node.args[0]
    qualified = facts.resolver.library_function(node.func) or ""
    loss = is_loss(facts, node.func)
    if loss and _by_steps(facts, node.func, qualified):
        return None
    if (loss or qualified in ("torch.eq", "torch.ne")) and len(node.args) >= 2:
        return node.args[0], node.args[1]
    return None


def is_loss(facts: Facts, func: ast.expr) -> bool:
    """Whether what is called surely is a loss: an object that is one, or a function of torch."""
    qualified = facts.resolver.library_function(func) or ""
    named = qualified.startswith("torch.nn.functional.") and qualified.endswith(("_loss", "cross_entropy", "_logits"))
    return facts.resolver.only(func, Role.LOSS) or named


def _by_steps(facts: Facts, loss: ast.expr, qualified: str) -> bool:
    """Whether a loss compares what has the steps of a sequence in its first dimension with a row per sample."""
    names = {qualified}
    for value in facts.resolver.values(loss):
        names.add(value.name)
        if isinstance(value.declaration, ast.ClassDef):
            for cls in facts.resolver.ancestry(value.declaration):
                names |= {facts.resolver.qualified(base) or "" for base in cls.bases}
    return any(name.rpartition(".")[2] in torch_ops.OF_EACH_SAMPLE for name in names)
