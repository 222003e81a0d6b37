"""SummaryWriter and wandb: one run per job."""

from __future__ import annotations

import ast

import pytest
from scripts import convert, converted, findings, found_in, lifted, script

TENSORBOARD = "from torch.utils.tensorboard import SummaryWriter"
MAKE = 'writer = SummaryWriter("runs")'
MADE = 'writer = SummaryWriter("runs") if accelerator.is_main_process else None'
LOG = 'writer.add_scalar("loss", loss.item(), epoch)'
LOGGED = f"if accelerator.is_main_process:\n    {LOG}"


@pytest.mark.parametrize("imports", [TENSORBOARD, "from tensorboardX import SummaryWriter"])
def test_writer(imports: str) -> None:
    text = script(from_imports=imports, before=MAKE, epoch_end=LOG, after="writer.close()")
    assert converted(text) == lifted(
        from_imports=imports,
        before=MADE,
        epoch_end=LOGGED,
        after="if accelerator.is_main_process:\n    writer.close()",
    )
    assert findings(text) == ["METRIC-TRAIN"]  # the last loss is that of the main process's share


def test_neighbours_share_a_guard() -> None:
    slots = {"from_imports": TENSORBOARD, "definitions": ""}
    both = f'{LOG}\nwriter.add_scalar("lr", 0.1, epoch)\nwriter.flush()'
    guarded = "if accelerator.is_main_process:\n    " + both.replace("\n", "\n    ")
    assert converted(script(before=MAKE, epoch_end=both, **slots)) == lifted(before=MADE, epoch_end=guarded, **slots)


@pytest.mark.parametrize(
    ("make", "use"),
    [
        ('logs = {}\nlogs["a"] = SummaryWriter("a")', 'for name in logs:\n    logs[name].add_text("t", "x")'),
        ('a = SummaryWriter("a")\nlogs = {}\nlogs["a"] = a', 'for name in logs:\n    logs[name].add_text("t", "x")'),
        ('a = SummaryWriter("a")\nlogs = [a]', 'for log in reversed(logs):\n    log.add_text("t", "x")'),
    ],
)
def test_writers_in_containers_are_made_on_every_process(make: str, use: str) -> None:
    text = script(from_imports=TENSORBOARD, before=make, epoch_end=use)
    assert "else None" not in converted(text) and "TRACK-ALL" in findings(text)


HOLDER = """\
class Log:
    def __init__(self, writer):
        self.writer = writer

    def tell(self):
        self.writer.flush()


class Bag:
    pass


"""
THROUGH = "def through(w, *more, **named):\n    elsewhere(w)\n\n\ndef ignored(w, *more, **named):\n    pass\n"


@pytest.mark.parametrize(
    "use",
    [
        "elsewhere(writer)",
        "elsewhere(w=writer)",
        "through(writer)",
        "ignored(1, writer)",
        "later = partial(ignored, writer)",
        "bag = Bag()\nbag.writer = writer\nelsewhere(bag)",
        "add = writer.add_scalar",
    ],
)
def test_writers_in_the_hands_of_others_are_made_on_every_process(use: str) -> None:
    imports = f"from functools import partial\nfrom other import elsewhere\n{TENSORBOARD}"
    text = script(from_imports=imports, definitions=HOLDER + THROUGH, before=MAKE, epoch_end=use)
    assert "else None" not in converted(text) and "TRACK-ALL" in findings(text)


@pytest.mark.parametrize(("given", "complete"), [("writer", False), ("1, writer", False), ("1", True)])
def test_a_writer_that_a_generator_hands_out_is_made_on_every_process(given: str, complete: bool) -> None:
    manager = f"""\
@contextlib.contextmanager
def logging_to(path):
    writer = SummaryWriter(path)
    yield {given}
    writer.close()
"""
    imports = f"import contextlib\n{TENSORBOARD}"
    use = "with logging_to('a') as made:\n    made.add_scalar('a', 1)"
    text = script(from_imports=imports, definitions=manager, after=use)
    assert ("else None" in converted(text)) is complete
    assert ("TRACK-ALL" in findings(text)) is not complete


@pytest.mark.parametrize(
    "use",
    [
        "ignored(writer)",
        "if writer is not None:\n    elsewhere(writer)",
        "print(isinstance(writer, SummaryWriter))",
        "Log(writer).tell()",
        "bag = Bag()\nbag.writer = writer\nbag.writer.flush()",
        "elsewhere(bag)",
    ],
)
def test_writers_whose_uses_are_all_seen_are_made_once(use: str) -> None:
    imports = f"from other import elsewhere, bag\n{TENSORBOARD}"
    text = script(from_imports=imports, definitions=HOLDER + THROUGH, before=MAKE, epoch_end=use)
    after = converted(text)
    assert MADE in after and "TRACK-ALL" not in findings(text)
    flushed = {"Log": "self.writer.flush()", "bag =": "bag.writer.flush()"}
    guarded = next((line for start, line in flushed.items() if use.startswith(start)), None)
    assert guarded is None or f"is_main_process:\n            {guarded}" in after.replace(
        "        bag.", "            bag."
    )


def test_two_writers() -> None:
    make = 'a = SummaryWriter("a")\nb = SummaryWriter("b")'
    made = make.replace('")', '") if accelerator.is_main_process else None')
    log = 'a.add_text("t", "x")\nprint(1)\nb.add_text("t", "x")'
    logged = (
        'if accelerator.is_main_process:\n    a.add_text("t", "x")\naccelerator.print(1)\n'
        'if accelerator.is_main_process:\n    b.add_text("t", "x")'
    )
    assert converted(script(from_imports=TENSORBOARD, before=make, epoch_end=log)) == lifted(
        from_imports=TENSORBOARD, before=made, epoch_end=logged
    )


def test_one_of_two_writers_in_a_variable() -> None:
    make = 'if len(sys.argv) > 1:\n    writer = SummaryWriter("a")\nelse:\n    writer = SummaryWriter("b")'
    made = make.replace('")', '") if accelerator.is_main_process else None')
    slots = {"imports": "import sys", "from_imports": TENSORBOARD}
    assert converted(script(before=make, epoch_end=f"{LOG}\n{LOG}", **slots)) == lifted(
        before=made, epoch_end=f"{LOGGED}\n    {LOG}", **slots
    )


@pytest.mark.parametrize("test", ["if writer:", "if writer is not None:"])
def test_the_script_s_own_test_is_enough(test: str) -> None:
    make = "writer = None\nif len(sys.argv) > 1:\n    writer = SummaryWriter()"
    slots = {"imports": "import sys", "from_imports": TENSORBOARD, "epoch_end": f"{test}\n    {LOG}"}
    made = make.replace("SummaryWriter()", "SummaryWriter() if accelerator.is_main_process else None")
    assert converted(script(before=make, **slots)) == lifted(before=made, **slots)


def test_another_test_is_not() -> None:
    log = f"if epoch > 0:\n    {LOG}\nif not writer:\n    {LOG}"
    logged = log.replace(LOG, LOGGED.replace("\n", "\n    "))
    assert converted(script(from_imports=TENSORBOARD, before=MAKE, epoch_end=log)) == lifted(
        from_imports=TENSORBOARD, before=MADE, epoch_end=logged
    )


def test_functions_that_log() -> None:
    definition = "def log(writer, value):\n    writer.add_scalar('loss', value, 0)"
    inside = (
        "def log(writer, value{}):\n    if accelerator.is_main_process:\n        writer.add_scalar('loss', value, 0)"
    )
    text = {"from_imports": TENSORBOARD, "before": MAKE, "epoch_end": "log(writer, 1)"}
    assert converted(script(definitions=definition, **text)) == lifted(
        definitions=inside.format(""), **{**text, "before": MADE}
    )
    assert converted(script(main=True, definitions=definition, **text)) == lifted(
        main=True,
        definitions=inside.format(", accelerator"),
        from_imports=TENSORBOARD,
        before=MADE,
        epoch_end="log(writer, 1, accelerator)",
    )


@pytest.mark.parametrize(
    ("make", "use", "guarded"),
    [
        (f"{MAKE}\nfolder = writer.log_dir", LOG, LOGGED),
        (f"{MAKE}\nfolder = writer.get_logdir()", LOG, LOGGED),
        ("with SummaryWriter() as w:\n    w.flush()", "", ""),
    ],
)
def test_writers_that_every_process_needs(make: str, use: str, guarded: str) -> None:
    text = script(from_imports=TENSORBOARD, before=make, epoch_end=use)
    made = make.replace("    w.flush()", "    if accelerator.is_main_process:\n        w.flush()")
    assert converted(text) == lifted(from_imports=TENSORBOARD, before=made, epoch_end=guarded)
    assert findings(text) == ["TRACK-ALL", *(["METRIC-TRAIN"] if use else [])]


@pytest.mark.parametrize(
    ("make", "log"),
    [
        ('tf.summary.FileWriter("runs")', "writer.add_summary(loss.item(), epoch)"),
        ('tf.compat.v1.summary.FileWriter("r")', "writer.add_summary(loss.item(), epoch)"),
        ('tensorboard_logger.Logger("runs")', "writer.log_value('loss', loss.item(), epoch)"),
    ],
)
def test_writers_of_other_libraries(make: str, log: str) -> None:
    imports = "import tensorboard_logger\nimport tensorflow as tf"
    text = script(imports=imports, before=f"writer = {make}", epoch_end=log)
    made = f"writer = {make} if accelerator.is_main_process else None"
    assert converted(text) == lifted(
        imports=imports, before=made, epoch_end=f"if accelerator.is_main_process:\n    {log}"
    )


def test_a_writer_that_a_block_makes_the_current_one() -> None:
    slots = {
        "imports": "import tensorflow as tf",
        "before": 'writer = tf.summary.create_file_writer("runs")',
        "epoch_end": "with writer.as_default():\n    tf.summary.scalar('loss', loss.item(), step=epoch)",
    }
    assert converted(script(**slots)) == lifted(**slots)
    assert "TRACK-ALL" in findings(script(**slots))


def test_visdom() -> None:
    slots = {"imports": "import visdom", "before": "viz = visdom.Visdom()", "epoch_end": "viz.text('a')"}
    made = "viz = visdom.Visdom() if accelerator.is_main_process else None"
    guarded = "if accelerator.is_main_process:\n    viz.text('a')"
    assert converted(script(**slots)) == lifted(**{**slots, "before": made, "epoch_end": guarded})


def test_visdom_whose_windows_are_kept() -> None:
    slots = {"imports": "import visdom", "before": "viz = visdom.Visdom()", "epoch_end": "window = viz.text('a')"}
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == ["TRACK-ALL"]


def test_never_a_guard_around_what_all_processes_compute() -> None:
    slots = {
        "from_imports": TENSORBOARD,
        "before": MAKE,
        "epoch_end": 'writer.add_scalar("y", sum(model(x).mean().item() for _ in range(2)), epoch)',
    }
    assert converted(script(**slots)) == lifted(**slots)
    result = convert(script(**slots))
    assert result.plan is not None
    assert [(f.code, f.severity.value) for f in result.plan.findings] == [
        ("TRACK-ALL", "warning"),
        ("COLL-MAIN", "error"),
        ("METRIC-TRAIN", "note"),
    ]


def test_what_all_processes_compute_is_taken_out_of_what_is_logged() -> None:
    log = 'writer.add_scalar("y", {}, epoch)'
    slots = {"from_imports": TENSORBOARD, "before": MAKE}
    after = converted(script(epoch_end=log.format("model(x).mean().item()"), **slots))
    guarded = f"    if accelerator.is_main_process:\n        {log.format('output')}\n"
    assert f"    output = model(x).mean().item()\n{guarded}" in after
    tested = f"if writer:\n    {log.format('model(x).mean().item()')}"
    assert "COLL-MAIN" in findings(script(epoch_end=tested, **slots))  # the others would not come to it


def test_a_writer_of_the_script_s_own_stays() -> None:
    own = "class SummaryWriter(list):\n    def add_scalar(self, *values):\n        self.append(values)"
    slots = {"definitions": own, "before": MAKE, "epoch_end": LOG}
    assert converted(script(**slots)) == lifted(**slots)


# ---- wandb


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("wandb.init()", 'wandb.init(mode=None if accelerator.is_main_process else "disabled")'),
        (
            'run = wandb.init(project="p")',
            'run = wandb.init(project="p", mode=None if accelerator.is_main_process else "disabled")',
        ),
        (
            'wandb.init(mode="offline", project="p")',
            'wandb.init(mode="offline" if accelerator.is_main_process else "disabled", project="p")',
        ),
        (
            "wandb.init(mode=mode)",
            'wandb.init(mode=mode if accelerator.is_main_process else "disabled")',
        ),
    ],
)
def test_wandb(before: str, after: str) -> None:
    slots = {"imports": "import wandb", "epoch_end": 'wandb.log({"loss": loss.item()})', "after": "wandb.finish()"}
    made = f"mode = None\n{before}"
    assert converted(script(before=made, **slots)) == lifted(before=f"mode = None\n{after}", **slots)
    assert findings(script(before=made, **slots)) == ["METRIC-TRAIN"]


FOLDER = 'folder = {}.use_artifact("data:latest").download()'


@pytest.mark.parametrize(
    "before",
    [
        f"wandb.init()\n{FOLDER.format('wandb')}",
        f"run = wandb.init()\n{FOLDER.format('run')}",
        'wandb.init()\npath = wandb.restore("model.pt").name',
    ],
)
def test_a_run_that_files_are_taken_from_is_needed_everywhere(before: str) -> None:
    slots = {"imports": "import wandb", "before": before}
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == ["TRACK-ALL"]


@pytest.mark.parametrize(
    ("definitions", "more"),
    [
        ("", 'wandb.use_artifact("data:latest")'),  # the run only remembers that it was used
        (f"def fetch():\n    {FOLDER.format('wandb')}", ""),  # by nobody
        ("", "folder = settings.use_artifact(3)"),
    ],
)
def test_a_run_that_gives_nothing_is_needed_once(definitions: str, more: str) -> None:
    slots = {"imports": "import settings\nimport wandb", "definitions": definitions}
    disabled = 'wandb.init(mode=None if accelerator.is_main_process else "disabled")'
    text = script(before=f"wandb.init()\n{more}", **slots)
    assert converted(text) == lifted(before=f"{disabled}\n{more}", **slots)
    assert findings(text) == []


def test_wandb_out_of_reach() -> None:
    slots = {"imports": "import wandb", "setup": "start()"}
    text = script(main=True, definitions="def start():\n    wandb.init()", **slots)
    output = converted(text)
    assert "    wandb.init(mode=None if PartialState().is_main_process else 'disabled')\n" in output.replace('"', "'")
    handed_on = script(main=True, definitions="def start():\n    wandb.init()\n\n\nlater = start", **slots)
    assert "    wandb.init()\n" in converted(handed_on)
    assert findings(handed_on) == ["TRACK-ALL"]


@pytest.mark.parametrize("line", ["wandb.log({})", "wandb.config.lr = 0.1", "wandb.login()"])
def test_the_rest_of_wandb_stays(line: str) -> None:
    slots = {"imports": "import wandb", "epoch_end": line}
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == []


def test_left_out() -> None:
    slots = {
        "imports": "import wandb",
        "from_imports": TENSORBOARD,
        "before": f"wandb.init()\n{MAKE}",
        "epoch_end": LOG,
    }
    assert converted(script(**slots), ignore=("TRACKER",)) == lifted(**slots)


def test_wandb_with_a_conditional_mode() -> None:
    """On the other processes it must be "disabled" whatever the script chooses."""
    output = converted(script(imports="import wandb", before='wandb.init(mode="offline" if model else "online")'))
    keywords = {k.arg: k.value for n in ast.walk(ast.parse(output)) if isinstance(n, ast.Call) for k in n.keywords}
    expected = '("offline" if model else "online") if accelerator.is_main_process else "disabled"'
    assert ast.unparse(keywords["mode"]) == ast.unparse(ast.parse(expected, mode="eval"))


@pytest.mark.parametrize("line", [f"if epoch: {LOG}", f"n = 1; {LOG}"])
def test_logging_on_a_shared_line(line: str) -> None:
    assert "accelerator.backward(loss)" in converted(script(from_imports=TENSORBOARD, before=MAKE, batch_end=line))


def test_the_graph_of_the_model() -> None:
    text = script(from_imports=TENSORBOARD, before=MAKE, after="writer.add_graph(model, torch.zeros(1, 8))")
    assert "writer.add_graph(model, " not in converted(text)


MLFLOW = "import mlflow\nimport mlflow.pytorch"


def test_mlflow_logs_on_the_main_process() -> None:
    text = script(
        imports=MLFLOW,
        before="mlflow.start_run()\nmlflow.log_param('lr', 0.1)",
        batch_end="mlflow.log_metric(key='loss', value=loss.item())",
        after="mlflow.pytorch.log_model(model, 'model')",
    )
    output = converted(text)
    assert "TRACK-ALL" not in findings(text)
    for line in ("mlflow.start_run()", "mlflow.log_param(", "mlflow.log_metric(", "mlflow.pytorch.log_model("):
        before = output[: output.index(line)].rstrip().splitlines()[-1].strip()
        assert before in ("if accelerator.is_main_process:", "mlflow.start_run()"), line
    assert "log_model(accelerator.unwrap_model(model), 'model')" in output


def test_a_run_of_mlflow_around_the_training_is_reported() -> None:
    plain = script(imports=MLFLOW, before="run = mlflow.start_run()")
    assert "TRACK-ALL" in findings(plain)


@pytest.mark.parametrize(("test", "log"), [("log", LOGGED), ("writer", LOG)])
def test_a_writer_that_there_may_be(test: str, log: str) -> None:
    """The script's own condition stays, and the other processes have none."""
    make = "log = len(data) > 3\nwriter = SummaryWriter() if log else None"
    made = make.replace("SummaryWriter()", "(SummaryWriter() if accelerator.is_main_process else None)")
    use = f"if {test}:\n    {LOG}"
    used = use.replace(LOG, log.replace("\n", "\n    "))
    text = script(from_imports=TENSORBOARD, before=make, epoch_end=use)
    assert converted(text) == lifted(from_imports=TENSORBOARD, before=made, epoch_end=used)
    assert "TRACK-ALL" not in findings(text)
    other = make.replace("None", "Quiet()")  # of which nothing is known
    text = script(from_imports=f"{TENSORBOARD}\nfrom elsewhere import Quiet", before=other, epoch_end=use)
    assert other in converted(text)
    assert "TRACK-ALL" in findings(text)


@pytest.mark.parametrize(
    ("imports", "start"),
    [
        ("import swanlab", 'swanlab.init(project="nets")'),
        ("from comet_ml import Experiment", "run = Experiment()"),
        ("from clearml import Task", 'task = Task.init(project_name="nets")'),
        ("import neptune", "run = neptune.init_run()"),
    ],
)
def test_a_run_of_another_tracker_is_reported(imports: str, start: str) -> None:
    text = script(imports=imports, before=start)
    assert findings(text) == ["TRACK-ALL"]
    assert start in converted(text)


@pytest.mark.parametrize(
    ("imports", "start"),
    [("import swanlab", "api = swanlab.Api()"), ("from own_trackers import Experiment", "run = Experiment()")],
)
def test_what_starts_no_run_is_not(imports: str, start: str) -> None:
    assert findings(script(imports=imports, before=start)) == []


LOGGER = """\
class Logger:
    def __init__(self):
        self.writer = SummaryWriter()

    def log(self, value):
        self.writer.add_scalar("loss", value, 0)

    def graph(self, value):
        self.writer.add_scalar("graph", value, 0)
"""


@pytest.mark.parametrize("use", ["logger.log(loss.item())\nlogger.graph(1)", "logger.log(loss.item())"])
def test_a_class_that_logs_asks_for_the_state(use: str) -> None:
    """Also in a method that nothing in the script calls: whoever does, has an object that was made after it."""
    text = script(main=True, from_imports=TENSORBOARD, definitions=LOGGER, before="logger = Logger()", epoch_end=use)
    output = converted(text)
    assert "self.writer = SummaryWriter() if PartialState().is_main_process else None" in output
    assert output.count("        if PartialState().is_main_process:\n            self.writer.add_scalar(") == 2


def test_the_accelerator_is_made_before_objects_that_ask_for_the_state() -> None:
    setup = "args = parser.parse_args()\nlogger = Logger()"
    device = 'device = torch.device("cuda" if args.cuda and torch.cuda.is_available() else "cpu")'
    definitions = f"import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument('--cuda')\n\n\n{LOGGER}"
    slots = {"from_imports": TENSORBOARD, "definitions": definitions, "setup": setup, "device": device}
    output = converted(script(main=True, **slots))
    made, kept = output.index("accelerator = Accelerator("), output.index("logger = Logger()")
    assert "cpu=not args.cuda" in output and made < kept
    late = {**slots, "setup": "logger = Logger()\nargs = parser.parse_args()"}
    assert found_in(convert(script(main=True, **late))) == ["ACC-REACH"]  # it is not known yet whether it is the CPU


@pytest.mark.parametrize(
    ("block", "complete"),
    [
        (LOG, True),
        (f"mean = loss.item()\n{LOG}\nprint(mean)", True),
        (f"{LOG}\nscheduler.step()", False),
        (f"{LOG}\nsteps += 1", False),
        (f"shown = loss.item()\n{LOG}", False),  # which is read after it
        (f"{LOG}\nif steps > 3:\n    break", False),
        (f"steps = 3\n{LOG}", False),
        (f"{LOG}\nnoise = torch.rand(3)", False),
        (f"out = model(x)\n{LOG}", False),
    ],
)
@pytest.mark.parametrize("test", ["if writer:", "if epoch and writer is not None:"])
def test_a_test_of_the_writer_under_which_more_than_logging_stands(test: str, block: str, complete: bool) -> None:
    scheduler = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)\nsteps = 0\nshown = 0"
    body = block.replace("\n", "\n    ")
    slots = {"from_imports": TENSORBOARD, "before": f"{MAKE}\n{scheduler}", "after": "print(shown, steps)"}
    text = script(**slots, epoch_end=f"{test}\n    {body}")
    assert (MADE in converted(text)) is complete
    assert ("TRACK-ALL" in findings(text)) is not complete
    assert complete or "if accelerator.is_main_process:\n            writer.add_scalar" in converted(text)


@pytest.mark.parametrize(
    ("log", "complete"),
    [
        ("    if writer is None:\n        return\n    writer.add_scalar('loss', value, 0)", True),
        ("    if writer is None:\n        return\n    writer.add_scalar('loss', value, 0)\n    return value", False),
        ("    if writer is None:\n        return\n    writer.add_scalar('loss', value, 0)\n    seen.append(1)", False),
        ("    if not writer:\n        return 1\n    writer.add_scalar('loss', value, 0)", False),
        ("    if not writer:\n        return\n    writer.add_scalar('loss', value, 0)", True),
        # goes on where there is none
        ("    writer.add_scalar('loss', value, 0)\n    if writer:\n        return\n    print(value)", False),
        ("    kept = writer is None\n    writer.add_scalar('loss', value, 0)\n    return kept", False),
        ("    value = 1 if writer else 2\n    writer.add_scalar('loss', value, 0)", False),
        ("    while writer:\n        writer.add_scalar('loss', value, 0)\n        break", False),
    ],
)
def test_functions_that_end_where_there_is_no_writer(log: str, complete: bool) -> None:
    definitions = f"seen = []\n\n\ndef log(writer, value):\n{log}"
    text = script(from_imports=TENSORBOARD, definitions=definitions, before=MAKE, epoch_end="log(writer, 1)")
    assert (MADE in converted(text)) is complete
    assert ("TRACK-ALL" in findings(text)) is not complete


def test_a_writer_that_is_made_where_there_is_none() -> None:
    make = 'writer = None\nif writer is None:\n    writer = SummaryWriter("runs")'
    slots = {"from_imports": TENSORBOARD, "epoch_end": LOG}
    assert converted(script(before=make, **slots)) == lifted(
        from_imports=TENSORBOARD, before=make.replace(MAKE, MADE), epoch_end=LOGGED
    )


BY_NAME = "writer = None\nfor module in {}:\n    writer = importlib.import_module(module).{}"


@pytest.mark.parametrize(
    ("modules", "made", "told"),
    [
        ('["torch.utils.tensorboard", "tensorboardX"]', 'SummaryWriter("runs")', True),
        ('["tensorboardX"]', 'SummaryWriter("runs")', True),
        ('["tensorboardX", "elsewhere"]', 'SummaryWriter("runs")', False),
        ("sys.argv", 'SummaryWriter("runs")', False),
        ('["torch.utils.tensorboard"]', 'summary.Summary("runs")', False),
    ],
)
def test_a_writer_of_a_module_that_is_imported_by_its_name(modules: str, made: str, told: bool) -> None:
    make = BY_NAME.format(modules, made)
    slots = {"imports": "import importlib\nimport sys", "epoch_end": f"if writer is not None:\n    {LOG}"}
    output = converted(script(before=make, **slots))
    assert ("if accelerator.is_main_process" in output) is told
    assert told or output == lifted(before=make, **slots)


def test_a_module_that_is_imported_by_its_name() -> None:
    make = 'board = importlib.import_module("torch.utils.tensorboard")\nwriter = board.SummaryWriter("runs")'
    made = make.replace('("runs")', '("runs") if accelerator.is_main_process else None')
    slots = {"imports": "import importlib"}
    assert converted(script(before=make, epoch_end=LOG, **slots)) == lifted(before=made, epoch_end=LOGGED, **slots)
