"""What every process makes up for itself: the time, identifiers, folders of its own."""

from __future__ import annotations

import ast
from collections.abc import Collection

from accelift_codemod.facts import Facts, files, library
from accelift_codemod.facts.index import How
from accelift_codemod.facts.memo import kept

# What tells the time by a number; that, or by a date; and all that is another value on every process.
SECONDS = frozenset("time.time time.perf_counter time.monotonic time.process_time time.time_ns".split())
CLOCKS = SECONDS | {"datetime.datetime.now", "datetime.datetime.utcnow"}
TIMES = CLOCKS | frozenset(
    """
    time.ctime time.asctime time.strftime datetime.datetime.today
    uuid.uuid1 uuid.uuid4 os.getpid secrets.token_hex secrets.token_urlsafe shortuuid.uuid
    wandb.util.generate_id
    """.split()
)
OF_ITS_OWN = frozenset(
    "tempfile.mkdtemp tempfile.mkstemp tempfile.mktemp tempfile.NamedTemporaryFile tempfile.TemporaryDirectory".split()
)
# What a date that is written out tells of the time.
_DAYS = frozenset("date year month day weekday isoweekday isocalendar toordinal".split())
# What makes, writes, empties or removes the one file or folder that it is told, or is a method of; the place of that.
_OF_ONE_PATH = dict.fromkeys("os.makedirs os.mkdir os.remove os.removedirs os.rmdir os.unlink shutil.rmtree".split(), 0)
_OF_ONE_PATH |= dict.fromkeys("numpy.save numpy.savetxt numpy.savez numpy.savez_compressed".split(), 0)
_OF_ONE_PATH |= dict.fromkeys("json.dump pickle.dump yaml.dump yaml.safe_dump".split(), 1)
_OF_PATHS = frozenset("mkdir rmdir touch unlink write_bytes write_text".split())
_REMOVES = frozenset("remove removedirs rmdir rmtree unlink".split())
_LOOKS = library.READS | library.ASKS_OF | library.LISTS | {"os.close", "os.fdopen", "torch.load"}
_MADE = frozenset({"tempfile.mkdtemp", "tempfile.mkstemp"})
_FLEETING = frozenset({"tempfile.NamedTemporaryFile", "tempfile.TemporaryDirectory"})  # unless they are told to stay
_SAME_PLACE = frozenset("os.fspath os.path.abspath os.path.join os.path.realpath pathlib.Path".split())
_STEPS = 8  # variables that a path is handed through
_FINE = ("%H", "%M", "%S", "%f", "%s", "%T", "%X", "%c", "%R", "%r")


def is_time(facts: Facts, call: ast.Call) -> bool:
    """Whether a call gives something that differs from process to process: the time, unless only the day is left."""
    return (facts.resolver.qualified(call.func) or "") in TIMES and not _of_day(facts, call)


def is_apart(facts: Facts, call: ast.Call) -> bool:
    """Whether a call writes or removes what is surely in a temporary folder of its process, or is its temporary file:
    no other process has anything to do with it."""
    path = _path(facts, call)
    made = _temporary(facts, path) if path is not None else ()
    if path is not None and made and _removes(facts, call) and _is_itself(facts, path):
        return True  # wherever it lies, each process has one
    return bool(made) and not any(_is_shared(facts, one) for one in made)


def _removes(facts: Facts, call: ast.Call) -> bool:
    name = facts.resolver.qualified(call.func) or (call.func.attr if isinstance(call.func, ast.Attribute) else "")
    return name.rpartition(".")[2] in _REMOVES


def _is_itself(facts: Facts, path: ast.expr) -> bool:
    """Whether a path is that of what `tempfile` has surely made, and not of something in it."""
    bindings = facts.resolver.bindings(path) if isinstance(path, ast.Name) else []
    made = [b.value for b in bindings if isinstance(b.value, ast.Call)]
    return bool(made) and len(made) == len(bindings) and all(facts.resolver.qualified(m.func) in _MADE for m in made)


def _path(facts: Facts, call: ast.Call) -> ast.expr | None:
    """The one file or folder that a call makes, writes, empties or removes."""
    qualified = facts.resolver.qualified(call.func) or ""
    place = 0 if files.writes(files.mode(facts.resolver, call)) else _OF_ONE_PATH.get(qualified)
    path = next(iter(call.args[place:]), None) if place is not None else None
    if isinstance(call.func, ast.Attribute) and not qualified:
        path = call.func.value if call.func.attr in _OF_PATHS else path
    return path


@kept
def _is_shared(facts: Facts, made: ast.Call) -> bool:
    """Whether a temporary folder or file stays where the script wants it, or is handed to what may put something there,
    or take it from there, on the main process alone: only what all processes do there can all of them undo."""
    fleeting = (
        facts.resolver.qualified(made.func) in _FLEETING and facts.resolver.argument(made, None, "delete") is None
    )
    if not fleeting and facts.resolver.argument(made, 2, "dir") is not None:
        return True
    return any(
        made in _temporary(facts, part) and not _is_by_all(facts, call, part)
        for call in facts.index.calls
        for given in (*call.args, *(k.value for k in call.keywords))
        for part in (given.elts if isinstance(given, (ast.List, ast.Tuple)) else (given,))
    )


def _is_by_all(facts: Facts, call: ast.Call, path: ast.expr) -> bool:
    """Whether all processes do what a call does with a path that is only theirs: they write to it, look at it, or make
    another path of it."""
    resolver = facts.resolver
    if _path(facts, call) is path or files.mode(resolver, call) is not None or resolver.builtin(call.func):
        return True
    return resolver.qualified(call.func) in _LOOKS | _SAME_PLACE | OF_ITS_OWN


def _temporary(facts: Facts, path: ast.expr, steps: int = _STEPS) -> Collection[ast.Call]:
    """The calls of `tempfile` of which one surely makes up what a path begins with, or that of an open file."""
    begins: ast.expr | None = None
    if isinstance(path, ast.Name) and steps:
        bindings = facts.resolver.bindings(path)
        given = [b.value for b in bindings if b.how in (How.ASSIGN, How.WITH) and b.value is not None]
        made = [_temporary(facts, value, steps - 1) for value in given]
        return [one for of in made for one in of] if len(made) == len(bindings) and all(made) else ()
    if isinstance(path, ast.Call):
        qualified = facts.resolver.qualified(path.func) or ""
        if qualified in OF_ITS_OWN:
            return (path,)
        opened = files.mode(facts.resolver, path) is not None
        if opened or qualified in _SAME_PLACE or facts.resolver.builtin(path.func) == "str":
            begins = next(iter(path.args), None)
    elif isinstance(path, ast.Attribute) and path.attr == "name":  # of an open file, or of a TemporaryDirectory
        begins = path.value
    elif isinstance(path, ast.BinOp) and isinstance(path.op, (ast.Add, ast.Div)):
        begins = path.left
    elif isinstance(path, ast.JoinedStr):
        begins = next(iter(path.values), None)
    elif isinstance(path, ast.FormattedValue):
        begins = path.value
    return _temporary(facts, begins, steps) if begins is not None else ()


def _of_day(facts: Facts, call: ast.Call) -> bool:
    """Whether nothing is left of the time but the day, wherever it is read: `strftime("%Y-%m-%d")`, `{now:%Y}`."""
    qualified = facts.resolver.qualified(call.func) or ""
    if qualified == "time.strftime":
        return _tells_the_day(facts, facts.resolver.argument(call, 0, "format"))
    if not qualified.startswith("datetime."):
        return False
    parents = facts.index.parents
    held = parents.get(call)
    reads: list[ast.expr] = [call]
    if isinstance(held, ast.Assign) and len(held.targets) == 1 and isinstance(target := held.targets[0], ast.Name):
        found = facts.loads_of(target)
        reads = [n for n in found if not isinstance(b := parents.get(n), ast.BinOp) or not isinstance(b.op, ast.Sub)]
    return bool(reads) and all(_reads_the_day(facts, read) for read in reads)


def _reads_the_day(facts: Facts, read: ast.expr) -> bool:
    parents = facts.index.parents
    parent = parents.get(read)
    if isinstance(parent, ast.FormattedValue):
        form = parent.format_spec
        return isinstance(form, ast.JoinedStr) and all(_tells_the_day(facts, part) for part in form.values)
    if isinstance(parent, ast.Attribute):
        if parent.attr in _DAYS:
            return True
        outer = parents.get(parent)
        if parent.attr == "strftime" and isinstance(outer, ast.Call) and outer.func is parent:
            return _tells_the_day(facts, facts.resolver.argument(outer, 0, "format"))
        spelled: ast.AST | None = outer if parent.attr == "isoformat" else None
    else:
        made = isinstance(parent, ast.Call) and facts.resolver.builtin(parent.func) == "str"
        spelled = parent if made else None
    cut = parents.get(spelled) if spelled is not None else None  # `str(now)[:10]`
    last = cut.slice.upper if isinstance(cut, ast.Subscript) and isinstance(cut.slice, ast.Slice) else None
    return isinstance(last, ast.Constant) and isinstance(last.value, int) and 0 < last.value <= len("2026-11-27")


def _tells_the_day(facts: Facts, form: ast.expr | None) -> bool:
    form = (facts.resolver.set_once(form) or form) if form is not None else None
    return isinstance(form, ast.Constant) and isinstance(form.value, str) and not any(p in form.value for p in _FINE)
