"""What a test asks for: how a number comes out, say, but not whether there is one, nor how many there are."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, torch_ops
from accelift_codemod.facts.tree import children, walk

_ABOUT = torch_ops.ABOUT | {"requires_grad", "size", "nelement", "is_cuda", "keys"}
_TELL_NOTHING = frozenset("len isinstance issubclass hasattr callable type id".split())
_TEXTS = frozenset({"str", "repr", "format"})
_OF_PATHS = ("os.path.", "pathlib.")


def deciding(draft: Draft, test: ast.expr) -> Iterator[ast.AST]:
    """The parts of a test, and of what its variables are set to, by which it comes out one way or the other.

    A name that is drawn for a run (`f"runs/{uuid.uuid4()}"`) is there on every process, and of settings only the one
    counts that is asked for: the `eval` of `args.eval`.
    """
    queue: list[tuple[ast.AST, bool]] = [(test, True)]
    for node, follows in queue:
        if _tells_nothing(draft, node) or (not follows and _is_text(draft, node)):
            continue
        yield node
        if isinstance(node, ast.Name):
            queue += ((value, False) for value in _bound(draft, node) if follows)
        elif (setting := _setting(node)) is not None and (entries := _entries(draft, *setting, follows)) is not None:
            queue += ((entry, False) for entry in entries)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            queue += ((part, follows) for part in (node.func.value, *node.args, *node.keywords))
        else:
            queue += ((part, follows) for part in children(node))


def numbers(draft: Draft, iterated: ast.expr) -> Iterator[ast.expr]:
    """What says how often a loop runs: the arguments of `range`, and where a slice ends."""
    for node in walk(iterated):
        if isinstance(node, ast.Call) and draft.facts.resolver.builtin(node.func) == "range":
            yield from node.args
        elif isinstance(node, ast.Slice):
            yield from (end for end in (node.lower, node.upper) if end is not None)


def _tells_nothing(draft: Draft, node: ast.AST) -> bool:
    """Whether an expression says only that there is something, of what kind or size it is."""
    if isinstance(node, ast.Compare):
        nothing = any(isinstance(side, ast.Constant) and side.value is None for side in (node.left, *node.comparators))
        return nothing and isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq))
    if isinstance(node, ast.Call):
        of = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        return of in _ABOUT or draft.facts.resolver.builtin(node.func) in _TELL_NOTHING
    return isinstance(node, ast.Attribute) and node.attr in _ABOUT


def _is_text(draft: Draft, node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        resolver = draft.facts.resolver
        return resolver.builtin(node.func) in _TEXTS or (resolver.qualified(node.func) or "").startswith(_OF_PATHS)
    return isinstance(node, ast.JoinedStr)


def _bound(draft: Draft, name: ast.Name) -> list[ast.expr]:
    bindings = draft.facts.resolver.bindings(name)
    return [b.value for b in bindings if b.how is How.ASSIGN and not b.path and b.value is not None]


def _setting(node: ast.AST) -> tuple[ast.Name, str] | None:
    """A variable and the name of what is asked of it: of `args.eval`, of `config["eval"]`."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value, node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Constant):
        return (node.value, node.slice.value) if isinstance(node.slice.value, str) else None
    return None


def _entries(draft: Draft, name: ast.Name, key: str, follows: bool) -> list[ast.expr] | None:
    """What settings have by a name, as far as it is written out; None if the variable holds something else."""
    found: list[ast.expr] = []
    for value in _bound(draft, name) if follows else ():
        if isinstance(value, ast.Call):
            found += (k.value for k in value.keywords if k.arg == key)
        elif isinstance(value, ast.Dict):
            pairs = zip(value.keys, value.values, strict=True)
            found += (entry for k, entry in pairs if isinstance(k, ast.Constant) and k.value == key)
        else:
            return None
    return found
