"""What every process makes up for itself: the time, identifiers, folders of its own."""

from __future__ import annotations

import ast

from accelift_codemod.facts import Facts

TIMES = frozenset(
    """
    time.time time.time_ns time.ctime time.asctime time.strftime time.perf_counter time.monotonic
    datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today
    uuid.uuid1 uuid.uuid4 os.getpid secrets.token_hex secrets.token_urlsafe shortuuid.uuid
    wandb.util.generate_id
    """.split()
)
OF_ITS_OWN = frozenset("tempfile.mkdtemp tempfile.mkstemp tempfile.mktemp tempfile.TemporaryDirectory".split())
# What a date that is written out tells of the time.
_DAYS = frozenset("date year month day weekday isoweekday isocalendar toordinal".split())
_FINE = ("%H", "%M", "%S", "%f", "%s", "%T", "%X", "%c", "%R", "%r")


def is_time(facts: Facts, call: ast.Call) -> bool:
    """Whether a call gives something that differs from process to process: the time, unless only the day is left."""
    return (facts.resolver.qualified(call.func) or "") in TIMES and not _of_day(facts, call)


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
