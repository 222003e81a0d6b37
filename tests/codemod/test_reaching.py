"""Which bindings reach a read: the same as if each binding and each read were looked at together, one by one."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from accelift_codemod.facts.index import FUNCTIONS, Binding, How, Index, Scope, position
from accelift_codemod.facts.names import Names
from scripts import TRAINS, script

FIXTURES = Path(__file__).parents[2] / "fixtures"
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_OPENS = (ast.For, ast.AsyncFor, ast.With, ast.AsyncWith)


class OneByOne:
    """The rule, as it is said: of the bindings before a read, the latest that surely hides the others ends them."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.index = names.index

    def reaching(self, name: ast.Name, found: list[Binding]) -> list[Binding]:
        """The bindings of a variable of a function that can reach a read of it there."""
        index, here = self.index, position(name)
        chain, loops = index.chain(name), index.enclosing_loops(name)
        reached: list[Binding] = []
        killer: ast.AST | None = None
        for binding in sorted(found, key=lambda b: position(b.node), reverse=True):
            if position(binding.node) >= here:
                continue
            if isinstance(killer, ast.If) and position(binding.node) < position(killer):
                break
            if self._own(binding, chain):
                continue
            reached.append(binding)
            if self._dominates(binding, chain):
                killer = binding.node
                break
            killer = killer or self._chosen(binding, found, chain)
        around = index.enclosing_loops(killer) if killer is not None else []
        if killer is not None and isinstance(statement := index.statement(killer), (ast.For, ast.AsyncFor)):
            around = [*around, statement]
        if all(loop in around for loop in loops):
            return reached
        for binding in found:
            if binding in reached or (position(binding.node) < here and not self._own(binding, chain)):
                continue
            shared = [loop for loop in index.enclosing_loops(binding.node) if loop in loops]
            reached += [binding] if any(loop not in around for loop in shared) else []
        return reached

    def _own(self, binding: Binding, chain: list[ast.stmt]) -> bool:
        if binding.how is How.PARAMETER:
            return False
        statement = self.index.statement(binding.node)
        return statement is chain[-1] and isinstance(statement, (ast.Assign, ast.AnnAssign))

    def _dominates(self, binding: Binding, chain: list[ast.stmt]) -> bool:
        if binding.how is How.PARAMETER:
            return True
        statement = self.index.statement(binding.node)
        return isinstance(statement, _OPENS) if statement in chain else self.names.runs_before(statement, chain)

    def _chosen(self, binding: Binding, found: list[Binding], chain: list[ast.stmt]) -> ast.If | None:
        assigned = {self.index.statement(b.node) for b in found if b.how is How.ASSIGN}
        chosen = None
        for parent in self.index.ancestors(self.index.statement(binding.node)):
            if not isinstance(parent, ast.If):
                break
            if self.names.runs_before(parent, chain) and _binds(parent, assigned):
                chosen = parent
        return chosen


def _binds(choice: ast.If, assigned: set[ast.stmt]) -> bool:
    return all(
        any(s in assigned or (isinstance(s, ast.If) and _binds(s, assigned)) for s in arm)
        or isinstance(arm[-1] if arm else None, _LEAVES)
        for arm in (choice.body, choice.orelse)
    )


def reads(index: Index) -> Iterator[tuple[ast.Name, Scope, list[Binding]]]:
    """The reads of variables that their own function, or the module, binds several times, and these bindings."""
    for scope in index.scopes.values():
        for name, loads in scope.loads.items():
            owner = scope.owner(name)
            found = [b for b in owner.bindings[name] if b.how is not How.AUGMENT] if owner is not None else []
            if owner is None or owner.is_class or len(found) < 2:
                continue
            home = owner.node if isinstance(owner.node, FUNCTIONS) else None
            if all(b.how is How.PARAMETER or index.function(b.node) is home for b in found):
                yield from ((load, owner, found) for load in loads if index.function(load) is home)


def check(text: str) -> int:
    """Compare what reaches each read of a script with the rule; how many reads there were."""
    index = Index(ast.parse(text))
    names = Names(index)
    rule = OneByOne(names)
    number = 0
    for read, owner, found in reads(index):
        number += 1
        expected = rule.reaching(read, found)
        assert names.reaching(read, owner) == expected, f"line {read.lineno}: {read.id}"
    return number


PIECES = """\
# plain
x = 1
print(x)
x = 2
print(x)
# an if
x = 1
if a:
    x = 2
print(x)
# both arms
x = 1
if a:
    x = 2
else:
    x = 3
print(x)
x = x + 1
print(x)
# an arm that leaves
def f():
    x = 1
    if a:
        x = 2
    else:
        return x
    print(x)
# elif
if a:
    x = 1
elif b:
    x = 2
else:
    x = 3
print(x)
# elif without else
x = 0
if a:
    x = 1
elif b:
    x = 2
print(x)
# nested
x = 0
if a:
    if b:
        x = 1
    else:
        x = 2
    print(x)
else:
    x = 3
print(x)
# a loop
x = 0
for i in y:
    print(x)
    x = x + i
    print(x)
print(x)
# its variable
x = 0
for x in y:
    print(x)
    x = 2
    print(x)
print(x)
# loops in loops
x = 0
for i in y:
    for j in i:
        print(x)
        x = j
    print(x)
    x = 1
print(x)
# a while
x = 0
while x < 3:
    x = x + 1
    if x:
        continue
    x = 4
else:
    print(x)
print(x)
# a context that lets pass
x = 0
with open(p) as f:
    x = f.read()
print(x)
# one that does not
x = 0
with lock():
    x = 1
    print(x)
print(x)
# several of both
x = 0
with open(p):
    x = 1
with lock():
    x = 2
print(x)
with lock():
    with open(p):
        x = 3
print(x)
# a choice in a context
x = 0
with open(p):
    if a:
        x = 1
    else:
        x = 2
print(x)
# a context of itself
x = open(p)
with x.open() as y:
    x = y
with x.open() as x:
    print(x)
print(x)
# try
x = 0
try:
    x = 1
    print(x)
except E as x:
    print(x)
finally:
    print(x)
print(x)
# in an expression
x = 0
print((x := 1), x)
y = (x := 2) + x
x = (x := 3) + x
print(x)
if (x := 4):
    print(x)
# unpacked
x, y = 1, 2
x, y = y, x
print(x, y)
for x, y in z:
    y, x = x, y
print(x, y)
# deleted
x = 1
del x
x = 2
print(x)
# parameters
def f(x, y=1):
    print(x)
    if x:
        x = y
    y = x
    for y in x:
        x = y
    return x, y
# imports
import x
print(x)
try:
    import x
except E:
    x = None
print(x)
# annotated
x: int
x: int = 1
print(x)
x: int = x + 1
print(x)
# sums
x = 0
for i in y:
    x += i
    if i:
        x = 0
print(x)
# a lambda
x = 1
f = lambda: x
x = 2
g = [x for x in y]
print(x)
"""
NAMED = {piece.partition("\n")[0]: piece.partition("\n")[2] for piece in PIECES[2:].split("\n# ")}


@pytest.mark.parametrize("piece", NAMED.values(), ids=NAMED)
def test_what_reaches_a_read(piece: str) -> None:
    inner = textwrap.indent(piece, "    ")
    assert check(piece)
    check(f"def outer(a, b, y, z, p):\n{inner}")
    check(f"for step in steps:\n{inner}\nprint(x)\n")
    check(f"for step in steps:\n    if step:\n{textwrap.indent(inner, '    ')}\n    print(x)\n")


def test_what_reaches_a_read_where_pieces_follow_each_other() -> None:
    for first in NAMED.values():
        assert check("".join(f"{first}\n{second}\n" for second in NAMED.values()))


@pytest.mark.parametrize("folder", ["legacy", "distributed", "handmade", "projects"])
def test_what_reaches_the_reads_of_whole_scripts(folder: str) -> None:
    assert sum(check(path.read_text()) for path in sorted((FIXTURES / folder).rglob("*.py")))


def test_what_reaches_a_read_in_a_script_that_trains() -> None:
    assert check(script(epochs=f"for epoch in range(3):\n{TRAINS}", before="x = 0"))
