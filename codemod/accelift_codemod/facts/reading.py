"""Which files calls read by name, directly or through functions of the script that are handed the name."""

from __future__ import annotations

import ast

from accelift_codemod.facts import files, library, paths
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.scopes import parameters
from accelift_codemod.facts.signatures import defaults
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role

_BY_NAME = library.READS | library.ASKS_OF
_OF_PATHS = frozenset({"read_text", "read_bytes", "stat"})
_MOST_CALLS = 10  # from the call that hands the name over to the one that reads the file


class Reading:
    """Answers which of a call's arguments name files that it reads."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self._asked: list[Function] = []  # whose parameters are being looked for

    @memoised
    def paths(self, call: ast.Call) -> list[ast.expr]:
        """The files that a call reads by name: a function that reads one, or a data set of the script that gets it."""
        resolver = self.resolver
        opened = files.mode(resolver, call)
        own = isinstance(call.func, ast.Attribute) and resolver.qualified(call.func) is None
        if isinstance(call.func, ast.Attribute) and own and resolver.callee(call) is None:
            of_path = call.func.attr == "open" and opened is not None and not files.writes(opened)
            if of_path or (call.func.attr in _OF_PATHS and not call.args):
                return [call.func.value]  # `path.read_text()`
        if resolver.qualified(call.func) in _BY_NAME or (opened is not None and not files.writes(opened)):
            return call.args[:1]
        target = resolver.callee(call)
        if target is None and isinstance(call.func, ast.Attribute) and call.func.attr in library.READ_METHODS:
            if (resolver.qualified(call.func) or "").startswith(library.READS_SECOND):
                named = resolver.argument(call, 1, "model_id")
                return [named] if named is not None else []
            return call.args[:1]
        if isinstance(target, FUNCTIONS):
            return [*self._given(call, target, self._parameters(target)), *self._literals(target)]
        if not isinstance(target, ast.ClassDef) or resolver.class_role(target) is not Role.DATASET:
            return []
        values = {a: resolver.values(a) for a in (*call.args, *(k.value for k in call.keywords))}
        return [a for a, of in values.items() if of and all(isinstance(k, str) for v in of for k in v.keys or (None,))]

    @memoised
    def folders(self, call: ast.Call) -> list[ast.expr]:
        """What a call hands to a function of the script that the paths of files begin with which it reads."""
        target = self.resolver.callee(call)
        return self._given(call, target, self._beginnings(target)) if isinstance(target, FUNCTIONS) else []

    def _given(self, call: ast.Call, function: Function, names: list[str]) -> list[ast.expr]:
        """What a call gives some parameters of a function, or what these are by default."""
        bound = self.resolver.bind(call, function) if names else None
        if bound is None:
            return []
        given = {**defaults(function), **bound}
        return [given[name] for name in names if name in given]

    @memoised
    def spelled(self, path: ast.expr) -> str | None:
        """What the path of a file comes to, see `paths.spelled`."""
        return paths.spelled(self.resolver, path)

    @memoised
    def _literals(self, function: Function) -> list[ast.expr]:
        """The files that a function reads whose names it has written out."""
        if function in self._asked or len(self._asked) == _MOST_CALLS:
            return []
        self._asked.append(function)
        calls = [n for s in function.body for n in walk(s) if isinstance(n, ast.Call)]
        inside = [c for c in calls if self.resolver.index.function(c) is function]
        found: list[ast.expr] = [p for c in inside for p in self.paths(c) if isinstance(p, ast.Constant)]
        self._asked.pop()
        return found

    @memoised
    def _parameters(self, function: Function) -> list[str]:
        """The parameters of a function that name files which it reads."""
        if function in self._asked or len(self._asked) == _MOST_CALLS:
            return []
        self._asked.append(function)
        calls = [n for s in function.body for n in walk(s) if isinstance(n, ast.Call)]
        inside = [c for c in calls if self.resolver.index.function(c) is function]
        read = {p.id for c in inside for p in self.paths(c) if isinstance(p, ast.Name)}
        self._asked.pop()
        return self._handed(function, read)

    @memoised
    def _beginnings(self, function: Function) -> list[str]:
        """The parameters of a function with which the paths of files begin that it reads."""
        calls = [n for s in function.body for n in walk(s) if isinstance(n, ast.Call)]
        read = (p for c in calls if self.resolver.index.function(c) is function for p in self.paths(c))
        begins = (n for path in read for n in paths.origins(self.resolver, path))
        parents = self.resolver.index.parents
        named = {n.id for n in begins if not isinstance(parents.get(n), ast.Attribute)}  # not `args.folder`
        return self._handed(function, named - {*self._parameters(function)})

    def _handed(self, function: Function, names: set[str]) -> list[str]:
        """Of some names, those of parameters that are nothing else."""
        bindings = self.resolver.index.scopes[function].bindings
        return [p.arg for p in parameters(function.args) if p.arg in names and len(bindings[p.arg]) == 1]
