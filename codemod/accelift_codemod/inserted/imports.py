"""Where the imports of a converted file go."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import position
from accelift_codemod.facts.tree import is_remark
from accelift_codemod.plan import Operation


def place(draft: Draft, node: ast.AST, use: ast.AST | None) -> tuple[ast.stmt, Operation]:
    """Where an import goes in the file in which a node stands: beside those of torch, but before its first use.

    Args:
        draft: the draft of the conversion.
        node: any node of the file.
        use: the first node at which code outside functions uses what is imported; None if there is none.
    """
    anchor, operation = _beside_torch(draft.facts.body(node))
    if use is not None and position(use) < position(anchor):
        body = draft.facts.body(node)
        anchor, operation = max((s for s in body if position(s) <= position(use)), key=position), Operation.BEFORE
    block, at = draft.facts.index.block(anchor)
    using = {use, *draft.facts.index.ancestors(use)} if use is not None else set()
    if operation is Operation.AFTER:
        while at + 1 < len(block) and block[at + 1].lineno == block[at].end_lineno:
            if block[at + 1] in using:
                break
            at += 1
    else:
        while at and block[at - 1].end_lineno == block[at].lineno:
            at -= 1
    return block[at], operation


def _beside_torch(body: list[ast.stmt]) -> tuple[ast.stmt, Operation]:
    """Beside the imports of torch: before the first `from` import that follows them, or after them."""
    imports = [s for s in body if isinstance(s, (ast.Import, ast.ImportFrom)) and not _is_future(s)]
    torch = [s for s in imports if _imports_torch(s)]
    if not torch:
        if imports:
            return imports[-1], Operation.AFTER
        first = body[0]
        return first, Operation.AFTER if is_remark(first) or _is_future(first) else Operation.BEFORE
    start = body.index(torch[0])
    run = [torch[0]]
    for statement in body[start + 1 :]:
        if not isinstance(statement, (ast.Import, ast.ImportFrom)) or statement.lineno > (run[-1].end_lineno or 0) + 1:
            break
        run.append(statement)
    later = [s for s in run if isinstance(s, ast.ImportFrom)]
    plain = [s for s in run if isinstance(s, ast.Import)]
    if later and plain and position(plain[-1]) < position(later[0]):
        return later[0], Operation.BEFORE
    return run[-1], Operation.AFTER


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _imports_torch(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return statement.level == 0 and (statement.module or "").partition(".")[0] == "torch"
    return isinstance(statement, ast.Import) and any(a.name.partition(".")[0] == "torch" for a in statement.names)
