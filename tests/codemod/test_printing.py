"""print: once per job where the accelerator is at hand, reported where it is not."""

from __future__ import annotations

from textwrap import indent

import pytest
from scripts import convert, converted, findings, lifted, script

EVALUATE = """\
def evaluate(model, loader):
    with torch.no_grad():
        return sum(model(x.to(device)).sum().item() for x, y in loader)
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('print("epoch", epoch)', 'accelerator.print("epoch", epoch)'),
        ("print()", "accelerator.print()"),
        ('print ("a", epoch)', 'accelerator.print ("a", epoch)'),
        ('print("a", end="", flush=True)', 'accelerator.print("a", end="", flush=True)'),
        ('print(*[1, 2], sep=", ")', 'accelerator.print(*[1, 2], sep=", ")'),
        ("print(n := 3)", "accelerator.print(n := 3)"),
        ("if epoch: print(1)", "if epoch: accelerator.print(1)"),
        ("print(1) if epoch else print(2)", "accelerator.print(1) if epoch else accelerator.print(2)"),
        ("print(1); print(2)", "accelerator.print(1); accelerator.print(2)"),
        (
            "try:\n    pass\nexcept KeyboardInterrupt:\n    print('stopped')",
            "try:\n    pass\nexcept KeyboardInterrupt:\n    accelerator.print('stopped')",
        ),
        ("print(\n    'x',  # one\n    epoch,\n)", "accelerator.print(\n    'x',  # one\n    epoch,\n)"),
        ("print(model(x).sum())", "accelerator.print(model(x).sum())"),  # every process evaluates the arguments
    ],
)
def test_prints(before: str, after: str) -> None:
    assert converted(script(epoch_end=before)) == lifted(epoch_end=after)
    assert findings(script(epoch_end=before)) == (["METRIC-TRAIN"] if "(x)" in before else [])


@pytest.mark.parametrize(
    "code",
    [
        "show = print",
        "text = 'print(1)'  # print(1)",
        "import pprint as print_module",
        "data.print = 1",
        "list(map(print, [epoch]))",
    ],
)
def test_what_is_no_call_of_print_stays(code: str) -> None:
    assert converted(script(epoch_end=code)).count(code) == 1


@pytest.mark.parametrize(
    ("imports", "definitions"),
    [
        ("", "def print(*values):\n    pass"),
        ("from rich import print", ""),
        ("", "class Table:\n    def print(self):\n        pass\n\nprint = Table().print"),
    ],
)
def test_a_print_of_the_script_s_own_stays(imports: str, definitions: str) -> None:
    slots = {"from_imports": imports, "definitions": definitions, "epoch_end": "print(epoch)"}
    assert converted(script(**slots)) == lifted(**slots)


def test_prints_into_a_file() -> None:
    before = 'print("a", file=sys.stderr)'
    after = 'if accelerator.is_main_process:\n    print("a", file=sys.stderr)'
    assert converted(script(imports="import sys", epoch_end=before)) == lifted(imports="import sys", epoch_end=after)


GUARD = "if accelerator.is_main_process:\n    "
NOWHERE = 'open("a.log" if accelerator.is_main_process else os.devnull, "a")'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('print(epoch, file=open("a.log", "a"))', f'{GUARD}print(epoch, file=open("a.log", "a"))'),
        ('print(epoch, file=open("a.log", mode="w"))', f'{GUARD}print(epoch, file=open("a.log", mode="w"))'),
        (
            'if epoch:\n    print(epoch, file=open("a.log", "a"), flush=True)',
            'if epoch:\n    if accelerator.is_main_process:\n        print(epoch, file=open("a.log", "a"), flush=True)',
        ),
        (
            'print(epoch, file=open("a.log", "a"))\nprint(1, file=open("b.log", "a"))',
            f'{GUARD}print(epoch, file=open("a.log", "a"))\n    print(1, file=open("b.log", "a"))',
        ),
        # every process computes what is printed, or goes on with what the print gives
        ('print(model(x), file=open("a.log", "a"))', f"print(\n    model(x), file={NOWHERE}\n)"),
        ('n = print(epoch, file=open("a.log", "a"))', f"n = print(\n    epoch, file={NOWHERE}\n)"),
    ],
)
def test_prints_into_a_file_that_is_opened_for_them(before: str, after: str) -> None:
    output = converted(script(imports="import os", after="os.getcwd()", epoch_end=before))
    assert output == lifted(imports="import os", after="os.getcwd()", epoch_end=after)


@pytest.mark.parametrize("made", ['open("a.log", "w")', 'open("a.log", "a", encoding="utf-8")'])
def test_prints_into_a_file_that_is_open(made: str) -> None:
    slots = {"imports": "import os", "after": "os.getcwd()"}
    once = made.replace('"a.log"', '"a.log" if accelerator.is_main_process else os.devnull')
    before = {**slots, "before": f"f = {made}\ng = f", "epoch_end": "print(epoch, file=f)\nn = 1\nprint(n, file=g)"}
    printed = f"{GUARD}print(epoch, file=f)\nn = 1\n{GUARD}print(n, file=g)"
    assert converted(script(**before)) == lifted(**{**before, "before": f"f = {once}\ng = f", "epoch_end": printed})


def test_prints_into_a_file_where_the_accelerator_is_not_at_hand() -> None:
    told = 'print("a", file=open("a.log", "a"))'
    kept = f"class Data(TensorDataset):\n    def __len__(self):\n        {told}\n        return 64"
    text = script(main=True, definitions=kept, loader="loader = DataLoader(Data(*data.tensors), batch_size=16)")
    assert kept in converted(text)
    assert findings(text) == ["SAVE-RACE"]


@pytest.mark.parametrize("made", ["io.StringIO()", "open('a.log')"])
def test_every_process_has_a_text_in_memory_for_itself(made: str) -> None:
    slots = {"imports": "import io", "before": f"f = {made}", "after": "io.SEEK_SET"}
    printed = "print(epoch, file=f)" if "io" in made else f"{GUARD}print(epoch, file=f)"
    assert converted(script(**slots, epoch_end="print(epoch, file=f)")) == lifted(**slots, epoch_end=printed)


def test_neighbouring_prints_into_a_file_share_a_guard() -> None:
    lines = ['print("a", file=sys.stderr)', "# second", 'print("b", file=sys.stderr)']
    after = "\n    ".join(["if accelerator.is_main_process:", *lines])
    assert converted(script(imports="import sys", epoch_end="\n".join(lines))) == lifted(
        imports="import sys", epoch_end=after
    )


def test_prints_before_the_device_is_chosen() -> None:
    """The accelerator is made before the first of them; the lines themselves keep their order."""
    output = converted(script(setup='print("hello")', epoch_end="print(epoch)"))
    created, hello = (output.index(text) for text in ("accelerator = Accelerator(", 'accelerator.print("hello")'))
    assert created < hello < output.index("accelerator.print(epoch)")


def test_functions_that_see_the_accelerator() -> None:
    definition = 'def report(value):\n    print("value", value)'
    slots = {"epoch_end": "report(epoch)"}
    assert converted(script(definitions=definition, **slots)) == lifted(
        definitions=definition.replace("print(", "accelerator.print("), **slots
    )


def test_functions_that_do_not_see_it() -> None:
    """A print alone is no reason to hand the accelerator on: the state of the processes is known everywhere."""
    slots = {"epoch_end": "report(epoch)"}
    text = script(main=True, definitions="def report(value):\n    print(value)", **slots)
    after = lifted(main=True, definitions="def report(value):\n    PartialState().print(value)", **slots)
    assert converted(text) == after.replace("DataLoaderConfiguration\n", "DataLoaderConfiguration, PartialState\n", 1)


@pytest.mark.parametrize(
    ("definitions", "slot"),
    [
        ("def report(rows):\n    print(len(rows))\n    return rows\n\n\nrun = report", {"epoch_end": "report([1])"}),
        ("class PartialState:\n    pass\n\n\ndef report(value):\n    print(value)", {"epoch_end": "report(epoch)"}),
    ],
)
def test_functions_that_may_run_before_it_are_reported(definitions: str, slot: dict[str, str]) -> None:
    text = script(main=True, definitions=definitions, **slot)
    assert converted(text) == lifted(main=True, definitions=definitions, **slot)
    result = convert(text)
    assert result.plan is not None
    assert [str(f) for f in result.plan.findings] == [
        "PRINT-ALL print in report() runs on every process; "
        "print under `if accelerator.is_main_process:` where the accelerator is at hand"
    ]


def test_prints_inside_a_module_stay_and_are_reported() -> None:
    text = script().replace("return self.layer(x)", "print(x.shape)\n        return self.layer(x)")
    assert "        print(x.shape)\n" in converted(text)
    assert findings(text) == ["PRINT-ALL"]


def test_functions_that_get_the_accelerator_anyway() -> None:
    train = "def step(loss):\n    loss.backward()\n    print(loss.item())"
    output = converted(script(main=True, definitions=train, backward="step(loss)"))
    assert (
        "def step(loss, accelerator):\n    accelerator.backward(loss)\n    accelerator.print(loss.item())\n" in output
    )
    assert "step(loss, accelerator)\n" in output


STATE = "accelift import Accelerator, DataLoaderConfiguration, PartialState"


@pytest.mark.parametrize("lines", ["print('start')\n    main()", "main()\n    print('end')"])
def test_prints_around_main_ask_for_the_state(lines: str) -> None:
    text = script(main=True).replace("    main()\n", f"    {lines}\n")
    asked = lines.replace("print", "PartialState().print")
    expected = lifted(main=True).replace("    main()\n", f"    {asked}\n")
    assert converted(text) == expected.replace("accelift import Accelerator, DataLoaderConfiguration", STATE)
    assert findings(text) == []


def test_files_around_main_are_written_once() -> None:
    text = script(main=True).replace("    main()\n", "    main()\n    torch.onnx.export(None, None, 'a.onnx')\n")
    assert "    if PartialState().is_main_process:\n        torch.onnx.export" in converted(text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "torch.onnx.export(None, None, 'a.csv')",
            "if PartialState().is_main_process:\n    torch.onnx.export(None, None, 'a.csv')\n"
            "PartialState().wait_for_everyone()\n",
        ),
        (
            "if not os.path.exists('a.csv'):\n    numpy.savetxt('a.csv', [])",
            "with PartialState().main_process_first():\n"
            "    if not os.path.exists('a.csv'):\n        numpy.savetxt('a.csv', [])\n",
        ),
    ],
)
def test_files_that_main_reads_are_there_for_all(before: str, after: str) -> None:
    slots = {"imports": "import os\nimport numpy", "setup": "table = open('a.csv').read()"}
    text = script(main=True, **slots).replace("    main()\n", indent(f"{before}\nmain()\n", "    "))
    assert indent(after + "main()\n", "    ") in converted(text) and findings(text) == []


@pytest.mark.parametrize(
    ("slots", "lines"),
    [
        # Where the environment is set after it, or in main() before the accelerator is made.
        ({}, "print('start')\n    os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n    main()"),
        ({}, "print('start')\n    os.putenv('CUDA_VISIBLE_DEVICES', '1')\n    main()"),
        ({}, "print('start')\n    os.environ |= {'CUDA_VISIBLE_DEVICES': '1'}\n    main()"),
        # Where a GPU is picked that one process computes on.
        ({}, "print('start')\n    torch.cuda.set_device(1)\n    main()"),
        # Where it is imported.
        ({}, "main()\nelse:\n    print('start')"),
        ({}, "main()\nif __name__ != '__main__':\n    print('start')"),
        ({}, "main()\nif __name__ == '__mp_main__':\n    print('start')"),
        ({"setup": "os.environ['CUDA_VISIBLE_DEVICES'] = '1'"}, "print('start')\n    main()"),
        # Where the script may stay on the CPU.
        ({"device": "device = torch.device('cuda' if input() else 'cpu')"}, "print('start')\n    main()"),
    ],
)
def test_prints_before_main_that_come_too_early_are_reported(slots: dict[str, str], lines: str) -> None:
    text = script(main=True, imports="import os", **slots).replace("    main()\n", f"    {lines}\n")
    assert "    print('start')\n" in converted(text) and "PRINT-ALL" in findings(text)


def test_prints_at_module_level_are_reported() -> None:
    """Others may import the script, such as the workers of its loaders."""
    body = "def main():\n" + script(main=True).partition("def main():\n")[2].partition("\n\nif __name__")[0]
    head = script(main=True).partition("def main():\n")[0]
    text = f"{head}{body}\n\nprint('start')\nmain()\n"
    assert "\nprint('start')\n" in converted(text) and findings(text) == ["PRINT-ALL"]


@pytest.mark.parametrize(
    ("setup", "lines"),
    [
        ("logging.basicConfig()", "logging.info('a')"),
        ("log = logging.getLogger(__name__)", "log.info('a')\nlog.warning('b')"),
        ("", "if epoch:\n    logging.warning('a')"),
    ],
)
def test_logging_is_reported_once_and_stays(setup: str, lines: str) -> None:
    slots = {"imports": "import logging", "setup": setup, "epoch_end": lines}
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == ["PRINT-ALL"]


def test_what_only_looks_like_logging() -> None:
    slots = {"definitions": "class Log:\n    def info(self, text):\n        pass", "setup": "log = Log()"}
    assert findings(script(**slots, epoch_end="log.info('a')")) == []
    assert findings(script(imports="import logging", epoch_end="logging.getLogger('a').setLevel(30)")) == []


def test_left_out() -> None:
    text = script(epoch_end="print(epoch)")
    assert converted(text, ignore=("PRINT",)) == lifted(epoch_end="print(epoch)")
    assert converted(text, select=("MOVE",)) == lifted(epoch_end="print(epoch)")
    assert findings(text, select=("MOVE",)) == ["PRINT"]


@pytest.mark.parametrize("value", ["evaluate(model, loader)", "model(x).sum()"])
def test_prints_into_a_file_that_all_processes_compute(value: str) -> None:
    """On the main process alone it would wait for the others for ever."""
    text = script(imports="import sys", definitions=EVALUATE, epoch_end=f"print({value}, file=sys.stderr)")
    assert f"    if accelerator.is_main_process:\n        print({value}" not in converted(text)


@pytest.mark.parametrize("line", ["if epoch: print(1, file=sys.stderr)", "n = 1; print(n, file=sys.stderr)"])
def test_prints_into_a_file_on_a_shared_line(line: str) -> None:
    assert "accelerator.backward(loss)" in converted(script(imports="import sys", epoch_end=line))


def test_input_is_reported() -> None:
    assert findings(script(epoch_end="answer = input('go on?')")) != []


STOPPER = """\
class Stopper:
    def __init__(self, limit=3, log{}):
        self.limit, self.log = limit, log

    def step(self, loss):
        {}
"""


@pytest.mark.parametrize(
    ("default", "step", "given", "codes"),
    [
        ("=print", "self.log(loss)", "", ["PRINT-ALL"]),
        ("=print", "self.log(loss)\n        self.log(self.limit)", "", ["PRINT-ALL"]),
        ("=None", "self.log(loss)", "log=print", ["PRINT-ALL"]),
        ("=print", "self.limit = loss", "", []),
        ("=print", "self.log(loss)", "log=str", []),
        ("=str", "self.log(loss)", "", []),
    ],
)
def test_print_that_is_handed_to_an_object(default: str, step: str, given: str, codes: list[str]) -> None:
    slots = {"definitions": STOPPER.format(default, step), "before": f"stopper = Stopper({given})"}
    text = script(**slots, epoch_end="stopper.step(epoch)")
    assert findings(text) == codes
    assert converted(text) == lifted(**slots, epoch_end="stopper.step(epoch)")


@pytest.mark.parametrize(("default", "codes"), [("print", ["PRINT-ALL"]), ("str", [])])
def test_print_that_a_function_has_by_default(default: str, codes: list[str]) -> None:
    tell = f"def tell(text, log={default}):\n    log(text)"
    assert findings(script(definitions=tell, epoch_end="tell(epoch)")) == codes


KEEPER = """\
class Keeper:
    def __init__(self, path, log{}):
        self.best = None
        self.path = path
        self.log = log

    def step(self, loss, net):
        if self.best is None or loss < self.best:
            self.best = loss
            self.log("saved", loss)
            torch.save(net.state_dict(), self.path)
"""


@pytest.mark.parametrize(("default", "said"), [("=print", True), ("=str", False)])
def test_print_that_is_handed_to_an_object_whose_attributes_are_followed(default: str, said: bool) -> None:
    text = script(
        definitions=KEEPER.format(default), before="keeper = Keeper('best.pt')", epoch_end="keeper.step(total, model)"
    )
    assert "unwrap_model(net)" in converted(text)
    assert ("PRINT-ALL" in findings(text)) is said


FLUSH = "print = partial(print, flush=True)"
PARTIAL = "from functools import partial"


@pytest.mark.parametrize(
    ("setup", "before", "after"),
    [
        ("log = print", "log('epoch', epoch)", "accelerator.print('epoch', epoch)"),
        (FLUSH, "print('epoch', epoch)", "accelerator.print('epoch', epoch, flush=True)"),
        (FLUSH, "print('a', flush=False)", "accelerator.print('a', flush=False)"),
        (f"{FLUSH}\nlog = print", "log('a')", "accelerator.print('a', flush=True)"),
        ("log = partial(print, '>')", "log('a')", "log('a')"),
        ("log = partial(str, 'a')", "log()", "log()"),
    ],
)
def test_print_by_another_name(setup: str, before: str, after: str) -> None:
    slots = {"from_imports": PARTIAL, "setup": setup}
    assert converted(script(**slots, epoch_end=before)) == lifted(**slots, epoch_end=after)


@pytest.mark.parametrize(
    ("setup", "line", "codes"),
    [
        ("log = print", "log(epoch)", []),
        ("log = partial(print, file=sys.stderr)", "log(epoch)", ["PRINT-ALL"]),
        (FLUSH, "print(*[epoch], **{})", ["PRINT-ALL"]),
        ("if len(sys.argv) > 1:\n    print = partial(print, end='')", "print(epoch)", ["PRINT-ALL"]),
        ("log = builtins.print\nbuiltins.print = str", "log(epoch)", ["PRINT-ALL"]),
        ("names = ['a']", "any(map(print, names))", ["PRINT-ALL"]),
        ("names = ['a']", "any(map(str, names))", []),
        ("names = ['a']", "print(*map(str, names))", []),
        ("log = str", "log(epoch)", []),
        ("def print(*given):\n    pass", "print(epoch)", []),
        ("print = logging.getLogger().debug", "print(epoch)", []),
    ],
)
def test_print_by_another_name_that_stays_is_told_of(setup: str, line: str, codes: list[str]) -> None:
    slots = {"imports": "import builtins\nimport logging\nimport sys", "from_imports": PARTIAL, "setup": setup}
    text = script(**slots, epoch_end=line)
    assert findings(text) == codes
    if codes:
        assert converted(text) == lifted(**slots, epoch_end=line)


def test_print_by_another_name_inside_a_module_stays() -> None:
    definitions = (
        f"{FLUSH}\n\n\nclass Loud(nn.Module):\n    def forward(self, x):\n        print(x.mean())\n        return x"
    )
    slots = {"from_imports": PARTIAL, "definitions": definitions, "forward": "loss = Loud()(model(x)).mean()"}
    assert converted(script(**slots)) == lifted(**slots)
    assert "PRINT-ALL" in findings(script(**slots))


def test_print_that_an_object_keeps() -> None:
    keeps = (
        "class Keeper:\n    def __init__(self):\n        self.log = {}\n\n    def tell(self):\n        self.log('a')"
    )
    for kept, codes in (("print", ["PRINT-ALL"]), ("str", [])):
        slots = {"definitions": keeps.format(kept), "before": "keeper = Keeper()"}
        assert findings(script(**slots, epoch_end="keeper.tell()")) == codes


@pytest.mark.parametrize(
    "setup",
    [
        "logging.basicConfig(level=logging.INFO)",
        "logging.basicConfig(filename=None)",
        "logging.getLogger().addHandler(logging.StreamHandler())",
    ],
)
def test_a_log_that_every_process_writes_to(setup: str) -> None:
    slots = {"imports": "import logging", "setup": setup, "epoch_end": "logging.info('a')"}
    assert findings(script(**slots)) == ["PRINT-ALL"]
    assert converted(script(**slots)) == lifted(**slots)
