"""What every output has to pass before anybody sees it."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Callable, Iterator

from accelift_codemod import diff
from accelift_codemod.facts.index import How, Index, position
from accelift_codemod.facts.tree import walk
from accelift_codemod.rewrite import Rewritten
from accelift_codemod.rewrite.layout import comments, trailing_comment
from accelift_codemod.rewrite.survival import displaced
from accelift_codemod.source import BadSource, Source

_MODULE_NAMES = frozenset({"__file__", "__name__", "__doc__", "__path__", "__spec__", "__package__", "__class__"})
# What every process has to come to.
_TOGETHER = frozenset(
    "prepare backward gather gather_for_metrics reduce batch_mean wait_for_everyone main_process_first".split()
)
UNSTABLE = "converting the output again would change it"


def failures(
    source: Source,
    before: Index,
    rewritten: Rewritten,
    again: Callable[[Source, Index], bool],
    wanted: frozenset[str] | None = frozenset(),
) -> list[str]:
    """The gates that an output fails, as sentences; empty if it passes all.

    Args:
        source: the original.
        before: its index.
        rewritten: the output.
        again: whether converting the output again would change it.
        wanted: globals that other files take: imports of them are used; None if others may take any of them.
    """
    try:
        result = Source.decode(source.encode(rewritten.text), source.path)
        tree = result.tree
    except (BadSource, UnicodeEncodeError) as error:
        return [f"the output does not parse ({error})"]
    after = Index(tree)
    found = []
    unbound = _unbound(after) - _unbound(before)
    if unbound:
        found.append(f"the output uses names that nothing binds: {', '.join(sorted(unbound))}")
    early = _early(after) - _early(before)
    if early:
        found.append(f"the output uses names before anything binds them: {', '.join(sorted(early))}")
    alone = _alone(after) - _alone(before)
    if alone:
        found.append(f"the output asks one process alone for what all do together: {', '.join(sorted(alone))}")
    unused = unused_imports(after) - unused_imports(before) - (wanted or frozenset())
    if unused and wanted is not None:
        found.append(f"the output leaves imports unused: {', '.join(sorted(unused))}")
    lost = displaced(source.tree, tree, rewritten)
    if lost is not None:
        found.append(f"the output loses line {lost.lineno}, which no edit touches")
    without = Counter(rewritten.without)
    if gone := _comments(source.lines, rewritten, True) - _comments(source.lines, rewritten, False) - without:
        # surely: some of them were strings
        gone = Counter(comments(source.text)) - Counter(comments(rewritten.text)) - without
    if gone:
        found.append(f"the output loses a comment: {next(iter(gone))}")
    if again(result, after):
        found.append(UNSTABLE)
    text = diff.unified(source.path, source.lines, rewritten.changes)
    try:
        if "".join(diff.apply(text, source.lines)) != rewritten.text:
            found.append("the diff does not produce the output")
    except ValueError as error:
        found.append(f"the diff cannot be applied ({error})")
    return found


def _unbound(index: Index) -> set[str]:
    """Names that are read but bound nowhere."""
    return {
        name
        for scope in index.scopes.values()
        for name in scope.loads
        if scope.owner(name) is None and not hasattr(builtins, name) and name not in _MODULE_NAMES
    }


def _early(index: Index) -> set[str]:
    """Globals that code outside functions reads on a line above all that binds them."""
    module = index.module
    return {
        name
        for name, loads in module.loads.items()
        if name in module.bindings and not hasattr(builtins, name)
        if position(min(loads, key=position)) < min(position(b.node) for b in module.bindings[name])
    }


def _alone(index: Index) -> Counter[str]:
    """What the main process alone would do with an accelerator, of what all processes have to do together."""
    found: Counter[str] = Counter()
    for call in index.calls:
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr in _TOGETHER:
            guard = f"{ast.unparse(func.value)}.is_main_process"
            if any(ast.unparse(test) == guard for test in _tests(index, call)):
                found[ast.unparse(func)] += 1
    return found


def _tests(index: Index, node: ast.AST) -> Iterator[ast.expr]:
    """The tests that hold where a node runs."""
    child = node
    for parent in index.ancestors(node):
        if isinstance(parent, ast.If) and child in parent.body:
            yield parent.test
        child = parent


def unused_imports(index: Index) -> set[str]:
    """Names that module-level imports bind and nothing reads."""
    read: set[str] = set()
    for scope in index.scopes.values():
        for name in scope.loads:
            if scope.owner(name) is index.module:
                read.add(name)
    exported = _exported(index.tree)
    return {
        name
        for name, bindings in index.module.bindings.items()
        if all(b.how is How.IMPORT and not _tried(index, b.node) for b in bindings)
        and name not in read
        and name not in exported
        and not any(b.qualified.startswith("__future__") for b in bindings)
    }


def _tried(index: Index, node: ast.AST) -> bool:
    """Whether an import stands in a `try`, which is left as it is."""
    return any(isinstance(n, (ast.Try, ast.ExceptHandler)) for n in index.ancestors(node))


def _exported(tree: ast.Module) -> set[str]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__all__" for t in statement.targets
        ):
            return {str(n.value) for n in walk(statement.value) if isinstance(n, ast.Constant)}
    return set()


def _comments(lines: list[str], rewritten: Rewritten, old: bool) -> Counter[str]:
    """The comments on the lines that the edits touch, before or after."""
    found: Counter[str] = Counter()
    for change in rewritten.changes:
        for line in lines[change.start : change.end] if old else change.lines:
            if "#" in line and (comment := trailing_comment(line)):
                found[comment] += 1
    return found
