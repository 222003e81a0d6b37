"""`accelift check` finds processes that would wait for ever, and is silent where all of them take part."""

from __future__ import annotations

import textwrap

import pytest
from accelift_codemod.plan import Severity

from tests.codemod.checks import evaluating, findings, marked, script

SAVE = "def save(accelerator, path):\n    accelerator.save_state(path)\n    accelerator.wait_for_everyone()\n"

MAIN_ONLY = {
    "gather": script(after="if accelerator.is_main_process:\n    print(accelerator.gather(loss))  # HERE"),
    "first process by its number": script(
        after="if accelerator.process_index == 0 and epoch > 0:\n    accelerator.wait_for_everyone()  # HERE"
    ),
    "a variable": script(
        before="chief = accelerator.is_local_main_process",
        batch_end="if chief:\n    print(accelerator.reduce(loss))  # HERE",
    ),
    "else": script(
        after="if not accelerator.is_main_process:\n    pass\nelse:\n    accelerator.wait_for_everyone()  # HERE"
    ),
    "backward": script(backward="if accelerator.is_main_process:\n    accelerator.backward(loss)  # HERE"),
    "a function of the script": script(
        definitions=SAVE, after="if accelerator.is_main_process:\n    save(accelerator, 'out')  # HERE"
    ),
    "two functions deep": script(
        definitions=SAVE + "\n\ndef finish(accelerator):\n    for name in 'ab':\n        save(accelerator, name)\n",
        after="if accelerator.is_main_process:\n    finish(accelerator)  # HERE",
    ),
    "a decorator": script(
        before="@accelerator.on_main_process\ndef report(value):\n    print(accelerator.gather(value))  # HERE",
        after="report(loss)",
    ),
    "the others have returned": script(
        definitions="def report(accelerator, value):\n    if not accelerator.is_main_process:\n        return\n"
        "    print(accelerator.gather(value))  # HERE\n",
        after="report(accelerator, loss)",
    ),
    "functions of accelerate.utils": script(
        from_imports="from accelerate.utils import gather_object\nfrom accelerate import PartialState",
        after="if PartialState().is_main_process:\n    gather_object([1])  # HERE",
    ),
    "torch.distributed": script(
        imports="import torch.distributed as dist", after="if accelerator.is_main_process:\n    dist.barrier()  # HERE"
    ),
    "a prepared loader": script(
        after="if accelerator.is_main_process:\n    for x, y in loader:  # HERE\n        print(len(x))"
    ),
    "a prepared loader in a function": script(
        definitions="def show(loader):\n    for x, y in loader:  # HERE\n        print(len(x))\n",
        after="if accelerator.is_main_process:\n    show(loader)",
    ),
    "a prepared loader or nothing": script(
        after="for x, y in loader if accelerator.is_main_process else ():  # HERE\n    print(len(x))"
    ),
    "in a class": script(
        definitions="class Trainer:\n    def __init__(self):\n        self.accelerator = Accelerator()\n\n"
        "    def log(self, value):\n        if self.accelerator.is_main_process:\n"
        "            print(self.accelerator.gather(value))  # HERE\n",
        after="Trainer().log(loss)",
    ),
    "without an accelerator": "from accelerate import PartialState\nstate = PartialState()\n"
    "if state.is_main_process:\n    state.wait_for_everyone()  # HERE\n",
    "on the bundled runtime": script(
        "accelift", after="if accelerator.is_main_process:\n    accelerator.save_state('out')  # HERE"
    ),
    "a batch made by hand": script(
        "accelift", after="if accelerator.is_main_process:\n    loss = accelerator.split_batch(loss)  # HERE"
    ),
}
TOGETHER = {
    "before the guard": script(
        after="losses = accelerator.gather(loss)\nif accelerator.is_main_process:\n    print(losses)"
    ),
    "another object with such methods": script(
        definitions="class Bag:\n    is_main_process = True\n    def gather(self, x):\n        return x\n",
        after="bag = Bag()\nif accelerator.is_main_process:\n    bag.gather(1)\nif bag.is_main_process:\n"
        "    accelerator.gather(loss)",
    ),
    "the main process first, by barriers": script(
        after="if not accelerator.is_main_process:\n    accelerator.wait_for_everyone()\nprint(1)\n"
        "if accelerator.is_main_process:\n    accelerator.wait_for_everyone()"
    ),
    "in both arms": script(
        after="if accelerator.is_main_process:\n    accelerator.gather(loss)\nelse:\n    accelerator.gather(loss)"
    ),
    "a test of something else": script(
        after="if epoch > 0 or accelerator.is_main_process:\n    accelerator.gather(loss)"
    ),
    "saving on the main process": script(
        after="accelerator.wait_for_everyone()\nif accelerator.is_main_process:\n"
        "    accelerator.save(accelerator.unwrap_model(model).state_dict(), 'm.pt')\n    accelerator.print('saved')"
    ),
    "a function that may not gather": script(
        definitions="def report(accelerator, value, join):\n    if join:\n        value = accelerator.gather(value)\n"
        "    print(value)\n",
        after="if accelerator.is_main_process:\n    report(accelerator, loss, False)",
    ),
    "one process": script(
        after="if accelerator.is_main_process and accelerator.num_processes == 1:\n    accelerator.gather(loss)"
    ),
    "a group of processes": script(
        imports="import torch.distributed as dist",
        after="if accelerator.process_index == 0:\n    dist.barrier(group=dist.new_group([0]))",
    ),
    "a loader that was not prepared": script(
        after="if accelerator.is_main_process:\n    for x, y in DataLoader(data):\n        print(len(x))"
    ),
    "an iteration that the others skip, too": script(
        after="for epoch in range(3):\n    if epoch == 1:\n        continue\n    accelerator.wait_for_everyone()"
    ),
}
LEAVES = {
    "continue before backward": script(
        backward="if torch.isnan(loss):\n    continue  # HERE\naccelerator.backward(loss)"
    ),
    "break": script(batch_end="if loss.item() < 0.1:\n    break  # HERE"),
    "return": script(main=True, batch_end="if float(loss) > 100:\n    return  # HERE"),
    "the main process leaves": script(batch_end="if accelerator.is_main_process and epoch:\n    break  # HERE"),
    "the main process ends": script(batch_end="if accelerator.is_main_process and epoch:\n    exit()  # HERE"),
    "it ends, two loops deep": script(
        imports="import sys",
        batch_end="if accelerator.is_main_process:\n    for i in range(2):\n        sys.exit(0)  # HERE",
    ),
    "it ends after the epoch": script(epoch_end="if accelerator.process_index == 0 and epoch:\n    quit()  # HERE"),
    "early stop by a local metric": evaluating(
        "correct += (model(x).argmax(1) == y).sum().item()",
        after="for round in range(3):\n    correct = 0\n    for x, y in test_loader:\n"
        "        correct += (model(x).argmax(1) == y).sum().item()\n    if correct > 9:\n        break  # HERE\n"
        "    accelerator.wait_for_everyone()",
    ),
    "through a function": script(
        definitions="def train_step(accelerator, loss):\n    accelerator.backward(loss)\n",
        backward="if not torch.isfinite(loss):\n    continue  # HERE\ntrain_step(accelerator, loss)",
    ),
}
STAYS = {
    "a gathered value": script(
        backward="if torch.isnan(accelerator.gather(loss)).any():\n    continue\naccelerator.backward(loss)"
    ),
    "an error ends the job": script(
        imports="import sys",
        batch_end="if torch.isnan(loss):\n    sys.exit(1)\nif accelerator.is_main_process:\n    exit(2)",
    ),
    "all end": script(batch_end="if epoch > 3:\n    exit()"),
    "the main process ends after all": script(after="if accelerator.is_main_process:\n    exit()"),
    "a function of that name": script(
        definitions="def exit():\n    pass\n", batch_end="if accelerator.is_main_process:\n    exit()"
    ),
    "a gathered variable": script(batch_end="mean = accelerator.reduce(loss, 'mean')\nif mean < 0.1:\n    break"),
    "a trigger": script(
        batch_end="if loss < 0.1:\n    accelerator.set_trigger()\nif accelerator.check_trigger():\n    break"
    ),
    "a count": script(
        loop="for step, (x, y) in enumerate(loader):", batch_end="if step >= 3 or len(x) < 16:\n    break"
    ),
    "the end of the data": script(
        epoch="batches = iter(loader)",
        loop="while True:",
        move="batch = next(batches, None)\nif batch is None:\n    break\nx, y = batch",
    ),
    "what is in a batch": script(
        loop="for batch in loader:",
        move="if 'labels' not in batch:\n    continue\nx, y = batch",
    ),
    "nothing follows": script(
        after="for x, y in loader:\n    if x.sum() > 3:\n        break\n    accelerator.print(len(x))"
    ),
    "continue after backward": script(batch_end="if loss < 0.1:\n    continue\naccelerator.print('large')"),
    "an unknown function that may gather": script(
        imports="from helpers import mean_over_ranks", batch_end="if mean_over_ranks(loss) < 0.1:\n    break"
    ),
    "joined in place": script(
        imports="import torch.distributed as dist",
        batch_end="bad = torch.isnan(loss).float()\ndist.all_reduce(bad)\nif bad > 0:\n    break",
    ),
}


def report(items: str, leave: str, **slots: str) -> str:
    """A function that leaves before it gathers, or does so under a test, by the items of a process."""
    body = textwrap.indent(leave, "    ")
    definitions = f"def report(items, lengths):\n{body}\n    print(accelerator.gather(lengths))\n"
    return script(**{**slots, "definitions": definitions}, after=f"items = {items}\nreport(items, loss)")


EMPTY = "if len(items) == 0:\n    return{mark}"
SLICED = "list(data)[accelerator.process_index :: accelerator.num_processes]"
DEALT = "with accelerator.split_between_processes(list(data){padded}) as dealt:\n    pass\nitems = dealt"
GATHERS = "from accelerate.utils import gather_object"
PADDED = ", apply_padding=True"


@pytest.mark.parametrize(
    "text",
    [
        report(SLICED, EMPTY.format(mark="  # HERE")),
        report(SLICED, "if not items:\n    return  # HERE"),
        report(f"[x for x, y in {SLICED} if x.sum() > 3]", EMPTY.format(mark="  # HERE")),
        report(SLICED, "if len(items) > 0:\n    accelerator.wait_for_everyone()  # HERE"),
        report(DEALT.format(padded="").replace("with", "0\nwith", 1), EMPTY.format(mark="  # HERE")),
        script(
            definitions="def train(x, y):\n    loss = F.cross_entropy(model(x), y)\n    if torch.isnan(loss):\n"
            "        return  # HERE\n    accelerator.backward(loss)\n",
            forward="train(x, y)",
            backward="",
        ),
    ],
)
def test_leaving_a_function_on_a_value_of_ones_own_is_an_error(text: str) -> None:
    assert [f.line for f in findings(text, "COLL-RANKFLOW")] == marked(text) != []


@pytest.mark.parametrize(
    "text",
    [
        report("list(data)", EMPTY.format(mark="")),
        report("list(data)[: accelerator.num_processes]", EMPTY.format(mark="")),
        report(DEALT.format(padded=PADDED).replace("with", "0\nwith", 1), EMPTY.format(mark="")),
        report(SLICED, "if len(items) == 0:\n    accelerator.gather(lengths)\n    return"),
        report(f"gather_object({SLICED})", EMPTY.format(mark=""), from_imports=GATHERS),
        report(SLICED, "if len(items) == 0:\n    raise ValueError"),
        report(SLICED, "if len(items) == 0:\n    print('none')"),
    ],
)
def test_leaving_a_function_together_is_right(text: str) -> None:
    assert findings(text, "COLL-RANKFLOW") == []


@pytest.mark.parametrize("text", MAIN_ONLY.values(), ids=MAIN_ONLY)
def test_what_some_processes_do_alone_is_an_error(text: str) -> None:
    found = findings(text, "COLL-MAIN")
    assert [f.line for f in found] == marked(text)
    assert {f.severity for f in found} == {Severity.ERROR}
    assert all(f.evidence for f in found)


@pytest.mark.parametrize("text", TOGETHER.values(), ids=TOGETHER)
def test_what_all_processes_do_is_right(text: str) -> None:
    assert findings(text, "COLL-MAIN") == []


@pytest.mark.parametrize("text", LEAVES.values(), ids=LEAVES)
def test_leaving_a_loop_on_a_value_of_ones_own_is_an_error(text: str) -> None:
    assert [f.line for f in findings(text, "COLL-RANKFLOW")] == marked(text)


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS)
def test_leaving_a_loop_together_is_right(text: str) -> None:
    assert findings(text, "COLL-RANKFLOW") == []


def test_what_to_do_where_one_process_leaves() -> None:
    (found,) = findings(LEAVES["the main process ends"], "COLL-RANKFLOW")
    assert found.message.startswith("`exit()` under `if accelerator.is_main_process and epoch`: ")
    assert found.remedy == "let all processes leave, and put only the rest under the test for the main process"
    (found,) = findings(LEAVES["break"], "COLL-RANKFLOW")
    assert found.remedy == "decide by a gathered value, or by accelerator.set_trigger() and check_trigger()"


def test_the_path_to_what_is_done_together_is_the_evidence() -> None:
    (found,) = findings(MAIN_ONLY["two functions deep"], "COLL-MAIN")
    assert [e.text for e in found.evidence] == [
        "`accelerator.is_main_process`",
        "calls finish()",
        "calls save()",
        "`accelerator.wait_for_everyone()`",
    ]


def test_accelerates_save_state_waits_for_nobody() -> None:
    text = "if accelerator.is_main_process:\n    accelerator.save_state('out')  # HERE"
    (found,) = findings(script(after=text), "COLL-MAIN")
    assert (found.line, found.severity) == (marked(script(after=text))[0], Severity.WARNING)
    assert "random states" in found.message
    for library in ("accelerate", "accelift"):
        (found,) = findings(script(library, after=text.replace("save_state", "load_state")), "COLL-MAIN")
        assert found.severity is Severity.WARNING
        assert "keep the state they have" in found.message


def test_a_function_that_others_call_too() -> None:
    show = "def show(loader):\n    for x, y in loader:\n        print(len(x))\n"
    after = "if accelerator.is_main_process:\n    show(loader)"
    assert findings(script(definitions=show, after=after), "COLL-MAIN") != []
    assert findings(script(definitions=show, after=f"{after}\nshow(loader)"), "COLL-MAIN") == []
    assert findings(script(definitions=show, after=f"{after}\nother = show"), "COLL-MAIN") == []
