"""Any Python at all, beside and inside training scripts: `python -m tests.generated.anything EXAMPLES [SEED]`.

hypothesmith makes it from the grammar and from LibCST's nodes. There is no torch in it, so its place in a script is one
that the conversion does not touch: every byte of it stays, and what is around it becomes what it would be without.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
import time
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from io import StringIO

import hypothesmith
from accelift_codemod.plan import Outcome
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.codemod.scripts import script
from tests.generated.campaign import convert
from tests.generated.script import generate

_MARK = "held_place"
_CARRIAGE_RETURN = re.compile(r"\r(?!\n)")
# Where the foreign code goes in a script: a line that stands for it, and the code that takes the place of this line.
_PLACES: dict[str, tuple[str, Callable[[str], str]]] = {
    "bare": (f"{_MARK} = 0\n", lambda code: code),
    "function": (f"def {_MARK}():\n    pass\n", lambda code: f"def {_MARK}():\n" + _indented(code)),
    "coroutine": (f"async def {_MARK}():\n    pass\n", lambda code: f"async def {_MARK}():\n" + _indented(code)),
    "class": (f"class {_MARK}:\n    pass\n", lambda code: f"class {_MARK}:\n" + _indented(code)),
    "branch": (f"if {_MARK}():\n    pass\n", lambda code: f"if {_MARK}():\n" + _indented(code)),
    "loop": (f"for {_MARK} in ():\n    pass\n", lambda code: f"for {_MARK} in ():\n" + _indented(code)),
    "attempt": (
        f"try:\n    pass\nexcept {_MARK}:\n    pass\n",
        lambda code: f"try:\n{_indented(code)}except {_MARK}:\n    pass\n",
    ),
    "decorator": (f"@{_MARK}\ndef {_MARK}():\n    pass\n", lambda code: _around("@({})\ndef {}():\n    pass\n", code)),
    "default": (f"def {_MARK}(x=0):\n    pass\n", lambda code: _around("def {1}(x=({0})):\n    pass\n", code)),
    "base": (f"class {_MARK}(int):\n    pass\n", lambda code: _around("class {1}(({0})):\n    pass\n", code)),
}
PLACES = tuple(_PLACES)


class Unfit(Exception):
    """The code cannot stand in that place."""


def _indented(code: str) -> str:
    """Code as the body of something."""
    inside = {row for token in _tokens(code) for row in range(token.start[0] + 1, token.end[0] + 1)}
    lines = code.splitlines(keepends=True)
    if inside or not ast.parse(code).body or any(not line.endswith("\n") or "\f" in line for line in lines):
        raise Unfit  # strings over several lines would become others
    return textwrap.indent(code, "    ", lambda line: True)


def _tokens(code: str) -> Iterator[tokenize.TokenInfo]:
    try:
        yield from tokenize.generate_tokens(StringIO(code).readline)
    except (tokenize.TokenError, IndentationError):
        raise Unfit from None


def _around(form: str, code: str) -> str:
    """A definition with the first expression of the code in it."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            spelled = ast.unparse(node)
            if "\n" not in spelled:
                return form.format(spelled, _MARK)
    raise Unfit


def spliced(text: str, at: int, place: str, code: str) -> tuple[str, str, str, str]:
    """A script with foreign code before its statement number `at` (after the imports), and what the code became.

    Also the script with what stands for the code, and that.

    Raises:
        Unfit: there is no such script.
    """
    lines = text.splitlines(keepends=True)
    body = [s for s in ast.parse(text).body if not isinstance(s, (ast.Import, ast.ImportFrom))]
    starts = [min([s.lineno, *(d.lineno for d in getattr(s, "decorator_list", []))]) - 1 for s in body]
    row = [*starts, len(lines)][at % (len(starts) + 1)]
    held, put = _PLACES[place]
    if not _is_script(code):
        raise Unfit
    written = put(code)
    if not written.endswith("\n"):
        written += "\n"
    before, after = "".join(lines[:row]), "".join(lines[row:])
    whole = before + written + after
    try:
        compile(whole, "script", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        raise Unfit from None
    return whole, written, before + held + after, held


def _is_script(code: str) -> bool:
    """Whether there is something in the code, and lines do not end as they did long ago: both is refused."""
    try:
        return bool(ast.parse(code).body) and not _CARRIAGE_RETURN.search(code)
    except (SyntaxError, ValueError):
        return False


# Made when the first example is: preparing the grammars takes seconds. A few statements, as typed into an interpreter.
STATEMENTS = st.deferred(
    lambda: st.lists(hypothesmith.from_grammar("single_input"), min_size=2, max_size=5).map(
        lambda codes: "".join(f"{code}\n" for code in codes if _is_script(f"{code}\n"))
    )
)
SCRIPTS = st.deferred(lambda: hypothesmith.from_grammar("file_input"))
NODES = st.deferred(lambda: hypothesmith.from_node(auto_target=False))


def check_alone(code: str) -> None:
    """There is nothing to do, and nothing goes wrong; also if the code looks as if it trained."""
    if not _is_script(code):
        return
    for text in (code, code + "\n# torch backward\n"):
        result = convert(text)
        assert not result.error and not result.fault, result.error
        assert result.output is None and result.outcome is Outcome.NOTHING, result.outcome


def check_spliced(code: str, text: str, at: int, place: str) -> str:
    """The conversion is that of the script without the code, which stays as it is; what became of it, in a word."""
    try:
        whole, written, without, held = spliced(text, at, place, code)
    except Unfit:
        return "unfit"
    result, plain = convert(whole), convert(without)
    assert not result.error and not result.fault, result.error
    if plain.output is None:
        assert result.output is None, "converted with the code, and not without"
        return "refused without"
    if result.output is None:
        assert result.plan is not None and result.plan.reason
        return f"refused: {result.plan.findings[0].code}"
    found, expected = result.output.decode(), plain.output.decode()
    assert expected.count(held) == 1 and found.count(written) == 1, "the code has changed"
    # What is put in is indented as the file is: the code has a say in that.
    assert ast.dump(ast.parse(found)) == ast.dump(ast.parse(expected.replace(held, written))), "the rest is another"
    assert found == expected.replace(held, written) or "\n " in code, "the layout is another"
    return "the same"


def scripts() -> list[str]:
    """Training scripts of several shapes."""
    return [script(), *(generate(number).text for number in range(40))]


def main(examples: int, start: int = 0) -> None:
    """Try examples of every kind, and print what became of them."""
    warnings.simplefilter("ignore")
    texts, seen = scripts(), Counter[str]()
    wrong: list[str] = []

    def tried(code: str, number: int, at: int, place: str) -> None:
        try:
            check_alone(code)
            seen[check_spliced(code, texts[number], at, place)] += 1
        except AssertionError as error:
            seen["WRONG"] += 1
            wrong.append(f"{code!r} {place} at {at} of script {number}: {error}")

    began = time.monotonic()
    for code in (STATEMENTS, SCRIPTS, NODES):
        run = given(code, st.integers(0, len(texts) - 1), st.integers(0, 30), st.sampled_from(PLACES))(tried)
        profile = settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        seed(start)(profile(run))()
    print("\n".join(wrong))
    print(f"{seen.total()} examples in {time.monotonic() - began:.0f} s")
    for outcome, count in seen.most_common():
        print(f"{count:6} {outcome}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
