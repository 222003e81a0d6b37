"""Scripts of any shape end: understood, or given up on with a sentence that says so."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from accelift_codemod import timelimit
from accelift_codemod.checker import Choice, check_bytes
from accelift_codemod.plan import Outcome
from cli_runs import CONVERTED, SCRIPT, accelift, convert, tree

from tests.codemod.scripts import convert as convert_text
from tests.codemod.scripts import lifted, script

MANY = 5000
BRANCHES = "def route(x):\n    y = x\n" + "".join(f"    if x == {i}:\n        y = {i}\n" for i in range(MANY))
SLOW = script(definitions=f"{BRANCHES}    return y\n", after="print(route(1))")
LIMITED = "slow.py: is not understood in 0.05 s of processor time; give it more with --time-limit, or split its longest"


@pytest.fixture(autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    yield
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL


# ---- the limit


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_file_that_takes_longer_is_given_up(jobs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text(SCRIPT)
    Path("slow.py").write_text(SLOW)
    Path("z.py").write_text(SCRIPT)
    ran = convert("a.py", "z.py", "--write", "-j", jobs)
    assert (ran.code, ran.lines[-1]) == (0, "2 converted")
    ran = convert("slow.py", "a.py", "--check", "--time-limit", "0.05", "-j", jobs)
    assert ran.code == 2
    assert ran.lines[0] == f"{LIMITED} function"
    assert ran.lines[-1] == "1 with nothing to do, 1 not processed"
    assert tree(tmp_path) == {"a.py": CONVERTED.encode(), "slow.py": SLOW.encode(), "z.py": CONVERTED.encode()}


def test_check_has_the_limit_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("slow.py").write_text(lifted(definitions=f"{BRANCHES}    return y\n", after="print(route(1))"))
    ran = accelift("check", "slow.py", "--time-limit", "0.05")
    assert (ran.code, ran.lines[0]) == (2, f"{LIMITED} function")


def test_without_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text(SCRIPT)
    assert convert("a.py", "--check", "--time-limit", "0").code == 1
    assert convert("a.py", "--check", "--time-limit", "-1").lines == [
        "accelift: Invalid value for '--time-limit': -1.0 is not in the range x>=0."
    ]


def test_nothing_catches_the_end_of_the_time() -> None:
    with pytest.raises(timelimit.TookTooLong), timelimit.within(0.02):
        while True:
            try:
                sum(range(1000))
            except Exception:
                pytest.fail("it was caught")


def test_other_threads_have_no_bound() -> None:
    done = []

    def work() -> None:
        with timelimit.within(1e-6):
            done.append(sum(range(200_000)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done


# ---- shapes

NESTED = """\
def nested(value):
    if isinstance(value, dict):
        return {key: nested(item) for key, item in value.items()}
    if isinstance(value, list):
        return [nested(item) for item in value]
    if isinstance(value, tuple):
        return tuple(nested(item) for item in value)
    if isinstance(value, slice):
        return slice(nested(value.start), nested(value.stop), nested(value.step))
    return value
"""
CYCLE = """\
a = b = c = model
for _ in range(3):
    a, b, c = b, c, a
    a = [b]
    b = {1: c}
    c = (a, b)
print(a, b, c)
"""
CALLS = """\
def p(x):
    return q([x])


def q(x):
    return r((x, x))


def r(x):
    return p({"a": x})
"""
WEB = "".join(f"def f{i}(x):\n    return f{(i * 7 + 1) % 60}([x, f{(i * 3 + 2) % 60}(x)])\n\n\n" for i in range(60))
SHAPES = {
    "containers in containers without end": {"definitions": NESTED, "after": "print(nested((model, [loader])))"},
    "assignments in a circle": {"after": CYCLE},
    "functions that call each other in a circle": {"definitions": CALLS, "after": "print(p(model))"},
    "sixty functions that call each other": {"definitions": WEB, "after": "print(f0(model))"},
    "calls nested as deep as Python allows": {"after": f"z = {'str(' * 90}x{')' * 90}"},
    "a sum of a thousand terms": {"after": f"z = {' + '.join(['x'] * 1000)}"},
    "a thousand negations": {"after": f"z = {'not ' * 1000}x"},
    "a chain of five hundred calls": {
        "definitions": "def g0(model):\n    return model\n\n\n"
        + "".join(f"def g{n + 1}(model):\n    return g{n}(model)\n\n\n" for n in range(500)),
        "batch_end": "same = g500(model)",
    },
}


@pytest.mark.parametrize("slots", SHAPES.values(), ids=SHAPES.keys())
def test_shapes_that_are_understood(slots: dict[str, str]) -> None:
    """Without a bound on the size of values, the first of them takes minutes."""
    assert convert_text(script(**slots), time_limit=30.0).outcome is Outcome.CONVERTED
    result = check_bytes(lifted(**slots).encode(), "/train.py", Choice(time_limit=30.0))
    assert result.plan is not None and result.plan.pending == ()


TOO_DEEP = {
    "a thousand arms of one if": {"after": "if x is 0:\n    z = 0\n" + "elif x is 1:\n    z = 1\n" * 1000},
    "attributes of attributes": {"after": f"z = x{'.data' * 3000}"},
}


@pytest.mark.parametrize("slots", TOO_DEEP.values(), ids=TOO_DEEP.keys())
def test_what_nests_deeper_than_python_can_follow(slots: dict[str, str]) -> None:
    error = convert_text(script(**slots)).error
    assert error.startswith("/train.py: nests too deeply") and "; split the deepest expression" in error


def test_syntax_that_python_does_not_know() -> None:
    """As that of a Python newer than the one that runs the tool."""
    text = script(after="lazily x := 3")
    line = text.splitlines().index("lazily x := 3") + 1
    assert convert_text(text).error == f"/train.py:{line}: does not parse (invalid syntax); correct the syntax"


def test_links_in_a_circle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("project/inner").mkdir(parents=True)
    Path("project/train.py").write_text(SCRIPT)
    Path("project/inner/up").symlink_to("..", target_is_directory=True)
    Path("project/self").symlink_to("self")
    Path("project/loop.py").symlink_to("loop.py")
    ran = convert("project", "--check")
    assert ran.text == "project/train.py: would be converted\n"
    assert accelift("check", "project").code == 0


CALLS = "".join(f"    a = {{}}(x, a + {i})\n" for i in range(40))
FUNCTIONS = "def f0(x, a):\n    if a > 3:\n        return x\n    return x + a\n\n\n" + "".join(
    f"def f{n}(x, a):\n{CALLS.format(*[f'f{n - 1}'] * 40)}    return a\n\n\n" for n in (1, 2, 3)
)


@pytest.mark.parametrize(
    "slots",
    [
        {"forward": "optimizer.zero_grad()\nout = model(x)\n" + "out = out + out\n" * 60 + "loss = out.mean()"},
        {
            "before": "kept = torch.zeros(3, device=device)",
            "forward": "optimizer.zero_grad()\nout = model(x)\n" + "out = out + out\n" * 60 + "loss = out.mean()",
            "batch_end": "kept = kept + out.topk(2)[1].sum()",
        },
        {
            "definitions": FUNCTIONS,
            "forward": "optimizer.zero_grad()\nloss = (model(x) + f3(x, x.mean()).mean()).mean()",
        },
    ],
    ids=["variables", "kept", "calls"],
)
def test_what_leads_to_one_thing_in_many_ways_is_followed_once(
    slots: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(script(**slots))
    assert "not understood" not in convert("train.py", "--check", "--time-limit", "10").stderr
