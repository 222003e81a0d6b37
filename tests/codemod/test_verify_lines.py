"""What a proof makes of printed lines: numbers count, times do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from accelift_codemod.plan import Finding, Severity
from accelift_codemod.render.proof import conclusion
from accelift_codemod.verify.announced import announcements
from accelift_codemod.verify.answers import Answer, Suspicion, Verdict
from accelift_codemod.verify.causes import candidates
from accelift_codemod.verify.lines import PRINTED, PRINTERS, compare_lines, compare_printers, volatile_numbers
from accelift_codemod.verify.proved import Comparison, Proof
from accelift_codemod.verify.recording import Line, Rank, Recording
from scripts import NO_LOOP, convert, script


def run(*texts: str) -> Recording:
    """A run that printed these lines after its training."""
    return Recording([Rank(lines=[Line(at, text, "train.py:9", False, "eval", 3) for at, text in enumerate(texts)])])


def verdict(original: Recording, again: Recording, converted: Recording) -> Verdict:
    return compare_lines(original, converted, volatile_numbers(original, again), None, exact=True).verdict


@pytest.mark.parametrize(
    ("original", "again", "converted"),
    [
        ("accuracy 0.9712", "accuracy 0.9712", "accuracy 0.9712"),
        ("epoch 1 took 3.1s", "epoch 1 took 3.1s", "epoch 1 took 3.4s"),  # the same by accident
        ("Step: 1s28ms | Tot: 3m", "Step: 1s28ms | Tot: 3m", "Step: 1s40ms | Tot: 4m"),
        ("Step: 1s28ms | loss 2", "Step: 1s28ms | loss 2", "Step: 128ms | loss 2"),
        ("speed 120.5 images/sec", "speed 120.5 images/sec", "speed 99 images/sec"),
        ("run 17", "run 18", "run 19"),  # another number each time
        ("on cuda, loss 2", "on cuda, loss 2", "on cuda:0, loss 2"),  # one device
        ("on cuda:0", "on cuda:0", "on cuda:1"),  # each process has its own
    ],
)
def test_the_same(original: str, again: str, converted: str) -> None:
    assert verdict(run(original), run(again), run(converted)) is not Verdict.DIFFERS


def test_a_number_that_changes_in_one_line_may_in_all_that_are_alike() -> None:
    original, again = run("clock 10.5 loss 2", "clock 11.0 loss 1"), run("clock 10.6 loss 2", "clock 11.0 loss 1")
    assert verdict(original, again, run("clock 10.9 loss 2", "clock 11.3 loss 1")) is not Verdict.DIFFERS
    assert verdict(original, again, run("clock 10.9 loss 2", "clock 11.3 loss 3")) is Verdict.DIFFERS


@pytest.mark.parametrize(
    ("original", "converted"),
    [
        ("accuracy 0.9712", "accuracy 0.9713"),
        ("loss 3", "loss 4"),
        ("3 shapes", "4 shapes"),  # no unit
        ("5 models", "6 models"),
        ("size 4mm", "size 5mm"),
        ("on cuda:0", "on cpu"),
        ("cuda 2", "cuda 3"),
        ("fold:0", "fold:1"),
    ],
)
def test_other_numbers(original: str, converted: str) -> None:
    assert verdict(run(original), run(original), run(converted)) is Verdict.DIFFERS


@pytest.mark.parametrize(
    ("losses", "lines", "said"),
    [
        (Verdict.EQUIVALENT, Verdict.IDENTICAL, "equivalent"),
        (Verdict.EQUIVALENT, Verdict.NOT_COMPARABLE, "equivalent, but for printed values that a finding speaks of"),
        (Verdict.NOT_COMPARABLE, Verdict.NOT_COMPARABLE, "not comparable"),
        (Verdict.NOT_COMPARABLE, Verdict.IDENTICAL, "not comparable"),
    ],
)
def test_what_is_only_printed_otherwise_does_not_hide_what_is_proved(
    losses: Verdict, lines: Verdict, said: str
) -> None:
    answers = [Answer("the same losses", losses), Answer(PRINTED, lines), Answer("files", Verdict.NOT_SEEN)]
    assert (
        conclusion(Proof("train.py", comparisons=[Comparison("2 processes", answers)]))
        == f"PROVED: 2 processes: {said}."
    )


@pytest.mark.parametrize("announced", [True, False])
def test_lines_that_every_process_logs_do_not_hide_what_is_proved(announced: bool) -> None:
    why = (Suspicion("PRINT-ALL", 3, "process 1 prints 3 lines too"),) if announced else ()
    answers = [
        Answer("the same losses", Verdict.EQUIVALENT),
        Answer(PRINTED, Verdict.NOT_COMPARABLE),
        Answer(PRINTERS, Verdict.NOT_COMPARABLE, suspicions=why),
    ]
    said = "equivalent, but for printed values that a finding speaks of" if announced else "not comparable"
    found = conclusion(Proof("train.py", comparisons=[Comparison("2 processes", answers)]))
    assert found == f"PROVED: 2 processes: {said}."


def test_what_is_announced_is_no_cause_of_what_differs() -> None:
    why = Suspicion("PRINT-ALL", 3, "process 1 prints 3 lines too"), Suspicion("LOSS", 1, "the loss differs")
    answers = [Answer(PRINTERS, Verdict.NOT_COMPARABLE, "", why[:1]), Answer("losses", Verdict.DIFFERS, "", why[1:])]
    assert candidates(answers) == [why[1]]


@pytest.mark.parametrize("by_library", [True, False])
def test_what_a_library_logs_on_its_own_is_left_to_it(by_library: bool) -> None:
    line = Line(1, "font Arial is missing", "train.py:9", False, "eval", 3, by_library)
    answer = compare_printers(Recording([Rank(lines=[line])]), Recording([Rank(lines=[line]), Rank(lines=[line])]))
    assert answer.verdict is (Verdict.IDENTICAL if by_library else Verdict.DIFFERS)


PRINTS = """\
def train(rows):
    for row in rows:
        keep(row)
    print(
        "train", total
    )


def test(rows):
    print("test", right)
    bar.set_postfix(loss=total)
    history.append(total)
    epochs += 1
    print("test", history[-1])
"""


@pytest.mark.parametrize(
    ("lines", "severity", "place", "verdict"),
    [
        ([4], Severity.NOTE, 4, Verdict.NOT_COMPARABLE),
        ([4], Severity.NOTE, 5, Verdict.NOT_COMPARABLE),  # in the same statement
        ([4], Severity.NOTE, 10, Verdict.DIFFERS),  # no finding is about the test
        ([4, 11], Severity.NOTE, 10, Verdict.DIFFERS),  # the second one is about a bar
        ([4, 12], Severity.NOTE, 10, Verdict.DIFFERS),  # what is kept is followed to where it is printed
        ([12], Severity.NOTE, 14, Verdict.NOT_COMPARABLE),
        ([4], Severity.WARNING, 10, Verdict.NOT_COMPARABLE),  # by a decision all that follows may be another
        ([0], Severity.NOTE, 10, Verdict.NOT_COMPARABLE),
        ([], Severity.NOTE, 10, Verdict.DIFFERS),
    ],
)
def test_a_finding_excuses_the_lines_that_it_is_about(
    tmp_path: Path, lines: list[int], severity: Severity, place: int, verdict: Verdict
) -> None:
    file = tmp_path / "train.py"
    file.write_text(PRINTS)
    found = [(str(file), Finding("METRIC-TRAIN", severity, n, "`total` covers", "")) for n in lines]
    said = announcements(found, tmp_path.resolve())

    def ran(value: float) -> Rank:
        printed = [("train 1.5", 4), (f"test {value}", place)]
        return Rank(lines=[Line(0, text, f"train.py:{line}", False, "eval", 3) for text, line in printed])

    answer = compare_lines(Recording([ran(2.5)]), Recording([ran(3.5), ran(4.5)]), [], None, False, said)
    assert answer.verdict is verdict


@pytest.mark.parametrize(("others", "verdict"), [(("train.py:4",), Verdict.NOT_COMPARABLE), ((), Verdict.DIFFERS)])
def test_a_finding_excuses_a_line_that_begins_with_what_it_is_about(
    tmp_path: Path, others: tuple[str, ...], verdict: Verdict
) -> None:
    """`print(total, end=" ")`, and what is printed elsewhere behind it."""
    file = tmp_path / "train.py"
    file.write_text(PRINTS)
    finding = Finding("METRIC-TRAIN", Severity.NOTE, 4, "`total` covers", "")
    said = announcements([(str(file), finding)], tmp_path.resolve())
    left, right = (
        Rank(lines=[Line(0, f"train {n} test 1", "train.py:10", False, "eval", 3, others=others)]) for n in (1.5, 2.5)
    )
    assert compare_lines(Recording([left]), Recording([right, right]), [], None, False, said).verdict is verdict


def test_a_line_that_no_finding_is_about_counts_after_one_that_is_excused(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(PRINTS)
    finding = Finding("METRIC-TRAIN", Severity.NOTE, 4, "`total` covers", "")
    said = announcements([(str(file), finding)], tmp_path.resolve())
    left, right = [
        Rank(
            lines=[Line(0, f"train {n}", "train.py:4", False, "", 3), Line(1, f"test {n}", "train.py:10", False, "", 3)]
        )
        for n in (1.5, 2.5)
    ]
    answer = compare_lines(Recording([left]), Recording([right, right]), [], None, False, said)
    assert answer.verdict is Verdict.DIFFERS
    assert "test 2.5" in answer.detail


FLOWS = """\
def say(text):
    print(text)


class Meter:
    def update(self, value):
        self.last = value

    def __call__(self, value):
        print(value)


def train(loader, meter, kept):
    for x, y in loader:
        loss = criterion(model(x), y)
        hits = count(model(x), y)
        print("now", loss, hits)
        loss.backward()
        meter.update(loss)
        kept.setdefault("train", []).append(loss)
    print("after", loss)
    say(f"train {loss}")
    meter(loss)
    if loss < 1:
        low = True
        print("low", 3)
    print("low", low)
    return loss, 1


def test(loader):
    total = 0
    for x, y in loader:
        loss = criterion(model(x), y)
        total += loss
    print("test", loss)
    log.info("test %f", total)
    return total


def main():
    meter, kept = Meter(), {}
    for epoch in range(3):
        last, seen = train(loader, meter, kept)
        right = test(loader)
        log.info("last %f", last)
        print("epoch", epoch, right)
    print(meter.last)
    for name, values in kept.items():
        print(name, values)
    log.warning("%s", right)
"""


def test_what_a_finding_names_is_followed_to_where_it_is_printed(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(FLOWS)
    lines = FLOWS.splitlines()
    at = next(n for n, text in enumerate(lines, start=1) if '"now"' in text)
    finding = Finding("METRIC-TRAIN", Severity.NOTE, at, "`loss`, `hits` cover only the share of a process", "")
    said = announcements([(str(file), finding)], tmp_path.resolve())
    places = [n for n, text in enumerate(lines, start=1) if "print(" in text or "log." in text]
    others = [lines[n - 1].strip() for n in places if not said.spoken_of(f"train.py:{n}")]
    assert others == [
        'print("test", loss)',
        'log.info("test %f", total)',
        'print("epoch", epoch, right)',
        'log.warning("%s", right)',
    ]


def test_following_is_linear(tmp_path: Path) -> None:
    text = "".join(f"a{n} = a{n + 1}\n" for n in range(3000)) + "print(a3000)\nprint(a0)\nprint(b)\n"
    (tmp_path / "train.py").write_text(text)
    finding = Finding("METRIC-TRAIN", Severity.NOTE, 3001, "`a3000` covers only the share of a process", "")
    said = announcements([(str(tmp_path / "train.py"), finding)], tmp_path.resolve())
    assert [bool(said.spoken_of(f"train.py:{n}")) for n in (3001, 3002, 3003)] == [True, True, False]


STORES = """\
def add(value):
    global last
    last = value


def newest():
    return last


def answer():
    return 42
"""


def test_a_file_of_the_project_that_prints_nothing_is_followed_through(tmp_path: Path) -> None:
    (tmp_path / "stores.py").write_text(STORES)
    text = "import stores\ntotal += loss.item()\nstores.add(total)\nprint(stores.newest())\nprint(stores.answer())\n"
    (tmp_path / "train.py").write_text(text)
    finding = Finding("METRIC-TRAIN", Severity.NOTE, 2, "`total` covers only the share of a process", "")
    found = [(str(tmp_path / "train.py"), finding)]
    said = announcements(found, tmp_path.resolve(), [tmp_path / "stores.py"])
    assert [bool(said.spoken_of(f"train.py:{n}")) for n in (4, 5)] == [True, False]


@pytest.mark.parametrize(
    ("converted", "said"),
    [
        (["loss 2", "done"], "1 number; 1 line is new"),
        (["loss 2", "done", "and more"], "1 number; 2 lines are new"),
        (["loss 2"], "1 number"),
        ([], "1 line is missing, for instance 'loss 2'"),
    ],
)
def test_what_is_one_is_not_said_to_be_many(converted: list[str], said: str) -> None:
    assert compare_lines(run("loss 2"), run(*converted), (), None, exact=True).detail == said


@pytest.mark.parametrize(
    ("before", "gives", "prints", "told"),
    [
        ("show = lambda value: print(value)", "show(loss)", 1, True),
        ("hooks = [lambda value: print(value)]", "hooks[0](loss)", 1, True),
        ("show = lambda value: print(value)", "show(1)", 1, False),
        ("state = State()", "setattr(state, 'loss', loss)\nprint(state.loss)", 4, True),
        ("state = State()", "setattr(state, 'rate', 1)\nprint(state.rate)", 4, False),
        ("low = 0", "match loss:\n    case 1:\n        low += 1\nprint(low)", 6, True),
    ],
)
def test_other_ways_to_where_it_is_printed(tmp_path: Path, before: str, gives: str, prints: int, told: bool) -> None:
    (tmp_path / "train.py").write_text(f"{before}\nloss = measure()\n{gives}\n")
    finding = Finding("METRIC-TRAIN", Severity.NOTE, 2, "`loss` covers only the share of a process", "")
    said = announcements([(str(tmp_path / "train.py"), finding)], tmp_path.resolve())
    assert bool(said.spoken_of(f"train.py:{prints}")) is told


@pytest.mark.parametrize(
    ("lines", "place", "verdict"),
    [
        ([4], 4, Verdict.NOT_COMPARABLE),
        ([3], 4, Verdict.NOT_COMPARABLE),  # in the same function
        ([3], 10, Verdict.NOT_COMPARABLE),  # it says the same of line 11
        ([4], 10, Verdict.DIFFERS),
        ([4, 11], 10, Verdict.NOT_COMPARABLE),
        ([0], 10, Verdict.NOT_COMPARABLE),  # it is not known where
        ([], 10, Verdict.DIFFERS),
    ],
)
def test_a_finding_excuses_what_its_function_prints(
    tmp_path: Path, lines: list[int], place: int, verdict: Verdict
) -> None:
    file = tmp_path / "train.py"
    file.write_text(PRINTS)
    found = [(str(file), Finding("PRINT-ALL", Severity.NOTE, n, "print runs on every process", "")) for n in lines]
    found = [(path, replace(one, also=(11,) if one.line == 3 else ())) for path, one in found]
    said = announcements(found, tmp_path.resolve(), codes={"PRINT-ALL"})
    ran = Rank(lines=[Line(0, "test 2.5", f"train.py:{place}", False, "eval", 3)])
    assert compare_printers(Recording([ran]), Recording([ran, ran]), said).verdict is verdict


KEEPS = "loss.item()\n    if loss < best:\n        torch.save(model.state_dict(), 'm.pt')"
LOOP = """\
total = 0
for i, (x, y) in enumerate(loader):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    total += {added}
print("share", {shown})
print("all", len(loader))
"""


@pytest.mark.parametrize(
    ("added", "shown", "loose"),
    [
        ("unknown(loss) * x.size(0)", "total / len(data)", False),
        (KEEPS, "total", False),
        (f"{KEEPS}\nmodel.load_state_dict(torch.load('m.pt'))", "total", True),
    ],
)
def test_a_number_that_is_divided_by_too_much_excuses_no_others(
    tmp_path: Path, added: str, shown: str, loose: bool
) -> None:
    slots = {"before": "best = 3", "from_imports": "from elsewhere import unknown"}
    text = script(**slots, **NO_LOOP, after=LOOP.format(added=added, shown=shown))
    plan = convert(text).plan
    assert plan is not None and "METRIC-TRAIN" in [f.code for f in plan.findings if f.severity is Severity.WARNING]
    file = tmp_path / "train.py"
    file.write_text(text)
    said = announcements([(str(file), finding) for finding in plan.findings], tmp_path.resolve())
    share, whole = (f"train.py:{n}" for n, line in enumerate(text.splitlines(), 1) if line.startswith("print("))
    assert said.spoken_of(share)
    assert bool(said.spoken_of(whole)) is loose


MEASURES = """\
def evaluate(batches):
    right = 0
    for x, y in batches:
        x = x.to(device)
        out = model(x)
        right += (out - out.mean(0)).argmax(1).eq(model(x + 1).argmax(1)).sum().item()
        model(x)
    return right
"""
ELSEWHERE = "from elsewhere import evaluate"
SHOWN = "right = evaluate(loader)\nprint('right', right)\nprint('other', len(loader))"


@pytest.mark.parametrize("slots", [{"definitions": MEASURES}, {"from_imports": ELSEWHERE}])
@pytest.mark.parametrize(
    ("shown", "told"),
    [
        (SHOWN, [True, False]),
        ("print('right', evaluate(loader))\nprint('other', 1)", [True, False]),
        ("def show(n):\n    print(n)\nshow(evaluate(loader))\nprint('other', 1)", [True, False]),
        (f"{SHOWN}\nif right < 9:\n    break", [True, True]),  # by a decision all that follows may be another
    ],
)
def test_what_is_measured_on_one_share_excuses_no_other_numbers(
    tmp_path: Path, slots: dict[str, str], shown: str, told: list[bool]
) -> None:
    text = script(**slots, epoch_end=shown)
    plan = convert(text).plan
    assert plan is not None and "METRIC-LOCAL" in [f.code for f in plan.findings]
    file = tmp_path / "train.py"
    file.write_text(text)
    said = announcements([(str(file), finding) for finding in plan.findings], tmp_path.resolve())
    places = [n for n, line in enumerate(text.splitlines(), 1) if "print(" in line]
    assert [bool(said.spoken_of(f"train.py:{n}")) for n in places] == told


@pytest.mark.parametrize(("name", "told"), [("right", True), ("`", True), ("wrong", False)])
def test_a_finding_of_several_lines_is_about_what_it_names(tmp_path: Path, name: str, told: bool) -> None:
    file = tmp_path / "train.py"
    file.write_text("def train(right, wrong):\n    print(1)\n    print(2)\n    print(right)\n")
    finding = Finding("METRIC-TRAIN", Severity.NOTE, 2, f"`{name}` covers", "", also=(3,))
    said = announcements([(str(file), finding)], tmp_path.resolve())
    assert bool(said.spoken_of("train.py:4")) is told


@pytest.mark.parametrize(
    "shown", ["seen = next(iter(loader))[0]{}\nprint('seen', seen)", "print(next(iter(loader))[0]{})"]
)
@pytest.mark.parametrize("picked", ["", "[3]"])
def test_a_batch_that_is_looked_at_excuses_no_others(tmp_path: Path, shown: str, picked: str) -> None:
    text = script(
        loader="loader = DataLoader(data, batch_size=16)", batch_end="print(len(x))", after=shown.format(picked)
    )
    plan = convert(text).plan
    assert plan is not None and "METRIC-TRAIN" in [f.code for f in plan.findings]
    file = tmp_path / "train.py"
    file.write_text(text)
    said = announcements([(str(file), finding) for finding in plan.findings], tmp_path.resolve())
    places = [n for n, line in enumerate(text.splitlines(), 1) if "print(" in line]
    assert [bool(said.spoken_of(f"train.py:{n}")) for n in places] == [False, True]
