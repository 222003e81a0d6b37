"""Which comments go with statements that go: those that say that something is moved to a device."""

from __future__ import annotations

import ast
import re
from collections.abc import Container

from accelift_codemod.rewrite.places import Places

_NAMED = r"(?<![a-z_.])(?:(?:multi-?)?gpus?|cuda|devices?|(?:distributed)?data ?parallel|ddp)(?![a-z_.(])"
_DEVICE = re.compile(_NAMED, re.IGNORECASE)
_TO_DEVICE = re.compile(
    rf"#\W*(?:move|moving|push|put|send|transfer|copy|to)\b.*{_NAMED}\W*(?:if available\W*)?$", re.IGNORECASE
)
_SIZE = r"(?:[A-Z][A-Za-z_]{0,3}|[A-Z_]+|[a-z]+_(?:size|len|length)(?: \(\w+\))?|batch|\d+)"
_SHAPE = re.compile(rf"#\W*(?:\w+\W)?[(\[]?{_SIZE}(?:\s*[,x*]\s*{_SIZE})+[)\]]?$")
_MOVE = re.compile(r"\.(?:cuda|to)\(")
_TYPE = re.compile(r"torch\.(?!device\b)|type")
# What a comment says that holds without the move, too, or that tools read: a note, a reason, a cell of a notebook.
_MORE = re.compile(
    r"^# ?%%|^# ?fmt:|://|\b(?:todo|fixme|xxx|hack|bug|note|nb|warning|caution|issue|see|because|since|otherwise|must)\b",
    re.IGNORECASE,
)
_MOST_WORDS = 9


def is_about_devices(comment: str) -> bool:
    """Whether a comment speaks of devices and no more, in words, or is a move that is commented out."""
    if _is_move(comment):
        return True
    if not _DEVICE.search(comment) or _MORE.search(comment) or len(comment.split()) > _MOST_WORDS:
        return False
    try:
        code = ast.parse(comment.lstrip("# ")).body
    except SyntaxError:
        return True
    return all(isinstance(s, ast.Expr) and not isinstance(s.value, ast.Call) for s in code)


def only_moves(comment: str) -> bool:
    """Whether a comment says, in words or in code, that something is moved to a device, and no more."""
    return is_about_devices(comment) and (_TO_DEVICE.match(comment) is not None or _is_move(comment))


def tells_shape(comment: str) -> bool:
    """Whether a comment tells a tensor's shape, and no more: `# (N, 3, 300, 300)`, `# B,S,C,H,W`, `# BATCH*28*28`."""
    return _SHAPE.match(comment) is not None


def _is_move(comment: str) -> bool:
    """Whether a comment is code that only moves something: `# x, y = x.cuda(), y.cuda()`, `# net.to(device)`."""
    if not _MOVE.search(comment):
        return False
    try:
        code = ast.parse(comment.lstrip("# ")).body
    except SyntaxError:
        return False
    pairs = [pair for s in code for pair in (_pairs(s) if isinstance(s, ast.Assign) else [(None, s)])]
    return bool(pairs) and all(_moves(target, value) for target, value in pairs)


def _pairs(statement: ast.Assign) -> list[tuple[ast.expr | None, ast.AST]]:
    """What an assignment sets, and to what."""
    target, value = statement.targets[-1], statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def _moves(target: ast.expr | None, node: ast.AST) -> bool:
    """Whether code moves what it is assigned to, or a variable in place."""
    node = node.value if isinstance(node, ast.Expr) else node
    match node:
        case ast.Call(func=ast.Name(id="Variable"), args=[inner]):
            node = inner
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as moved, attr="cuda" | "to")):
            return _gives_device(node) and (target is None or ast.unparse(target) == ast.unparse(moved))
    return False


def _gives_device(call: ast.Call) -> bool:
    """Whether a move is to a device, and no type or memory format goes with it."""
    named = all(keyword.arg in ("device", "non_blocking") for keyword in call.keywords)
    return named and not any(_TYPE.search(ast.unparse(argument)) for argument in call.args)


def heading(places: Places, statement: ast.stmt, gone: Container[ast.stmt]) -> int:
    """The first line of what is said of devices above statements that go, or the statement's own first line.

    It is said of them alone if they end a paragraph, or if it only says that something is moved.
    """
    first = places.head(statement)[0]
    above = places.with_comments(first)
    said = [line.strip() for line in places.lines[above - 1 : first - 1]]
    if not said or not all(map(is_about_devices, said)):
        return first
    block, place = places.index.block(statement)
    for below in block[place + 1 :]:
        line = places.last(block[place])
        following = "".join(places.lines[line : line + 1]).strip()
        if not following or following.startswith("#"):
            break
        if below not in gone:
            return above if all(map(only_moves, said)) else first
        place += 1
    return above
