"""Python that has nothing to do with training is left as it is, alone and in the middle of training scripts."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("hypothesmith")

from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tests.generated import anything
from tests.generated.campaign import convert

TEXTS = anything.scripts()
SAMPLE = settings(
    max_examples=14,
    derandomize=True,  # the same examples, but for the constants of modules that other tests have loaded
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.filterwarnings("ignore")
def test_any_python() -> None:
    seen: Counter[str] = Counter()

    @SAMPLE
    @given(anything.STATEMENTS, st.integers(0, len(TEXTS) - 1), st.integers(0, 30), st.sampled_from(anything.PLACES))
    def check(code: str, number: int, at: int, place: str) -> None:
        anything.check_alone(code)
        became = anything.check_spliced(code, TEXTS[number], at, place)
        assume(became != "unfit")  # no example: there are to be as many whatever is drawn
        seen[became] += 1

    check()
    assert seen["the same"] > 6, seen


@pytest.mark.parametrize("place", anything.PLACES)
def test_code_in_every_place(place: str) -> None:
    code = "kept  =  ( lambda : 3 ) ; other = [kept ,]\n"
    for at in (0, 3, 30):
        assert anything.check_spliced(code, TEXTS[0], at, place) == "the same"


def test_what_trains_is_seen() -> None:
    """Code that would change is no code that stays: the comparison can fail."""
    code = "loss = model(torch.ones(4, 8)).sum()\nloss.backward()\nprint(loss)\n"
    with pytest.raises(AssertionError):
        for text in TEXTS[:10]:
            if convert(text).output is not None:
                assert anything.check_spliced(code, text, 30, "bare") == "the same"
