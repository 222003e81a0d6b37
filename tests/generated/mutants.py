"""The same script, written differently; and scripts that may be nonsense."""

from __future__ import annotations

import ast
import io
import token
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


# ---- mutants of which the conversion is the mutant of the conversion


def with_comments(text: str) -> str:
    """Comments and empty lines before the statements at module level, but not among the imports."""
    lines = text.splitlines(keepends=True)
    starts = {_start(s) for s in ast.parse(text).body[1:] if not isinstance(s, (ast.Import, ast.ImportFrom))}
    return "".join(f"\n# line {i}\n{line}" if i in starts else line for i, line in enumerate(lines, 1))


def renamed(text: str, names: dict[str, str]) -> str:
    """The script with other names."""
    lines = text.splitlines(keepends=True)
    for found in reversed(list(tokenize.generate_tokens(io.StringIO(text).readline))):
        if found.type == token.NAME and found.string in names:
            (row, start), (_, end) = found.start, found.end
            lines[row - 1] = lines[row - 1][:start] + names[found.string] + lines[row - 1][end:]
    return "".join(lines)


def own_names(text: str) -> dict[str, str]:
    """Other names for the variables of a script that are nothing else: no attribute, argument, part of an f-string."""
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    bound = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    other = {n.attr for n in nodes if isinstance(n, ast.Attribute)} | {
        n.arg for n in nodes if isinstance(n, ast.keyword)
    }
    other |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    other |= {n.id for f in nodes if isinstance(f, ast.JoinedStr) for n in ast.walk(f) if isinstance(n, ast.Name)}
    other |= {a.asname or a.name for i in nodes if isinstance(i, (ast.Import, ast.ImportFrom)) for a in i.names}
    other |= {part for i in nodes if isinstance(i, ast.ImportFrom) for part in (i.module or "").split(".")}
    return {name: f"{name}_{len(name)}" for name in sorted(bound - {o for o in other if o})}


def reordered(text: str) -> str:
    """The script with its functions in the reverse order, in the places of functions."""
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    places = [(_start(s) - 1, s.end_lineno or 0) for s in tree.body if isinstance(s, ast.FunctionDef)]
    chunks = ["".join(lines[a:b]) for a, b in places]
    found, at = [], 0
    for (a, b), chunk in zip(places, reversed(chunks), strict=True):
        found += [*lines[at:a], chunk]
        at = b
    return "".join([*found, *lines[at:]])


def meaning(text: str) -> str:
    """The script without its layout and the names of the lines."""
    return ast.dump(ast.parse(text))


def parts(text: str) -> Counter[str]:
    """The statements at module level, in no order."""
    return Counter(ast.dump(s) for s in ast.parse(text).body)


def _start(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])


# ---- mutants that compute the same, and are converted in their own way


WRAPPERS = {
    "function": "def run_everything():\n    pass\n\n\nrun_everything()",
    "method": "class Everything:\n    def run(self):\n        pass\n\n\nEverything().run()",
    "static": "class Everything:\n    @staticmethod\n    def run():\n        pass\n\n\nEverything.run()",
}


def wrapped(text: str, into: str = "function") -> str | None:
    """The script with what it does put into a function, or a method; None if functions read its globals."""
    tree = ast.parse(text)
    body = [s for s in tree.body if not isinstance(s, (*_DEFINITIONS, ast.Import, ast.ImportFrom))]
    made = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for definition in (s for s in tree.body if isinstance(s, _DEFINITIONS)):
        inner = {n.id for n in ast.walk(definition) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        inner |= {n.arg for n in ast.walk(definition) if isinstance(n, ast.arg)}
        read = {n.id for n in ast.walk(definition) if isinstance(n, ast.Name)}
        if (read - inner) & made or any(isinstance(n, ast.Global) for n in ast.walk(definition)):
            return None
    if not body or any(isinstance(n, ast.Nonlocal) for s in body for n in ast.walk(s)):
        return None
    rest = [s for s in tree.body if s not in body]
    run = ast.parse(WRAPPERS[into]).body
    next(n for part in run for n in ast.walk(part) if isinstance(n, ast.FunctionDef)).body = body
    return ast.unparse(ast.Module([*rest, *run], []))


class _Hoist(ast.NodeTransformer):
    """Gives names to the arguments of calls in assignments."""

    def __init__(self) -> None:
        self.count = 0

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        call = node.value
        if not (isinstance(call, ast.Call) and call.args and isinstance(call.func, (ast.Name, ast.Attribute))):
            return node
        first = call.args[0]
        if not isinstance(first, ast.Call) or any(isinstance(n, ast.NamedExpr) for n in ast.walk(node)):
            return node
        self.count += 1
        name = f"hoisted_{self.count}"
        call.args[0] = ast.Name(name, ast.Load())
        return [ast.Assign([ast.Name(name, ast.Store())], first), node]


def hoisted(text: str) -> str:
    """The script with calls that are the first argument of an assigned call given a name first."""
    tree = _Hoist().visit(ast.parse(text))
    return ast.unparse(ast.fix_missing_locations(tree))


# ---- scripts that may be nonsense


def nonsense(text: str, seed: int) -> str:
    """The script with a few of its nodes changed, at random, to what Python still parses."""
    random = Random(seed)
    tree = ast.parse(text)
    for _ in range(random.randint(1, 4)):
        random.choice(_CHANGES)(tree, random)
    try:
        changed = ast.unparse(ast.fix_missing_locations(tree))
        ast.parse(changed)
    except (SyntaxError, ValueError, RecursionError):
        return text
    return changed


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def _block(tree: ast.AST, random: Random) -> list[ast.stmt]:
    return random.choice(list(_blocks(tree)))


def _delete(tree: ast.AST, random: Random) -> None:
    block = _block(tree, random)
    block[random.randrange(len(block))] = ast.Pass()


def _swap(tree: ast.AST, random: Random) -> None:
    block = _block(tree, random)
    a, b = random.randrange(len(block)), random.randrange(len(block))
    block[a], block[b] = block[b], block[a]


def _copy(tree: ast.AST, random: Random) -> None:
    statement = random.choice(_block(tree, random))
    block = _block(tree, random)
    if not any(block is inner for inner in _blocks(statement)):
        block.insert(
            random.randrange(len(block) + 1), ast.parse(ast.unparse(ast.fix_missing_locations(statement))).body[0]
        )


def _enclose(tree: ast.AST, random: Random) -> None:
    block = _block(tree, random)
    at = random.randrange(len(block))
    header = random.choice(
        (
            "if x:",
            "while x:",
            "for x in x:",
            "with x as x:",
            "try:",
            "def x(x=x):",
            "class x(x):",
            "async def x():",
            "@x\ndef x():",
        )
    )
    tail = "\nfinally:\n    pass" if header == "try:" else ""
    shell = ast.parse(f"{header}\n    pass{tail}").body[0]
    shell.body = [block[at]]  # type: ignore[attr-defined]
    block[at] = shell


def _names(tree: ast.AST, random: Random) -> None:
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    if names:
        random.choice(names).id = random.choice(names).id


def _expressions(tree: ast.AST, random: Random) -> None:
    places = [
        (node, name)
        for node in ast.walk(tree)
        for name, value in ast.iter_fields(node)
        if isinstance(value, ast.expr) and isinstance(getattr(value, "ctx", ast.Load()), ast.Load)
    ]
    source = getattr(*random.choice(places))
    code = random.choice(
        ("{}", "lambda: {}", "[x for x in {}]", "(yield {})", "f'{{{}}}'", "({} if x else x)", "*{},", "(x := {})")
    )
    try:
        new = ast.parse(code.format(ast.unparse(ast.fix_missing_locations(source))), mode="eval").body
    except (SyntaxError, ValueError):
        return
    node, name = random.choice(places)
    setattr(node, name, new)


def _attributes(tree: ast.AST, random: Random) -> None:
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
    if found:
        random.choice(found).attr = random.choice(found).attr


def _arguments(tree: ast.AST, random: Random) -> None:
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    if not calls:
        return
    call = random.choice(calls)
    other = random.choice(calls)
    call.args, call.keywords = (list(other.args), list(other.keywords)) if other is not call else ([], [])
    if any(call is n for a in (*call.args, *(k.value for k in call.keywords)) for n in ast.walk(a)):
        call.args, call.keywords = [], []


_CHANGES: tuple[Callable[[ast.AST, Random], None], ...] = (
    _delete,
    _swap,
    _copy,
    _enclose,
    _names,
    _names,
    _expressions,
    _expressions,
    _attributes,
    _arguments,
)
