"""What an edit makes of the code at its place: every operation, in the layouts that people write."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import black
import pytest
from accelift_codemod import gates
from accelift_codemod.facts.index import Index
from accelift_codemod.plan import Edit, Operation, Span
from accelift_codemod.rewrite import CannotRewrite, Change, Rewritten, rewrite, units
from accelift_codemod.rewrite.layout import assignments
from accelift_codemod.rewrite.splicing import spliced
from accelift_codemod.source import Source

Wanted = tuple[str, Operation] | tuple[str, Operation, str] | tuple[str, Operation, str, int | None]

ADD = Operation.ADD_ARGUMENT
ARGUMENT = Operation.ARGUMENT
BECOME = Operation.BECOME
CALL_ON = Operation.CALL_ON
DROP = Operation.DROP
INNER = Operation.INNER
KEYWORD = Operation.KEYWORD
LEFT = Operation.LEFT
METHOD = Operation.METHOD
NAME = Operation.NAME_ARGUMENTS
RECEIVER = Operation.RECEIVER
SURROUND = Operation.SURROUND
MAIN = "if main:"


def node_of(source: Source, index: Index, text: str) -> ast.AST:
    """The outermost node with a text, ends of lines aside."""
    for node in ast.walk(index.tree):
        if isinstance(node, (ast.expr, ast.stmt, ast.keyword, ast.arg)) and source.segment(node) == text:
            return node
    raise AssertionError(f"no such node: {text}")


def applied(text: str, *wanted: Wanted) -> tuple[Source, Index, Rewritten]:
    """A script after edits, each given by the text of its node (`x` in backquotes: an expression), and checked."""
    source = Source.decode(text.encode(), "train.py")
    index = Index(source.tree)
    edits = []
    for place, operation, *more in wanted:
        node = node_of(source, index, place.strip("`"))
        if place.startswith("`") and isinstance(node, ast.Expr):
            node = node.value
        code = str(more[0]) if more else ""
        number = more[1] if len(more) > 1 else None
        assert number is None or isinstance(number, int)
        edits.append(Edit("RULE", Span.of(node), operation, "", code, number, node=node))
    return source, index, rewrite(source, index, edits)


def after(text: str, *wanted: Wanted) -> str:
    source, index, rewritten = applied(text, *wanted)
    ast.parse(rewritten.text)
    faults = gates.failures(source, index, rewritten, lambda *_: False)
    assert [f for f in faults if "binds" not in f] == []
    return rewritten.text


@pytest.mark.parametrize(
    ("text", "edit", "expected"),
    [
        # the author's parentheses, and those that become necessary
        ("y = a + b", ("a + b", SURROUND, "g({})"), "y = g(a + b)"),
        ("y = (a + b)", ("a + b", SURROUND, "g({})"), "y = g(a + b)"),
        ("y = (a + b).sum()", ("a + b", SURROUND, "g({})"), "y = g(a + b).sum()"),
        ("y = a + b", ("a + b", SURROUND, "{} * n"), "y = (a + b) * n"),
        ("y = a * b", ("a * b", SURROUND, "{} * n"), "y = a * b * n"),
        ("y = f(a) - 1", ("f(a)", SURROUND, "{} if main else None"), "y = (f(a) if main else None) - 1"),
        ("y = f(a)", ("f(a)", SURROUND, "{} if main else None"), "y = f(a) if main else None"),
        ("y = a < b < c", ("a < b < c", SURROUND, "g({})"), "y = g(a < b < c)"),
        ("y = not a", ("not a", SURROUND, "{} if main else None"), "y = not a if main else None"),
        ("y = x[-1]", ("-1", SURROUND, "{} * n"), "y = x[(-1) * n]"),
        ("y = x[1:2, 1j]", ("2", BECOME, "n"), "y = x[1:n, 1j]"),
        ("f(x for x in y)", ("(x for x in y)", SURROUND, "g({})"), "f(g(x for x in y))"),
        ("if (n := f(x)) > 1:\n    pass", ("n := f(x)", SURROUND, "g({})"), "if g(n := f(x)) > 1:\n    pass"),
        ("f = lambda: x", ("lambda: x", SURROUND, "g({})"), "f = g(lambda: x)"),
        ("y = (\n    a  # one\n    + b  # two\n)", ("a  # one\n    + b", SURROUND, "g({})"), None),
        # inside f-strings
        ("s = f'{a:.2f}'", ("a", SURROUND, "g({})"), "s = f'{g(a):.2f}'"),
        ('s = f"{a:.2f}"', ("a", SURROUND, 'g({}, by="sum")'), "s = f\"{g(a, by='sum'):.2f}\""),
        ("s = f'{a:.2f}'", ("a", SURROUND, 'g({}, by="sum")'), "s = f'{g(a, by=\"sum\"):.2f}'"),
        ("s = f'{a!r:>{b}}'", ("b", SURROUND, "g({})"), "s = f'{a!r:>{g(b)}}'"),
        ("s = f'''{a}\n  {b}'''", ("b", BECOME, "c"), "s = f'''{a}\n  {c}'''"),
        ('s = ("x" f"{a}"\n     "y")', ("a", SURROUND, "g({})"), 's = ("x" f"{g(a)}"\n     "y")'),
        # the left operand
        ("y = a / k", ("a / k", LEFT), "y = a"),
        ("y = (a + b) / k", ("(a + b) / k", LEFT), "y = (a + b)"),
        ("y = (a\n     / k)", ("a\n     / k", LEFT), "y = (a)"),
        ("y = (a / k).sum()", ("a / k", LEFT), "y = (a).sum()"),
        ("y = a * b / k - c", ("a * b / k", LEFT), "y = a * b - c"),
        ("y = (a  # one\n     / k)  # two", ("a  # one\n     / k", LEFT), "# one\ny = (a)  # two"),
        # an argument
        ("y = f(a, 1)", ("f(a, 1)", INNER, "", 0), "y = a"),
        ("y = f(1, m=a)", ("f(1, m=a)", INNER, "m"), "y = a"),
        ("y = f(a + b) * 2", ("f(a + b)", INNER, "", 0), "y = (a + b) * 2"),
        ("y = f(a)(b)", ("f(a)", INNER, "", 0), "y = a(b)"),
        ("y = (f(a))", ("f(a)", INNER, "", 0), "y = (a)"),
        ("y = f(\n    a\n    + b\n)", ("f(\n    a\n    + b\n)", INNER, "", 0), "y = (a\n    + b)"),
        ("y = f(\n    g(\n        a\n    )\n)", ("f(\n    g(\n        a\n    )\n)", INNER, "", 0), None),
        ("y = f(x for x in z)", ("f(x for x in z)", INNER, "", 0), "y = (x for x in z)"),
        ("y = f(n := 1)", ("f(n := 1)", INNER, "", 0), "y = (n := 1)"),
        ("y = f(k=1, *a)", ("f(k=1, *a)", INNER, "k"), "y = 1"),
        ("y = f(\n    a,  # one\n    b,  # two\n)", ("f(\n    a,  # one\n    b,  # two\n)", INNER, "", 0), None),
        # names for arguments
        ("f(a, b, c=1)", ("`f(a, b, c=1)`", NAME, "x,y,z"), "f(x=a, y=b, c=1)"),
        ("f(a, **b)", ("`f(a, **b)`", NAME, "x,y"), "f(x=a, **b)"),
        ("f(x for x in y)", ("`f(x for x in y)`", NAME, "x"), "f(x=(x for x in y))"),
        ("f(n := 1)", ("`f(n := 1)`", NAME, "x"), "f(x=(n := 1))"),
        ("f(\n    a,  # one\n    b,\n)", ("`f(\n    a,  # one\n    b,\n)`", NAME, "x,y"), None),
        # the receiver
        ("x.m(a)", ("`x.m(a)`", CALL_ON, "g"), "g(x, a)"),
        ("x.m(i for i in a)", ("`x.m(i for i in a)`", CALL_ON, "g"), "g(x, (i for i in a))"),
        ("(a for a in b).m()", ("`(a for a in b).m()`", CALL_ON, "g"), "g((a for a in b))"),
        ("(n := f()).m()", ("`(n := f()).m()`", CALL_ON, "g"), "g(n := f())"),
        ("(a + b).m()", ("`(a + b).m()`", CALL_ON, "g"), "g(a + b)"),
        ("(\n    a  # one\n    + b  # two\n).m(c)", None, "g(\n    a  # one\n    + b,  # two\n    c)"),
        ("(\n    a  # one\n).m()", None, "g(\n    a  # one\n)"),
        ("((a)  # one\n).m()", None, "g((a)  # one\n)"),
        ("(a  # one\n .m())", None, "# one\n(g(a))"),
        ("y = x.to(\n    d,  # gpu\n)", ("x.to(\n    d,  # gpu\n)", RECEIVER), "# gpu\ny = x"),
        ("return_ = await_(x.to(d))", ("x.to(d)", RECEIVER), "return_ = await_(x)"),
        # one more argument
        ("f()", ("`f()`", ADD, "k=1"), "f(k=1)"),
        ("f(\n)", ("`f(\n)`", ADD, "k=1"), "f(\nk=1)"),
        ("f(x for x in y)", ("`f(x for x in y)`", ADD, "k=1"), "f((x for x in y), k=1)"),
        ("f(*a)", ("`f(*a)`", ADD, "k=1"), "f(*a, k=1)"),
        ("f(\n    a,\n    b\n)", None, "f(\n    a,\n    b,\n    k=1\n)"),
        ("f(\n    a,\n    b,\n)", None, "f(\n    a,\n    b,\n    k=1,\n)"),
        ("f(\n    a,  # one\n    b  # two\n)", None, "f(\n    a,  # one\n    b,  # two\n    k=1\n)"),
        ("f(\n    a,  # one\n    b,  # two\n)", None, "f(\n    a,  # one\n    b,  # two\n    k=1,\n)"),
        ("f(a,  # one\n  b)", None, "f(a,  # one\n  b,\n  k=1)"),
        ("f(a)  # one", None, "f(a, k=1)  # one"),
        # tests without a space before them
        ("if(a):\n    pass", ("if(a):\n    pass", Operation.TEST, "b"), "if b:\n    pass"),
        ("while(a):\n    pass", ("while(a):\n    pass", Operation.TEST, "b"), "while b:\n    pass"),
        # statements that go
        ("n = 1; x = 2", ("x = 2", DROP), "n = 1"),
        ("n = 1; x = 2;", ("x = 2", DROP), "n = 1;"),
        ("x = 2; n = 1  # one", ("x = 2", DROP), "n = 1  # one"),
        ("if a: x = 2", ("x = 2", DROP), "if a: pass"),
        ("if a: n = 1; x = 2", ("x = 2", DROP), "if a: n = 1"),
    ],
)
def test_expressions(text: str, edit: Wanted | None, expected: str | None) -> None:
    if edit is None:
        call = text.removesuffix("  # one") if text.startswith("f(a)") else text
        call = call[1:-1] if call.startswith("(a  #") else call
        edit = (f"`{call}`", ADD, "k=1") if text.startswith("f(") else (f"`{call}`", CALL_ON, "g")
    output = after(f"{text}\n", edit)
    if expected is not None:
        assert output == f"{expected}\n"


def test_comments_of_an_argument_move_above() -> None:
    text = "y = f(\n    a,  # one\n    b,  # two\n)\n"
    assert after(text, (text[4:-1], INNER, "", 0)) == "# one\n# two\ny = a\n"


def test_comments_in_parentheses_stay() -> None:
    text = "y = (\n    a  # one\n    + b  # two\n)\n"
    assert after(text, ("a  # one\n    + b", SURROUND, "g({})")) == f"y = g({text[4:-1]})\n"


def test_surround_is_the_last_of_several() -> None:
    edits: list[Wanted] = [("x.m(1)", SURROUND, "{} if main else None"), ("x.m(1)", CALL_ON, "g")]
    assert after("y = x.m(1)\n", *edits) == "y = g(x, 1) if main else None\n"
    edits = [("`x.m(1)`", CALL_ON, "g"), ("`x.m(1)`", NAME, "n")]
    assert after("x.m(1)\n", edits[1], edits[0]) == "g(x, n=1)\n"


def test_edits_inside_edits() -> None:
    edits: list[Wanted] = [("x.to(d).m()", CALL_ON, "g"), ("x.to(d)", RECEIVER)]
    assert after("y = x.to(d).m()\n", *edits) == "y = g(x)\n"


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ("f(*a)", ("`f(*a)`", INNER, "", 0)),
        ("f(*a)", ("`f(*a)`", NAME, "x,y")),
        ("f(a, b)", ("`f(a, b)`", NAME, "x")),
        ("f(**a)", ("`f(**a)`", INNER, "", 0)),
        ("f(a)", ("`f(a)`", INNER, "k")),
        ("f(a)", ("`f(a)`", LEFT)),
        ("f(a)", ("`f(a)`", CALL_ON, "g")),
        ("a", ("`a`", ADD, "k=1")),
        ("y = z.to(d)if n else k", ("z.to(d)", RECEIVER)),
    ],
)
def test_what_does_not_fit_is_an_error(text: str, edit: Wanted) -> None:
    with pytest.raises(CannotRewrite):
        applied(f"{text}\n", edit)


# ---- statements on one line


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ("if x: a()", ("a()", "if x:\n    if main:\n        a()")),
        ("if x: a()  # one", ("a()", "if x:\n    if main:\n        a()  # one")),
        ("if x: a(); b()", ("b()", "if x:\n    a()\n    if main:\n        b()")),
        ("if x: a(); b()  # one", ("a()", "if x:\n    if main:\n        a()\n    b()  # one")),
        ("if x: y()\nelse: a()", ("a()", "if x: y()\nelse:\n    if main:\n        a()")),
        ("if x: y()\nelif z: a();", ("a()", "if x: y()\nelif z:\n    if main:\n        a()")),
        ("try: a()\nexcept E: b()", ("b()", "try: a()\nexcept E:\n    if main:\n        b()")),
        ("try: a()\nfinally: b()", ("b()", "try: a()\nfinally:\n    if main:\n        b()")),
        ("match x:\n    case 1: a()", ("a()", "match x:\n    case 1:\n        if main:\n            a()")),
        ("def f(): a(); b()", ("b()", "def f():\n    a()\n    if main:\n        b()")),
        ("for i in x: a(i,\n            2)", ("a(i,\n            2)", None)),
        ("if x: \\\n    a()", ("a()", "if x:\n    if main:\n        a()")),
        ("if (x and\n        y): a()", ("a()", "if (x and\n        y):\n    if main:\n        a()")),
        ("n = 1; a()", ("a()", "n = 1\nif main:\n    a()")),
        ("n = 1; \\\n  a()", ("a()", "n = 1\nif main:\n    a()")),
        ("a() ; n = 1 ;", ("a()", "if main:\n    a()\nn = 1")),
        ("if x:\n\ta(); n = '''\n1'''", ("a()", "if x:\n\tif main:\n\t\ta()\n\tn = '''\n1'''")),
        ("n = '''\n1'''; a()", ("a()", "n = '''\n1'''\nif main:\n    a()")),
        ("größe = 'ä'; a()", ("a()", "größe = 'ä'\nif main:\n    a()")),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_statements_are_put_on_lines_of_their_own(text: str, edit: tuple[str, str | None]) -> None:
    place, output = edit
    for newline in ("\n", "\r\n"):
        for end in (newline, f"{newline}z = 0{newline}", ""):
            start = f"w = 0{newline}"
            old = start + text.replace("\n", newline) + end
            new = after(old, (place.replace("\n", newline), Operation.ENCLOSE, MAIN))
            assert output is None or new == start + output.replace("\n", newline) + end


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("if x:\n\tif y:\n\t    a()\n", "if x:\n\tif y:\n\t    if main:\n\t        a()\n"),
        ("if x:\n    if y:\n    \ta()\n", "if x:\n    if y:\n    \tif main:\n    \t\ta()\n"),
        ("if x:\n\tif y:\n\t    a()\n\t    b()\n", "if x:\n\tif y:\n\t    if main:\n\t        a()\n\t    b()\n"),
        ("if x:\n\ta()\n", "if x:\n\tif main:\n\t\ta()\n"),
        ("if x:\n  a()\n", "if x:\n  if main:\n    a()\n"),
    ],
)
def test_a_block_below_tabs_and_spaces(text: str, output: str) -> None:
    assert after(text, ("a()", Operation.ENCLOSE, MAIN)) == output


def test_blocks_in_blocks_below_tabs_and_spaces() -> None:
    text = "if x:\n\tif y:\n\t    a()\n"
    edits = (("if y:\n\t    a()", Operation.ENCLOSE, MAIN), ("a()", Operation.ENCLOSE, MAIN))
    assert after(text, *edits) == "if x:\n\tif main:\n\t\tif y:\n\t\t    if main:\n\t\t        a()\n"


def test_a_definition_that_a_file_begins_with_stands_apart() -> None:
    text = "def f():\n    pass\n"
    assert after(text, (text.rstrip(), Operation.BEFORE, "b = 1")) == f"b = 1\n\n\n{text}"
    text = "a()\n"
    assert after(text, ("a()", Operation.BEFORE, "b = 1")) == "b = 1\na()\n"


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("n = 1\n\n# the rest\na()\n", "n = 1\n\nb()\n\n# the rest\na()\n"),
        ("n = 1\n# the rest\na()\n", "n = 1\nb()\n# the rest\na()\n"),
        ("n = 1\n\na()  # the rest\n", "n = 1\n\nb()\na()  # the rest\n"),
    ],
)
def test_a_comment_stays_with_its_own_paragraph(text: str, result: str) -> None:
    assert after(text, ("a()", Operation.BEFORE, "b()")) == result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("if x:\n    n = 1\nelse:\n    a()\nm = 1\n", "if x:\n    n = 1\nm = 1\n"),
        ("if x:\n    n = 1\nelif y:\n    n = 2\nelse:\n\ta()\n", "if x:\n    n = 1\nelif y:\n    n = 2\n"),
        ("if x:\n    n = 1\nelse:\n    # why\n    a()\n", "if x:\n    n = 1\nelse:\n    # why\n    pass\n"),
        ("if x:\n    n = 1\nelse:  # why\n    a()\n", "if x:\n    n = 1\nelse:  # why\n    pass\n"),
        ("if x:\n    n = 1\nelse:\n    a()  # why\n", "if x:\n    n = 1\nelse:\n    # why\n    pass\n"),
        ("for x in y:\n    n = 1\nelse:\n    a()\n", "for x in y:\n    n = 1\nelse:\n    pass\n"),
        ("if x:\n    a()\nelse:\n    n = 1\n", "if x:\n    pass\nelse:\n    n = 1\n"),
    ],
)
def test_an_else_goes_with_all_that_is_in_it(text: str, result: str) -> None:
    assert after(text, ("a()", Operation.DROP, "")) == result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("a()  # why\n", "b()  # why\n"),
        ("a(\n    1,  # one\n)\n", "# one\nb()\n"),
        (f"a()  # {'why ' * 20}\n", f"b()  # {('why ' * 20).strip()}\n"),
    ],
)
def test_a_comment_at_the_end_of_a_line_stays_there(text: str, result: str) -> None:
    wanted = text.partition("  # why")[0].rstrip("\n")
    assert after(text, (wanted, Operation.SWAP, "b()")) == result


@pytest.mark.parametrize("operation", [Operation.BEFORE, Operation.AFTER, Operation.SWAP])
def test_every_edit_of_a_statement_puts_it_on_its_own_line(operation: Operation) -> None:
    output = after("n = 1; a(); m = 2\n", ("a()", operation, "b()"))
    lines = {Operation.BEFORE: "b()\na()", Operation.AFTER: "a()\nb()", Operation.SWAP: "b()"}[operation]
    assert output == f"n = 1\n{lines}\nm = 2\n"


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("def f(): a()\n", "def f():\n    a()\n    b()\n"),
        ("if x: n = 1; a()\nelse: c()\n", "if x:\n    n = 1\n    a()\n    b()\nelse: c()\n"),
        ("n = 1; a()\n", "n = 1; a()\nb()\n"),
    ],
)
def test_what_comes_behind_a_statement_is_under_its_header(text: str, output: str) -> None:
    assert after(text, ("a()", Operation.AFTER, "b()")) == output


def test_lines_stay_shared_where_no_edit_needs_one() -> None:
    assert after("a(); n = 1\n", ("a()", Operation.BEFORE, "b()")) == "b()\na(); n = 1\n"
    assert after("if x: a()\n", ("if x: a()", Operation.ENCLOSE, MAIN)) == "if main:\n    if x: a()\n"
    assert after("if x: y = z.to(d); n = 1\n", ("z.to(d)", RECEIVER)) == "if x: y = z; n = 1\n"


def test_edits_in_both_branches() -> None:
    text = "if a: x = x.to(d)\nelse:\n    b()\n"
    edits: list[Wanted] = [("x.to(d)", RECEIVER), ("b()", Operation.BEFORE, "c()")]
    assert after(text, *edits) == "if a:\n    x = x\nelse:\n    c()\n    b()\n"
    edits = [("x.to(d)", RECEIVER), ("b()", DROP)]
    assert after(text, *edits) == "if a:\n    x = x\n"


@pytest.mark.parametrize("places", [("a()", "if x:\n    a()"), ("if x:\n    a()", "a()")])
def test_what_ends_a_block_comes_before_what_follows_it(places: tuple[str, str]) -> None:
    code = {"a()": "b()", "if x:\n    a()": "c()"}
    edits = [(place, Operation.AFTER, code[place]) for place in places]
    assert after("if x:\n    a()\nd()\n", *edits) == "if x:\n    a()\n    b()\nc()\nd()\n"


def test_all_statements_of_a_line_go() -> None:
    text = "for i in x:\n    a = 1; b = 2\n    c = 3\n"
    edits: list[Wanted] = [("a = 1", DROP), ("b = 2", DROP)]
    assert after(text, *edits) == "for i in x:\n    c = 3\n"
    assert after(text, *edits, ("c = 3", DROP)) == "for i in x:\n    pass\n"


@pytest.mark.parametrize(
    ("text", "edits", "plain"),
    [
        ("torch.save(m.state_dict(), 'p')", [("torch.save", BECOME, "a.save"), ("m", SURROUND, "u({})")], True),
        ("l.backward()", [("`l.backward()`", CALL_ON, "a.backward")], True),
        ("f(l, n=1).backward(k=True, *x)  # why", [("`f(l, n=1).backward(k=True, *x)`", CALL_ON, "a.backward")], True),
        ("(l + m).backward()", [("`(l + m).backward()`", CALL_ON, "a.backward")], False),
        ("l.backward( g )", [("`l.backward( g )`", CALL_ON, "a.backward")], False),
        ("l.backward(g for g in x)", [("`l.backward(g for g in x)`", CALL_ON, "a.backward")], False),
        ("y = (z)if(n)else k", [("n", BECOME, "m")], True),
        ("y = (z\n     .to(d))", [("z\n     .to(d)", RECEIVER)], False),
        ("é = 'é', z.to(d), x.to(d)", [("z.to(d)", RECEIVER), ("x.to(d)", RECEIVER)], True),
        ("y = z.to(x.to(d))", [("z.to(x.to(d))", RECEIVER), ("x.to(d)", RECEIVER)], False),
        ("y = d.type", [("d", BECOME, "a.device")], True),
        ("y = d.type", [("d", BECOME, "a or b")], False),
        ("y = d[0]", [("d", BECOME, "f(g(x), y).z")], True),
        ("y = f(x)", [("x", BECOME, "a or b")], True),
        ("y = f(x)", [("x", SURROUND, "g({})")], True),
        ("y = f((x))", [("x", SURROUND, "g({})")], False),
        ("y = f(a, b * c)", [("b * c", SURROUND, "{} * n")], True),
        ("y = f(a, b + c)", [("b + c", SURROUND, "{} * n")], False),
        ("y = f(a, k=b + c)", [("k=b + c", SURROUND, "g({})")], True),
        ("y = f'{x}'", [("x", BECOME, "z")], False),
        ("x.m(a, b).n()", [("x.m(a, b)", METHOD, "k(c)")], True),
        ("x.m(\n    a,\n    b,\n)", [("`x.m(\n    a,\n    b,\n)`", METHOD, "k(c)")], False),
        ("f(a,b)", [("`f(a,b)`", ADD, "k=1")], True),
        ("f(a,\n  b)", [("`f(a,\n  b)`", ADD, "k=1"), ("a", BECOME, "c")], True),
        ("f(a, b,)", [("`f(a, b,)`", ADD, "k=1")], True),
        ("f(a,)", [("`f(a,)`", ADD, "k=1")], False),
        ("f(\n    a,\n    b,\n)", [("`f(\n    a,\n    b,\n)`", ADD, "k=1")], True),
        ("f(\n    a,\n    b\n)", [("`f(\n    a,\n    b\n)`", ADD, "k=1")], True),
        ("f(\n    a,  # why\n    b\n)", [("`f(\n    a,  # why\n    b\n)`", ADD, "k=1")], False),
        ("f(\n    a\n)", [("`f(\n    a\n)`", ADD, "k=1")], True),
        ("f((a))", [("`f((a))`", ADD, "k=1")], False),
        ("f((\n    a\n))", [("`f((\n    a\n))`", ADD, "k=1")], False),
        ("f(a, (b))", [("`f(a, (b))`", ADD, "k=1")], False),
        ("f(a, k=(b))", [("`f(a, k=(b))`", ADD, "n=1")], True),
        ("f((\n    a\n))", [("a", SURROUND, "g({})")], False),
        ("x = (a if b else c)", [("a if b else c", BECOME, "d")], False),
        ("x = a if b else c", [("a if b else c", BECOME, "d")], True),
        ("f( )", [("`f( )`", ADD, "k=1")], False),
        ("f(a for a in b)", [("`f(a for a in b)`", ADD, "k=1")], False),
        ("f()", [("`f()`", ADD, "k=1")], True),
        ("f()", [("`f()`", ADD, "k=1"), ("`f()`", ADD, "n=1")], False),
        ("f(a)", [("`f(a)`", ADD, "k=1"), ("`f(a)`", ADD, "b=1"), ("a", BECOME, "c")], True),
        ("f(a)", [("`f(a)`", ADD, "k=1"), ("a", SURROUND, "{} * n")], True),
        ("l.m()", [("`l.m()`", CALL_ON, "f"), ("`l.m()`", ADD, "k=1")], True),
        ("l.m(a)", [("`l.m(a)`", CALL_ON, "f"), ("`l.m(a)`", ADD, "k=1"), ("a", BECOME, "b")], True),
        ("l.m(a)", [("`l.m(a)`", METHOD, "f()"), ("`l.m(a)`", ADD, "k=1")], False),
        ("y = f(a)", [("f(a)", SURROUND, "g({})"), ("f(a)", ADD, "k=1")], True),
        ("y = f(k=a + b)", [("k=a + b", SURROUND, "{} if main else None")], True),
        ("x.to(d).m(a)", [("`x.to(d).m(a)`", CALL_ON, "f"), ("x.to(d)", RECEIVER), ("x", SURROUND, "g({})")], True),
        ("n += l.m() * k", [("l.m() * k", SURROUND, "g({}).s()"), ("l.m()", METHOD, "t(1)"), ("l", BECOME, "r")], True),
        ("y = a.b", [("a.b", SURROUND, "f({})"), ("a", SURROUND, "g({}).c"), ("a.b", RECEIVER)], False),
        ("y = a.b", [("a.b", BECOME, "c"), ("a", SURROUND, "g({})")], False),
        ("y = f(a, b.c)", [("b.c", SURROUND, "f({})"), ("b", SURROUND, "g({})")], True),
        ("f(a, b)", [("`f(a, b)`", ADD, "c", 1)], False),
        ("f(a, b)", [("`f(a, b)`", ARGUMENT, "c", 1), ("a", BECOME, "d")], True),
        ("f(a, (b))", [("`f(a, (b))`", ARGUMENT, "c", 1)], False),
        ("def f(a, b=1): pass", [("def f(a, b=1): pass", Operation.ADD_PARAMETER, "c", 1)], True),
        ("def f(a, *, b=1): pass", [("def f(a, *, b=1): pass", Operation.ADD_PARAMETER, "c", 1)], False),
        ("def f(): pass", [("def f(): pass", Operation.ADD_PARAMETER, "c: C")], True),
        (
            "def f(a,\n      b,\n      ): pass",
            [("def f(a,\n      b,\n      ): pass", Operation.ADD_PARAMETER, "c")],
            True,
        ),
        ("def f(a, b): pass", [("a", Operation.PARAMETER, "c")], True),
        ("def f(a: int, b=1): pass", [("a: int", Operation.PARAMETER, "c")], True),
        ("def f(a=1): pass", [("a", Operation.PARAMETER, "c")], False),
        ("if a:\n    pass\nelif b.to(d):\n    pass", [("b.to(d)", RECEIVER)], True),
    ],
)
def test_plain_edits_are_those_of_libcst(
    text: str, edits: list[Wanted], plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str | None]()

    def noted(*given: Any) -> None:
        asked.append(spliced(*given))

    output = applied(text, *edits)[2].text
    monkeypatch.setattr(units, "spliced", noted)
    assert applied(text, *edits)[2].text == output
    assert [made is not None for made in asked] == [plain]


# ---- layout


def test_strings_under_a_header_keep_their_lines() -> None:
    text = 'a("""x\n  y""",\n  "b"\n  "c")\n'
    whole = text.rstrip("\n")
    assert after(text, (whole, Operation.ENCLOSE, MAIN)) == 'if main:\n    a("""x\n  y""",\n      "b"\n      "c")\n'
    edits: list[Wanted] = [(whole, Operation.ENCLOSE, MAIN), (f"`{whole}`", ADD, "k=1")]
    assert after(text, *edits) == 'if main:\n    a("""x\n  y""",\n      "b"\n      "c",\n      k=1)\n'
    text = "if z:\n    a('x\\\n  y')\n"
    assert after(text, ("a('x\\\n  y')", Operation.ENCLOSE, MAIN)) == ("if z:\n    if main:\n        a('x\\\n  y')\n")


@pytest.mark.parametrize("feed", ["\f", " \f", "\f\f"])
def test_form_feeds_before_edited_lines(feed: str) -> None:
    text = f"if z:\n{feed}    a(x.to(d))\n"
    assert after(text, ("x.to(d)", RECEIVER)) == f"if z:\n{feed}    a(x)\n"
    enclosed = after(text, ("a(x.to(d))", Operation.ENCLOSE, MAIN))
    assert enclosed == f"if z:\n    if main:\n{feed}        a(x.to(d))\n"
    assert after(text, ("a(x.to(d))", Operation.BEFORE, "b()")) == f"if z:\n    b()\n{feed}    a(x.to(d))\n"


@pytest.mark.parametrize("end", ["\\", "\f", "\x0b", "\x1c", "\x85", "\u2028"])
def test_comments_end_as_they_did(end: str) -> None:
    text = f"if z:\n    a(x.to(d))  # c{end}\n    b()\n"
    assert after(text, ("x.to(d)", RECEIVER)) == text.replace(".to(d)", "")
    assert after(text, ("a(x.to(d))", Operation.ENCLOSE, MAIN)) == (
        f"if z:\n    if main:\n        a(x.to(d))  # c{end}\n    b()\n"
    )


@pytest.mark.parametrize(
    ("code", "plain"),
    [
        ("model, optimizer, loader = accelerator.prepare(model, optimizer, loader)", {50, 60, 70, 80}),
        (
            "a.model, loader = a.prepare(a.model, loader)\nloader = loader_of(a)\ndevice = a.device",
            {40, 50, 60, 70, 80},
        ),
        ("accelerator = Accelerator(cpu=not args.gpu, config=Config(split_batches=True))", {60, 70, 80}),
        ("model, optimizer = f(model['a'], optimizer)", set()),
        ("f(model, optimizer, loader)", set()),
    ],
)
def test_assignments_are_laid_out_as_black_does(code: str, plain: set[int]) -> None:
    made = {width: assignments(code, width) for width in range(40, 90, 10)}
    assert {width for width, text in made.items() if text is not None} == plain
    assert all(made[w] == black.format_str(f"{code}\n", mode=black.Mode(line_length=w)) for w in plain)


@pytest.mark.parametrize(("quote", "is_laid_out"), [("'", False), ('"', True)])
def test_lines_that_become_too_long_are_laid_out_where_black_did(quote: str, is_laid_out: bool) -> None:
    text = f"f({quote}{'x' * 70}{quote}, a)\n"
    assert ("\n" in after(text, ("a", BECOME, "some_other_name")).rstrip()) is is_laid_out


def test_long_statements_keep_the_content_of_their_strings() -> None:
    text = "if z:\n    a = f('x\\\n    y', x)\n"
    output = after(text, ("x", BECOME, "some_name + " * 9 + "x"))
    assert ast.literal_eval("'x\\\n    y'") in [
        n.value for n in ast.walk(ast.parse(output)) if isinstance(n, ast.Constant)
    ]


# ---- the gate


@pytest.mark.parametrize(
    "text",
    [
        "a()\nb(1)  # c\\    n = 1\nif z:\n    d()\nelse:\n    e()\n",  # a line is swallowed
        "a()\nb(1)\nn = 2\nif z:\n    d()\nelse:\n    e()\n",  # another one is changed
        "a()\nb(1)\nif z:\n    n = 1\n    d()\nelse:\n    e()\n",  # moved
        "a()\nb(1)\nn = 1\nif z:\n    d()\n    e()\n",  # moved to another branch
        "a()\nb(1)\nn = 1\nif y:\n    if z:\n        d()\n    else:\n        e()\n",  # under a header of nobody's
        "a()\nn = 1\nb(1)\nif z:\n    e()\nelse:\n    d()\n",  # in another order
    ],
)
def test_statements_without_edits_must_survive(text: str) -> None:
    original = "a()\nb(x)\nn = 1\nif z:\n    d()\nelse:\n    e()\n"
    source, index, rewritten = applied(original, ("x", BECOME, "1"))
    lines, new = source.lines, text.splitlines(keepends=True)
    everything = (Change(0, len(lines), tuple(new)),)
    forged = replace(rewritten, text=text, changes=everything, regions=everything)
    faults = gates.failures(source, index, forged, lambda *_: False)
    assert any("which no edit touches" in fault for fault in faults)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for x in y:\n    gone()\n    gone()\n\n    f()\n", "for x in y:\n    f()\n"),
        ("a()\n\ngone()\ngone()\n\nb()\n", "a()\n\nb()\n"),
        ("a()\n\n\ngone()\n\ngone()\n\n\nb()\n", "a()\n\n\nb()\n"),
        ("a()\ngone()\ngone()\n\nb()\n", "a()\n\nb()\n"),
    ],
)
def test_the_blank_line_of_a_paragraph_goes_with_it(text: str, expected: str) -> None:
    source = Source.decode(text.encode(), "t.py")
    index = Index(source.tree)
    gone = [n for n in ast.walk(source.tree) if isinstance(n, ast.Expr) and ast.unparse(n) == "gone()"]
    edits = [Edit("T", Span.of(n), Operation.DROP, "", "", node=n) for n in gone]
    assert rewrite(source, index, edits).text == expected
