"""Walks of syntax trees that note what they went through, and what the index tells of nodes."""

import ast
from collections.abc import Iterator

import pytest
from accelift_codemod.facts.index import Index
from accelift_codemod.facts.memo import Answers
from accelift_codemod.facts.tree import LEAVES, SHARED, children, own_nodes, walk

EVERYTHING = '''
from os import path as p, sep
import sys
@decorated(1)
class C(Base, metaclass=Meta):
    """Text."""
    x: int = 3
    def method(self, a, /, b=1, *c, d, e=2, **f) -> int:
        global g
        return {**a, "k": b, **c}
async def h():
    async for i in it:
        await i
    async with a as b, c:
        pass
    return [x async for x in y if x]
def k():
    nonlocal_ = lambda *a, b=None, **c: (yield)
    for i, (j, *rest) in z:
        if i < j <= 3 and not i or j:
            continue
        elif i:
            break
        else:
            del i, j[1:2, ::3]
    else:
        raise E from e
    while (n := f(*args, **kw)):
        n += -1
        n @= ~n
    try:
        with open(f"{x!r:>{width}}") as file: pass
    except (A, B) as error:
        assert x, "no"
    finally:
        x = y = {1, 2}
    return {a: b for a, b in c if d} if g else {a for a in b}
match v:
    case {"a": 1, **rest} | [1, *others] | C(x, y=2) | None:
        ...
'''


def plain(nodes: Iterator[ast.AST]) -> list[ast.AST]:
    return [node for node in nodes if type(node) not in SHARED]


def test_walks_are_those_of_ast() -> None:
    tree = ast.parse(EVERYTHING)
    for node in plain(ast.walk(tree)):
        assert children(node) == plain(ast.iter_child_nodes(node))
        assert [*walk(node)] == plain(ast.walk(node))
        assert [*walk(node)] == plain(ast.walk(node))  # from what was noted


def test_what_has_no_children() -> None:
    assert not any(children(node) for node in walk(ast.parse(EVERYTHING)) if type(node) in LEAVES)


def test_definitions_are_not_entered() -> None:
    found = [*own_nodes(*ast.parse("x = f(lambda: a)\ndef g(): b").body)]
    assert [n.id for n in found if isinstance(n, ast.Name)] == ["x", "f"]


def test_what_calls_stand_in() -> None:
    tree = ast.parse("def f():\n    if x:\n        y = g(z)\n    a.b = c")
    found = Index(tree).calling
    assert all(any(isinstance(n, ast.Call) for n in walk(node)) == (node in found) for node in walk(tree))


def test_scopes() -> None:
    tree = ast.parse("x = 1\ndef f(a=x):\n    return [y for y in a]")
    index = Index(tree)
    scopes = {n.id: index.scope(n).node for n in walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    function = index.functions[0]
    assert scopes["x"] is tree
    assert scopes["a"] is function
    assert isinstance(scopes["y"], ast.ListComp)
    assert index.scope(function.args.args[0]).node is tree  # where the defaults are evaluated, too


@pytest.mark.parametrize(("question", "answer"), [(1, 10), (2, 4)])
def test_answers_that_are_known_before(question: int, answer: int) -> None:
    asked: list[int] = []

    def double(number: int) -> int:
        asked.append(number)
        return 2 * number

    answers = Answers(double, {1: 10})
    assert [answers[question], answers[question]] == [answer, answer]
    assert asked == [2] * (question == 2)
