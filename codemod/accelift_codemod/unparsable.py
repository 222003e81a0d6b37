"""Why a script does not parse: other versions of Python, or plain errors."""

from __future__ import annotations

import ast
import builtins
import re
import sys

from accelift_codemod.source import BadSource, Python2Source, Source

_ASYNC = re.compile(r"[(,]\s*async\s*=")  # x.cuda(async=True)
_PYTHON_2 = re.compile(
    r"^[ \t]*(?:print[ \t]+[^=\s(.\[]|print[ \t]*>>|except[ \t]+[\w.]+[ \t]*,[ \t]*\w+[ \t]*:|exec[ \t]+['\"\w])",
    re.MULTILINE,
)
# Two exceptions of Python 3.14, or one of Python 2 and the name that it goes by.
_EXCEPT = re.compile(r"^([ \t]*except[ \t]+)([\w.]+(?:[ \t]*,[ \t]*[\w.]+)+)([ \t]*:)", re.MULTILINE)
# What is said, before 3.12, of f-strings with their own quotes, backslashes or comments inside of braces.
_FSTRING = re.compile(r"f-string(:|\s).*(unmatched|expecting '}'|backslash|include '#'|unterminated)")
# How statements begin that newer versions of Python have: `type X = ...`, `def f[T](...)`, `lazy import x`, t-strings.
_NEWER = re.compile(
    r"[ \t]*(?:type[ \t]+\w+[ \t]*[\[=]|(?:async[ \t]+)?(?:def|class)[ \t]+\w+[ \t]*\[|lazy[ \t]+(?:import|from)[ \t])"
    r"|.*(?<![\w'\"])[tT][rR]?['\"]"
)


def why(source: Source, error: SyntaxError) -> BadSource:
    """What to say of a script that Python does not parse; a `Python2Source` if it is Python 2."""
    line = error.lineno or 0
    if _is_newer(source, line) or _FSTRING.match(error.msg or ""):
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        problem = f"does not parse with Python {version}, on which accelift runs"
        return BadSource(source.path, line, problem, "if it is written for a newer one, run accelift with that")
    if _PYTHON_2.search(source.text):
        return Python2Source(source.path, line, "is written in Python 2", "port it first (2to3, python-modernize)")
    if _ASYNC.search(_line(source, line)):
        problem = "`async` is a keyword since Python 3.7"
        return BadSource(source.path, line, problem, "write non_blocking= for it, as torch does")
    reason = (error.msg or "invalid syntax").rstrip(".")
    return BadSource(source.path, line, f"does not parse ({reason})", "correct the syntax")


def _line(source: Source, number: int) -> str:
    return source.lines[number - 1] if 0 < number <= len(source.lines) else ""


def _is_newer(source: Source, line: int) -> bool:
    """Whether what does not parse is syntax of a Python newer than the one on which this runs, or may be."""
    if _NEWER.match(_line(source, line)):
        return not _PYTHON_2.search(source.text)
    try:
        tree = ast.parse(_EXCEPT.sub(r"\1(\2)\3", source.text))
    except (SyntaxError, RecursionError, MemoryError):
        return False
    caught = (name for found in _EXCEPT.findall(source.text) for name in found[1].split(","))
    second = {name.strip().partition(".")[0] for name in caught}
    bound = {n.name for n in ast.walk(tree) if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    imported = (a for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names)
    bound |= {part for alias in imported for part in (alias.asname or alias.name).split(".")}
    # The name that Python 2 gives an exception is defined nowhere else; a second exception is.
    return bool(second) and all(name in bound or hasattr(builtins, name) for name in second)
