"""What every process makes up for itself: the time, identifiers, folders of its own."""

from __future__ import annotations

import ast

from accelift_codemod.facts import Facts, files
from accelift_codemod.facts.index import How

TIMES = frozenset(
    """
    time.time time.time_ns time.ctime time.asctime time.strftime time.perf_counter time.monotonic
    datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today
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
_SAME_PLACE = frozenset("os.fspath os.path.abspath os.path.join os.path.realpath pathlib.Path".split())
_STEPS = 8  # variables that a path is handed through
_FINE = ("%H", "%M", "%S", "%f", "%s", "%T", "%X", "%c", "%R", "%r")


def is_time(facts: Facts, call: ast.Call) -> bool:
    """Whether a call gives something that differs from process to process: the time, unless only the day is left."""
    return (facts.resolver.qualified(call.func) or "") in TIMES and not _of_day(facts, call)


def is_apart(facts: Facts, call: ast.Call) -> bool:
    """Whether a call writes or removes what is surely in a temporary folder of its process, or is its temporary file:
    no other process has anything to do with it."""
    qualified = facts.resolver.qualified(call.func) or ""
    place = 0 if files.writes(files.mode(facts.resolver, call)) else _OF_ONE_PATH.get(qualified)
    path = next(iter(call.args[place:]), None) if place is not None else None
    if isinstance(call.func, ast.Attribute) and not qualified:
        path = call.func.value if call.func.attr in _OF_PATHS else path
    return path is not None and _is_temporary(facts, path)


def _is_temporary(facts: Facts, path: ast.expr, steps: int = _STEPS) -> bool:
    """Whether a path, or that of an open file, surely begins with one that `tempfile` makes up."""
    begins: ast.expr | None = None
    if isinstance(path, ast.Name) and steps:
        bindings = facts.resolver.bindings(path)
        given = [b.value for b in bindings if b.how in (How.ASSIGN, How.WITH) and b.value is not None]
        return bool(given) and len(given) == len(bindings) and all(_is_temporary(facts, v, steps - 1) for v in given)
    if isinstance(path, ast.Call):
        qualified = facts.resolver.qualified(path.func) or ""
        if qualified in OF_ITS_OWN:
            return True
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
    return begins is not None and _is_temporary(facts, begins, steps)


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
        owner = facts.index.scope(target).owner(target.id)
        found = facts.loads(owner, target.id) if owner is not None else []
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
