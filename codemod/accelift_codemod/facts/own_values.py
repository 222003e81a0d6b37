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


def is_time(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call gives something that differs from process to process: the time, unless only the day is left."""
    return (resolver.qualified(call.func) or "") in TIMES and not _of_day(resolver, call)


def _of_day(resolver: Resolver, call: ast.Call) -> bool:
    """Whether nothing is left of the time but the day: `strftime("%Y-%m-%d")`."""
    spelled = call
    parent = resolver.index.parents.get(call)
    if isinstance(parent, ast.Attribute) and parent.attr in ("strftime", "date"):
        outer = resolver.index.parents.get(parent)
        if parent.attr == "date":
            return True
        spelled = outer if isinstance(outer, ast.Call) else call
    elif resolver.qualified(call.func) != "time.strftime":
        return False
    form = spelled.args[0] if spelled.args else None
    return (
        isinstance(form, ast.Constant) and isinstance(form.value, str) and not any(part in form.value for part in _FINE)
    )
