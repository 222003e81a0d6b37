"""Findings that say the same of many lines, told once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from accelift_codemod.plan import Finding

_CODES = frozenset({"PRINT-ALL"})
_MANY = 4
_SHOWN = 12  # lines that are named


def told_once(findings: Iterable[Finding]) -> list[Finding]:
    """Findings, with one in the place of many that differ in their lines, or where these are, and in nothing else."""
    found = list(findings)
    groups: dict[tuple[str, str], list[Finding]] = {}
    for one in found:
        if one.code in _CODES and one.message.startswith("print "):
            groups.setdefault((one.code, one.remedy), []).append(one)
    many = [group for group in groups.values() if len(group) >= _MANY]
    gone = {id(one) for group in many for one in group}
    return [one for one in found if id(one) not in gone] + [_joined(group) for group in many]


def _joined(group: list[Finding]) -> Finding:
    first, *others = sorted(group, key=lambda one: one.line)
    lines = list(dict.fromkeys(one.line for one in others))
    more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    where = ", ".join(map(str, lines[:_SHOWN]))
    return replace(first, message=f"{first.message}, and so it is in lines {where}{more}", also=tuple(lines))
