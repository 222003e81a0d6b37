"""tqdm: one bar per machine."""

from __future__ import annotations

import pytest
from scripts import converted, findings, lifted, script, unchanged

TQDM = "from tqdm import tqdm"
OFF = "disable=not accelerator.is_local_main_process"


@pytest.mark.parametrize(
    ("imports", "before", "after"),
    [
        (TQDM, "tqdm(loader)", f"tqdm(loader, {OFF})"),
        (TQDM, 'tqdm(loader, desc="train")', f'tqdm(loader, desc="train", {OFF})'),
        (TQDM, "tqdm(loader, None, 10)", f"tqdm(loader, None, 10, {OFF})"),
        (TQDM, "tqdm(loader, disable=False)", f"tqdm(loader, {OFF})"),
        (TQDM, "tqdm(loader, disable=quiet)", "tqdm(loader, disable=quiet or not accelerator.is_local_main_process)"),
        (
            TQDM,
            "tqdm(loader, disable=not quiet)",
            "tqdm(loader, disable=(not quiet) or not accelerator.is_local_main_process)",
        ),
        (
            TQDM,
            "tqdm(loader, disable=quiet == 0 or quiet > 3, leave=False)",
            "tqdm(loader, disable=(quiet == 0 or quiet > 3) or not accelerator.is_local_main_process, leave=False)",
        ),
        ("from tqdm.auto import tqdm", "tqdm(loader)", f"tqdm(loader, {OFF})"),
        ("from tqdm import tqdm as bar", "bar(loader)", f"bar(loader, {OFF})"),
        ("import tqdm", "tqdm.tqdm(loader)", f"tqdm.tqdm(loader, {OFF})"),
        ("import tqdm.notebook", "tqdm.notebook.tqdm(loader)", f"tqdm.notebook.tqdm(loader, {OFF})"),
        (
            TQDM,
            'tqdm(\n    loader,\n    desc="train",\n)',
            f'tqdm(\n        loader,\n        desc="train",\n        {OFF},\n    )',
        ),
    ],
)
def test_bars_over_the_loader(imports: str, before: str, after: str) -> None:
    slots = {"imports" if imports.startswith("import") else "from_imports": imports, "setup": "quiet = 0"}
    assert converted(script(loop=f"for x, y in {before}:", **slots)) == lifted(
        loop=f"for x, y in {after}:".replace("\n    ", "\n"), **slots
    )


@pytest.mark.parametrize(
    ("slot", "before", "after"),
    [
        ("epochs", "for epoch in trange(2):", f"for epoch in trange(2, {OFF}):"),
        ("before", "bar = tqdm(total=10)", f"bar = tqdm(total=10, {OFF})"),
        (
            "epoch",
            "with tqdm(total=3) as bar:\n    bar.update()",
            f"with tqdm(total=3, {OFF}) as bar:\n    bar.update()",
        ),
        ("epoch", "names = [n for n in tqdm('abc')]", f"names = [n for n in tqdm('abc', {OFF})]"),
        (
            "batch_end",
            "tqdm.write('a')\ntqdm.write('b')",
            "if accelerator.is_main_process:\n    tqdm.write('a')\n    tqdm.write('b')",
        ),
        (
            "epoch",
            "bar = tqdm(total=3)\nbar.write('a')",
            f"bar = tqdm(total=3, {OFF})\nif accelerator.is_main_process:\n    bar.write('a')",
        ),
        (
            "epoch",
            "with tqdm('ab') as bar:\n    for n in bar:\n        bar.write(n)",
            f"with tqdm('ab', {OFF}) as bar:\n    for n in bar:\n"
            "        if accelerator.is_main_process:\n            bar.write(n)",
        ),
        (
            "epoch",
            "with trange(3) as bar:\n    for n in bar:\n        bar.write('a')",
            f"with trange(3, {OFF}) as bar:\n    if accelerator.is_main_process:\n"
            "        for n in bar:\n            bar.write('a')",
        ),
        (
            "epoch",
            "bar = sys.stdout if quiet else tqdm('ab')\nbar.write('a')",
            f"bar = sys.stdout if quiet else tqdm('ab', {OFF})\nbar.write('a')",
        ),
    ],
)
def test_other_bars(slot: str, before: str, after: str) -> None:
    imports = {
        "imports": "import sys",
        "from_imports": "from tqdm import tqdm, trange",
        "setup": "quiet = len(sys.argv)",
    }
    assert converted(script(**imports, **{slot: before})) == lifted(**imports, **{slot: after})


@pytest.mark.parametrize(
    ("imports", "definitions", "line"),
    [
        ("", "def tqdm(things):\n    return things", "for n in tqdm('abc'):\n    pass"),
        ("from rich.progress import track", "", "for n in track('abc'):\n    pass"),
        (TQDM, "", "bars = [tqdm]"),
        (TQDM, "", "tqdm.monitor_interval = 0"),
        (TQDM, "", "n = tqdm.format_sizeof(3)"),
        (TQDM, "", "tqdm.write(str(model(x)))"),  # all processes run the model together
        (TQDM, "class Log:\n    def write(self, text):\n        pass", "Log().write('a')"),
    ],
)
def test_what_stays(imports: str, definitions: str, line: str) -> None:
    slots = {"from_imports": imports, "definitions": definitions, "epoch_end": line}
    assert converted(script(**slots)) == lifted(**slots)


@pytest.mark.parametrize(
    "module", ["rich.progress import track", "fastprogress import progress_bar", "qqdm import qqdm"]
)
def test_batches_that_bars_of_other_libraries_show(module: str) -> None:
    slots = {"from_imports": f"from {module}", "loop": f"for x, y in {module.rpartition(' ')[2]}(loader):"}
    assert converted(script(**slots)) == lifted(**slots)


@pytest.mark.parametrize(
    ("imports", "bar", "loop"),
    [
        ("progressbar import ProgressBar", "", "ProgressBar()(loader)"),
        ("progressbar import ProgressBar", "bar = ProgressBar()", "bar(loader)"),
        ("rich.progress import Progress", "bar = Progress()", "bar.track(loader)"),
        ("progressbar import progressbar", "", "progressbar(loader)"),
    ],
)
def test_objects_that_show_what_they_go_through(imports: str, bar: str, loop: str) -> None:
    slots = {"from_imports": f"from {imports}", "setup": bar, "loop": f"for x, y in {loop}:"}
    assert converted(script(**slots)) == lifted(**slots)


def test_what_another_method_of_them_gives_is_not_known() -> None:
    slots = {"from_imports": "from rich.progress import Progress", "setup": "bar = Progress()"}
    assert unchanged(script(**slots, loop="for x, y in bar.open(loader):")).code == "LOADER-UNKNOWN"


def test_bars_out_of_reach() -> None:
    """A bar is no reason to hand the accelerator on: the state of the processes is known everywhere."""
    slots = {"from_imports": TQDM, "setup": "load()"}
    text = script(main=True, definitions="def load():\n    return list(tqdm('abc'))", **slots)
    bar = "def load():\n    return list(tqdm('abc', disable=not PartialState().is_local_main_process))"
    after = lifted(main=True, definitions=bar, **slots)
    assert converted(text) == after.replace("DataLoaderConfiguration\n", "DataLoaderConfiguration, PartialState\n", 1)


def test_bars_that_other_processes_may_run_stay() -> None:
    slots = {"from_imports": TQDM, "definitions": "def load():\n    return list(tqdm('abc'))\n\n\nlater = load"}
    assert converted(script(main=True, **slots)) == lifted(main=True, **slots)


def test_left_out() -> None:
    slots = {"from_imports": TQDM, "loop": "for x, y in tqdm(loader):"}
    assert converted(script(**slots), ignore=("TQDM",)) == lifted(**slots)
    assert findings(script(**slots), ignore=("TQDM",)) == []


def test_unknown_keyword_arguments() -> None:
    slots = {"from_imports": TQDM, "setup": "kw = {'disable': True}", "loop": "for x, y in tqdm(loader, **kw):"}
    assert converted(script(**slots)) == lifted(**slots)


def test_off_unless_on_a_terminal() -> None:
    slots = {"from_imports": TQDM, "loop": "for x, y in tqdm(loader, disable=None):"}
    assert "disable=None if accelerator.is_local_main_process else True" in converted(script(**slots))


@pytest.mark.parametrize("line", ["if epoch: tqdm.write('a')", "n = 1; tqdm.write('a')"])
def test_write_on_a_shared_line(line: str) -> None:
    assert "accelerator.backward(loss)" in converted(script(from_imports=TQDM, batch_end=line))


BAR = "bar = tqdm(enumerate(loader), total=len(loader)) if loud else enumerate(loader)"


def test_a_bar_or_none() -> None:
    slots = {"from_imports": TQDM, "setup": "loud = True", "loop": "for number, (x, y) in bar:"}
    after = converted(script(epoch=BAR, **slots))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in after
    assert "disable=not accelerator.is_local_main_process" in after


@pytest.mark.parametrize("other", ["enumerate(more)", "enumerate(unknown())"])
def test_a_bar_or_other_batches(other: str) -> None:
    slots = {"from_imports": f"{TQDM}\nfrom nets import unknown", "setup": "loud = True"}
    more = "more = DataLoader(data, batch_size=16)" if "more" in other else ""
    bar = BAR.replace("else enumerate(loader)", f"else {other}")
    text = script(epoch=bar, before=more, loop="for number, (x, y) in bar:", **slots)
    if more:
        assert "loader, more = accelerator.prepare(" in converted(text).replace("\n    model, optimizer, ", " ")
    else:
        assert unchanged(text).code in ("LOADER-UNKNOWN", "PREP-NO-POINT")


@pytest.mark.parametrize(
    ("made", "asked", "disabled"),
    [
        ("bar = tqdm(total=10)", "if bar.n >= 5:\n    break", False),
        ("bar = tqdm(total=10)", "step = bar.n", False),
        ("bar = trange(10)", "while bar.n < 5:\n    bar.update(1)", False),
        ("bar = tqdm(total=10)", "left = bar.format_dict['n']", False),
        ("bar = tqdm(total=10)", "torch.manual_seed(bar.n)", False),
        ("bar = tqdm(total=10)", "print(bar.n)", True),
        ("bar = tqdm(total=10)", "bar.update(3 - bar.n)", True),
        ("bar = tqdm(total=10)", "if bar.total > 5:\n    break", True),
        ("bar = tqdm(total=10)", "if other.n > 5:\n    break", True),
        ("bar = tqdm(total=10)", "bar.set_description('a')", True),
    ],
)
def test_a_bar_that_is_asked_how_far_it_is_counts_on_every_process(made: str, asked: str, disabled: bool) -> None:
    slots = {"from_imports": "from tqdm import tqdm, trange\nfrom somewhere import other"}
    text = converted(script(before=made, batch_end="bar.update(1)", epoch_end=asked, **slots))
    assert (f", {OFF})" in text) is disabled
