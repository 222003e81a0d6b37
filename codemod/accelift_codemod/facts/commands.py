"""Commands of the system that a script runs, and whether they may do something besides telling."""

from __future__ import annotations

import ast

from accelift_codemod.facts import library
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import is_constant

_MOST_STEPS = 32
# Functions that are run for what a command prints.
_TELLING = frozenset({"subprocess.check_output", "subprocess.getoutput", "subprocess.getstatusoutput", "os.popen"})
_STARTS = ("asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell", "os.posix_spawn", "os.posix_spawnp")
# Programs that only tell something, and those that surely do something, whatever is read of what they print.
_TELLERS = frozenset(
    "git hg nvidia-smi rocm-smi hostname uname whoami which where lscpu lsb_release free df du ls cat head tail wc "
    "date id pwd ps squeue sinfo scontrol nproc echo grep find".split()
)
_DOERS = frozenset(
    "ffmpeg wget curl unzip tar gunzip rm cp mv mkdir rsync scp convert gsutil aws pip conda kaggle gdown".split()
)


def acts(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call runs a command that may write, fetch or take away something: what it prints is not all of it."""
    qualified = resolver.qualified(call.func) or ""
    spawns = qualified in _STARTS or qualified.startswith("os.spawn")
    if qualified not in library.COMMANDS | _TELLING and not spawns:
        return False
    given = [argument for argument in call.args if not _is_mode(argument)]
    words = _words(resolver, given[0] if given else next((k.value for k in call.keywords if k.arg == "args"), None))
    words += [w for more in given[1:] for w in _words(resolver, more)] if spawns else []
    program = words[0].rpartition("/")[2] if words else ""
    if program in _DOERS:
        return not any("version" in word or word in ("-h", "--help") for word in words)
    return program not in _TELLERS and not (qualified in _TELLING or _is_read(call))


def _is_mode(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr.startswith("P_")


def _is_read(call: ast.Call) -> bool:
    """Whether what a command prints is caught."""
    told = {k.arg: k.value for k in call.keywords}
    caught = told.get("capture_output"), told.get("stdout")
    captures = is_constant(caught[0], True)
    return captures or (caught[1] is not None and ast.unparse(caught[1]).endswith("PIPE") and "stdin" not in told)


def _words(resolver: Resolver, node: ast.expr | None, steps: int = 0) -> list[str]:
    """The words of a command that are written out, up to the first that is not."""
    if steps > _MOST_STEPS:  # it may be made of itself: `command = command + " -v"`
        return []
    steps += 1
    if isinstance(node, ast.Name):
        value = resolver.set_once(node)
        node = value if not isinstance(value, ast.Name) else None
    if isinstance(node, ast.Constant):
        return node.value.split() if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        return _words(resolver, node.values[0], steps) if node.values else []
    if isinstance(node, ast.BinOp):
        return _words(resolver, node.left, steps)
    if isinstance(node, (ast.List, ast.Tuple)):
        found: list[str] = []
        for part in node.elts:
            if not isinstance(part, ast.Constant) or not isinstance(part.value, str):
                break
            found.append(part.value)
        return found
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "split"):
        return _words(resolver, node.func.value, steps)
    return []
