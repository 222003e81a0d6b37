"""What is read off the text of operations: the factors of matrix products, and which dimensions they swap."""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import MARK
from accelift_codemod.facts.torch_ops import PRODUCTS_ADDED


def factors(call: ast.Call, qualified: str | None) -> tuple[ast.expr, ast.expr] | None:
    """The two matrices that a call multiplies, if it does."""
    if qualified in ("torch.mm", "torch.matmul", "torch.bmm") and len(call.args) == 2:
        return call.args[0], call.args[1]
    func = call.func
    added = qualified == "torch.addmm" or (qualified is None and getattr(func, "attr", "") in PRODUCTS_ADDED)
    if added and len(call.args) > 1 + (qualified is not None):
        return call.args[-2], call.args[-1]
    if isinstance(func, ast.Attribute) and func.attr in ("mm", "matmul", "bmm") and len(call.args) == 1:
        return func.value, call.args[0]
    return None


def is_batched(call: ast.Call, qualified: str | None) -> bool:
    """Whether a product of matrices is one for each entry of dimension 0, which both factors have."""
    return qualified == "torch.bmm" or (qualified is None and getattr(call.func, "attr", "") == "bmm")


def whole_mean(call: ast.Call, qualified: str | None) -> ast.expr | None:
    """What a call takes the mean of, if over all dimensions."""
    if call.keywords or len(call.args) != (qualified == "torch.mean"):
        return None
    if qualified == "torch.mean":
        return call.args[0]
    method = qualified is None and isinstance(call.func, ast.Attribute) and call.func.attr == "mean"
    return call.func.value if method and isinstance(call.func, ast.Attribute) else None


def is_one_number(call: ast.Call, qualified: str | None) -> bool:
    """Whether a call makes a tensor of one number that is spelled out, for a sum to begin with: `torch.zeros(1)`."""
    given = call.args[0] if call.args else None
    if qualified == "torch.tensor":
        given = given.elts[0] if isinstance(given, ast.List) and len(given.elts) == 1 else given
        return isinstance(given, ast.Constant) and isinstance(given.value, (int, float))
    if qualified != "torch.zeros" and not (qualified is None and getattr(call.func, "attr", "") == "new_zeros"):
        return False
    sizes = given.elts if isinstance(given, (ast.Tuple, ast.List)) else call.args
    return given is not None and all(integer(size) == 1 for size in sizes)


def averaged(node: ast.BinOp) -> ast.expr | None:
    """What an expression averages by weights: x of `(w * x).sum(d) / w.sum(d)`."""
    parts = [
        (side.func.value, [ast.dump(a) for a in (*side.args, *(k.value for k in side.keywords))])
        for side in (node.left, node.right)
        if isinstance(side, ast.Call) and isinstance(side.func, ast.Attribute) and side.func.attr == "sum"
    ]
    if not isinstance(node.op, ast.Div) or len(parts) != 2 or parts[0][1] != parts[1][1]:
        return None
    product, weights = parts[0][0], ast.dump(parts[1][0])
    if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.Mult):
        return None
    sides = (product.left, product.right)
    return next((other for one, other in zip(sides, sides[::-1], strict=True) if ast.dump(one) == weights), None)


def squares(left: ast.expr, right: ast.expr) -> bool:
    """Whether a matrix product is that of a tensor and its own transpose: every row meets every other."""
    (first, turned), (second, turned_too) = untransposed(left), untransposed(right)
    return turned != turned_too and ast.dump(first) == ast.dump(second)


def untransposed(node: ast.expr) -> tuple[ast.expr, bool]:
    """A tensor without the transpositions of its two dimensions, and whether they turn it around."""
    turned = False
    while True:
        if isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
            node, turned = node.value, not turned
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            function = isinstance(node.func.value, ast.Name) and node.func.value.id.rpartition(MARK)[2] == "torch"
            places = node.args[function:]
            if (name == "t" and not places) or swaps(name, places):
                turned = not turned
            elif name not in ("contiguous", "detach", "clone") or places:
                return node, turned
            if function and not node.args:
                return node, turned
            node = node.args[0] if function else node.func.value
        else:
            return node, turned


def swaps(name: str, places: list[ast.expr]) -> bool:
    """Whether an operation swaps the first two dimensions."""
    return name in ("transpose", "swapaxes", "permute") and {integer(p) for p in places} == {0, 1}


def integer(node: ast.expr | None) -> int | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = integer(node.operand)
        return None if inner is None else -inner
    return None


def flattened(call: ast.Call) -> bool:
    """Whether a call puts all dimensions of a tensor but the last one into one: `x.view(-1, x.size(-1))`."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in ("view", "reshape") or len(call.args) != 2:
        return False
    of, last = ast.unparse(func.value), ast.unparse(call.args[1])
    return integer(call.args[0]) == -1 and last in (f"{of}.size(-1)", f"{of}.shape[-1]")
