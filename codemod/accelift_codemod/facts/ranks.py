"""Which code runs on some of the processes only, and why."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from accelift_codemod.facts.absent import Absent
from accelift_codemod.facts.accelerate import AccelerateResolver, is_state
from accelift_codemod.facts.index import FUNCTIONS, Function, How, parameters
from accelift_codemod.facts.signatures import default
from accelift_codemod.facts.timeline import Timeline
from accelift_codemod.facts.tree import is_remark, walk

_ALONE = frozenset({"is_main_process", "is_local_main_process", "is_last_process"})
_INDEX = frozenset({"process_index", "local_process_index"})
_DECORATORS = frozenset(
    {"on_main_process", "on_local_main_process", "on_last_process", "on_process", "on_local_process"}
)
_COUNTS = frozenset({"num_processes", "use_distributed", "distributed_type"})
# What is registered with these runs where the other is called.
_HOOKS = {"register_save_state_pre_hook": "save_state", "register_load_state_pre_hook": "load_state"}
_PROCESS = frozenset("rank ranks main master process processes proc primary leader chief".split())
# Names of what tells that there is one process, or that all are meant. They are read only to be silent.
_FEW = frozenset("distributed dist ddp parallel world gpu gpus cuda cpu local single multi node nodes num".split())
_ALL = frozenset("all every each debug verbose".split())
_STEPS = 4  # from one function to those that call it
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class Guard:
    """A test (or decorator) that lets some of the processes through.

    `chosen` says that it is those the test names (the main process); otherwise it is the others. `left` says that
    the rest has left the function or iteration before.
    """

    node: ast.AST
    chosen: bool
    left: bool = False


class Ranks:
    """Reads tests that ask which process this is."""

    def __init__(self, resolver: AccelerateResolver) -> None:
        self.resolver = resolver
        self.index = resolver.index
        self.timeline = Timeline(resolver)
        self.absent = Absent(resolver, self.timeline)

    def is_rank(self, node: ast.AST) -> bool:
        """Whether an expression is the number of this process."""
        if isinstance(node, ast.Attribute) and node.attr in _INDEX:
            return self._of_state(node.value)
        if isinstance(node, ast.Call):
            return self.resolver.qualified(node.func) == "torch.distributed.get_rank" and not node.args
        if isinstance(node, ast.Name):
            bound = self._held(node)
            return bound is not None and self.is_rank(bound)
        return False

    def mentions_device(self, node: ast.AST) -> bool:
        """Whether an expression asks for the device of this process."""
        return any(isinstance(n, ast.Attribute) and n.attr == "device" and self._of_state(n.value) for n in walk(node))

    def _of_state(self, node: ast.AST) -> bool:
        values = self.resolver.values(node)
        return bool(values) and all(is_state(v) for v in values)

    def _held(self, node: ast.Name) -> ast.expr | None:
        bindings = self.resolver.bindings(node)
        if len(bindings) == 1 and bindings[0].how is How.ASSIGN and not bindings[0].path:
            value = bindings[0].value
            return None if value is node else value
        return None

    def splits(self, test: ast.AST, depth: int = 0) -> tuple[bool | None, bool | None]:
        """For a test that is true, and for one that is false: whether it lets only the named processes through (True),
        only others (False), or not certainly only some (None)."""
        if depth > 8:
            return None, None
        if isinstance(test, ast.Attribute) and test.attr in _ALONE and self._of_state(test.value):
            return True, False
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            if self.is_rank(test.operand):
                return True, False
            yes, no = self.splits(test.operand, depth + 1)
            return no, yes
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            sides = (test.left, test.comparators[0])
            if any(map(self.is_rank, sides)) and any(isinstance(s, ast.Constant) for s in sides):
                if isinstance(test.ops[0], ast.Eq):
                    return True, False
                if isinstance(test.ops[0], (ast.NotEq, ast.Gt)):
                    return False, True
            return None, None
        if isinstance(test, ast.BoolOp):
            if any(isinstance(n, ast.Attribute) and n.attr in _COUNTS for n in walk(test)):
                return None, None  # it may be about one process
            parts = [self.splits(value, depth + 1) for value in test.values]
            if isinstance(test.op, ast.And):
                return next((yes for yes, _ in parts if yes is not None), None), None
            return None, next((no for _, no in parts if no is not None), None)
        if isinstance(test, ast.Name):
            found = {self.splits(held, depth + 1) for held in self._held_by_all(test)}
            return found.pop() if len(found) == 1 else (None, None)
        told = self._told_by(test)
        return self.splits(told, depth + 1) if told is not None else (None, None)

    def _told_by(self, test: ast.AST) -> ast.expr | None:
        """What a property, or a function of the script that is given nothing, does nothing but return."""
        function: ast.AST | None = None
        if isinstance(test, ast.Attribute):
            classes = {v.declaration for v in self.resolver.values(test.value)}
            function = self.resolver.method(classes.pop(), test.attr) if len(classes) == 1 else None
            function = function if function in self.resolver.properties else None
        elif isinstance(test, ast.Call) and not test.args and not test.keywords:
            function = self.resolver.callee(test)
        if not isinstance(function, FUNCTIONS):
            return None
        if function.decorator_list and function not in self.resolver.properties:
            return None
        body = [s for s in function.body if not is_remark(s)]
        return body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None

    def _held_by_all(self, node: ast.Name) -> list[ast.expr]:
        """What a variable holds, or what each call gives the parameter that it is; empty if that is not known."""
        held = self._held(node)
        if held is not None:
            return [held]
        bindings = self.resolver.bindings(node)
        if len(bindings) != 1 or bindings[0].how is not How.PARAMETER:
            return []
        given = self.resolver.handed(bindings[0])
        known = [one for one in given if one is not None]
        return known if len(known) == len(given) else []

    def guard(self, node: ast.AST) -> Guard | None:
        """What lets only some processes come to a node, in the node's own function."""
        child = node
        for parent in self.index.ancestors(node):
            if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
                yes, no = self.splits(parent.test)
                body = parent.body if isinstance(parent.body, list) else [parent.body]
                side = yes if child in body else no
                if side is not None:
                    return Guard(parent.test, side)
            if isinstance(child, ast.stmt) and not isinstance(child, ast.ExceptHandler):
                left = self._left_before(child)
                if left is not None:
                    return left
            if isinstance(parent, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
                return self._decorator(parent) if isinstance(parent, FUNCTIONS) and child in parent.body else None
            child = parent
        return None

    def _left_before(self, statement: ast.stmt) -> Guard | None:
        """An `if` before a statement in its block with which some processes have left."""
        for test in self.left_before(statement):
            side = self.splits(test)[1]
            if side is not None:
                return Guard(test, side, left=True)
        return None

    def left_before(self, statement: ast.stmt) -> Iterator[ast.expr]:
        """The tests of `if` statements before a statement in its block that leave the function or iteration."""
        try:
            block, place = self.index.block(statement)
        except KeyError:
            return
        for earlier in block[:place]:
            if isinstance(earlier, ast.If) and not earlier.orelse and isinstance(earlier.body[-1], _LEAVES):
                if not isinstance(earlier.body[-1], ast.Raise):
                    yield earlier.test

    def _decorator(self, function: Function) -> Guard | None:
        for decorator in function.decorator_list:
            node = decorator.func if isinstance(decorator, ast.Call) else decorator
            if isinstance(node, ast.Attribute) and node.attr in _DECORATORS and self._of_state(node.value):
                return Guard(decorator, True)
        return None

    def perhaps_alone(self, node: ast.AST, depth: int = 0) -> bool:
        """Whether a node may be meant for some processes only: by a guard, a test that cannot be read, or if there is
        no accelerator.

        For lints that report what every process does: they are silent if any test on the way may ask for the process.
        """
        if self.guard(node) is not None or self.absent.at(node):
            return True
        child = node
        for parent in self.index.ancestors(node):
            if isinstance(parent, (ast.If, ast.IfExp, ast.While)) and self._chooses(parent, child):
                return True
            if isinstance(child, ast.stmt) and any(map(self._asks, self.left_before(child))):
                return True
            child = parent
            if isinstance(parent, (ast.With, ast.AsyncWith)) and any(
                isinstance(n, ast.Attribute) and n.attr.endswith("process_first")
                for item in parent.items
                for n in walk(item.context_expr)
            ):
                return True
            if isinstance(parent, FUNCTIONS):
                if any(mentions_process(d) for d in parent.decorator_list):
                    return True
                places = self.calls_of(parent, node) or self.timeline.handed_on(parent)
                if not places:
                    return bool(self._sites(parent))  # no call gives the flags that it needs
                return depth < 6 and all(self.perhaps_alone(s, depth + 1) for s in places)
        return False

    def calls_of(self, function: Function, node: ast.AST) -> list[ast.Call]:
        """The calls of a function that may come to a node in it: except with False for a flag it needs."""
        flags = {p.arg: p for p in parameters(function.args)}
        needed: set[str] = set()
        child = node
        for parent in self.index.ancestors(node):
            if parent is function:
                break
            if isinstance(parent, ast.If) and child in parent.body:
                test = parent.test
                every = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
                needed |= {t.id for t in every if isinstance(t, ast.Name) and t.id in flags}
            child = parent
        found = []
        for call in self._sites(function):
            given = self.resolver.bind(call, function)
            values = [] if given is None else [given.get(n, default(function, flags[n])) for n in needed]
            if not any(isinstance(v, ast.Constant) and not v.value for v in values):
                found.append(call)
        return found

    def _sites(self, function: Function) -> list[ast.Call]:
        """The calls that may run a function."""
        sites = [*self.resolver.sites(function), *self._hooked(function)]
        owner = self.index.parents.get(function)
        if isinstance(owner, ast.ClassDef):
            # What is called of an object that cannot be followed may be this.
            sites = sites or self._of_unknown(function.name)
            sites += self.resolver.sites(owner) if function.name == "__init__" else []
        return sites

    def _of_unknown(self, name: str) -> list[ast.Call]:
        """The calls of methods of a name of objects that cannot be followed."""
        return [call for call in self.index.methods.get(name, []) if self._is_unknown(call.func)]

    def _is_unknown(self, method: ast.expr) -> bool:
        """Whether a method that is asked for is of nothing that a library has made, or that can be followed."""
        call = self.index.parents.get(method)
        if isinstance(call, ast.Call) and call.func is method and self.resolver.callee(call) is not None:
            return False
        of_library = isinstance(method, ast.Attribute) and self._of_state(method.value)
        return not of_library and self.resolver.qualified(method) is None

    def from_elsewhere(self, node: ast.AST, steps: int = _STEPS) -> bool:
        """Whether only something unknown may run the function around a node, and that on one process, too: a method
        that nothing here calls by its name, a hook of what nothing here does, or what is only called from there."""
        function = self.index.function(node)
        if not isinstance(function, FUNCTIONS) or function in self.resolver.run_by_all:
            return False
        if sites := self.resolver.sites(function) if steps else []:
            elsewhere = [site for site in sites if self.from_elsewhere(site, steps - 1)]
            return bool(elsewhere) and all(site in elsewhere or self.perhaps_alone(site) for site in sites)
        if isinstance(self.index.parents.get(function), ast.ClassDef):
            name = function.name
            asked = any(map(self._is_unknown, self.index.attributes.get(name, [])))
            return not (asked or name.startswith("__") or name == "forward")
        if self._is_hook(function):
            return not any(True for _ in self._hooked(function))
        return steps < _STEPS and not self.timeline.handed_on(function)

    def _is_hook(self, function: Function) -> bool:
        return any(
            isinstance(a, ast.Name) and self.resolver.may_be(a, function)
            for registers in _HOOKS
            for call in self.index.methods.get(registers, [])
            for a in call.args
        )

    def _hooked(self, function: Function) -> Iterator[ast.Call]:
        """The calls of an accelerator that run a function which was registered with it."""
        for registers, runs in _HOOKS.items():
            for call in self.index.methods.get(registers, []):
                if any(isinstance(a, ast.Name) and self.resolver.may_be(a, function) for a in call.args):
                    yield from self.index.methods.get(runs, [])

    def counted(self, node: ast.AST) -> bool:
        """Whether a node is in a branch for some number of processes, or way of sharing them out, in its function."""
        child = node
        for parent in self.index.ancestors(node):
            tests = [*self.left_before(child)] if isinstance(child, ast.stmt) else []
            if isinstance(parent, (ast.If, ast.IfExp)):
                tests.append(parent.test)
            if any(isinstance(n, ast.Attribute) and n.attr in _COUNTS for test in tests for n in walk(test)):
                return True
            if isinstance(parent, FUNCTIONS):
                return False
            child = parent
        return False

    def _chooses(self, branch: ast.If | ast.IfExp | ast.While, part: ast.AST) -> bool:
        """Whether a branch may come to a part of it on some processes only."""
        within = branch.body if isinstance(branch.body, list) else [branch.body]
        return self._lets_some(branch.test) if part in within else self._asks(branch.test)

    def _lets_some(self, test: ast.expr) -> bool:
        """Whether a test may be true on some processes only: not if all pass it by another arm of an `or`."""
        if not isinstance(test, ast.BoolOp):
            return self._asks(test)
        if isinstance(test.op, ast.And):
            return any(map(self._lets_some, test.values))
        return self._asks(test) and all(self._lets_some(arm) or _is_meant(arm) for arm in test.values)

    def _asks(self, test: ast.AST) -> bool:
        if any(isinstance(n, ast.Name) and n.id == "__name__" for n in walk(test)):
            return False
        if mentions_process(test) or any(_last_name(n) in self._flags for n in walk(test)):
            return True
        return any(isinstance(n, ast.Name) and any(map(mentions_process, self._held_by_all(n))) for n in walk(test))

    @cached_property
    def _flags(self) -> set[str]:
        """The names of variables, attributes and arguments that may be set to whether this is some process:
        `Tracker(quiet=rank != 0)`. Names are read here only to be silent."""
        given = [(k.arg, k.value) for call in self.index.calls for k in call.keywords if k.arg]
        bindings = [bs for scope in self.index.scopes.values() for bs in scope.bindings.values()]
        bindings += self.index.attribute_bindings.values()
        given += [(b.name, b.value) for bs in bindings for b in bs if b.how is How.ASSIGN and b.value and not b.path]
        found: set[str] = set()
        for _ in range(_STEPS):
            found |= {name.rpartition(".")[2] for name, value in given if self._is_flag(value, found)}
        return found

    def _is_flag(self, node: ast.expr, known: set[str]) -> bool:
        """Whether an expression tells whether this is some process, or is one of the known names."""
        if isinstance(node, ast.IfExp):
            return self._is_flag(node.body, known) or self._is_flag(node.orelse, known)
        if isinstance(node, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
            return mentions_process(node) or any(_last_name(n) in known for n in walk(node))
        if _last_name(node) in _ALONE | known:
            return True
        return isinstance(node, ast.Attribute) and self.splits(node) != (None, None)  # a property that tells it


def _last_name(node: ast.AST) -> str:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.rpartition(".")[2]


def mentions_process(node: ast.AST) -> bool:
    """Whether an expression may ask which process this is. Names are read here only to be silent."""
    for part in walk(node):
        name = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            name = part.value
        if not _PROCESS.isdisjoint(words(name)):
            return True
    return False


def _is_meant(node: ast.expr) -> bool:
    """Whether an expression may ask how many processes there are, for a setting in which there is one, or whether all
    of them are meant."""
    names = {n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "") for n in walk(node)}
    return not names.isdisjoint(_COUNTS) or any((_FEW | _ALL) & words(name) for name in names)


def words(name: str) -> set[str]:
    """The words that a name is put together of, in small letters: of `isMainRank0`, is, main and rank."""
    found = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
    return found | {word[2:] for word in found if word.startswith("is")}
