"""The conversion of a mutant is the mutant of the conversion; and nothing that parses makes the tool fail."""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from random import Random

import pytest
from accelift_codemod.api import convert_bytes
from accelift_codemod.checker import Choice, check_bytes
from accelift_codemod.options import Options

from fixtures.runs import FIXTURES
from tests.generated import mutants
from tests.generated.campaign import convert, convert_project
from tests.generated.files import ENTRY, PLAIN, Files, joined, split
from tests.generated.running import Workshop, differences
from tests.generated.script import generate

LEGACY = {path.stem: path.read_text() for path in sorted((FIXTURES / "legacy").glob("*.py"))}
GENERATED = {f"seed {seed}": generate(seed).text for seed in range(15)}
MORE = [pytest.param(range(first, first + 100), marks=pytest.mark.exhaustive) for first in range(1000, 1400, 100)]


def output(text: str) -> str:
    """The conversion of a script; empty if it is left alone."""
    result = convert(text)
    assert not result.error, result.error
    return result.output.decode() if result.output is not None else ""


def texts(seeds: range) -> list[str]:
    """Scripts in one file that convert."""
    scripts = (script.text for script in map(generate, seeds) if len(script.files) == 1)
    return [text for text in scripts if output(text)]


def check_mutants(text: str) -> None:
    """What is said of layout, names and order, of one script."""
    after = output(text)
    if not after:
        return
    assert mutants.meaning(output(mutants.with_comments(text))) == mutants.meaning(after)
    assert output(text.replace("\n", "\r\n")) == after.replace("\n", "\r\n")
    names = mutants.own_names(text)
    assert mutants.meaning(output(mutants.renamed(text, names))) == mutants.meaning(mutants.renamed(after, names))


@pytest.mark.parametrize("text", [*LEGACY.values(), *GENERATED.values()], ids=[*LEGACY, *GENERATED])
def test_layout_and_names_mean_nothing(text: str) -> None:
    check_mutants(text)


@pytest.mark.parametrize("seeds", MORE)
def test_layout_and_names_mean_nothing_hundreds(seeds: range) -> None:
    for text in texts(seeds):
        check_mutants(text)


@pytest.mark.parametrize("text", LEGACY.values(), ids=LEGACY)
def test_the_order_of_functions_means_nothing(text: str) -> None:
    after, other = output(text), output(mutants.reordered(text))
    assert mutants.parts(other) == mutants.parts(after)


def test_mutants_are_other_scripts() -> None:
    """Else the properties would hold of themselves."""
    text = LEGACY["digits_params"]
    names = mutants.own_names(text)
    assert {"device", "optimizer"} & names.keys() and "parser" in names
    for other in (mutants.with_comments(text), mutants.renamed(text, names), mutants.reordered(text)):
        assert other != text and ast.parse(other)


# ---- mutants that are converted in their own way


def check_computing(workshop: Workshop, text: str) -> int:
    """Mutants compute what the script did, before and after their conversion; how many were converted."""
    converted = 0
    for mutant in (*(mutants.wrapped(text, into) for into in mutants.WRAPPERS), mutants.hoisted(text)):
        after = output(mutant) if mutant else ""
        if mutant and after:
            original, before, new = workshop.runs(text, mutant, after)
            assert differences(original, before) == {}, mutant
            assert differences(original, new) == {}, after
            converted += 1
    return converted


@pytest.mark.slow
def test_wrapped_and_hoisted(workshop: Workshop) -> None:
    assert sum(check_computing(workshop, text) for text in texts(range(300, 305))) > 4


@pytest.mark.slow
@pytest.mark.parametrize("seeds", MORE)
def test_wrapped_and_hoisted_hundreds(seeds: range, workshop: Workshop) -> None:
    assert sum(check_computing(workshop, text) for text in texts(seeds)) > len(seeds)


# ---- scripts in several files


def check_split(text: str, seed: int) -> tuple[str, Files, Files] | None:
    """What became of a script in several files, these, and their conversion; None if it is refused anyway, or one file.

    Joined, files that are "the same" have the statements of the converted script; "others" have not.
    """
    after = output(text)
    files = mutated(text, seed) if after else None
    if files is None:
        return None
    result, converted = convert_project(files)
    assert not result.error, result.error
    if result.output is None:
        assert result.plan is not None and result.plan.reason
        return result.plan.findings[0].code, files, converted
    same = joined(converted) == joined({ENTRY: after})
    return "the same" if same else "others", files, converted


def mutated(text: str, seed: int) -> Files | None:
    """The script in two files or three."""
    random = Random(seed)
    return split(text, random, random.choice(PLAIN), random.choice((2, 3)))


def test_split_fixtures() -> None:
    """Most have the very statements of the conversion in one file, and none is refused."""
    found = {name: check_split(text, seed) for seed, (name, text) in enumerate(LEGACY.items())}
    kinds = Counter(result[0] for result in found.values() if result is not None)
    assert kinds.keys() <= {"the same", "others"}, {name: result and result[0] for name, result in found.items()}
    assert kinds["the same"] > 15 > 3 * kinds["others"], kinds


@pytest.mark.slow
def test_split_fixtures_compute_the_same(workshop: Workshop) -> None:
    for seed, name in enumerate(("wine_run_epoch", "wine_trainer")):
        result = check_split(LEGACY[name], 20 + seed)
        assert result is not None and len(result[1]) > 1
        original, before, new = workshop.runs(LEGACY[name], result[1], result[2])
        assert not original["failed"] and original["steps"]
        assert differences(original, before) == {}
        assert differences(original, new) == {}


# ---- scripts that may be nonsense


def check_nonsense(seed: int) -> None:
    """Whatever parses is converted, or refused, and checked: no exception, and no gate fails."""
    base = [*LEGACY.values()][seed % len(LEGACY)] if seed % 3 == 0 else generate(seed).text
    text = mutants.nonsense(base, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python, about the nonsense
        result = convert_bytes(text.encode(), "/train.py", Options())
        assert not result.fault and not result.error, f"seed {seed}: {result.error}"
        checked = check_bytes(result.output or text.encode(), "/train.py", Choice())
        assert not checked.error, f"seed {seed}: {checked.error}"


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_nonsense(first: int) -> None:
    for seed in range(first, first + 20):
        check_nonsense(seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(10_000, 13_000, 250))
def test_nonsense_thousands(first: int) -> None:
    for seed in range(first, first + 250):
        check_nonsense(seed)


def test_nonsense_is_another_script() -> None:
    text = GENERATED["seed 0"]
    others = {mutants.nonsense(text, seed) for seed in range(20)}
    assert len(others) > 10 and all(ast.parse(other) for other in others)
