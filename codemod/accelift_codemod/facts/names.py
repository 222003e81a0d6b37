"""Names: the bindings that a read of a variable can see, and the library names that expressions spell."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

from accelift_codemod.facts import fills, library
from accelift_codemod.facts.fills import Fills
from accelift_codemod.facts.index import FUNCTIONS, MARK, Binding, Function, How, Index, Scope
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.reaching import Reaching
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.uses import reads

_LET_PASS = ("torch.", "tqdm.", "warnings.", "contextlib.nullcontext")  # contexts that keep no exception to themselves


class Names:
    """Answers what the names of one module are bound to."""

    def __init__(self, index: Index) -> None:
        self.index = index

    @memoised
    def qualified(self, node: ast.AST) -> str | None:
        """The library name an expression spells (`nn.Linear` -> `torch.nn.Linear`), through the imports."""
        if isinstance(node, ast.Name):
            owner = self.index.scope(node).owner(node.id)
            if owner is None:
                return self._starred(node.id.rpartition(MARK)[2])
            if node.id not in self._imported(owner):
                return None
            for binding in self.reaching(node, owner):
                if binding.how is How.IMPORT:
                    return library.canonical(binding.qualified) if binding.qualified else None
            return None
        if isinstance(node, ast.Attribute):
            base = self.qualified(node.value)
            return library.canonical(f"{base}.{node.attr}") if base else None
        return None

    @memoised
    def _imported(self, scope: Scope) -> frozenset[str]:
        """The variables of a scope that imports bind."""
        return frozenset(name for name, bound in scope.bindings.items() if any(b.how is How.IMPORT for b in bound))

    def _starred(self, name: str) -> str | None:
        """The library name of what `from tqdm import *` gives: of modules whose names are known, no others."""
        modules = (m for m in self.index.star_imports if name in library.STARRED.get(m, ()))
        return next((f"{module}.{name}" for module in modules), None)

    @memoised
    def builtin(self, node: ast.AST) -> str | None:
        """The name of the builtin that an expression is, unless the script binds that name itself."""
        if isinstance(node, ast.Name) and self.index.scope(node).owner(node.id) is None:
            return node.id.rpartition(MARK)[2]
        return None

    def undefined(self, node: ast.expr) -> str:
        """A name in an expression that nothing binds: not the file, not a star import, not Python."""
        if self.index.star_imports:
            return ""
        names = (self.builtin(part) for part in walk(node))
        return next((name for name in names if name is not None and not hasattr(builtins, name)), "")

    def caught(self, handler: ast.ExceptHandler) -> set[str]:
        """The built-in errors that a handler catches; an empty name stands for others."""
        if handler.type is None:
            return {"BaseException"}
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        return {self.builtin(kind) or "" for kind in kinds}

    @memoised
    def bindings(self, name: ast.Name) -> list[Binding]:
        """The bindings that a load may see."""
        owner = self.index.scope(name).owner(name.id)
        return self.reaching(name, owner) if owner else []

    def may_be(self, name: ast.Name, definition: ast.AST) -> bool:
        """Whether a load may see what a `def` or `class` binds."""
        return any(b.node is definition for b in self.bindings(name))

    def reaching(self, name: ast.Name, owner: Scope) -> list[Binding]:
        """Of the bindings of a variable in `owner`, those that can reach this load."""
        return self._reaching((name, owner))

    def remains(self, binding: Binding, name: ast.Name) -> bool:
        """Whether what `variable += ...` leaves in a variable can reach a read of it."""
        variable = (binding.scope, binding.name)
        known = self._bound(variable)
        if binding.scope.is_class:
            return True
        home = binding.scope.node if isinstance(binding.scope.node, FUNCTIONS) else None
        reaching = self._among([*known, binding], home, variable)
        return self.index.function(name) is not reaching.home or not reaching.local or binding in reaching.of(name)

    @memoised
    def _reaching(self, read: tuple[ast.Name, Scope]) -> list[Binding]:
        name, owner = read
        found, index = self._bound((owner, name.id)), self.index
        if len(found) <= 1:
            return found
        if owner.is_class and "." in name.id and (maker := self._maker(name, owner)) is not None:
            reaching = self._in_maker((owner, name.id, maker))
            found = reaching.bindings
        else:
            reaching = self._ordered((owner, name.id))
        if index.function(name) is not reaching.home or not reaching.local:
            return found
        return reaching.of(name)

    @memoised
    def _bound(self, variable: tuple[Scope, str]) -> list[Binding]:
        owner, name = variable
        found = [b for b in owner.bindings.get(name, []) if b.how is not How.AUGMENT]
        if owner.is_class and "." in name:  # an attribute of self: what it is before it is made does not matter
            found = [b for b in found if not is_placeholder(b)] or found
        return found

    @memoised
    def _ordered(self, variable: tuple[Scope, str]) -> Reaching:
        owner = variable[0].node
        return self._among(self._bound(variable), owner if isinstance(owner, FUNCTIONS) else None, variable)

    @memoised
    def _in_maker(self, asked: tuple[Scope, str, Function]) -> Reaching:
        """Of an attribute, what can reach reads of it in the constructor."""
        owner, name, maker = asked
        later = self._later(maker)
        bound = [b for b in self._bound((owner, name)) if self.index.function(b.node) not in later]
        return self._among(bound, maker, (owner, name))

    def _among(self, bindings: list[Binding], home: Function | None, variable: tuple[Scope, str]) -> Reaching:
        return Reaching(self.index, bindings, home, self._set_by(variable), self._passes)

    def _maker(self, name: ast.Name, owner: Scope) -> Function | None:
        """The constructor of the class whose attribute is read, if it is read there."""
        function = self.index.function(name)
        made = function is not None and function.name == "__init__" and self.index.parents.get(function) is owner.node
        return function if made else None

    @memoised
    def _later(self, maker: Function) -> frozenset[ast.AST]:
        """The methods that cannot have run while a constructor runs: nothing that it may run names them."""
        cls = self.index.parents[maker]
        methods = {s.name: s for s in cls.body if isinstance(s, FUNCTIONS)}  # type: ignore[attr-defined]
        queue, reached = [maker], {maker}
        while queue:
            for node in walk(queue.pop()):
                name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "").rpartition(".")[2]
                named = methods.get(name)
                if named is not None and named not in reached:
                    reached.add(named)
                    queue.append(named)
        return frozenset(set(methods.values()) - reached)

    def fills(self, owner: Scope, name: str) -> Fills:
        """What is put entry by entry into the container in a variable, where it goes by that name."""
        return self._fills((owner, name))

    @memoised
    def _fills(self, variable: tuple[Scope, str]) -> Fills:
        return fills.find(self.index, self.index.reads.get(variable, ()))

    def readers(self, target: ast.Name) -> list[ast.Name]:
        """The reads of a variable that may see what a place in the script binds it to."""
        owner = self.index.scope(target).owner(target.id)
        return self._readers((owner, target.id)).get(target, []) if owner is not None else []

    @memoised
    def _readers(self, variable: tuple[Scope, str]) -> dict[ast.AST, list[ast.Name]]:
        return self.by_binding(self.index.reads.get(variable, ()), variable[0])

    def by_binding(self, reads: Iterable[ast.Name], owner: Scope) -> dict[ast.AST, list[ast.Name]]:
        """Reads of a variable by what they may see: the nodes that bind it."""
        found: dict[ast.AST, list[ast.Name]] = {}
        for read in reads:
            for node in dict.fromkeys(binding.node for binding in self.reaching(read, owner)):
                found.setdefault(node, []).append(read)
        return found

    def changed(self, owner: Scope, name: str) -> bool:
        """Whether the entries of a container in a variable are changed one by one, where it goes by that name."""
        found = self.fills(owner, name)
        return found.otherwise or bool(found.entries)

    def set_once(self, node: ast.AST) -> ast.expr | None:
        """What a variable is set to, if that is in one place and as a whole; None if it is not, or is no variable."""
        bindings = self.bindings(node) if isinstance(node, ast.Name) else []
        single = len(bindings) == 1 and bindings[0].how is How.ASSIGN and not bindings[0].path
        return bindings[0].value if single else None

    def written_out(self, keyword: ast.keyword) -> list[ast.keyword]:
        """The keywords that `**` gives a call, if the dict is written out, there or for a variable that only such calls
        read; else the keyword itself."""
        table = keyword.value if keyword.arg is None else None
        if isinstance(table, ast.Name):
            owner = self.index.scope(table).owner(table.id)
            table = self.set_once(table) if owner is not None and self._only_spread((owner, table.id)) else None
            if table is not None and not self._has_one_name(table):
                return [keyword]
        if not isinstance(table, ast.Dict):
            return [keyword]
        names = [k.value for k in table.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)]
        if len(names) < len(table.keys):
            return [keyword]
        return [ast.keyword(name, value) for name, value in zip(names, table.values, strict=True)]

    def _has_one_name(self, value: ast.expr) -> bool:
        """Whether an assignment gives a value to one variable, and nothing else: not `base = parts = {}`."""
        parent = self.index.parents[value]
        return isinstance(parent, ast.AnnAssign) or (isinstance(parent, ast.Assign) and len(parent.targets) == 1)

    @memoised
    def _only_spread(self, variable: tuple[Scope, str]) -> bool:
        """Whether a variable is only read to give calls what it holds: `**kwargs`."""
        around = (self.index.parents.get(read) for read in reads(self.index, *variable))
        return all(isinstance(parent, ast.keyword) and parent.arg is None for parent in around)

    @memoised
    def _set_by(self, variable: tuple[Scope, str]) -> frozenset[ast.stmt]:
        """The assignments that surely bind a variable when they run."""
        statements = (self.index.statement(b.node) for b in self._bound(variable) if b.how is How.ASSIGN)
        return frozenset(s for s in statements if isinstance(s, ast.Assign) or getattr(s, "value", None) is not None)

    def runs_before(self, statement: ast.stmt, chain: list[ast.stmt]) -> bool:
        """Whether a statement has surely been begun when what stands in others, one in another, runs."""
        while True:
            block, place = self.index.block(statement)
            if chain and self.index.places(chain[-1]).get(id(block), -1) > place:
                return True
            around = self.index.parents.get(statement)
            if not (isinstance(around, (ast.With, ast.AsyncWith)) and self._passes(around)):
                return False
            statement = around

    @memoised
    def _passes(self, statement: ast.With | ast.AsyncWith) -> bool:
        """Whether all in a statement has run where the program goes on after it."""
        return all(map(self._lets_pass, statement.items))

    def _lets_pass(self, item: ast.withitem) -> bool:
        """Whether a context lets every exception pass, so that all in it has run where the program goes on after it."""
        context = item.context_expr
        function = context.func if isinstance(context, ast.Call) else context
        return self.builtin(function) == "open" or (self.qualified(function) or "").startswith(_LET_PASS)


def is_placeholder(binding: Binding) -> bool:
    """`self.model = None`."""
    return is_constant(binding.value, None) and binding.how is How.ASSIGN
