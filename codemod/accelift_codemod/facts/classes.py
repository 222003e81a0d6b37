"""Classes of the script: their methods and bases, what their instances are, and whose attributes are followed."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from accelift_codemod.facts import library
from accelift_codemod.facts.index import FUNCTIONS, Function, How, Index
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.names import Names
from accelift_codemod.facts.tree import targets, walk
from accelift_codemod.facts.values import Role

_CLASS_ROLES = {
    "torch.nn.Module": Role.MODEL,
    "torch.nn.modules.module.Module": Role.MODEL,
    "torch.nn.Sequential": Role.MODEL,
    "torch.utils.data.Dataset": Role.DATASET,
    "torch.utils.data.IterableDataset": Role.DATASET,
    "torch.utils.data.DataLoader": Role.LOADER,
    "torch.optim.Optimizer": Role.OPTIMIZER,
    "torch.optim.optimizer.Optimizer": Role.OPTIMIZER,
    "torch.optim.lr_scheduler._LRScheduler": Role.SCHEDULER,
    "torch.optim.lr_scheduler.LRScheduler": Role.SCHEDULER,
}


class Classes(Names):
    """Answers what the classes of one module are.

    `followed` are those whose attributes of self are variables, with what their methods call the object; `known` is
    what the project says that calls give.
    """

    def __init__(self, index: Index, followed: Mapping[ast.ClassDef, str], known: Mapping[str, Role]) -> None:
        super().__init__(index)
        self.followed = followed
        self.known = known

    @memoised
    def instance(self, node: ast.AST) -> ast.ClassDef | None:
        """The followed class in one of whose methods (or a function nested in one) a node stands, or which it is."""
        function = node if isinstance(node, FUNCTIONS) else self.index.function(node)
        while function is not None:
            owner = self.index.parents.get(function)
            if isinstance(owner, ast.ClassDef):
                own = not is_static(function) and not is_class_method(function)
                return owner if owner in self.followed and own else None
            function = self.index.function(function)
        return None

    def constructor(self, cls: ast.ClassDef) -> Function | None:
        """The `__init__` of a class."""
        return next((s for s in cls.body if isinstance(s, FUNCTIONS) and s.name == "__init__"), None)

    def is_method(self, function: ast.AST) -> bool:
        """Whether a function is itself a method of a followed class."""
        return (
            isinstance(function, FUNCTIONS) and self.instance(function) is self.index.parents.get(function) is not None
        )

    def method(self, declaration: ast.AST | None, name: str) -> Function | None:
        """The method of a class of the script, through its bases."""
        return next((own[name] for own in map(self._own, self.ancestry(declaration)) if name in own), None)

    @memoised
    def _own(self, cls: ast.ClassDef) -> dict[str, Function]:
        """The functions that a class itself defines."""
        return {s.name: s for s in reversed(cls.body) if isinstance(s, FUNCTIONS)}  # the first of a name

    def inherited(self, declaration: ast.AST | None, name: str) -> Function | None:
        """The method that `super()` finds in a class of the script, where no class has two bases there."""
        family = self.ancestry(declaration)
        for cls in family:
            bases = [
                b for b in cls.bases if isinstance(b, ast.Name) and any(f.node in family for f in self.bindings(b))
            ]
            if len(bases) > 1:
                return None  # which is next, is up to the object
        return self.method(family[1], name) if len(family) > 1 else None

    def ancestry(self, declaration: ast.AST | None) -> list[ast.ClassDef]:
        """A class of the script and those of its bases that the script defines, nearest first."""
        found: list[ast.ClassDef] = []
        queue = [declaration]
        while queue:
            cls = queue.pop(0)
            if not isinstance(cls, ast.ClassDef) or cls in found:
                continue
            found.append(cls)
            for base in cls.bases:
                if isinstance(base, ast.Name):
                    queue += [b.node for b in self.bindings(base) if b.how is How.CLASS]
        return found

    def class_role(self, declaration: ast.AST | None) -> Role | None:
        """What instances of a class of the script are; a DataLoader that deals its data in its own way is none."""
        role = self.base_role(declaration)
        return Role.OBJECT if role is Role.LOADER and self._deals_itself(declaration) else role

    def _deals_itself(self, declaration: ast.AST | None) -> bool:
        """Whether a subclass of DataLoader goes over its data without DataLoader's own iterator."""
        if self.method(declaration, "__iter__") is None:
            return False
        methods = (s for c in self.ancestry(declaration) for s in c.body if isinstance(s, FUNCTIONS))
        used = (n for method in methods if method.name != "__init__" for n in walk(method))
        return not any(isinstance(n, ast.Attribute) and self._is_inherited_iterator(n) for n in used)

    def _is_inherited_iterator(self, node: ast.Attribute) -> bool:
        """`super().__iter__`, or `DataLoader.__iter__`."""
        if node.attr not in ("__iter__", "_get_iterator"):
            return False
        if isinstance(node.value, ast.Call):
            return self.builtin(node.value.func) == "super"
        return self.library_role(self.qualified(node.value) or "") is Role.LOADER

    def base_role(self, declaration: ast.AST | None) -> Role | None:
        """What instances of a class of the script are, by its bases."""
        for cls in self.ancestry(declaration):
            for base in cls.bases:
                qualified = self.qualified(base)
                if qualified is None:
                    continue
                found = self.library_class(qualified)
                if found is not None:
                    return found
        return None

    def is_plain(self, declaration: ast.AST | None) -> bool:
        """Whether a class of the script has no bases but such classes, and Python's own: it is no module."""
        classes = self.ancestry(declaration)
        return bool(classes) and all(
            self.builtin(base) == "object"
            or self.qualified(base) in ("abc.ABC", "typing.Generic")
            or (isinstance(base, ast.Name) and any(b.node in classes for b in self.bindings(base)))
            for cls in classes
            for base in cls.bases
        )

    def library_class(self, qualified: str) -> Role | None:
        """What objects of a class of a library are."""
        return _CLASS_ROLES.get(qualified) or self.library_role(qualified)

    def library_role(self, qualified: str) -> Role | None:
        """What calling a library name gives, by what is known of libraries or said by the project."""
        return self.known.get(qualified) or library.role(qualified)


def own_class(index: Index, node: ast.AST) -> ast.ClassDef | None:
    """The class whose `self` an expression is, in a method of it that binds that to nothing else."""
    function = index.function(node)
    cls = index.parents.get(function) if function is not None else None
    if not isinstance(node, ast.Name) or function is None or not isinstance(cls, ast.ClassDef):
        return None
    first = [*function.args.posonlyargs, *function.args.args][:1]
    bound = index.scopes[function].bindings.get(node.id, [])
    if [b.node for b in bound] != first or is_static(function) or is_class_method(function):
        return None
    return cls


def is_static(function: Function) -> bool:
    """Whether a method is given no object."""
    return _decorated(function, "staticmethod")


def is_class_method(function: Function) -> bool:
    """Whether a method is given its class, whatever it is read from."""
    return _decorated(function, "classmethod") or function.name in ("__init_subclass__", "__class_getitem__")


def stands_apart(function: Function) -> bool:
    """Whether a method has nothing to do with an object: it is static, or one of the class, and never reads that."""
    if not _decorated(function, "classmethod"):
        return is_static(function)
    first = (*function.args.posonlyargs, *function.args.args)[:1]
    reads = (n for n in walk(function) if isinstance(n, ast.Name) and first and n.id == first[0].arg)
    return next(reads, None) is None and bool(first)


def asked_of_class(index: Index, cls: ast.ClassDef, read: ast.Name) -> bool:
    """Whether a class is only named to call a method that has nothing to do with its objects: `Trainer.code()`."""
    attribute = index.parents[read]
    call = index.parents[attribute]
    if not isinstance(attribute, ast.Attribute) or not isinstance(call, ast.Call) or call.func is not attribute:
        return False
    own = [s for s in cls.body if isinstance(s, FUNCTIONS) and s.name == attribute.attr]
    return len(own) == 1 and stands_apart(own[0])


def reads_constant(index: Index, cls: ast.ClassDef, read: ast.Name) -> bool:
    """Whether a class is only named for its name, or for a number or text that its objects have: `Trainer.PATH`."""
    attribute = index.parents[read]
    if not isinstance(attribute, ast.Attribute) or not isinstance(attribute.ctx, ast.Load):
        return False
    bound = [s for s in cls.body if isinstance(s, (ast.Assign, ast.AnnAssign)) and attribute.attr in _bound(s)]
    plain = len(bound) == 1 and isinstance(bound[0].value, ast.Constant)
    return plain or attribute.attr in ("__name__", "__qualname__", "__module__", "__doc__")


def _bound(statement: ast.Assign | ast.AnnAssign) -> set[str]:
    """The variables that a statement of a class binds."""
    return {target.id for target in targets(statement) if isinstance(target, ast.Name)}


def _decorated(function: Function, name: str) -> bool:
    return any(isinstance(d, ast.Name) and d.id == name for d in function.decorator_list)
