"""Which files calls read by name, directly or through functions of the script that are handed the name."""

from __future__ import annotations

import ast

from accelift_codemod.facts import files, library, paths
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.scopes import parameters
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role

_BY_NAME = library.READS | library.ASKS_OF
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
        if resolver.qualified(call.func) in _BY_NAME or (opened is not None and not files.writes(opened)):
            return call.args[:1]
        target = resolver.callee(call)
        if target is None and isinstance(call.func, ast.Attribute) and call.func.attr in library.READ_METHODS:
            if (resolver.qualified(call.func) or "").startswith(library.READS_SECOND):
                named = resolver.argument(call, 1, "model_id")
                return [named] if named is not None else []
            return call.args[:1]
        if isinstance(target, FUNCTIONS):
            bound = resolver.bind(call, target) or {}
            return [*(bound[name] for name in self._parameters(target) if name in bound), *self._literals(target)]
        if not isinstance(target, ast.ClassDef) or resolver.class_role(target) is not Role.DATASET:
            return []
        values = {a: resolver.values(a) for a in (*call.args, *(k.value for k in call.keywords))}
        return [a for a, of in values.items() if of and all(isinstance(k, str) for v in of for k in v.keys or (None,))]

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
        bindings = self.resolver.index.scopes[function].bindings
        return [p.arg for p in parameters(function.args) if p.arg in read and len(bindings[p.arg]) == 1]
