"""What an iteration of a training loop prints, logs, shows or writes of what it has measured."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Set

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, How, Role, files, library, paths
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.kinds import Kind
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.showing import is_logging, is_on_a_bar, may_log, prints
from accelift_codemod.facts.tree import root, walk
from accelift_codemod.measured import called
from accelift_codemod.measured.added import sums_something
from accelift_codemod.measured.averaging import averaging
from accelift_codemod.measured.decisions import is_content
from accelift_codemod.measured.numbers import contents
from accelift_codemod.measured.shares import named_after_samples
from accelift_codemod.measured.sums import Loop, Sets, adds_up

_LOGS = frozenset({"wandb.log", "mlflow.log_metric", "mlflow.log_metrics"}) | library.HARMLESS_EVERYWHERE
_INTO_FILES = frozenset({"write", "writelines", "writerow", "writerows"})
_TO_PATHS = frozenset({"write_text", "write_bytes"})  # of pathlib
_ROWS_TO_FILES = frozenset({"csv.writer", "csv.DictWriter"})
_CHECKPOINTS = frozenset({"torch.save", "torch.serialization.save"})
_LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Raise)
_KNOWN = frozenset({"torch", "torchvision", "numpy", "accelift", "accelerate"}) | sys.stdlib_module_names
_LISTS = frozenset({"append", "appendleft", "extend", "insert"})
_ENDS = frozenset({"clear", "reset", "close", "flush"})
_STEPS = 4  # of functions that hand a file on


def said_inside(
    draft: Draft, loop: BatchLoop, node: Loop, names: set[str], whole: Set[ast.AST | None]
) -> dict[str, tuple[ast.AST, str]]:
    """What of some variables an iteration tells, but for how many samples it has seen, and for what is made that of all
    where it stands (`whole`): where, and whether it `prints`, `writes` or `records` it."""
    found: dict[str, tuple[ast.AST, str]] = {}
    step = draft.blueprint.handmade.get(loop)
    for function, inside in called.shares(draft, node, names).items():
        for call in (c for c in walk(function) if isinstance(c, ast.Call)):
            way = how(draft, call)
            for part in (*_told(draft, call, way), *_chosen_by(draft, call, function, inside)) if way else ():
                if isinstance(part, ast.Name) and is_content(draft, part, inside):
                    found.setdefault(draft.facts.short(part), (part, way))
    for call in (c for s in node.body for c in walk(s) if isinstance(c, ast.Call)):
        way = how(draft, call)
        for part in _told(draft, call, way) if way else ():
            if not whole.isdisjoint((part, *draft.facts.index.ancestors(part))):
                continue
            if isinstance(part, ast.Name) and is_content(draft, part, names):
                made = _made_by(draft, part, call)
                found.setdefault(draft.facts.short(made), (made, way))
            elif step is not None and part in step.sites:  # what a function returns that trains on a share
                found.setdefault(draft.facts.short(part), (part, way))
        for part in _chosen_by(draft, call, node, names) if way else ():
            found.setdefault(draft.facts.short(part), (part, way))
    return found


def _chosen_by(draft: Draft, call: ast.Call, inside: ast.AST, names: set[str]) -> Iterator[ast.Name]:
    """The variables of a share by which it is decided whether a call tells something: `if loss > 1: print(i)`.

    Not if all that is told is why the loop is left, of which more is said.
    """
    for parent in draft.facts.index.ancestors(call):
        if parent is inside:
            return
        if isinstance(parent, ast.If) and not any(isinstance(n, _LEAVES) for s in parent.body for n in walk(s)):
            compared = (n for n in walk(parent.test) if isinstance(n, ast.Compare))
            sides = (side for n in compared for side in (n.left, *n.comparators))
            yield from (n for side in sides for n in contents(draft, side) if is_content(draft, n, names))


def _told(draft: Draft, call: ast.Call, way: str) -> Iterator[ast.AST]:
    """The parts of what a call tells; of one that writes, neither the name of its file nor which rows are taken."""
    given = [*call.args, *(k.value for k in call.keywords)]
    into = isinstance(call.func, ast.Attribute) and call.func.attr in _INTO_FILES
    left = set() if way == "prints" or into else set(paths.texts(draft.facts.resolver, call))
    for part in (n for a in given if a not in left for n in walk(a)):
        parent = draft.facts.index.parents.get(part)
        if way == "prints" or not (isinstance(parent, ast.Subscript) and parent.slice is part):
            yield part


def how(draft: Draft, call: ast.Call) -> str:
    """How a call tells what it is given: it `prints` it, `writes` it to a file, or hands it to what `records` it."""
    if prints(draft.facts.resolver, call.func) is not None or _logs(draft, call):
        return "prints"
    return "writes" if _writes(draft, call) else "records" if _records(draft, call) else ""


def is_only_set(draft: Draft, call: ast.Call, read: ast.AST) -> bool:
    """Whether a call is a method of an object that is read there, and tells nothing of it: `meter.reset()`; or puts
    more into a list that is in it: `history["loss"].append(value)`."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in _LISTS and root(call.func.value) is read:
        return draft.facts.resolver.callee(call) is None
    if not isinstance(call.func, ast.Attribute) or call.func.value is not read:
        return False
    if not call.args and not call.keywords and call.func.attr in _ENDS:
        return True
    method = draft.facts.resolver.callee(call)
    if not isinstance(method, FUNCTIONS):
        return False
    functions = (method, *(f for s in method.body for f in draft.blueprint.timeline.calls_into(s)))
    return not any(isinstance(n, ast.Call) and how(draft, n) for f in functions for n in walk(f))


def _records(draft: Draft, call: ast.Call) -> bool:
    """Whether a statement hands numbers, and no tensors, to what is not known: `recorders["loss"](loss.item())`."""
    resolver = draft.facts.resolver
    if not isinstance(draft.facts.index.parents.get(call), ast.Expr) or resolver.callee(call) is not None:
        return False
    module, _, _ = (resolver.qualified(call.func) or "").partition(".")
    if module in _KNOWN or resolver.builtin(call.func) is not None:
        return False
    if any(isinstance(v.declaration, ast.ClassDef) for v in resolver.values(call.func)):
        return False  # a network, or an object that keeps what it is given (see filling.py)
    if not isinstance(call.func, (ast.Name, ast.Subscript)):
        return False  # a method of an object, which may keep it, too
    given = [*call.args, *(k.value for k in call.keywords)]
    return any(isinstance(a, (ast.Call, ast.BinOp)) and draft.facts.kinds.of(a) is Kind.PLAIN for a in given)


def _logs(draft: Draft, call: ast.Call) -> bool:
    """Whether a call hands numbers to an experiment tracker, a progress bar, a logger or the screen."""
    resolver = draft.facts.resolver
    if resolver.qualified(call.func) in _LOGS or is_on_a_bar(resolver, call):
        return True
    if is_logging(resolver, call) or may_log(resolver, call):
        return True
    return isinstance(call.func, ast.Attribute) and Role.WRITER in resolver.roles(call.func.value)


def _writes(draft: Draft, call: ast.Call) -> bool:
    """Whether a call writes numbers to a file: by itself, or to one that is open."""
    qualified = draft.facts.resolver.qualified(call.func)
    if qualified is not None:
        writes = qualified in library.SIDE_EFFECTS | _CHECKPOINTS and not qualified.startswith(("os.", "shutil."))
        return writes and not named_after_samples(draft, call)
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _INTO_FILES | _TO_PATHS:
        return False
    if call.func.attr in _TO_PATHS:
        return not named_after_samples(draft, call)
    return _is_file(draft, call.func.value)


def _is_file(draft: Draft, node: ast.expr | None, steps: int = _STEPS) -> bool:
    """Whether an expression is a file that is open for writing, or writes rows to one, and none that a process has for
    its own samples."""
    if isinstance(node, ast.Call):
        if draft.facts.resolver.qualified(node.func) in _ROWS_TO_FILES:
            return not named_after_samples(draft, node)
        return files.writes(files.mode(draft.facts.resolver, node)) and not named_after_samples(draft, node)
    return bool(steps) and any(_is_file(draft, value, steps - 1) for value in _held(draft, node))


def _held(draft: Draft, node: ast.expr | None) -> Iterator[ast.expr | None]:
    """What a variable or an attribute may hold, or an entry of the list or dict that it holds."""
    if isinstance(node, ast.Subscript):
        for whole in _held(draft, node.value):
            yield from _entries(whole)
        bindings = draft.facts.resolver.bindings(node.value) if isinstance(node.value, ast.Name) else []
        for binding in bindings:
            yield from (f.value for f in draft.facts.resolver.fills(binding.scope, binding.name).entries if not f.path)
    elif isinstance(node, ast.Attribute):
        classes = [v.declaration for v in draft.facts.resolver.values(node.value)]
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            classes.append(draft.facts.index.enclosing_class(node))
        for binding in draft.facts.index.attribute_bindings.get(node.attr, []):
            if draft.facts.index.enclosing_class(binding.node) in classes and not binding.path:
                yield binding.value
    elif isinstance(node, ast.Name):
        for binding in draft.facts.resolver.bindings(node):
            if binding.how is How.LOOP and binding.path in ((), (1,)):  # `for name, file in files.items()`
                call = binding.value
                asked = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and not call.args
                source = call.func.value if asked else call  # type: ignore[union-attr]
                for whole in (source, *_held(draft, source)):
                    yield from _entries(whole)
            elif binding.how in (How.ASSIGN, How.WITH) and not binding.path:
                yield binding.value
            elif binding.how is How.PARAMETER:
                yield from draft.facts.resolver.handed(binding)


def _entries(node: ast.expr | None) -> Iterator[ast.expr]:
    """What stands in a list or dict where it is made."""
    if isinstance(node, (ast.List, ast.Tuple)):
        yield from node.elts
    elif isinstance(node, ast.Dict):
        yield from node.values
    elif isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        yield node.elt
    elif isinstance(node, ast.DictComp):
        yield node.value


def _made_by(draft: Draft, part: ast.Name, shown: ast.Call) -> ast.expr:
    """What is told: a variable, or what a function of the script makes of it."""
    for parent in draft.facts.index.ancestors(part):
        if parent is shown:
            break
        if isinstance(parent, ast.Call) and isinstance(draft.facts.resolver.callee(parent), FUNCTIONS):
            return parent
    return part


def remedy(draft: Draft, loop: BatchLoop, statement: Sets) -> str:
    """What to do about what one process adds up of its share: sums and numbers of samples are those of all together."""
    value, env = statement.value, draft.environment(loop, statement)
    parts = [value, value.left] if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div) else [value]
    counts = env is not None and any(draft.facts.layouts.read(part, env) is Layout.COUNT for part in parts)
    adds = isinstance(statement, ast.AugAssign) and (adds_up(draft, loop, statement) or sums_something(draft, value))
    if adds or counts:
        return 'add it up across processes with accelerator.reduce(..., "sum") before it is used'
    return f"average it across processes with {averaging(draft, statement, value)} before it is used"
