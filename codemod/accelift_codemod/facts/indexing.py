"""The one pass over a syntax tree: parents, scopes, bindings, calls."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from accelift_codemod.facts.scopes import COMPREHENSIONS, FUNCTIONS, Binding, Function, How, Scope, parameters
from accelift_codemod.facts.tree import LEAVES, children, is_taken_apart


class Indexing:
    """What is noted of the nodes of one module."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.parents: dict[ast.AST, ast.AST] = {}
        self.module = Scope(tree, None)
        self.scopes: dict[ast.AST, Scope] = {tree: self.module}
        self.calls: list[ast.Call] = []
        self.methods: dict[str, list[ast.Call]] = {}
        self.loops: list[ast.For | ast.AsyncFor | ast.While | ast.comprehension] = []
        self.functions: list[Function] = []
        self.classes: list[ast.ClassDef] = []
        self.attributes: dict[str, list[ast.Attribute]] = {}
        self.attribute_bindings: dict[str, list[Binding]] = {}
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.star_imports: list[str] = []
        self.items: list[ast.Assign] = []
        self.tries: list[ast.Try] = []
        self._evaluated: dict[ast.AST, Scope] = {}  # the scopes of nearly all nodes
        self._blocks: dict[ast.stmt, tuple[list[ast.stmt], int]] = {}
        self._walk()

    def _walk(self) -> None:
        stack: list[tuple[ast.AST, Scope]] = [(self.tree, self.module)]
        handlers = {
            ast.Name: self._name,
            ast.Call: self._call,
            ast.Attribute: self._attribute,
            ast.Assign: self._assign,
            ast.AnnAssign: self._ann_assign,
            ast.AugAssign: self._aug_assign,
            ast.NamedExpr: self._named,
            ast.For: self._for,
            ast.AsyncFor: self._for,
            ast.While: self._while,
            ast.withitem: self._with_item,
            ast.Import: self._import,
            ast.ImportFrom: self._import_from,
            ast.Global: self._global,
            ast.Nonlocal: self._nonlocal,
            ast.Try: self._try,
            ast.ExceptHandler: self._except,
            ast.MatchAs: self._match_name,
            ast.MatchStar: self._match_name,
            ast.ClassDef: self._class,
        }
        parents, evaluated = self.parents, self._evaluated
        while stack:
            node, scope = stack.pop()
            evaluated[node] = scope
            kind = node.__class__
            handler = handlers.get(kind)
            if handler is not None:
                handler(node, scope)  # type: ignore[operator]
            if kind in _OPENING:
                self._open(node, scope, stack)
            elif kind not in LEAVES:
                for child in reversed(children(node)):
                    parents[child] = node
                    stack.append((child, scope))

    def _open(self, node: ast.AST, scope: Scope, stack: list[tuple[ast.AST, Scope]]) -> None:
        """Enter a node that opens a scope: some of its parts belong to the enclosing one."""
        inner = Scope(node, scope)
        self.scopes[node] = inner
        outside: list[ast.AST] = []
        inside: list[ast.AST] = []
        if isinstance(node, (*FUNCTIONS, ast.Lambda)):
            if isinstance(node, FUNCTIONS):
                self.functions.append(node)
                self._bind(node.name, How.FUNCTION, node, scope)
                outside += [*node.decorator_list, *([node.returns] if node.returns else [])]
                inside += node.body
            else:
                inside.append(node.body)
            arguments = node.args
            self.parents[arguments] = node
            defaults = [*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)]
            self.parents.update(dict.fromkeys(defaults, arguments))
            outside += defaults
            for parameter in parameters(arguments):
                self.parents[parameter] = arguments
                self._bind(parameter.arg, How.PARAMETER, parameter, inner)
                if parameter.annotation is not None:
                    self.parents[parameter.annotation] = parameter
                    stack.append((parameter.annotation, scope))
        elif isinstance(node, ast.ClassDef):
            outside += [*node.decorator_list, *node.bases, *node.keywords]
            inside += node.body
        else:
            comprehension = cast("ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp", node)
            for i, generator in enumerate(comprehension.generators):
                self.parents[generator] = node
                self.loops.append(generator)
                self._target(generator.target, How.LOOP, inner, generator.iter)
                (inside if i else outside).append(generator.iter)
                inside += [generator.target, *generator.ifs]
                for part in (generator.iter, generator.target, *generator.ifs):
                    self.parents[part] = generator
            if isinstance(comprehension, ast.DictComp):
                inside += [comprehension.key, comprehension.value]
            else:
                inside.append(comprehension.elt)
        for child in reversed(inside):
            self.parents.setdefault(child, node)
            stack.append((child, inner))
        for child in reversed(outside):
            self.parents.setdefault(child, node)
            stack.append((child, scope))

    def _bind(
        self,
        name: str,
        how: How,
        node: ast.AST,
        scope: Scope,
        value: ast.expr | None = None,
        path: tuple[int | None, ...] = (),
        qualified: str = "",
    ) -> None:
        declared = scope.outer_names.get(name)
        home = scope
        if "." in name:  # an attribute of self (see instances.py)
            while not home.is_class and home.parent is not None:
                home = home.parent
        elif declared is True:
            home = self.module
        elif declared is False:
            home = (scope.parent.owner(name) if scope.parent else None) or scope
        binding = Binding(name, how, node, home, value, path, qualified)
        home.bindings.setdefault(name, []).append(binding)

    def bind_outside(self, fields: Mapping[ast.AST, tuple[ast.ClassDef, str]]) -> None:
        """Bind the variables that attributes of self are where other names of their objects set them, too."""
        for node, (cls, name) in fields.items():
            scope = self.scopes[cls]
            for binding in self.attribute_bindings.get(name.partition(".")[2], ()):
                if binding.node is node:
                    scope.bindings.setdefault(name, []).append(replace(binding, name=name, scope=scope))

    def _target(
        self, target: ast.expr, how: How, scope: Scope, value: ast.expr | None, path: tuple[int | None, ...] = ()
    ) -> None:
        if isinstance(target, ast.Name):
            self._bind(target.id, how, target, scope, value, path)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for i, element in enumerate(target.elts):
                if isinstance(element, ast.Starred):
                    self._target(element.value, how, scope, value, (*path, None))
                else:
                    self._target(element, how, scope, value, (*path, i))
        elif isinstance(target, ast.Attribute):
            binding = Binding(target.attr, how, target, scope, value, path)
            self.attribute_bindings.setdefault(target.attr, []).append(binding)

    def _name(self, node: ast.Name, scope: Scope) -> None:
        if node.ctx.__class__ is not ast.Store:
            scope.loads.setdefault(node.id, []).append(node)
            if node.ctx.__class__ is ast.Del:
                self._bind(node.id, How.OTHER, node, scope)

    def _call(self, node: ast.Call, scope: Scope) -> None:
        self.calls.append(node)
        if isinstance(node.func, ast.Attribute):
            # That of a tensor gives None: `z, log_det = flow.backward(z)` is a method of the author's.
            if node.func.attr != "backward" or not is_taken_apart(node, self.parents[node]):
                self.methods.setdefault(node.func.attr, []).append(node)

    def _attribute(self, node: ast.Attribute, scope: Scope) -> None:
        self.attributes.setdefault(node.attr, []).append(node)

    def _assign(self, node: ast.Assign, scope: Scope) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                self.items.append(node)
                continue
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                self._pairwise(target, node.value, scope)
            else:
                self._target(target, How.ASSIGN, scope, node.value)

    def _pairwise(self, target: ast.Tuple, value: ast.Tuple, scope: Scope) -> None:
        """`a, b = x, y` binds `a` to `x` itself."""
        starred = any(isinstance(e, ast.Starred) for e in (*target.elts, *value.elts))
        if starred or len(target.elts) != len(value.elts):
            self._target(target, How.ASSIGN, scope, value)
            return
        for left, right in zip(target.elts, value.elts, strict=True):
            self._target(left, How.ASSIGN, scope, right)

    def _ann_assign(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value is not None:
            self._target(node.target, How.ASSIGN, scope, node.value)

    def _aug_assign(self, node: ast.AugAssign, scope: Scope) -> None:
        self._target(node.target, How.AUGMENT, scope, node.value)
        if isinstance(node.target, ast.Name):
            scope.loads.setdefault(node.target.id, []).append(node.target)

    def _named(self, node: ast.NamedExpr, scope: Scope) -> None:
        home = scope
        while isinstance(home.node, COMPREHENSIONS) and home.parent is not None:
            home = home.parent
        self._target(node.target, How.ASSIGN, home, node.value)

    def _for(self, node: ast.For | ast.AsyncFor, scope: Scope) -> None:
        self.loops.append(node)
        self._target(node.target, How.LOOP, scope, node.iter)

    def _while(self, node: ast.While, scope: Scope) -> None:
        self.loops.append(node)

    def _with_item(self, node: ast.withitem, scope: Scope) -> None:
        if node.optional_vars is not None:
            self._target(node.optional_vars, How.WITH, scope, node.context_expr)

    def _import(self, node: ast.Import, scope: Scope) -> None:
        self.imports.append(node)
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            qualified = alias.name if alias.asname else name
            self._bind(name, How.IMPORT, alias, scope, qualified=qualified)

    def _import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        self.imports.append(node)
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name == "*":
                self.star_imports.append(module)
            else:
                joined = module + alias.name if module.endswith(".") else f"{module}.{alias.name}"
                self._bind(alias.asname or alias.name, How.IMPORT, alias, scope, qualified=joined)

    def _global(self, node: ast.Global, scope: Scope) -> None:
        if not scope.is_module:
            scope.outer_names.update(dict.fromkeys(node.names, True))

    def _nonlocal(self, node: ast.Nonlocal, scope: Scope) -> None:
        scope.outer_names.update(dict.fromkeys(node.names, False))

    def _try(self, node: ast.Try, scope: Scope) -> None:
        self.tries.append(node)

    def _except(self, node: ast.ExceptHandler, scope: Scope) -> None:
        if node.name:
            self._bind(node.name, How.OTHER, node, scope)

    def _match_name(self, node: ast.MatchAs | ast.MatchStar, scope: Scope) -> None:
        if node.name:
            self._bind(node.name, How.OTHER, node, scope)

    def _class(self, node: ast.ClassDef, scope: Scope) -> None:
        self.classes.append(node)
        self._bind(node.name, How.CLASS, node, scope)


_OPENING = frozenset({*FUNCTIONS, ast.Lambda, ast.ClassDef, *COMPREHENSIONS})
