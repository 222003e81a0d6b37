"""What every process makes up for itself: the time, identifiers, folders of its own."""

from __future__ import annotations

import ast

from accelift_codemod.facts.resolve import Resolver

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
_FINE = ("%H", "%M", "%S", "%f", "%s", "%T", "%X", "%c", "%R", "%r")
_DAYS = frozenset({"year", "month", "day"})


def is_time(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call gives something that differs from process to process: the time, unless only the day is left."""
    return (resolver.qualified(call.func) or "") in TIMES and not _of_day(resolver, call)


def _of_day(resolver: Resolver, call: ast.Call) -> bool:
    """Whether nothing is left of the time but the day: `strftime("%Y-%m-%d")`."""
    spelled = call
    parent = resolver.index.parents.get(call)
    of_date = (resolver.qualified(call.func) or "").startswith("datetime.")
    if of_date and isinstance(parent, ast.FormattedValue) and parent.format_spec is not None:
        parts = parent.format_spec.values if isinstance(parent.format_spec, ast.JoinedStr) else []
        return bool(parts) and all(_tells_day(part) for part in parts)
    if isinstance(parent, ast.Attribute) and parent.attr in _DAYS:
        return True
    if isinstance(parent, ast.Attribute) and parent.attr in ("strftime", "date"):
        outer = resolver.index.parents.get(parent)
        if parent.attr == "date":
            return True
        spelled = outer if isinstance(outer, ast.Call) else call
    elif resolver.qualified(call.func) != "time.strftime":
        return False
    return bool(spelled.args) and _tells_day(spelled.args[0])


def _tells_day(form: ast.expr) -> bool:
    """Whether a date that is written out in a format tells nothing finer than the day."""
    written = form.value if isinstance(form, ast.Constant) else None
    return isinstance(written, str) and not any(part in written for part in _FINE)
