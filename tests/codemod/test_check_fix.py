"""`accelift check --fix`: the diff of what one edit certainly sets right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from accelift_codemod.checker import Choice, check_bytes
from cli_runs import accelift

from tests.codemod.checks import script

CLIP = "accelerator.clip_grad_norm_(model.parameters(), 1.0)"
ACCUMULATES = "accelerator = Accelerator(gradient_accumulation_steps=2)"
SCHEDULER = "scheduler = accelerator.prepare(torch.optim.lr_scheduler.StepLR(optimizer, 1))"
TOLD = """\
def tell(accelerator, x):
    print(x)
"""
SHOWN = """\
def show(x):
    print(x)
"""


def accumulating(line: str) -> str:
    body = f"loss = F.cross_entropy(model(x), y)\naccelerator.backward(loss)\n{line}\noptimizer.step()".split("\n")
    indented = "\n".join(f"    {part}" for part in body)
    return script(device=ACCUMULATES, forward=f"with accelerator.accumulate(model):\n{indented}", backward="", step="")


def fixed(text: str) -> str:
    """The script that `--fix` makes; the same if there is nothing to set right. Again it changes nothing."""
    result = check_bytes(text.encode(), "/train.py", Choice(fix=True))
    assert not result.error, result.error
    output = text if result.output is None else result.output.decode()
    again = check_bytes(output.encode(), "/train.py", Choice(fix=True))
    assert again.output is None and not again.error
    return output


CHANGED = [
    (script(backward="loss.backward()"), script(backward="accelerator.backward(loss)")),
    (
        script("accelift", backward="(loss + 1).backward(retain_graph=True)  # twice"),
        script("accelift", backward="accelerator.backward(loss + 1, retain_graph=True)  # twice"),
    ),
    (
        script(after="accelerator.save(model.state_dict(), 'model.pt')"),
        script(after="accelerator.save(accelerator.unwrap_model(model).state_dict(), 'model.pt')"),
    ),
    (
        script(after="if accelerator.is_main_process:\n    torch.save({'m': model.state_dict(), 'e': 1}, 'm.pt')"),
        script(
            after="if accelerator.is_main_process:\n"
            "    torch.save({'m': accelerator.unwrap_model(model).state_dict(), 'e': 1}, 'm.pt')"
        ),
    ),
    (
        script(definitions=TOLD, main=True, before="tell(accelerator, 1)"),
        script(definitions=TOLD.replace(" print", " accelerator.print"), main=True, before="tell(accelerator, 1)"),
    ),
    (
        script(definitions=SHOWN, after="show(1)"),
        script(definitions=SHOWN.replace(" print", " accelerator.print"), after="show(1)"),
    ),
    (
        script(before=SCHEDULER, epoch_end="accelerator.print(scheduler.last_epoch, scheduler.base_lrs)"),
        script(
            before=SCHEDULER,
            epoch_end="accelerator.print(scheduler.scheduler.last_epoch, scheduler.scheduler.base_lrs)",
        ),
    ),
    (
        script(before=SCHEDULER, epoch_end="print(scheduler.last_epoch)"),
        script(before=SCHEDULER, epoch_end="accelerator.print(scheduler.scheduler.last_epoch)"),
    ),
    (
        script("accelift", main=True, epoch_end="print(f'{epoch=}')"),
        script("accelift", main=True, epoch_end="accelerator.print(f'{epoch=}')"),
    ),
]
KEPT = {
    "right": script(),
    "the accelerator accumulates": script(device=ACCUMULATES, backward="loss.backward()"),
    "it may, for all one can see": script(device="accelerator = Accelerator(**settings())", backward="loss.backward()"),
    "the script scales the loss": script(
        before="scaler = torch.amp.GradScaler()", backward="scaler.scale(loss).backward()"
    ),
    "no accelerator at hand": script(main=True, definitions=SHOWN, after="show(1)"),
    "it may run before there is one": script(definitions=SHOWN, setup="show(0)", after="show(1)"),
    "each process says which it is": script(after="print(f'rank {accelerator.process_index} is done')"),
    "it runs before there is one": script(setup="print(0)"),
    "there may be none": script(device="if chosen():\n    accelerator = Accelerator()", after="print(0)"),
    "it is loaded into the wrapper": script(
        before="model.load_state_dict(torch.load('m.pt'))", after="accelerator.save(model.state_dict(), 'm.pt')"
    ),
    "it computes something else on one process, too": accumulating(CLIP),
    "one process met it, and the others do not": script(batch_end="if torch.isnan(loss):\n    print('nan')"),
    "an error of one process": script(batch_end="try:\n    x + y\nexcept ValueError as error:\n    print(error)"),
    "the norm is asked for": accumulating(f"norm = {CLIP}"),
    "whatever is an error but has more than one way out": script(batch_end="n = accelerator.gather(loss).item()"),
    "another wrapper": script(
        device="accelerator = Accelerator(fsdp_plugin=plugin())", after="torch.save(model.state_dict(), 'm.pt')"
    ),
}


@pytest.mark.parametrize(("before", "after"), CHANGED)
def test_what_is_set_right(before: str, after: str) -> None:
    assert before != after
    assert fixed(before) == after


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT.keys())
def test_what_is_left_to_people(text: str) -> None:
    assert fixed(text) == text


def test_findings_that_are_left_and_edits_are_data() -> None:
    text = script(backward="loss.backward()", after="torch.save(1, 'x.pt')")
    result = check_bytes(text.encode(), "/train.py", Choice(fix=True))
    assert result.plan is not None
    assert [f.code for f in result.plan.pending] == ["SAVE-RACE"]
    assert [(e.rule, e.code) for e in result.plan.edits] == [("BWD-RAW", "accelerator.backward")]


# ---- the command

WRONG = script(backward="loss.backward()")
DIFF = "-        loss.backward()\n+        accelerator.backward(loss)\n"


@pytest.fixture
def wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("wrong.py")
    path.write_text(WRONG)
    return path


def test_preview(wrong: Path) -> None:
    ran = accelift("check", "--fix", "wrong.py")
    assert (ran.code, ran.text.startswith("--- a/wrong.py\n+++ b/wrong.py\n"), DIFF in ran.text) == (1, True, True)
    assert wrong.read_text() == WRONG
    assert accelift("check", "--fix", "-", stdin=WRONG.encode()).text.endswith(ran.text.partition("@@")[2])


def test_write(wrong: Path) -> None:
    Path("other.py").write_text(script(after="torch.save(1, 'x.pt')"))
    ran = accelift("check", "--fix", "--write", ".")
    assert (ran.code, ran.text) == (1, "")
    assert ran.lines[0].startswith("SAVE-RACE other.py:")
    assert ran.lines[1].startswith("wrong.py: fixed")
    assert wrong.read_text() == script(backward="accelerator.backward(loss)")
    assert accelift("check", "--fix", "--write", "wrong.py").code == 0


def test_json_and_codes(wrong: Path) -> None:
    (found,) = json.loads(accelift("check", "--fix", "--format", "json", "wrong.py").text)["files"]
    assert DIFF in found["diff"] and [e["rule"] for e in found["edits"]] == ["BWD-RAW"]
    assert accelift("check", "--fix", "--ignore", "BWD-RAW", "wrong.py").text == ""


def test_several_processes_and_bytes_that_stay(wrong: Path) -> None:
    Path("dos.py").write_bytes(b"\xef\xbb\xbf" + WRONG.replace("\n", "\r\n").encode())
    assert accelift("check", "--fix", "--write", "-j", "2", "wrong.py", "dos.py").code == 0
    expected = script(backward="accelerator.backward(loss)")
    assert Path("dos.py").read_bytes() == b"\xef\xbb\xbf" + expected.replace("\n", "\r\n").encode()


def test_wrong_usage(wrong: Path) -> None:
    assert accelift("check", "--write", "wrong.py").lines == ["accelift: --write goes with --fix"]
    ran = accelift("check", "--fix", "--write", "-", stdin=WRONG.encode())
    assert ran.lines == ["accelift: --write has no file to write for `-`; leave it out, and apply the diff"]
