"""Classes that are chosen while a script runs: trees in which every call names the class of the object that it makes.

`Exp = Exp_Main` is another name for a class, `TRAINERS[args.trainer]` gives one of several, and after
`if args.wgan: gan = WGAN() else: gan = GAN()` a variable has an object of one of several. What a class does is known
only where it is known which it is. So where a class that trains is chosen, once in the life of the script, there is a
copy of the tree for each choice. In it the chosen class is called by its own name, and none of the others is made.
So is a function that trains: `train = train_pairs if args.pairs else train_single`.
Of these, and of others of their families that nobody uses, nothing is left in it.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from accelift_codemod.facts.classes import Classes, asked_of_class, stands_apart
from accelift_codemod.facts.copying import Copier, around
from accelift_codemod.facts.index import FUNCTIONS, MARK, Binding, Function, How, Index, Scope
from accelift_codemod.facts.inheritance import trainers
from accelift_codemod.facts.names import Names
from accelift_codemod.facts.tree import is_constant, own_nodes, walk
from accelift_codemod.facts.uses import is_called, often, reads

_MOST = 16  # trees of a script
# What gets at classes by their names, and libraries that have none of the script's.
_LOOKING_UP = frozenset({"globals", "locals", "eval", "exec", "__import__"})
_LIBRARIES = frozenset({"torch", "torchvision", "numpy", "timm"})
_LISTING = frozenset({"list", "sorted", "tuple", "set", "len"})  # what only names the keys of a dict


@dataclass(frozen=True)
class Case:
    """The tree to draw facts from, if classes are chosen in one way."""

    tree: ast.Module
    said: str = ""  # "`gan` is a WGAN"
    originals: Mapping[ast.AST, ast.AST] = field(default_factory=dict)  # empty: the tree is the original


@dataclass(frozen=True)
class Choices:
    """The tree in which classes are named by their names, and those of all ways to choose, if there are several."""

    whole: Case
    cases: tuple[Case, ...] = ()
    classes: frozenset[str] = frozenset()  # that are chosen, and their bases
    functions: bool = False  # whether functions that train are chosen, too


@dataclass
class _Choice:
    """One of some classes, and where that shows."""

    subject: str
    classes: list[ast.ClassDef | Function]
    read: list[ast.expr] = field(default_factory=list)  # what stands for the class that is chosen, where it is called
    named: list[ast.Name] = field(default_factory=list)  # where classes are named, to be chosen from
    made: list[tuple[ast.Call, ast.ClassDef | None]] = field(default_factory=list)  # objects, of which one is made

    def instead(self, chosen: ast.ClassDef | Function) -> dict[ast.AST, str]:
        """The names in the place of nodes; empty ones for None."""
        return {
            **dict.fromkeys(self.read, chosen.name),
            **dict.fromkeys(self.named, ""),
            **{call: "" for call, cls in self.made if cls is not chosen},
        }


def find(index: Index) -> Choices:
    """The trees of a script, for the classes that train and are chosen."""
    trains = trainers(index) | _handed_on(index)
    whole = Case(index.tree)
    if not trains:
        return Choices(whole)
    finder = _Finder(index, trains)
    plain = [c for c in finder.choices if len(c.classes) == 1]
    unused = finder.unused()
    if plain or unused:
        whole = _case(index, [(c, c.classes[0]) for c in plain], unused)
    several = [c for c in finder.choices if len(c.classes) > 1]
    ways = list(product(*(c.classes for c in several)))
    if not several or len(ways) > _MOST:
        return Choices(whole)
    known = [(c, c.classes[0]) for c in plain]
    cases = (_case(index, [*known, *zip(several, way, strict=True)], unused) for way in ways)
    families = (family for c in several for cls in c.classes for family in finder.names.ancestry(cls))
    functions = any(isinstance(one, FUNCTIONS) for c in several for one in c.classes)
    return Choices(whole, tuple(cases), frozenset(cls.name for cls in families), functions)


def _handed_on(index: Index) -> set[ast.AST]:
    """The functions that run a backward pass, and are named where they are not called."""
    found = {index.function(call) for call in index.methods.get("backward", ())}
    functions = (f for f in found if f is not None and index.scope(f).is_module and not f.decorator_list)
    return {f for f in functions if not all(is_called(index, n) for n in reads(index, index.module, f.name))}


def _case(index: Index, way: list[tuple[_Choice, ast.ClassDef | Function]], unused: set[ast.ClassDef]) -> Case:
    instead: dict[ast.AST, str] = {}
    for choice, cls in way:
        instead.update(choice.instead(cls))
    said = [
        f"`{c.subject}` is {'a ' if isinstance(cls, ast.ClassDef) else ''}{cls.name.rpartition(MARK)[2]}"
        for c, cls in way
        if len(c.classes) > 1
    ]

    def other(node: ast.expr) -> ast.expr | None:
        if node not in instead:
            return None
        return ast.Name(instead[node], ast.Load()) if instead[node] else ast.Constant(None, None)

    idle = unused | _idle(index, _classes(cls for c, chosen in way for cls in c.classes if cls is not chosen), instead)

    def empty(cls: ast.ClassDef) -> ast.ClassDef | None:
        if cls not in idle:
            return None
        asked: list[ast.stmt] = [copier.copy(s) for s in cls.body if isinstance(s, FUNCTIONS) and stands_apart(s)]
        return ast.ClassDef(cls.name, [], [], [*asked, _kept(index, cls, imports=cls in unused)], [])

    hooks = dict.fromkeys((ast.Name, ast.Call, ast.Subscript, ast.IfExp), other)
    copier = Copier({**hooks, ast.ClassDef: empty}, around(index, (*instead, *idle)))
    return Case(copier.copy(index.tree), " and ".join(said), copier.originals)


def _classes(definitions: Iterable[ast.AST]) -> list[ast.ClassDef]:
    return [d for d in definitions if isinstance(d, ast.ClassDef)]


def _kept(index: Index, cls: ast.ClassDef, imports: bool) -> ast.stmt:
    """A function that only reads the globals that a class reads: they are used, though that does not run.

    Not what is imported, if the class is chosen in another case, which has a say in what becomes of that.
    """
    kinds = (How.ASSIGN, How.IMPORT) if imports else (How.ASSIGN,)
    found = dict[str, ast.stmt]()
    for name in (n for s in cls.body for n in walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)):
        bindings = index.module.bindings[name.id] if index.scope(name).owner(name.id) is index.module else []
        if bindings and all(b.how in kinds for b in bindings):
            found.setdefault(name.id, ast.copy_location(ast.Expr(name), name))
    nothing = ast.arguments([], [], None, [], [], None, [])
    body = [*found.values()] or [ast.copy_location(ast.Pass(), cls.body[0])]
    return ast.copy_location(ast.FunctionDef("unused", nothing, body, []), cls.body[0])


def _idle(index: Index, classes: list[ast.ClassDef], gone: Mapping[ast.AST, str]) -> set[ast.ClassDef]:
    """Of some classes, those that nothing else names: their code does not run."""
    found = {cls for cls in classes if not cls.decorator_list}
    if found and _looks_up(index):
        return set()
    while True:
        named = {
            cls
            for cls in found
            for read in reads(index, index.module, cls.name)
            if not gone.keys() & {read, *index.ancestors(read)}
            and not found.intersection(index.ancestors(read))
            and not asked_of_class(index, cls, read)
        }
        if not named:
            return found
        found -= named


def _looks_up(index: Index) -> bool:
    """Whether the script may get at a class by its name: `globals()[name]`, `getattr(trainers, name)`."""
    names = Names(index)
    if "__subclasses__" in index.attributes:
        return True
    if any(names.qualified(node) == "sys.modules" for node in index.attributes.get("modules", ())):
        return True
    for call in index.calls:
        function = names.builtin(call.func)
        if function in _LOOKING_UP or (function == "vars" and not call.args):
            return True
        if names.qualified(call.func) == "importlib.import_module":
            return True
        if function == "getattr" and len(call.args) > 1 and not isinstance(call.args[1], ast.Constant):
            library = names.qualified(call.args[0])
            if library is not None and library.partition(".")[0] not in _LIBRARIES:
                return True
    return False


class _Finder:
    """Finds where one of some classes is chosen, of which one trains."""

    def __init__(self, index: Index, trains: set[ast.AST]) -> None:
        self.index = index
        self.names = Classes(index, {}, {})
        self.trains = {cls for cls in index.classes if trains.intersection(self.names.ancestry(cls))}
        self.functions = {f for f in trains if isinstance(f, FUNCTIONS)}
        self.choices: list[_Choice] = []
        self._tables: dict[ast.Name, list[ast.expr]] = {}  # reads of dicts of classes, and the look-ups in each dict
        for scope in list(index.scopes.values()):
            for name, bindings in scope.bindings.items():
                self._take(self._objects(name, bindings))
                self._take(self._variable(scope, name, bindings))
        for function in index.functions:
            self._take(self._returned(function))
        for call in index.calls:
            if isinstance(call.func, (ast.Subscript, ast.Call, ast.IfExp)):
                self._take(self._called(call))
        read = {e for c in self.choices for e in c.read} | {
            b.value for c in self.choices for e in c.read if isinstance(e, ast.Name) for b in self.names.bindings(e)
        }
        for looked_up in self._tables.values():
            if not read.issuperset(looked_up):  # one of them goes where it is not followed
                self.choices = [c for c in self.choices if not self._uses(c, looked_up)]

    def _take(self, choice: _Choice | None) -> None:
        if choice is not None and (self.trains | self.functions).intersection(choice.classes):
            self.choices.append(choice)

    def _uses(self, choice: _Choice, looked_up: list[ast.expr]) -> bool:
        values = (b.value for e in choice.read if isinstance(e, ast.Name) for b in self.names.bindings(e))
        return any(e in looked_up for e in (*choice.read, *values))

    def unused(self) -> set[ast.ClassDef]:
        """The classes that nobody makes objects of, but of others of their families, which train."""
        families = {cls: self.names.ancestry(cls) for cls in self.index.classes if cls.bases}
        bases = {base for cls in self.trains for base in families.get(cls, [])[1:]}
        idle = _idle(self.index, [cls for cls, family in families.items() if bases.intersection(family[1:])], {})
        used = {b for call in self.index.calls if (c := self._class(call.func)) for b in self.names.ancestry(c)} - idle
        named = {n for c in self.choices for cls in c.classes for n in self.names.ancestry(cls)} - idle
        return {cls for cls in idle if (used | named).intersection(families[cls])}

    # ---- objects of one of several classes

    def _objects(self, name: str, bindings: list[Binding]) -> _Choice | None:
        """`if a: gan = GAN() else: gan = WGAN()`."""
        if not all(b.how is How.ASSIGN and not b.path and b.value is not None for b in bindings):
            return None
        return self._made(name, [b.value for b in bindings if b.value is not None])

    def _returned(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> _Choice | None:
        """The same of what a function returns."""
        returned = [n.value for n in own_nodes(*function.body) if isinstance(n, ast.Return)]
        return self._made(f"{function.name.rpartition(MARK)[2]}()", [r for r in returned if r is not None])

    def _made(self, subject: str, values: list[ast.expr]) -> _Choice | None:
        parts = [part for value in values for part in _arms(value)]
        found: list[tuple[ast.Call, ast.ClassDef | None]] = []
        for part in parts:
            cls = self._class(part.func) if isinstance(part, ast.Call) else None
            if isinstance(part, ast.Call) and (cls is not None or self._fails(part)):
                found.append((part, cls))
            elif not is_constant(part, None):
                return None
        classes = list(dict.fromkeys(cls for _, cls in found if cls is not None))
        calls = [call for call, _ in found]
        if not classes or len({cls for _, cls in found}) < 2 or not self._one(calls):
            return None
        return _Choice(subject.rpartition(MARK)[2], [*classes], made=found)

    def _fails(self, call: ast.Call) -> bool:
        """Whether a call is of a name that nothing binds."""
        name = self.names.builtin(call.func)
        return name is not None and not hasattr(builtins, name) and not self.index.star_imports

    # ---- classes that have another name, or are looked up

    def _variable(self, scope: Scope, name: str, bindings: list[Binding]) -> _Choice | None:
        """`Trainer = TRAINERS[args.trainer]`, or `Trainer = FastTrainer`."""
        choice = _Choice(name.rpartition(MARK)[2], [])
        for binding in bindings:
            value = binding.value
            if binding.how is not How.ASSIGN or binding.path or value is None or not self._options(value, choice):
                return None
        loads = reads(self.index, scope, name) if bindings else []
        if not loads or not all(is_called(self.index, load) for load in loads):
            return None
        choice.read += loads
        if len(choice.classes) == 1:  # another name of a function is followed anyway
            return choice if isinstance(choice.classes[0], ast.ClassDef) else None
        return choice if self._one([b.value for b in bindings if b.value is not None]) else None

    def _called(self, call: ast.Call) -> _Choice | None:
        """`TRAINERS[args.trainer](model)`."""
        choice = _Choice("the object made here", [])
        if not self._options(call.func, choice) or (len(choice.classes) > 1 and often(self.index, call)):
            return None
        choice.subject = " ".join(ast.unparse(call.func).rpartition(MARK)[2].split())
        choice.read.append(call.func)
        return choice

    def _options(self, node: ast.expr, choice: _Choice) -> bool:
        """Whether an expression is certainly one of some classes, which are noted."""
        if isinstance(node, ast.Name):
            cls = self._class(node) or self._function(node)
            if cls is None:
                return False
            choice.named.append(node)
            if cls not in choice.classes:
                choice.classes.append(cls)
            return True
        if isinstance(node, ast.IfExp):
            return self._options(node.body, choice) and self._options(node.orelse, choice)
        table, others = _looked_up(node)
        if isinstance(table, ast.Name):
            known = self._table(table)
            return known is not None and all(self._options(n, choice) for n in (*known.values, *others))
        if isinstance(table, ast.Dict):
            return None not in table.keys and all(self._options(n, choice) for n in (*table.values, *others))
        return False

    def _table(self, read: ast.Name) -> ast.Dict | None:
        """The dict that a variable certainly is, if nothing is done with it but looking things up by their keys."""
        owner = self.index.scope(read).owner(read.id)
        bindings = owner.bindings[read.id] if owner is not None else []
        value = bindings[0].value if len(bindings) == 1 and bindings[0].how is How.ASSIGN else None
        if owner is None or bindings[0].path or not isinstance(value, ast.Dict) or None in value.keys:
            return None
        looked_up: list[ast.expr] = []
        for load in reads(self.index, owner, read.id):
            parent = self.index.parents[load]
            outer = self.index.parents[parent]
            if isinstance(parent, ast.Compare) and load in parent.comparators:
                continue
            if isinstance(parent, ast.Call) and self.names.builtin(parent.func) in _LISTING:
                continue
            if isinstance(parent, ast.Attribute) and parent.attr == "keys" and is_called(self.index, parent):
                continue
            found = outer if isinstance(parent, ast.Attribute) else parent
            if not isinstance(found, ast.expr) or _looked_up(found)[0] is not load:
                return None
            looked_up.append(found)
        self._tables[read] = looked_up
        return value

    def _class(self, node: ast.expr) -> ast.ClassDef | None:
        """The class of the script that an expression certainly names."""
        found = self.names.bindings(node) if isinstance(node, ast.Name) else []
        cls = found[0].node if len(found) == 1 and found[0].how is How.CLASS else None
        return cls if isinstance(cls, ast.ClassDef) and self.index.scope(cls).is_module else None

    def _function(self, node: ast.expr) -> Function | None:
        """The function of the script that an expression certainly names."""
        found = self.names.bindings(node) if isinstance(node, ast.Name) and self.functions else []
        function = found[0].node if len(found) == 1 and found[0].how is How.FUNCTION else None
        plain = isinstance(function, FUNCTIONS) and not function.decorator_list
        return function if plain and self.index.scope(function).is_module else None  # type: ignore[return-value,arg-type]

    def _one(self, nodes: Sequence[ast.expr]) -> bool:
        """Whether at most one of some expressions is evaluated, and that once."""
        return not any(often(self.index, n) for n in nodes) and all(
            self._apart(a, b) for a, b in combinations(nodes, 2)
        )

    def _apart(self, left: ast.expr, right: ast.expr) -> bool:
        """Whether two expressions are in different arms of one condition, or returned by one function."""
        met = self.index.meeting(left, right)
        if met is None:
            return False
        parent, one, other = met
        if isinstance(parent, ast.If):
            return parent.test not in (one, other) and (one in parent.body) != (other in parent.body)
        if isinstance(parent, ast.IfExp):
            return parent.test not in (one, other)
        if isinstance(parent, ast.Match):
            return parent.subject not in (one, other)
        ends = [self.index.statement(n) for n in (left, right)]
        return all(isinstance(end, ast.Return) for end in ends) and isinstance(parent, (*FUNCTIONS, ast.If, ast.With))


def _arms(node: ast.expr) -> Iterator[ast.expr]:
    """What an expression may give: the arms of a conditional one."""
    if isinstance(node, ast.IfExp):
        yield from (*_arms(node.body), *_arms(node.orelse))
    else:
        yield node


def _looked_up(node: ast.expr) -> tuple[ast.expr | None, Iterable[ast.expr]]:
    """What an expression looks something up in, `d[k]` or `d.get(k)`, and what it gives if that is not there."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return node.value, ()
    func = node.func if isinstance(node, ast.Call) and not node.keywords else None
    if isinstance(func, ast.Attribute) and func.attr == "get" and isinstance(node, ast.Call) and node.args:
        return func.value, node.args[1:]
    return None, ()
