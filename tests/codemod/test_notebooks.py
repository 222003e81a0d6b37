"""Notebooks: code cells are converted in place, and nothing else changes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from accelift_codemod import diff
from accelift_codemod.api import convert_bytes, convert_file, convert_files
from accelift_codemod.checker import Choice, check_bytes, check_files
from accelift_codemod.discover import Files
from accelift_codemod.notebook import Notebook
from accelift_codemod.options import Options
from accelift_codemod.plan import Finding, Outcome, Severity
from accelift_codemod.project.groups import flattened
from accelift_codemod.results import FileResult
from accelift_codemod.rewrite.result import CannotRewrite
from cli_runs import tree
from scripts import converted, script

OPTIMIZER = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
CELLS = script(after='print("last %.9f" % loss.item())').split("\n\n\n")


def cell(text: str, kind: str = "code", **more: Any) -> dict[str, Any]:
    """A cell as Jupyter writes it."""
    return {"cell_type": kind, "metadata": {"tags": ["é"]}, "source": text.splitlines(keepends=True), **more}


def notebook(*cells: dict[str, Any], indent: int | None = 1, **more: Any) -> bytes:
    """A notebook as Jupyter writes it."""
    content = {"cells": list(cells), "metadata": {"kernelspec": {"name": "python3"}}, "nbformat": 4, **more}
    return (json.dumps(content, indent=indent, ensure_ascii=False) + "\n").encode()


def of_script(**more: Any) -> bytes:
    outputs = [{"output_type": "stream", "name": "stdout", "text": ["loss.backward()\n"]}]
    code = [cell(text, outputs=outputs, execution_count=3) for text in CELLS]
    return notebook(cell("# Title\n`loss.backward()`", "markdown"), *code, **more)


def convert(data: bytes) -> FileResult:
    return convert_bytes(data, "/train.ipynb", Options())


def sources(data: bytes) -> list[str]:
    return ["".join(one["source"]) for one in json.loads(data)["cells"]]


@pytest.mark.parametrize("indent", [1, 4, None])
def test_cells_are_those_of_the_converted_script(indent: int | None) -> None:
    result = convert(of_script(indent=indent))
    assert result.output is not None, result
    title, *code = sources(result.output)
    assert title == "# Title\n`loss.backward()`"
    assert "\n\n\n".join(code) == converted("\n\n\n".join(CELLS))


@pytest.mark.parametrize("indent", [1, 4, None])
def test_every_other_byte_stays(indent: int | None) -> None:
    data = of_script(indent=indent)
    output = convert(data).output
    assert output is not None
    old, new = json.loads(data), json.loads(output)
    for one, other in zip(old["cells"], new["cells"], strict=True):
        one["source"] = other["source"]
    assert output == (json.dumps(old, indent=indent, ensure_ascii=False) + "\n").encode()


def test_the_diff_is_that_of_the_file(tmp_path: Path) -> None:
    data = of_script()
    result = convert(data)
    assert result.output is not None
    lines = data.decode().splitlines(keepends=True)
    assert "".join(diff.apply(result.diff, lines)).encode() == result.output


def test_a_source_that_is_one_string() -> None:
    content = json.loads(of_script())
    for one in content["cells"]:
        one["source"] = "".join(one["source"])
    output = convert(json.dumps(content).encode()).output
    assert output is not None
    assert all(isinstance(one["source"], str) for one in json.loads(output)["cells"])
    assert "\n\n\n".join(sources(output)[1:]) == converted("\n\n\n".join(CELLS))


MAGICS = [
    "%matplotlib inline",
    "!pip install torch",
    "%%time\nx = 1",
    "%%bash\nls -l | wc",
    "%%writefile a.py\nloss.backward()",
    "torch.nn.Linear?",
    "%time x = 1\nlen('%d' % 1\n    % ())\ny = (7\n     %(x))",
    "files = !ls\nlen(files)",
    "if True:\n    !ls\n    %cd data",
    "",
]


@pytest.mark.parametrize("magic", MAGICS)
def test_magics_stay(magic: str) -> None:
    data = notebook(cell(magic), *map(cell, CELLS), cell(magic))
    output = convert(data).output
    assert output is not None
    first, *code, last = sources(output)
    assert first == last == magic
    assert "\n\n\n".join(code) == converted("\n\n\n".join(CELLS))


def test_a_magic_beside_what_is_converted() -> None:
    *head, loop = CELLS
    output = convert(notebook(*map(cell, head), cell(f"%%time\n!date\n{loop}"))).output
    assert output is not None
    assert sources(output)[-1].startswith("%%time\n!date\n")
    assert "accelerator.backward(loss)" in sources(output)[-1]


def test_a_cell_that_is_indented_as_a_whole() -> None:
    *head, loop = CELLS
    indented = "".join(f"  {line}" if line.strip() else line for line in loop.splitlines(keepends=True))
    far = '\n   x = """\n a"""\nlen(x)'
    output = convert(notebook(cell(far), *map(cell, head), cell(indented))).output
    assert output is not None
    first, *code, last = sources(output)
    assert first == far
    plain = "".join(line.removeprefix("  ") for line in last.splitlines(keepends=True))
    assert "\n\n\n".join([*code, plain]) == converted("\n\n\n".join(CELLS))
    assert all(line.startswith("  ") for line in last.splitlines() if line)


def test_a_second_conversion_changes_nothing() -> None:
    output = convert(of_script()).output
    assert output is not None
    again = convert(output)
    assert (again.output, again.outcome) == (None, Outcome.NOTHING)


def test_places_are_lines_of_the_file_and_cells() -> None:
    data = notebook(
        cell("import torch\nfrom torch import nn"), cell("m = nn.Linear(2, 1)\nm(torch.ones(2)).backward()")
    )
    result = convert(data)
    assert result.plan is not None
    assert result.outcome is Outcome.REFUSED
    (finding,) = result.plan.findings
    assert "backward" in data.decode().splitlines()[finding.line - 1]
    assert "(cell 2, line 2)" in finding.message


def test_edits_name_cell_and_line() -> None:
    data = of_script()
    book, plan = Notebook(data, "n.ipynb"), convert(data).plan
    assert plan is not None
    (edit,) = [e for e in plan.edits if e.rule == "BACKWARD"]
    (at,) = [c for c in book.cells if "loss.backward()" in c.text]
    line = next(i for i, text in enumerate(at.text.splitlines(), start=1) if "loss.backward()" in text)
    assert edit.why.endswith(f" (cell {at.number}, line {line})")
    assert "loss.backward()" in data.decode().splitlines()[edit.span.line - 1]
    (alone,) = [e for e in convert_bytes(script().encode(), "/train.py", Options()).plan.edits if e.rule == "BACKWARD"]  # type: ignore[union-attr]
    assert "cell" not in alone.why


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{torch", "/n.ipynb: is not a notebook"),
        (b'"torch"', "/n.ipynb: is not a notebook of format 4; open it in Jupyter and save it"),
        (b'{"worksheets": [], "torch": 1}', "/n.ipynb: is not a notebook of format 4"),
        (b"\xff\xfe torch", "/n.ipynb: is not a notebook"),
        (notebook(cell("torch", "markdown")), "/n.ipynb: has no code cells; nothing to convert"),
        (notebook(cell("import torch"), cell("x = 1\nloss.backward((")), "in cell 2, line 2; correct the syntax"),
    ],
)
def test_bad_input_is_one_sentence(data: bytes, said: str) -> None:
    error = convert_bytes(data, "/n.ipynb", Options()).error
    assert said in error
    assert "\n" not in error


def test_an_edit_over_several_cells_is_refused() -> None:
    book = Notebook(notebook(cell("a = 1"), cell("b = 2")), "n.ipynb")
    with pytest.raises(CannotRewrite, match="several cells"):
        book.changed("a = 1\nb = 2\n")
    with pytest.raises(CannotRewrite, match="several cells"):
        book.changed(book.source.text.replace("# %%", "    # %%"))


def test_notebooks_of_a_folder_are_found(tmp_path: Path) -> None:
    (tmp_path / ".ipynb_checkpoints").mkdir()
    for place in (tmp_path / "train.ipynb", tmp_path / ".ipynb_checkpoints" / "old.ipynb"):
        place.write_bytes(of_script())
    command = [sys.executable, "-m", "accelift_codemod", "convert", str(tmp_path), "--write"]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    assert b"accelerator.backward" in (tmp_path / "train.ipynb").read_bytes()
    assert (tmp_path / ".ipynb_checkpoints" / "old.ipynb").read_bytes() == of_script()


@pytest.mark.slow
def test_the_cells_compute_the_same(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_bytes(of_script())
    result = convert_file(path, Options())
    assert result.output is not None
    said = []
    for data in (path.read_bytes(), result.output):
        code = "import torch\ntorch.manual_seed(0)\n" + "\n".join(sources(data)[1:])
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        said.append(done.stdout)
    assert said[0] == said[1] != ""


@pytest.mark.slow
@pytest.mark.parametrize("broken", [False, True])
def test_a_notebook_is_verified_with_its_project_files(tmp_path: Path, broken: bool) -> None:
    code = script(setup="torch.manual_seed(3)")
    head, loop = code[: code.index("for ")], "loss = train(model, loader, optimizer, F.cross_entropy)"
    (tmp_path / "engine.py").write_text(ENGINE)
    path = tmp_path / "train.ipynb"
    path.write_bytes(book_of(f"%matplotlib inline\nfrom engine import train\n{head}\n\n\n{loop}\nprint(loss.item())"))
    (tmp_path / "other.py").write_text(f"from engine import train\n{head}\n{loop}\n")  # shares the file, and its change
    before = tree(tmp_path)
    against = []
    if broken:
        wrong = path.read_bytes().replace(b"lr=0.1", b"lr=0.2")
        (tmp_path / "wrong.ipynb").write_bytes(wrong)
        against = ["--against", str(tmp_path / "wrong.ipynb")]
        before = tree(tmp_path)
    command = [
        sys.executable,
        "-m",
        "accelift_codemod",
        "verify",
        str(path),
        "--steps",
        "4",
        "--num-processes",
        "1",
        *against,
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == int(broken), done.stdout + done.stderr
    assert ("converted, 1 process: identical" in done.stdout) != broken
    assert ("as scripts in it share files with" in done.stderr) != broken
    assert "without magics" in done.stdout
    assert tree(tmp_path) == before


def test_a_notebook_is_checked() -> None:
    output = convert(of_script()).output
    assert output is not None
    wrong = output.replace(b"accelerator.backward(loss)", b"loss.backward()")
    assert wrong != output
    found = [check_bytes(data, "/n.ipynb", Choice()).plan for data in (output, wrong)]
    assert [[f.code for f in plan.findings] for plan in found if plan is not None] == [[], ["BWD-RAW"]]
    assert found[1] is not None
    assert "(cell " in found[1].findings[0].message


UTILS = "import torch\n\n\ndef keep(model, path):\n    {}\n"
ENGINE = """\
def train(model, loader, optimizer, loss_fn):
    for step, (inputs, targets) in enumerate(loader):
        loss = loss_fn(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss
"""


def book_of(code: str) -> bytes:
    """A notebook with some code, a cell for each part of it."""
    return notebook(cell("# Title", "markdown"), *map(cell, code.split("\n\n\n")))


def code_of(data: bytes) -> str:
    return "\n\n\n".join(sources(data)[1:])


def of_folder(folder: Path) -> dict[str, FileResult]:
    """What becomes of the files of a folder."""
    found = Files()
    found.add(folder)
    results = flattened(convert_files(list(found.named.items()), Options()))
    assert not any(result.error for result in results)
    return {Path(result.path).name: result for result in results}


@pytest.mark.parametrize(
    ("line", "changed", "told"),
    [
        ("torch.save(model.state_dict(), path)", True, []),
        ("return open(path, 'r+')", False, ["SAVE-RACE"]),
        ("return len(path)", False, None),
    ],
)
def test_project_files_are_converted_with_a_notebook(
    tmp_path: Path, line: str, changed: bool, told: list[str] | None
) -> None:
    """As they are with a script of its code."""
    (tmp_path / "utils.py").write_text(UTILS.format(line))
    code = script(from_imports="from utils import keep", after="keep(model, 'model.pt')")
    (tmp_path / "train.py").write_text(code)
    (alone,) = convert_files([(tmp_path / "train.py", True)], Options())
    (tmp_path / "train.py").unlink()
    (tmp_path / "train.ipynb").write_bytes(book_of(code))
    (result,) = convert_files([(tmp_path / "train.ipynb", True)], Options())
    assert alone.output is not None and result.output is not None
    assert code_of(result.output) == alone.output.decode()
    assert [m.output for m in result.members] == [m.output for m in alone.members]
    assert any(m.output is not None for m in result.members) == changed
    codes = [[f.code for f in m.plan.findings] for m in result.members if m.plan is not None]
    assert codes == ([] if told is None else [told])
    assert result.plan is not None and [f.code for f in result.plan.findings if f.code == "NOTEBOOK"] == ["NOTEBOOK"]


def test_the_training_of_a_notebook_may_be_in_a_project_file(tmp_path: Path) -> None:
    code = script()
    head, loop = code[: code.index("for ")], "loss = train(model, loader, optimizer, loss_fn)"
    (tmp_path / "engine.py").write_text(ENGINE)
    (tmp_path / "train.ipynb").write_bytes(book_of(f"from engine import train\n{head}\n\n\n{loop}\nprint(loss.item())"))
    results = of_folder(tmp_path)
    assert b"accelerator.backward(loss)" in (results["engine.py"].output or b"")
    output = results["train.ipynb"].output
    assert output is not None and "loss_fn, accelerator)" in code_of(output)
    assert results["train.ipynb"].outcome is Outcome.CONVERTED


def test_what_is_said_of_project_files_names_their_lines_and_the_cells_of_the_notebook(tmp_path: Path) -> None:
    """Each place is one that its reader finds."""
    code = script(from_imports="from utils import keep", after="keep(model, 'model.pt')")
    (tmp_path / "utils.py").write_text(UTILS.format("return open(path, 'r+')"))
    book = tmp_path / "train.ipynb"
    book.write_bytes(book_of(code))
    (result,) = convert_files([(book, True)], Options())
    lines = book.read_text().splitlines()
    (member,) = result.members
    assert member.plan is not None and member.plan.findings[0].line == 5
    steps = [s for p in (result.plan, member.plan) if p for f in (*p.findings, *p.edits) for s in f.evidence]
    assert steps
    for step in steps:
        place = Path(step.path or book)
        text = lines if place == book else place.read_text().splitlines()
        assert 0 <= step.line <= len(text)
    assert "(cell" not in member.plan.findings[0].message


def test_project_files_lie_beside_a_notebook_that_is_written_elsewhere(tmp_path: Path) -> None:
    """Those that stay as they are, too: it imports them."""
    code = script(from_imports="from utils import keep\nfrom shown import shown", after="keep(model, 'model.pt')")
    (tmp_path / "utils.py").write_text(UTILS.format("torch.save(model.state_dict(), path)"))
    (tmp_path / "shown.py").write_text("shown = 3\n")
    (tmp_path / "other.py").write_text("other = 3\n")
    (tmp_path / "train.ipynb").write_bytes(book_of(code))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "accelift_codemod", "convert", str(tmp_path / "train.ipynb"), "--output", str(out)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    written = tree(out)
    assert sorted(written) == ["shown.py", "train.ipynb", "utils.py"]
    assert written["shown.py"] == b"shown = 3\n" and b"accelerator" in written["utils.py"]


@pytest.mark.parametrize("folder", [True, False])
def test_a_notebook_that_only_runs_what_it_imports(tmp_path: Path, folder: bool) -> None:
    (tmp_path / "engine.py").write_text(script(main=True).replace('if __name__ == "__main__":\n    main()\n', ""))
    book = tmp_path / "run.ipynb"
    book.write_bytes(book_of("from engine import main\n\n\nmain()"))
    results = of_folder(tmp_path) if folder else {}
    if not folder:
        (alone,) = convert_files([(book, True)], Options())
        results = {Path(one.path).name: one for one in (alone, *alone.members)}
    assert b"accelerator.backward(loss)" in (results["engine.py"].output or b"")


@pytest.mark.parametrize("raw", [True, False])
def test_a_notebook_is_checked_with_the_project_files_that_it_imports(tmp_path: Path, raw: bool) -> None:
    engine = ENGINE.replace("loss_fn):", "loss_fn, accelerator):")
    (tmp_path / "engine.py").write_text(
        engine if raw else engine.replace("loss.backward()", "accelerator.backward(loss)")
    )
    code = script()
    loop = "loss = train(model, loader, optimizer, F.cross_entropy, accelerator)"
    converted_head = converted(code)[: converted(code).index("for ")]
    book = book_of(f"from engine import train\n{converted_head}\n\n\n{loop}")
    (tmp_path / "train.ipynb").write_bytes(book)
    results = {Path(r.path).name: r.plan for r in check_files([(str(tmp_path / "train.ipynb"), True)], Choice())}
    found = {
        name: [f.code for f in plan.findings] for name, plan in results.items() if plan is not None and plan.findings
    }
    assert found == ({"engine.py": ["BWD-RAW"]} if raw else {})


def test_lines_of_a_notebook_and_of_other_files() -> None:
    book = Notebook(book_of("a = 1\n\n\nb = 2\nc = 3"), "/x y/n.ipynb")
    said = "lines 2, 5 and line 5 of /a/b.py, line 12 of /a/b.py, `line 2`"
    note = book.finding(Finding("X", Severity.NOTE, 0, said, ""))
    assert note.message == "cell 2, line 1, cell 3, line 2 and line 5 of /a/b.py, line 12 of /a/b.py, `line 2`"
    beside = book.finding(Finding("X", Severity.NOTE, 0, "/a/b.py:7: line 2, line 4 of /x y/n.ipynb", ""))
    assert beside.message == "/a/b.py:7: line 2, cell 3, line 1 of /x y/n.ipynb"


def test_a_notebook_that_uses_what_a_script_would_change(tmp_path: Path) -> None:
    code = script()
    head, loop = code[: code.index("for ")], "loss = train(model, loader, optimizer, loss_fn)"
    (tmp_path / "engine.py").write_text(ENGINE)
    (tmp_path / "train.py").write_text(f"from engine import train\n{head}\n{loop}\n")
    assert of_folder(tmp_path)["train.py"].outcome is Outcome.CONVERTED
    (tmp_path / "look.ipynb").write_bytes(book_of("import torch\nfrom engine import train\n\n\nprint(train)"))
    result = of_folder(tmp_path)["train.py"]
    assert result.plan is not None and [f.code for f in result.plan.findings] == ["SHARED-FILE"]
    assert "look.ipynb uses, too" in result.plan.findings[0].message


def test_a_notebook_that_trains_as_a_script_does_is_converted_with_it(tmp_path: Path) -> None:
    code = script()
    head, loop = code[: code.index("for ")], "loss = train(model, loader, optimizer, loss_fn)"
    (tmp_path / "engine.py").write_text(ENGINE)
    (tmp_path / "train.py").write_text(f"from engine import train\n{head}\n{loop}\n")
    (tmp_path / "train.ipynb").write_bytes(book_of(f"from engine import train\n{head}\n\n\n{loop}"))
    results = of_folder(tmp_path)
    assert all(result.outcome is Outcome.CONVERTED for result in results.values())
    script_output, notebook_output = results["train.py"].output, results["train.ipynb"].output
    assert script_output is not None and notebook_output is not None
    assert code_of(notebook_output).split() == script_output.decode().split()


def test_a_notebook_without_project_files_is_told_nothing_of_them(tmp_path: Path) -> None:
    book = tmp_path / "train.ipynb"
    book.write_bytes(of_script())
    (tmp_path / "utils.py").write_text(UTILS.format("torch.save(model, path)"))
    result = convert_file(book, Options())
    assert result.plan is not None and all(f.code != "NOT-LINKED" for f in result.plan.findings)
    assert not result.members


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"{", "is not a notebook ("),
        (b"[1]", "is not a notebook of format 4"),
        (b'{"a": 1}', "is not a notebook of format 4"),
        (b'{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', "has no code cells"),
    ],
)
def test_what_is_no_notebook_is_told_whether_it_mentions_torch_or_not(
    data: bytes, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "n.ipynb"
    path.write_bytes(data)
    made, checked = convert_file(path, Options()), check_bytes(data, str(path), Choice())
    assert f"{path}: {problem}" in made.error and made.error == checked.error
    assert convert_file(path, Options(), named=False).skipped  # found in a folder, it may be anything


@pytest.mark.parametrize(("then", "left"), [("", "model"), ("print(1)", ""), ("optimizer = None", "")])
def test_a_cell_that_ends_in_a_move_still_shows_what_it_moved(then: str, left: str) -> None:
    """So does a script whose cells are marked."""
    slots = {"model": "# %%\nmodel = Net()\nmodel.to('cuda')\n" + then, "optimizer": "# %%\n" + OPTIMIZER}
    lines = converted(script(device="", move="x, y = x.to('cuda'), y.to('cuda')", **slots))
    wanted = [line for line in ("model = Net()", left, then.replace("print", "accelerator.print")) if line]
    assert "\n".join(["", *wanted, "# %%", ""]) in lines
    cells = ["import torch", *(script(device="", **slots).replace("(device)", "('cuda')").split("# %%\n"))]
    output = convert(notebook(*map(cell, cells))).output
    assert output is not None
    assert sources(output)[2].rstrip("\n").endswith("\n".join(wanted))
