"""Waits for files before reading them back."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, files, library, position
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Edit, Finding, Need
from accelift_codemod.rules import Rule

_RULE = "READBACK"
# What puts files into folders, and what asks which there are.
_MOVES = frozenset(
    "os.rename os.replace os.remove shutil.move shutil.copy shutil.copy2 shutil.copyfile shutil.copytree".split()
)
_LISTS = library.LISTS | {"torchvision.datasets.ImageFolder", "torchvision.datasets.DatasetFolder"}


class ReadBack(Rule):
    """Waits for the main process where every process reads a file that a guarded statement has written before.

    Only if both name the file in the same words, in one function or in what it calls, and the file is read wherever it
    is written: a process that waits where others do not would wait for ever. So it is with a folder that is listed
    after files have been moved. For checkpoints, see SAVE.
    """

    code = _RULE
    name = "files that are read back"
    before = """\
torch.onnx.export(model, example, "model.onnx")
exported = onnx.load("model.onnx")
"""
    after = """\
if accelerator.is_main_process:
    torch.onnx.export(accelerator.unwrap_model(model), example, "model.onnx")
accelerator.wait_for_everyone()
exported = onnx.load("model.onnx")
"""

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        reads = [c for c in draft.calls if self._paths(draft, c)]
        guarded = [c for c in draft.calls if draft.guarded(c)] if reads else []
        written = [
            write
            for call in guarded
            for write in self._written(draft, call, [*call.args, *(k.value for k in call.keywords)])
        ]
        back = (r for r in reads if any(self._reads_back(draft, r, *w) for w in written) and self._meets(draft, r))
        yield from draft.awaited(_RULE, back, Need.WEAK)
        moves = [c for c in draft.calls if draft.facts.resolver.qualified(c.func) in _MOVES and draft.guarded(c)]
        listings = [c for c in draft.calls if self._lists(draft, c)] if moves else []
        first = (next((c for c in listings if self._follows(draft, c, move)), None) for move in moves)
        late = dict.fromkeys(c for c in first if c is not None and self._meets(draft, c))
        yield from draft.awaited(_RULE, late, Need.WEAK)  # what is listed after the first is there, too

    def _meets(self, draft: Draft, read: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> bool:
        """Whether all processes come to a read at once: not one before the others, nor those that miss a file alone."""
        above = (read, *draft.facts.index.ancestors(read))
        if any(map(draft.goes_first, above)) or any(files.asking(draft.facts.resolver, read)):
            return False
        function = draft.function(read)
        sites = draft.facts.resolver.sites(function) if isinstance(function, FUNCTIONS) and function not in seen else ()
        return all(self._meets(draft, site, seen | {function}) for site in sites if function is not None)

    def _lists(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call asks what is in a folder, or makes a data set of the script that does."""
        resolver = draft.facts.resolver
        if (resolver.qualified(call.func) or "") in _LISTS:
            return True
        target = resolver.callee(call)
        if not isinstance(target, ast.ClassDef) or resolver.class_role(target) is not Role.DATASET:
            return False
        made = resolver.constructor(target)
        inner = (n for n in walk(made) if isinstance(n, ast.Call)) if made is not None else ()
        return any((resolver.qualified(c.func) or "") in _LISTS for c in inner)

    def _follows(self, draft: Draft, call: ast.Call, move: ast.Call) -> bool:
        """Whether every process comes to a call after a file has been moved, in the same function."""
        if draft.function(call) is not draft.function(move) or position(call) < position(move):
            return False
        return not draft.blueprint.timeline.exclusive(move, call) and self._always(draft, call, move)

    def _paths(self, draft: Draft, call: ast.Call) -> list[ast.expr]:
        """The files that a call reads by name: a function that reads one, or a data set of the script that gets it."""
        resolver = draft.facts.resolver
        opened = files.mode(resolver, call)
        if resolver.qualified(call.func) in library.READS or (opened is not None and not files.writes(opened)):
            return call.args[:1]
        target = resolver.callee(call)
        if target is None and isinstance(call.func, ast.Attribute) and call.func.attr in library.READ_METHODS:
            return call.args[:1]
        if not isinstance(target, ast.ClassDef) or resolver.class_role(target) is not Role.DATASET:
            return []
        values = {a: resolver.values(a) for a in (*call.args, *(k.value for k in call.keywords))}
        return [a for a, of in values.items() if of and all(isinstance(k, str) for v in of for k in v.keys or (None,))]

    def _written(
        self, draft: Draft, call: ast.Call, given: list[ast.expr], depth: int = 2
    ) -> Iterator[tuple[ast.Call, list[ast.expr]]]:
        """A call that writes, and those of the functions that it is in, each with what it may name the file by."""
        yield call, given
        function = draft.function(call)
        for site in draft.facts.resolver.sites(function) if isinstance(function, FUNCTIONS) and depth else ():
            bound = draft.facts.resolver.bind(site, function) or {}  # type: ignore[arg-type]
            names = [n.id for part in given for n in walk(part) if isinstance(n, ast.Name)]
            handed = [bound[name] for name in names if name in bound]
            constants = [part for part in given if isinstance(part, ast.Constant)]
            yield from self._written(draft, site, [*handed, *constants], depth - 1)

    def _reads_back(self, draft: Draft, read: ast.Call, write: ast.Call, given: list[ast.expr]) -> bool:
        """Whether a call reads what another one in the same function has written, perhaps when that ran before."""
        index = draft.facts.index
        if index.function(read) is not index.function(write):
            return False
        before = position(read) < position(write)
        if before and not draft.blueprint.timeline.repeats(read, write):
            return False
        if draft.blueprint.timeline.exclusive(write, read) or not self._always(
            draft, draft.asked(read) if before else read, write
        ):
            return False
        paths = {ast.dump(path) for path in self._paths(draft, read)}
        return any(ast.dump(part) in paths for argument in given for part in walk(argument))

    def _always(self, draft: Draft, read: ast.AST, write: ast.Call) -> bool:
        """Whether every loop and condition that a file is read under is one that it is written under.

        What a condition itself reads, or what a loop runs over, is not under it.
        """
        around = set(draft.facts.index.ancestors(write))
        node = read
        for parent in draft.facts.index.ancestors(read):
            header = parent.test if isinstance(parent, ast.If) else getattr(parent, "iter", None)
            if isinstance(parent, (ast.For, ast.AsyncFor, ast.While, ast.If, ast.Try)) and node is not header:
                if parent not in around:
                    return False
            node = parent
        return True
