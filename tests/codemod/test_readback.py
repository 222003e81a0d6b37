"""READBACK: every process waits for a file that the main process has written before it reads it."""

from __future__ import annotations

import pytest
from scripts import added, converted, findings, lifted, script

GUARD = "if accelerator.is_main_process:"
WAIT = "accelerator.wait_for_everyone()"
NUMPY = "import numpy as np"
SAVE = 'np.save("a.npy", np.zeros(3))'
LOAD = 'a = np.load("a.npy")'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{SAVE}\n{LOAD}", f"{GUARD}\n    {SAVE}\n{WAIT}\n{LOAD}"),
        (
            'path = "a.csv"\nnp.savetxt(path, np.zeros(3))\nn = 1\na = np.loadtxt(path) + np.loadtxt(path)',
            f'path = "a.csv"\n{GUARD}\n    np.savetxt(path, np.zeros(3))\nn = 1\n{WAIT}\n'
            "a = np.loadtxt(path) + np.loadtxt(path)",
        ),
        (
            f"for n in range(2):\n    {SAVE}\n    {LOAD}",
            f"for n in range(2):\n    {GUARD}\n        {SAVE}\n    {WAIT}\n    {LOAD}",
        ),
        (
            f'with open("a.npy", "wb") as file:\n    np.save(file, np.zeros(3))\n{LOAD}',
            f'{GUARD}\n    with open("a.npy", "wb") as file:\n        np.save(file, np.zeros(3))\n{WAIT}\n{LOAD}',
        ),
        (
            f'kept = Kept()\n{SAVE}\nkept.add_file("a.npy")',
            f'kept = Kept()\n{GUARD}\n    {SAVE}\n{WAIT}\nkept.add_file("a.npy")',
        ),
    ],
)
def test_what_is_written_before_it_is_read(before: str, after: str) -> None:
    assert converted(script(imports=NUMPY, after=before)) == lifted(imports=NUMPY, after=after)
    assert findings(script(imports=NUMPY, after=before)) == []


READ, REMOVE = 'a = open("a.npy").read()', 'os.remove("a.npy")'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{LOAD}\n{SAVE}", f"{LOAD}\n{WAIT}\n{GUARD}\n    {SAVE}"),
        (f"{SAVE}\n{LOAD}\n{REMOVE}", f"{GUARD}\n    {SAVE}\n{WAIT}\n{LOAD}\n{WAIT}\n{GUARD}\n    {REMOVE}"),
        (
            f'{LOAD}\nwith open("b", "w") as f:\n    f.write(open("a.npy").read())\n{REMOVE}',
            f'{LOAD}\n{GUARD}\n    with open("b", "w") as f:\n        f.write(open("a.npy").read())\n{WAIT}\n'
            f"{GUARD}\n    {REMOVE}",
        ),
        (f"if n:\n    {READ}\n{REMOVE}", f"if n:\n    {READ}\n{WAIT}\n{GUARD}\n    {REMOVE}"),
        (
            'a = open("a.npy").read()\nPath("a.npy").unlink()',
            f'a = open("a.npy").read()\n{WAIT}\n{GUARD}\n    Path("a.npy").unlink()',
        ),
        (
            f'{READ}\nif os.path.exists("a.npy"):\n    {REMOVE}',
            f'{READ}\n{WAIT}\nif os.path.exists("a.npy"):\n    {GUARD}\n        {REMOVE}',
        ),
    ],
)
def test_what_others_may_still_read_is_not_written_over(before: str, after: str) -> None:
    slots = {"imports": "import os\nfrom pathlib import Path\n\nimport numpy as np", "setup": "n = 0"}
    assert converted(script(**slots, after=before)) == lifted(**slots, after=after)
    assert findings(script(**slots, after=before)) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # nobody reads it before, or only the main process does
        (f"{REMOVE}\nb = 1", f"{GUARD}\n    {REMOVE}\nb = 1"),
        (
            f'np.save("b.npy", np.load("a.npy"))\n{REMOVE}',
            f'{GUARD}\n    np.save("b.npy", np.load("a.npy"))\n    {REMOVE}',
        ),
        (f'a = np.load("b.npy")\n{REMOVE}', f'a = np.load("b.npy")\n{GUARD}\n    {REMOVE}'),
        # not every process need come here
        (f"{READ}\nif n:\n    {REMOVE}", f"{READ}\nif n:\n    {GUARD}\n        {REMOVE}"),
        # they meet before
        (f"{READ}\n{SAVE}\n{LOAD}", f"{READ}\n{WAIT}\n{GUARD}\n    {SAVE}\n{WAIT}\n{LOAD}"),
    ],
)
def test_what_may_be_written_at_once(before: str, after: str) -> None:
    slots = {"imports": "import os\n\nimport numpy as np", "setup": "n = 0"}
    assert converted(script(**slots, after=before)) == lifted(**slots, after=after)


def test_what_is_read_before_training_may_be_written_after_it() -> None:
    slots = {"imports": NUMPY, "setup": LOAD}
    assert converted(script(**slots, after=SAVE)) == lifted(**slots, after=f"{GUARD}\n    {SAVE}")


def test_who_reads_a_file_twice_waits_once() -> None:
    slots = {"imports": NUMPY, "setup": "n = 0"}
    again = LOAD.replace("a = ", "b = ")
    after = f"{GUARD}\n    {SAVE}\n{WAIT}\n{LOAD}\n{again}"
    assert converted(script(**slots, after=f"{SAVE}\n{LOAD}\n{again}")) == lifted(**slots, after=after)
    maybe = f"{GUARD}\n    {SAVE}\nfor _ in range(n):\n    {LOAD}\n{WAIT}\n{again}"
    assert converted(script(**slots, after=f"{SAVE}\nfor _ in range(n):\n    {LOAD}\n{again}")) == lifted(
        **slots, after=maybe
    )


FILES = """\
class Files(torch.utils.data.Dataset):
    def __init__(self, path, rows=3):
        self.rows = np.load(path)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]
"""


@pytest.mark.parametrize(
    ("name", "line", "waits"),
    [
        ('"a.npy"', 'files = Files("a.npy")', True),
        ("path", "files = Files(path=path)", True),
        ('"a.npy"', 'files = Files("b.npy")', False),
        ('"a.npy"', "files = Files(zeros)", False),
    ],
)
def test_a_data_set_that_gets_the_name_of_the_file(name: str, line: str, waits: bool) -> None:
    slots = {"imports": NUMPY, "definitions": FILES, "before": 'path = "a.npy"\nzeros = np.zeros(3)'}
    save = f"np.save({name}, zeros)"
    after = f"{GUARD}\n    {save}\n" + (f"{WAIT}\n" if waits else "") + line
    assert converted(script(**slots, after=f"{save}\n{line}")) == lifted(**slots, after=after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f'{SAVE}\na = np.load("b.npy")', f'{GUARD}\n    {SAVE}\na = np.load("b.npy")'),
        (f"if n:\n    {SAVE}\nelse:\n    {LOAD}", f"if n:\n    {GUARD}\n        {SAVE}\nelse:\n    {LOAD}"),
        # not every process need come here
        (f"{SAVE}\nif n:\n    {LOAD}", f"{GUARD}\n    {SAVE}\nif n:\n    {LOAD}"),
        (LOAD, LOAD),
        (f'{SAVE}\nnp.save("b.npy", np.load("a.npy"))', f'{GUARD}\n    {SAVE}\n    np.save("b.npy", np.load("a.npy"))'),
    ],
)
def test_what_need_not_wait(before: str, after: str) -> None:
    slots = {"imports": NUMPY, "setup": "n = 0"}
    assert converted(script(**slots, after=before)) == lifted(**slots, after=after)


def test_what_a_function_writes_is_read_after_its_call() -> None:
    definitions = "def write(name):\n    np.save(name, np.zeros(3))"
    guarded = f"def write(name):\n    {GUARD}\n        np.save(name, np.zeros(3))"
    slots = {"imports": NUMPY, "after": 'write("a.npy")\na = np.load("a.npy")'}
    waited = f'write("a.npy")\n{WAIT}\na = np.load("a.npy")'
    expected = lifted(imports=NUMPY, definitions=guarded, after=waited)
    assert converted(script(definitions=definitions, **slots)) == expected
    other = {"imports": NUMPY, "after": 'write("a.npy")\na = np.load("b.npy")'}
    assert WAIT not in converted(script(definitions=definitions, **other))


@pytest.mark.parametrize(
    ("path", "listed", "waits"),
    [
        ('os.path.join(out, "train", name)', 'os.listdir(os.path.join(folder, "train"))', True),
        ('f"{out}/{name}"', "os.listdir(folder)", True),
        ('"/".join([out, name])', "os.listdir(folder)", True),
        ('os.path.join("cache", name)', "os.listdir(folder)", False),
        ("os.path.join(out, name)", "os.listdir(other)", False),
    ],
)
def test_files_that_a_function_puts_into_a_folder_that_is_listed_after_it(path: str, listed: str, waits: bool) -> None:
    define = f"def write(out):\n    for name in ('a', 'b'):\n        path = {path}\n        np.save(path, np.zeros(3))"
    call = f"write(folder)\nfound = {listed}"
    slots = {"imports": f"import os\n{NUMPY}", "definitions": define, "setup": "folder, other = 'x', 'y'"}
    text = converted(script(**slots, after=call))
    assert (f"write(folder)\n{WAIT}\nfound" in text) == waits


def test_a_file_that_is_opened_to_be_read() -> None:
    slots = {"imports": "import json", "before": "results = [1]"}
    save, load = "json.dump(results, open('r.json', 'w'))", "with open('r.json') as f:\n    print(f.read())"
    waited = f"{GUARD}\n    {save}\n{WAIT}\nwith open('r.json') as f:\n    accelerator.print(f.read())"
    assert converted(script(**slots, after=f"{save}\n{load}")) == lifted(**slots, after=waited)
    appended = load.replace("'r.json'", "'r.json', 'a'")
    assert WAIT not in converted(script(**slots, after=f"{save}\n{appended}"))


def test_a_data_set_that_keeps_what_it_has_made_waits_for_nobody() -> None:
    """It may do so in the processes of a loader's workers."""
    files = (
        "class Files(torch.utils.data.Dataset):\n    def __len__(self):\n        return 64\n\n"
        "    def __getitem__(self, i):\n        with open('a', 'w') as f:\n            f.write('1')\n"
        "        return torch.zeros(8), int(open('a').read())"
    )
    assert WAIT not in converted(script(definitions=files, data="data = Files()"))


WRITTEN = "with open('history.txt', 'w') as file:\n    file.write('{}')"


def test_what_an_earlier_iteration_has_written_is_waited_for() -> None:
    read = "if epoch > 0:\n    history = open('history.txt').read()"
    output = converted(script(epoch=read, epoch_end=WRITTEN))
    assert "    accelerator.wait_for_everyone()\n    if epoch > 0:\n        history = open(" in output


def test_what_is_read_before_the_only_time_it_is_written_is_not() -> None:
    read = "history = open('history.txt').read()"
    assert "wait_for_everyone" not in converted(script(before=read, after=WRITTEN))


def test_what_is_read_in_more_iterations_than_it_is_written_in_is_not() -> None:
    """Some processes would wait more often than others only if that differed; what is not known stays."""
    read = "for line in range(2):\n    if line:\n        model.train()\n        history = open('history.txt').read()"
    assert "wait_for_everyone" not in converted(script(epoch=read, epoch_end=WRITTEN))


DUMP = 'json.dump({"n": 3}, open("a.json", "w"))'
READ = 'json.load(open("a.json"))'


@pytest.mark.parametrize(
    ("read", "waits"),
    [
        (f"n = {READ}", True),
        (f"if {READ}['n'] < 9:\n    n = 2", True),
        (f"for n in {READ}:\n    m = n", True),
        (f"if {READ.replace('a.json', 'b.json')}['n'] < 9:\n    n = 2", False),
        (f"if len(data) < 9:\n    n = {READ}", False),
        (f"if len(data) < 9:\n    n = 2\nelif {READ}['n']:\n    n = 3", False),
        (f"for m in data:\n    n = {READ}", False),
    ],
)
def test_what_a_condition_or_a_loop_reads(read: str, waits: bool) -> None:
    before = script(imports="import json", after=f"{DUMP}\n{read}")
    lines = f"{GUARD}\n    {DUMP}\n" + f"{WAIT}\n" * waits + read
    assert converted(before) == lifted(imports="import json", after=lines)


@pytest.mark.parametrize(
    ("read", "waits"),
    [
        ('COCO().loadRes("a.npy")', True),
        ('COCO().loadRes("b.npy")', False),
        ('COCO().count("a.npy")', False),
    ],
)
def test_a_method_of_a_library_that_reads_a_file(read: str, waits: bool) -> None:
    slots = {"imports": f"{NUMPY}\nfrom pycocotools.coco import COCO"}
    after = f"{GUARD}\n    {SAVE}\n{WAIT}\n{read}" if waits else f"{GUARD}\n    {SAVE}\n{read}"
    assert converted(script(**slots, after=f"{SAVE}\n{read}")) == lifted(**slots, after=after)


def test_a_function_without_the_accelerator_waits_by_the_state_of_the_processes() -> None:
    definitions = f"def keep():\n    {SAVE}\n    {LOAD}"
    guarded = f"if PartialState().is_main_process:\n        {SAVE}"
    waiting = f"def keep():\n    {guarded}\n    PartialState().wait_for_everyone()\n    {LOAD}"
    slots = {"imports": NUMPY, "before": "keep()"}
    after = lifted(main=True, definitions=waiting, **slots)
    output = converted(script(main=True, definitions=definitions, **slots))
    assert output == after.replace("DataLoaderConfiguration\n", "DataLoaderConfiguration, PartialState\n", 1)


LISTING = """\
class Files(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.names = os.listdir(folder)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        return self.names[i]


class Own(ImageFolder):
    def __getitem__(self, i):
        return self.imgs[i]
"""
MOVE = 'os.rename("a/1", "b/1")'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f'{MOVE}\nfiles = Files("a")', f'{GUARD}\n    {MOVE}\n{WAIT}\nfiles = Files("a")'),
        (
            f'{MOVE}\nn = os.listdir("b")\nm = glob.glob("*")',
            f'{GUARD}\n    {MOVE}\n{WAIT}\nn = os.listdir("b")\nm = glob.glob("*")',
        ),
        (
            f'for n in range(2):\n    {MOVE}\nf = ImageFolder("a")',
            f'{GUARD}\n    for n in range(2):\n        {MOVE}\n{WAIT}\nf = ImageFolder("a")',
        ),
        (
            f"{MOVE}\nn = os.listdir('b')\n{MOVE}\nm = os.listdir('b')",
            f"{GUARD}\n    {MOVE}\n{WAIT}\nn = os.listdir('b')\n{GUARD}\n    {MOVE}\n{WAIT}\nm = os.listdir('b')",
        ),
        (f'{MOVE}\nfiles = Own("a")', f'{GUARD}\n    {MOVE}\n{WAIT}\nfiles = Own("a")'),
        # nothing has been moved before, or not every process comes here
        (f'files = Own("a")\n{MOVE}', f'files = Own("a")\n{GUARD}\n    {MOVE}'),
        (f'files = Files("a")\n{MOVE}', f'files = Files("a")\n{GUARD}\n    {MOVE}'),
        (f'{MOVE}\nif n:\n    files = Files("a")', f'{GUARD}\n    {MOVE}\nif n:\n    files = Files("a")'),
        (f"{MOVE}\nname = os.path.basename('a')", f"{GUARD}\n    {MOVE}\nname = os.path.basename('a')"),
    ],
)
def test_a_folder_that_is_listed_after_files_have_been_moved(before: str, after: str) -> None:
    slots = {"imports": "import glob\nimport os", "from_imports": "from torchvision.datasets import ImageFolder"}
    slots |= {"definitions": LISTING, "setup": "n = 0"}
    assert converted(script(**slots, after=before)) == lifted(**slots, after=after)


PUT = "np.save(os.path.join({}, '1.npy'), [1])"


@pytest.mark.parametrize(
    ("folder", "listed", "waits"),
    [
        ("out", "ImageFolder(out)", True),
        ("out", "os.listdir(os.path.join(out, 'train'))", True),
        ("out", "list(paths.list_images(out))", True),
        ("'out'", "glob.glob(os.path.join('out', '*'))", True),
        ("out", "ImageFolder(other)", False),
        ("'out'", "os.listdir('other')", False),
        ("out", "os.path.join(out, '1.npy')", False),
    ],
)
def test_a_folder_that_is_listed_after_files_have_been_written_into_it(folder: str, listed: str, waits: bool) -> None:
    slots = {"imports": f"import glob\nimport os\n{NUMPY}\nfrom imutils import paths"}
    slots |= {"from_imports": "from torchvision.datasets import ImageFolder", "setup": "out, other = 'a', 'b'"}
    put, found = PUT.format(folder), f"found = {listed}"
    waited = f"{GUARD}\n    {put}\n{WAIT}\n{found}" if waits else f"{GUARD}\n    {put}\n{found}"
    assert converted(script(**slots, after=f"{put}\n{found}")) == lifted(**slots, after=waited)
    early = f"{found}\n{GUARD}\n    {put}"
    assert converted(script(**slots, after=f"{found}\n{put}")) == lifted(**slots, after=early)


@pytest.mark.parametrize(
    ("keep", "call", "waits"),
    [
        (f"{SAVE}\n    {LOAD}", "keep()", True),
        (f"{SAVE}\n    {LOAD}", 'if not os.path.exists("a"):\n    keep()', False),
        (f'if not os.path.exists("a"):\n        {SAVE}\n        {LOAD}', "keep()", False),
        (f'MNIST("d", download=True)\n    {SAVE}\n    {LOAD}', "keep()", False),
    ],
)
def test_nobody_waits_where_not_all_processes_come_at_once(keep: str, call: str, waits: bool) -> None:
    slots = {"imports": f"import os\n{NUMPY}", "from_imports": "from torchvision.datasets import MNIST"}
    output = converted(script(main=True, definitions=f"def keep():\n    {keep}", before=call, **slots))
    assert ("wait_for_everyone" in output) is waits


# ---- folders that the main process makes, and every process logs into

LOGS = "import logging\nimport os\nimport shutil\nfrom pathlib import Path"
TO = "def log_to(path):\n    logging.getLogger().addHandler(logging.FileHandler(path))\n"


LIFTED_TO = """\
def log_to(path):
    logging.getLogger().addHandler(
        logging.FileHandler(path if accelerator.is_main_process else os.devnull)
    )
"""
LOGGED = "logging.basicConfig(filename=out + '/log.txt')"
LIFTED_LOGGED = "logging.basicConfig(filename=out + '/log.txt' if accelerator.is_main_process else os.devnull)"


@pytest.mark.parametrize(
    ("made", "logged"),
    [
        ("os.makedirs(out)", "logging.basicConfig(filename=out + '/log.txt')"),
        ("os.mkdir(out)", "log_to(os.path.join(out, 'log.txt'))"),
        ("Path(out).mkdir()", "path = out + '/log.txt'\nlog_to(path)"),
        ("shutil.rmtree(out)", "os.makedirs(out, exist_ok=True)"),
        ("os.makedirs(out)", "Path(out, 'a').mkdir(exist_ok=True)"),
    ],
)
def test_a_folder_is_there_before_every_process_logs_into_it(made: str, logged: str) -> None:
    slots = {"imports": LOGS, "definitions": TO, "setup": "out = 'runs'"}
    lines = logged.split("\n")
    waited = "\n".join([*lines[:-1], WAIT, lines[-1]])
    before = script(before=f"{made}\n{logged}", **slots)
    slots["definitions"] = LIFTED_TO if "log_to" in logged else TO
    assert converted(before).replace(LIFTED_LOGGED, LOGGED) == lifted(before=f"{GUARD}\n    {made}\n{waited}", **slots)


@pytest.mark.parametrize(
    "lines",
    [
        "os.makedirs(out)\nlog_to('log.txt')",
        "os.makedirs(out)\nother = 'logs'\nlog_to(other + '/log.txt')",
        "log_to(out + '/log.txt')\nos.makedirs(out)",
        "os.makedirs(out)\nlogging.basicConfig(level=logging.INFO)",
        "os.makedirs(out, exist_ok=True)\nlog_to(out + '/log.txt')",
        "os.makedirs(out)\nprint(out)",
        "os.makedirs(out)\nos.mkdir(out + '/a')",  # by the same process
        "os.makedirs(out)\nos.makedirs('b', exist_ok=True)",
    ],
)
def test_nobody_waits_for_a_folder_that_nobody_logs_into(lines: str) -> None:
    slots = {"imports": LOGS, "definitions": TO, "setup": "out = 'runs'"}
    assert WAIT not in converted(script(before=lines, **slots))


def test_a_function_that_makes_its_folder_and_logs_into_it_waits_in_between() -> None:
    both = "def log_in(out):\n    os.makedirs(out)\n    logging.basicConfig(filename=os.path.join(out, 'log.txt'))\n"
    after = converted(script(imports=LOGS, definitions=both, before="log_in('runs')", main=True))
    assert "        os.makedirs(out)\n    PartialState().wait_for_everyone()\n    logging" in after
    assert after.count("wait_for_everyone") == 1


@pytest.mark.parametrize(
    ("written", "waits"),
    [
        ("np.save(folder / path.name, np.zeros(3))", False),  # another folder's
        ('np.save(f"results/{path}.npy", np.zeros(3))', False),
        ('np.save("results/{}".format(path), np.zeros(3))', False),
        ("np.save(os.path.join(folder, path), np.zeros(3))", False),
        ('np.save(path.with_suffix(".npy"), np.zeros(3))', False),
        ("np.save(path, np.zeros(3))", True),
        ("np.save(str(path), np.zeros(3))", True),
        ("np.save(file=path, arr=np.zeros(3))", True),
        ('np.save(path / "a.npy", np.zeros(3))', True),  # where it may be a folder
        ('np.save(f"{path}/a.npy", np.zeros(3))', True),
        ('np.save(os.path.join(path, "a.npy"), np.zeros(3))', True),
    ],
)
def test_a_file_with_a_name_of_which_another_s_is_a_part(written: str, waits: bool) -> None:
    slots = {"imports": "import os\nfrom pathlib import Path\n\nimport numpy as np", "setup": "folder = Path('out')"}
    after = f'for path in Path("in").iterdir():\n    a = np.load(path)\n    {written}'
    assert (WAIT in converted(script(**slots, after=after))) is waits


@pytest.mark.parametrize(
    ("written", "read", "waits"),
    [
        ('out + "/a.npy"', 'os.path.join(out, "a.npy")', True),
        ('f"{out}/a.npy"', 'Path(out) / "a.npy"', True),
        ('"./a.npy"', '"a.npy"', True),
        ('"{}/{}.npy".format(out, n)', 'f"{out}/{n}.npy"', True),
        ('"%s/a.npy" % out', 'os.path.join("runs", "a.npy")', True),
        ('out + "/" + kind + ".npy"', 'out + "/" + other + ".npy"', True),  # may be the same
        ('out + "/a.npy"', 'os.path.join(out, "b.npy")', False),
        ('out + "/a.npy"', 'os.path.join(kind, "a.npy")', False),
        ('out + "/" + kind + ".npy"', 'out + "/" + other + "_2.npy"', False),
        ("kind", "other", False),
    ],
)
def test_a_file_that_is_named_in_other_words(written: str, read: str, waits: bool) -> None:
    setup = 'out, n = ("runs"), 1\nout = "runs"\nkind, other = sys.argv'
    slots = {"imports": f"import os\nimport sys\nfrom pathlib import Path\n\n{NUMPY}", "setup": setup}
    save, load = f"np.save({written}, np.zeros(3))", f"a = np.load({read})"
    after = f"{GUARD}\n    {save}\n" + f"{WAIT}\n" * waits + load
    assert converted(script(**slots, after=f"{save}\n{load}")) == lifted(**slots, after=after)


SAVED = 'torch.save(model.state_dict(), "model.pt")'
SAVES = 'accelerator.save(accelerator.unwrap_model(model).state_dict(), "model.pt")'


@pytest.mark.parametrize(
    ("line", "waits"),
    [
        ('size = os.path.getsize("model.pt")', True),
        ('size = os.stat("./model.pt").st_size', True),
        ('size = Path("model.pt").stat().st_size', True),
        ('size = Path("data.pt").stat().st_size', False),
        ('size = os.path.getsize("data.pt")', False),
        ('there = os.path.isdir("model.pt")', False),
        ('if len(data) < 9:\n    size = os.path.getsize("model.pt")', False),  # not every process need come here
    ],
)
def test_what_asks_for_a_checkpoint_that_was_saved(line: str, waits: bool) -> None:
    slots = {"imports": "import os\nfrom pathlib import Path"}
    after = f"{SAVES}\n" + f"{WAIT}\n" * waits + line
    assert converted(script(**slots, after=f"{SAVED}\n{line}")) == lifted(**slots, after=after)
    before = script(**slots, setup='size = os.path.getsize("model.pt")', after=SAVED)
    assert WAIT not in converted(before)


COUNT = 'k = int(open("count").read())'
KEEP = 'open("count", "w").write(str(k))'
ONCE = 'open("count" if accelerator.is_main_process else os.devnull, "w").write(str(k))'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{COUNT}\n{KEEP}", f"{COUNT}\n{WAIT}\n{ONCE}"),
        (f"{KEEP}\n{COUNT}", f"{ONCE}\n{WAIT}\n{COUNT}"),
        (
            f'{KEEP}\nif os.path.exists("count"):\n    {COUNT}',
            f'{ONCE}\n{WAIT}\nif os.path.exists("count"):\n    {COUNT}',
        ),
        (f"k = 2\n{KEEP}", f"k = 2\n{ONCE}"),
        (f'k = int(open("other").read())\n{KEEP}', f'k = int(open("other").read())\n{ONCE}'),
        (f"if k:\n    {COUNT}\nelse:\n    {KEEP}", f"if k:\n    {COUNT}\nelse:\n    {ONCE}"),
    ],
)
def test_a_file_that_goes_to_nowhere_on_the_others(before: str, after: str) -> None:
    slots = {"imports": "import os", "setup": "k = 0"}
    assert converted(script(**slots, after=before)) == lifted(**slots, after=after)


KEPT = """\
def keep(folder="out"):
    with open(os.path.join(folder, "notes", "a.json"), "w") as f:
        json.dump({}, f)


def again(folder="out"):
    path = os.path.join(folder, "notes")
    with open(os.path.join(path, "a.json")) as f:
        return json.load(f)


def other(folder="out"):
    return len(folder)


def of(args):
    with open(os.path.join(args.data, "b.json")) as f:
        return json.load(f)
"""


@pytest.mark.parametrize(
    ("write", "read"),
    [
        ("keep()", "again()"),
        ('keep("run")', 'again("run")'),
        ('keep(folder="run")', 'again("run")'),
        ('keep("out")', "again()"),
    ],
)
def test_functions_that_are_given_the_folder_alike_or_have_it_by_default(write: str, read: str) -> None:
    text = script(imports="import json\nimport os", definitions=KEPT, after=f"{write}\nnotes = {read}")
    assert f"{write}\naccelerator.wait_for_everyone()\nnotes = {read}" in converted(text)


@pytest.mark.parametrize(
    ("write", "read"),
    [
        ("keep()", 'again("old")'),
        ('keep("run")', "again()"),
        ("keep()", "other()"),
        ("other()", "again()"),
        ("keep(args.out)", "of(args)"),
    ],
)
def test_functions_of_other_folders(write: str, read: str) -> None:
    text = script(imports="import json\nimport os", definitions=KEPT, after=f"{write}\nnotes = {read}")
    assert "wait_for_everyone" not in converted(text)


@pytest.mark.parametrize(
    ("write", "read"),
    [
        ("path.write_text('1')", "path.read_text()"),
        ("(folder / 'n.txt').write_text('1')", "(folder / 'n.txt').read_text()"),
        ("path.write_bytes(b'1')", "path.read_bytes()"),
        ("with path.open('w') as f:\n    f.write('1')", "path.open().read()"),
    ],
)
def test_methods_of_a_path(write: str, read: str) -> None:
    made = 'folder = Path("notes")\npath = folder / "n.txt"'
    text = script(from_imports="from pathlib import Path", before=made, epoch_end=f"{write}\nnumber = int({read})")
    assert "accelerator.wait_for_everyone()" in added(text)
    other = script(from_imports="from pathlib import Path", before=f"{made}\nnumber = int({read})", epoch_end="pass")
    assert "accelerator.wait_for_everyone()" not in added(other)


@pytest.mark.parametrize("calls", ["restore()", "again = restore()"])
def test_a_lambda_that_reads_is_waited_for_where_it_is_called(calls: str) -> None:
    """It is made before the model is prepared, and called after the model has been saved."""
    make = 'restore = lambda: model.load_state_dict(torch.load("a.pt"))'
    save = 'torch.save(model.state_dict(), "a.pt")'
    text = script(
        optimizer=f"optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n{make}", after=f"{save}\n{calls}"
    )
    lines = added(text)
    assert 'restore = lambda: accelerator.unwrap_model(model).load_state_dict(torch.load("a.pt"))' in lines
    assert f"{WAIT}\n{calls}" in converted(text)
    assert converted(text).count(WAIT) == 1


def test_lambdas_that_call_each_other_run_where_others_call_them() -> None:
    make = "even = lambda n: odd(n - 1) if n else model.layer\nodd = lambda n: even(n - 1) if n else model.layer"
    text = script(optimizer=f"optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n{make}", after="print(even(3))")
    assert converted(text).count("else accelerator.unwrap_model(model).layer") == 2


def test_what_a_lambda_has_by_default_is_worked_out_where_it_is_made() -> None:
    make = "restore = lambda s=copy.deepcopy(model.state_dict()): model.load_state_dict(s)"
    text = script(
        imports="import copy",
        optimizer=f"optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n{make}",
        after="restore()",
    )
    assert "lambda s=copy.deepcopy(model.state_dict()): accelerator.unwrap_model(" in converted(text)


def test_a_lambda_that_is_called_before_the_model_is_prepared_reads_it_as_it_is() -> None:
    make = "count = lambda: sum(p.numel() for p in model.layer.parameters())\nprint(count())"
    assert "count = lambda: sum(p.numel() for p in model.layer.parameters())" in converted(
        script(optimizer=f"{make}\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)")
    )


RESTORE = "restore = lambda: torch.load('net.pt')"
SAVES_NET = "torch.save(model.state_dict(), 'net.pt')"


@pytest.mark.parametrize("condition", ["if os.path.exists('net.pt'):", "if torch.cuda.is_available():"])
def test_a_lambda_that_reads_is_called_on_a_condition(condition: str) -> None:
    after = f"{condition}\n    model.load_state_dict(restore())"
    output = converted(script(imports="import os", before=RESTORE, epoch_end=SAVES_NET, after=after))
    assert f"\n{WAIT}\n{condition}\n" in output and output.count(WAIT) == 1


def test_a_lambda_that_calls_a_lambda_that_reads() -> None:
    before = f"{RESTORE}\nget = lambda: restore()['layer.bias']"
    output = converted(script(before=before, epoch_end=SAVES_NET, after="bias = get()"))
    assert f"\n{WAIT}\nbias = get()" in output and output.count(WAIT) == 1


def test_a_lambda_that_some_processes_call() -> None:
    end = f"if loss.item() > 5:\n    {SAVES_NET}\n    restore()"
    text = script(before=RESTORE, batch_end=end)
    assert WAIT not in converted(text) and "READ-EARLY" in findings(text)


@pytest.mark.parametrize(
    "best", ["def best():\n    return torch.load('net.pt')['layer.bias']", RESTORE.replace("restore", "best")]
)
def test_what_the_main_process_alone_calls_does_not_wait(best: str) -> None:
    tracks = {
        "from_imports": "from torch.utils.tensorboard import SummaryWriter",
        "definitions": best,
        "before": "writer = SummaryWriter('runs')",
    }
    logged = f"{SAVES_NET}\nwriter.add_histogram('bias', best(), epoch)"
    output = converted(script(**tracks, epoch_end=logged))
    assert f"return {WAIT}" not in output and f"    {WAIT}\n    return" not in output
    also = converted(script(**tracks, epoch_end=f"{logged}\nbias = best()"))
    assert f"\n    {WAIT}\n    bias = best()" in also and f"    {WAIT}\n    return" not in also


def test_a_function_that_reads_and_calls_itself() -> None:
    load = "def load(n=2):\n    if n:\n        return load(n - 1)\n    return torch.load('net.pt')"
    output = converted(script(definitions=load, epoch_end=f"{SAVES_NET}\nstate = load()"))
    assert output.count(WAIT) == 1
