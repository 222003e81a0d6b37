"""What one process does first, for the others to find: files that are fetched, or made because they are missing."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from fnmatch import fnmatchcase
from functools import cached_property

from accelift_codemod.draft import Draft
from accelift_codemod.facts import files, library, position
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.signatures import default
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.main_process import alone

_SAVES = frozenset(
    """
    torch.save torch.serialization.save numpy.save numpy.savez numpy.savez_compressed numpy.savetxt pickle.dump
    joblib.dump json.dump yaml.dump safetensors.torch.save_file shutil.unpack_archive shutil.make_archive
    """.split()
)
_SAVING = frozenset("to_csv to_json to_pickle to_parquet to_hdf to_excel write_text write_bytes extractall".split())
# What copies or moves files, or runs a command that may fetch some: where it does so because they are missing.
_BRINGS = library.COMMANDS | frozenset(
    "shutil.copy shutil.copy2 shutil.copyfile shutil.copytree shutil.move os.rename os.replace os.symlink os.link "
    "os.mknod os.mkfifo".split()
)
_STEPS = 4  # from what writes a file to the function that asks for it
_MISSING = frozenset({"FileNotFoundError", "OSError", "IOError", "EnvironmentError", "Exception", "BaseException"})


class Caches:
    """Finds the files that a script makes if they are missing, and where it does."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.facts = draft.facts
        self.resolver = draft.facts.resolver
        self.index = draft.facts.index
        self._behind_returns: dict[int, int] = {}  # by the `id` of a block, where what is behind them begins

    @cached_property
    def made(self) -> dict[ast.Call, list[ast.stmt]]:
        """The calls that write such files before training, and the statements that one process is to run first.

        Those that cannot be found, or that run what all processes run together, are left out.
        """
        found: dict[ast.Call, list[ast.stmt]] = {}
        for call in self.draft.calls:
            writes = self._writes(call) or self._brings(call)
            made = writes and self._is_made(call) and not self._takes_next_free(call)
            if made and (not self._is_log(call) or self._is_beside_folder(call)):
                places = self.places(call)
                statements = [place for place in places if isinstance(place, ast.stmt)]
                if statements and len(statements) == len(places) and all(map(self._early, statements)):
                    found[call] = statements
        return found

    @cached_property
    def left(self) -> list[ast.Call]:
        """The calls that open a missing file for callers to read, or to read it then, where it cannot be told what
        asks for it."""
        return [
            call
            for call in self.draft.calls
            if files.writes(files.mode(self.resolver, call))
            and (self._returned(self.resolver.argument(call, 0, "file")) or self._is_read_then(call))
            and self._is_made(call)
            and not all(isinstance(place, ast.stmt) for place in self.places(call))
        ]

    def _is_made(self, call: ast.Call) -> bool:
        """Whether what a call writes is made if it is missing, and not by training, which all processes do together."""
        making, loops = self.making(call), self.draft.blueprint.train_loops
        functions, nodes = {loop.function for loop in loops}, {loop.node for loop in loops}
        trains = (self._runs(s, functions) or any(node in nodes for node in walk(s)) for s in making)
        return bool(making) and not any(trains)

    def _early(self, statement: ast.stmt) -> bool:
        """Whether a statement runs before training, and every process may run it at another time."""
        return not self.draft.after_training(statement) and self.draft.collective(statement) is None

    def _writes(self, call: ast.Call) -> bool:
        if files.unpacks(self.resolver, call) or files.keeps_open(self.resolver, call):
            return True
        if self.resolver.qualified(call.func) in _SAVES or files.writes(files.mode(self.resolver, call)):
            return not self.draft.in_memory(call)
        plain = self.resolver.qualified(call.func) is None and self.resolver.callee(call) is None
        if not plain or not isinstance(call.func, ast.Attribute):
            return False
        saved = self.resolver.values(call.func.value) if call.func.attr == "save" else ()
        of_library = bool(saved) and all(v.name.startswith(library.WRITES_OF["save"]) for v in saved)
        return of_library or call.func.attr in _SAVING

    def _brings(self, call: ast.Call) -> bool:
        """Whether a call copies files, or runs a command, because something is missing: where it is there, it would be
        moved out of the way, and asked for again by the others when there is another in its place."""
        if self.resolver.qualified(call.func) not in _BRINGS:
            return False
        asking = next(files.asking(self.resolver, call), None)
        if asking is not None:
            return files.misses(self.resolver, asking.test) is any(call in walk(s) for s in asking.body)
        return any(self._behind_return(s) for s in self.index.chain(call))

    def _is_log(self, call: ast.Call) -> bool:
        """Whether a call opens a file that the script nowhere reads: it is the main process's alone."""
        opened = files.mode(self.resolver, call)
        path = self.resolver.argument(call, 0, "file")
        if not files.writes(opened) or self.resolver.builtin(call.func) != "open" or path is None:
            return False
        if "b" in (opened or ""):
            return False  # a log is a text
        if self._returned(path):
            return False  # for callers to read
        reads = (c for c in self.draft.calls if self._reads(c))
        given = (a for c in reads for a in (*c.args, *(k.value for k in c.keywords)))
        if ast.dump(path) in {ast.dump(n) for argument in given for n in walk(argument)}:
            return False
        return not any(self._reading(path))

    def _is_beside_folder(self, call: ast.Call) -> bool:
        """Whether a statement writes a file beside what makes the folder that is missing: every process makes that, and
        where another one was faster, the main process would find it and write nothing."""
        asking = self._asks_for_folder(call)
        if asking is None:
            return False
        apart = isinstance(self.index.statement(call), ast.Expr) or isinstance(self.index.parents[call], ast.withitem)
        return apart or alone.self_contained(self.draft, *asking.body)

    def _takes_next_free(self, call: ast.Call) -> bool:
        """Whether what a call writes is in the first folder of several that is not there yet: the other processes would
        find that one, and take the next."""
        asking = self._asks_for_folder(call)
        ends = asking is not None and isinstance(asking.body[-1], (ast.Break, ast.Return))
        return ends and bool(self.index.enclosing_loops(asking))  # type: ignore[arg-type]

    def _asks_for_folder(self, call: ast.Call) -> ast.If | None:
        """The test around a call, if it makes the folder that it finds missing."""
        asking = next(files.asking(self.resolver, call), None)
        calls = (n for s in asking.body for n in walk(s) if isinstance(n, ast.Call)) if asking is not None else ()
        made = (self.resolver.qualified(made.func) in ("os.makedirs", "os.mkdir") for made in calls)
        return asking if any(made) else None

    def _is_read_then(self, call: ast.Call) -> bool:
        """Whether the function that opens a file may read it later."""
        path, home = self.resolver.argument(call, 0, "file"), self.index.function(call)
        reads = self._reading(path) if path is not None and home is not None else ()
        return any(self.index.function(c) is home and position(c) > position(call) for c in reads)

    def _reading(self, path: ast.expr) -> Iterator[ast.Call]:
        """The calls that may read the file of a path, by another spelling, too: `f"{name}_train.csv"` is one of
        `f"{name}_{part}.csv"`."""
        written = self.draft.reading.spelled(path)
        if written is not None:
            yield from self._read.get(written, ())
            for other in self._read if "*" in written else self._patterns:
                if other != written and (fnmatchcase(written, other) or fnmatchcase(other, written)):
                    yield from self._read[other]

    @cached_property
    def _read(self) -> dict[str, list[ast.Call]]:
        """By what their paths come to, the calls that read files."""
        found: dict[str, list[ast.Call]] = {}
        for call in filter(self._reads, self.draft.calls):
            for path in self.draft.reading.paths(call):
                if (spelled := self.draft.reading.spelled(path)) is not None:
                    found.setdefault(spelled, []).append(call)
        return found

    @cached_property
    def _patterns(self) -> list[str]:
        return [path for path in self._read if "*" in path]

    def _returned(self, path: ast.expr | None) -> bool:
        """Whether the function around a path returns it, by itself or as one of several things."""
        function = self.index.function(path) if path is not None else None
        returns = self.resolver.returns(function) if isinstance(function, FUNCTIONS) else []
        values = [r.value for r in returns if r.value is not None]
        parts = [part for v in values for part in (v.elts if isinstance(v, ast.Tuple) else [v])]
        return path is not None and ast.dump(path) in map(ast.dump, parts)

    def making(self, call: ast.Call, steps: int = _STEPS) -> list[ast.stmt]:
        """What runs only if a file is missing around a call: the arm of a test for files, what is behind one that
        returns, or what is done where reading failed, perhaps around all calls of its function; nothing if none is."""
        node: ast.AST = call
        for parent in self.index.ancestors(call):
            if isinstance(node, ast.stmt) and (behind := self._behind_return(node)):
                return behind
            if isinstance(parent, FUNCTIONS):
                sites = [s for s in self.resolver.sites(parent) if self.facts.runs(s)] if steps else []
                around = [self.making(site, steps - 1) for site in sites]
                return [*parent.body, *(s for made in around for s in made)] if around and all(around) else []
            if isinstance(parent, ast.If) and node is not parent.test and files.asks(self.resolver, parent.test):
                return parent.body if node in parent.body else parent.orelse
            if isinstance(parent, ast.ExceptHandler) and self._has_read(parent):
                return parent.body
            node = parent
        return []

    def _behind_return(self, statement: ast.stmt) -> list[ast.stmt]:
        """What is behind a test for files that ends the function, in the block of a statement after it:
        `if exists: return load()`, `if exists: return`."""
        block, place = self.index.block(statement)
        behind = self._behind_returns.get(id(block))
        if behind is None:
            first = (i for i, one in enumerate(block) if self._returns_if_there(one))
            behind = self._behind_returns[id(block)] = next(first, len(block)) + 1
        return block[behind:] if place >= behind else []

    def _returns_if_there(self, statement: ast.stmt) -> bool:
        last = statement.body[-1] if isinstance(statement, ast.If) else None
        if not (isinstance(statement, ast.If) and isinstance(last, ast.Return)):
            return False
        # Nothing is returned where there is nothing left to do, or nothing that could be done.
        there = last.value is not None or not isinstance(statement.test, ast.UnaryOp)
        return there and files.asks(self.resolver, statement.test)

    def _has_read(self, handler: ast.ExceptHandler) -> bool:
        """Whether a handler is there for a file that is missing: what is tried reads one."""
        tried = self.index.parents[handler]
        if not isinstance(tried, ast.Try) or not self.draft.caught(handler) & _MISSING:
            return False
        return any(isinstance(n, ast.Call) and self._reads(n) for s in tried.body for n in walk(s))

    def _reads(self, call: ast.Call) -> bool:
        opened = files.mode(self.resolver, call)
        qualified = self.resolver.qualified(call.func)
        return qualified == "torch.load" or qualified in library.READS or (opened is not None and "r" in opened)

    # ---- where

    def places(self, call: ast.Call) -> list[ast.AST]:
        """The statement of a call, or those at the level of the training that lead to it; else the call.

        None is around what prepares or trains, which all processes do together: where a constructor does, or another
        function that is called beside that, the statement is in it.
        """
        groups = self.draft.blueprint.groups
        scopes = [node for g in groups for node in (g.scope.node, self.draft.function(g.anchor))]
        places: list[ast.AST] = []
        queue: list[ast.AST] = [call]
        seen: set[ast.AST] = set()
        while queue:
            node = queue.pop()
            function = self.draft.function(node)
            if function is None or function in scopes:
                statement = self.index.statement(node)
                if self._runs_batches(statement):
                    places.append(call)
                else:
                    places.append(self._with_test(statement))
            elif function not in seen:
                seen.add(function)
                sites = [
                    s
                    for s in self.resolver.sites(function)
                    if self.facts.runs(s) and not self._is_off(node, s, function)
                ]
                if any(self._runs_batches(self.index.statement(s)) for s in sites):
                    places.append(self._with_test(self.index.statement(node)))
                    continue
                queue += sites
                if not sites:
                    places.append(call)
        return list(dict.fromkeys(places))

    def _is_off(self, node: ast.AST, site: ast.Call, function: Function) -> bool:
        """Whether a call of a function gives False, or leaves the default False, for what a node in it is up to."""
        bound = self.resolver.bind(site, function)
        for parent in self.index.ancestors(node):
            if parent is function or bound is None:
                return False
            if isinstance(parent, ast.If) and node in parent.body:
                test = parent.test
                needed = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
                if any(self._is_false(part, bound, function) for part in needed):
                    return True
            node = parent
        return False

    def _is_false(self, part: ast.expr, bound: dict[str, ast.expr], function: Function) -> bool:
        """Whether an expression is a parameter that is given False, or has it by default."""
        bindings = self.resolver.bindings(part) if isinstance(part, ast.Name) else []
        if len(bindings) != 1 or not isinstance(bindings[0].node, ast.arg):
            return False
        given = bound.get(bindings[0].name, default(function, bindings[0].node))
        return is_constant(given, False)

    def _with_test(self, statement: ast.stmt) -> ast.stmt:
        """The statement, or the outermost one around it that asks what files there are, or tries to do without them:
        processes may differ in that.

        A process that finds the files already would otherwise never come to where the others wait for it.
        """
        around: list[ast.stmt] = [*files.asking(self.resolver, statement)]
        for parent in self.index.ancestors(statement):
            if isinstance(parent, FUNCTIONS):
                break
            if isinstance(parent, ast.ExceptHandler):
                around.append(self.index.parents[parent])  # type: ignore[arg-type]
        kept = [s for s in around if not self._runs_batches(s)]
        return min([statement, *kept], key=lambda s: (s.lineno, s.col_offset))

    def _runs_batches(self, statement: ast.stmt) -> bool:
        """Whether a statement runs a function that goes through batches, or that prepares."""
        blueprint = self.draft.blueprint
        loops = {loop.function for loop in (*blueprint.train_loops, *blueprint.eval_loops)}
        return self._runs(statement, loops | {self.draft.function(group.anchor) for group in blueprint.groups})

    def _runs(self, statement: ast.stmt, functions: Set[ast.AST | None]) -> bool:
        """Whether a statement runs one of some functions."""
        return not self.draft.blueprint.timeline.runs(statement).isdisjoint(functions)
