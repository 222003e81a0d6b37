"""CACHE: a file that is made because it is missing is made by the main process, and found by the others."""

from __future__ import annotations

import textwrap

import pytest
from scripts import converted, findings, lifted, script

FIRST = "with accelerator.main_process_first():"
IMPORTS = "import os\nimport pathlib\nimport pickle\nimport zipfile\nimport urllib.request\nimport numpy as np"
MADE = "data = TensorDataset(made, torch.arange(64) % 3)"
HELPERS = """\
def build():
    return torch.arange(512.0).view(64, 8)


class Cached(torch.utils.data.Dataset):
    def __init__(self, path="cache.pt"):
        if not os.path.exists(path):
            torch.save(build(), path)
        self.x = torch.load(path)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], i % 3


def get(path):
    if os.path.exists(path):
        return torch.load(path)
    made = build()
    torch.save(made, path)
    return made
"""
SCRIPT = {"imports": IMPORTS, "definitions": HELPERS}
LOAD = "torch.load('cache.pt')"
SAVE = "torch.save(made, 'cache.pt')"


def first(statement: str) -> str:
    return f"{FIRST}\n{textwrap.indent(statement, '    ')}"


@pytest.mark.parametrize(
    ("making", "rest"),
    [
        ("if not os.path.exists('cache.pt'):\n    torch.save(build(), 'cache.pt')", f"made = {LOAD}\n"),
        (f"if os.path.exists('cache.pt'):\n    made = {LOAD}\nelse:\n    made = build()\n    {SAVE}", ""),
        (f"if not pathlib.Path('cache.pt').exists():\n    made = build()\n    {SAVE}", f"made = {LOAD}\n"),
        (f"try:\n    made = {LOAD}\nexcept FileNotFoundError:\n    made = build()\n    {SAVE}", ""),
        (
            "if os.path.isfile('cache.pkl'):\n    with open('cache.pkl', 'rb') as file:\n"
            "        made = pickle.load(file)\nelse:\n    made = build()\n"
            "    with open('cache.pkl', 'wb') as file:\n        pickle.dump(made, file)",
            "",
        ),
        (
            "if not os.path.isfile('cache.npy'):\n    np.save('cache.npy', build().numpy())",
            "made = torch.from_numpy(np.load('cache.npy'))\n",
        ),
        ("if not os.path.exists('raw'):\n    zipfile.ZipFile('raw.zip').extractall('raw')", "made = build()\n"),
        ("made = get('cache.pt')", ""),
    ],
)
def test_what_makes_a_missing_file(making: str, rest: str) -> None:
    before = script(**SCRIPT, data=f"{making}\n{rest}{MADE}")
    after = lifted(**SCRIPT, data=f"{first(making)}\n{rest}{MADE}")
    assert converted(before) == after
    assert findings(before) == []


def test_a_data_set_that_makes_its_file() -> None:
    assert converted(script(**SCRIPT, data="data = Cached()")) == lifted(**SCRIPT, data=first("data = Cached()"))


@pytest.mark.parametrize(
    "kept",
    [
        f"made = {LOAD} if os.path.exists('cache.pt') else build()",
        f"if os.path.exists('cache.pt'):\n    made = {LOAD}\nelse:\n    made = build()",
        f"try:\n    made = {LOAD}\nexcept FileNotFoundError:\n    made = build()",
        "made = build()\nif len(made) > 99:\n    made = made[:99]",
    ],
)
def test_what_makes_no_file_stays(kept: str) -> None:
    slots = {**SCRIPT, "data": f"{kept}\n{MADE}"}
    assert converted(script(**slots)) == lifted(**slots)


def test_a_folder_is_made_by_each_process() -> None:
    output = converted(script(**SCRIPT, setup="if not os.path.exists('out'):\n    os.makedirs('out')"))
    assert "os.makedirs('out', exist_ok=True)" in output
    assert FIRST not in output


def test_a_checkpoint_that_training_saves_once_is_saved_as_ever() -> None:
    once = "if not os.path.exists('{0}.pt'):\n    torch.save(model.state_dict(), '{0}.pt')"
    output = converted(script(**SCRIPT, epoch_end=once.format("first"), after=once.format("last")))
    assert FIRST not in output
    assert output.count("accelerator.save(") == 2


def test_what_trains_if_a_file_is_missing_is_run_by_all() -> None:
    train = "if not os.path.exists('m.pt'):\n    for x, y in loader:\n        F.cross_entropy(model(x), y).backward()\n"
    output = converted(script(**SCRIPT, before=f"{train}    torch.save(model.state_dict(), 'm.pt')"))
    assert FIRST not in output


def test_one_wait_for_what_is_fetched_and_made() -> None:
    """Inside each other they would wait for ever."""
    fetch = "urllib.request.urlretrieve('http://a', 'raw.zip')"
    making = f"if not os.path.exists('cache.pt'):\n    {fetch}\n    torch.save(build(), 'cache.pt')"
    output = converted(script(**SCRIPT, data=f"{making}\nmade = {LOAD}\n{MADE}"))
    assert output.count(FIRST) == 1
    assert first(making) in output
    both = f"if not os.path.exists('raw.zip'):\n    {fetch}\n    made = get('cache.pt')"
    assert converted(script(**SCRIPT, data=f"{both}\nmade = {LOAD}\n{MADE}")).count(FIRST) == 1


def test_a_buffer_in_memory_is_no_file() -> None:
    save = (
        "if not os.path.exists('cache.pt'):\n    buffer = io.BytesIO()\n    torch.save(build(), buffer)\nmade = build()"
    )
    slots = {**SCRIPT, "imports": f"{IMPORTS}\nimport io", "data": f"{save}\n{MADE}"}
    assert converted(script(**slots)) == lifted(**slots)


def test_without_the_rule_it_is_reported() -> None:
    text = script(**SCRIPT, data="made = get('cache.pt')\n" + MADE)
    assert findings(text, ignore=("CACHE",)) == ["SAVE-RACE"]


def test_a_log_that_nothing_reads_is_the_main_process_s_alone() -> None:
    log = "if not os.path.exists('log.csv'):\n    with open('log.csv', 'w') as file:\n        file.write('loss')"
    output = converted(script(**SCRIPT, before=log))
    assert FIRST not in output and "is_main_process" in output
    read = f"{log}\nwith open('log.csv') as file:\n    made = file.read()"
    assert FIRST in converted(script(**SCRIPT, before=read))


PARTS = """\
def split(name):
    if not os.path.exists(f"out/{{name}}_train.csv"):
        with open(f"out/{{name}}_train.csv", "w") as file:
            file.write("1, 2")
    for part in ["train", "val"]:
        with open(f"out/{{name}}_{{part}}.{ending}") as file:
            print(file.read())"""


def test_a_file_that_is_read_by_another_spelling_is_made_first() -> None:
    text = script(**SCRIPT | {"definitions": PARTS.format(ending="csv")}, before="split('a')")
    assert FIRST in converted(text) and "is_main_process" not in converted(text)
    other = script(**SCRIPT | {"definitions": PARTS.format(ending="txt")}, before="split('a')")
    assert FIRST not in converted(other) and "is_main_process" in converted(other)


def test_where_it_is_not_known_who_asks_it_is_told_of() -> None:
    text = script(**SCRIPT | {"definitions": PARTS.format(ending="csv")}, before="list(map(split, ['a']))")
    assert findings(text) == ["CACHE-RACE"] and "is_main_process" not in converted(text)


OWN = """\
class Kept(torch.utils.data.Dataset):
    def __init__(self, path="kept.pt", make=True):
        self.path = path
        {test}
            self.make()
        self.x = torch.load(self.path)

    {there}

    def make(self):
        torch.save(torch.arange(512.0).view(64, 8), self.path)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], i % 3
"""
IS_THERE = "if not self.is_there():"


@pytest.mark.parametrize(
    ("test", "there"),
    [
        (IS_THERE, "def is_there(self):\n        return os.path.exists(self.path)"),
        (IS_THERE, "def is_there(self):\n        return all(os.path.isfile(p) for p in [self.path])"),
        (
            IS_THERE,
            "def is_there(self):\n        for path in [self.path]:\n            if not os.path.exists(path):\n"
            "                return False\n        return True",
        ),
        (IS_THERE, "def is_there(self):\n        found = os.path.exists(self.path)\n        return found"),
        (IS_THERE, "def is_there(self):\n        return pathlib.Path(self.path).is_file()"),
        (
            "if not make or not self.is_there:",
            "@property\n    def is_there(self):\n        return os.path.isfile(self.path)",
        ),
        (IS_THERE, "def is_there(self):\n        return self.path in os.listdir('.') and len(self.path) > 1"),
        (IS_THERE, "def is_there(self):\n        return there(self.path)"),
        ("if not there(path):", "other = 1"),
    ],
)
def test_a_method_that_asks(test: str, there: str) -> None:
    function = "def there(path):\n    return os.path.exists(path)"
    slots = {"imports": IMPORTS, "definitions": f"{function}\n\n\n{OWN.format(test=test, there=there)}"}
    before = script(**slots, data="data = Kept()")
    assert converted(before) == lifted(**slots, data=first("data = Kept()"))
    assert findings(before) == []


@pytest.mark.parametrize(
    ("test", "there"),
    [
        (IS_THERE, "def is_there(self):\n        return len(self.path) > 99"),
        (IS_THERE, "def is_there(self):\n        return sum(map(len, os.listdir('.'))) + 1"),
        (IS_THERE, "def is_there(self):\n        os.path.exists(self.path)\n        return False"),
        ("if not self.is_there:", "is_there = False"),
        ("if not self.is_there:", "@property\n    def is_there(self):\n        return self.path == os.environ['KEPT']"),
        ("if make:", "def is_there(self):\n        return os.path.exists(self.path)"),
    ],
)
def test_a_method_that_asks_nothing(test: str, there: str) -> None:
    slots = {"imports": IMPORTS, "definitions": OWN.format(test=test, there=there)}
    assert FIRST not in converted(script(**slots, data="data = Kept()"))


def test_what_is_made_elsewhere_without_asking() -> None:
    there = "def is_there(self):\n        return os.path.exists(self.path)"
    slots = {"imports": IMPORTS, "definitions": OWN.format(test=IS_THERE, there=there)}
    assert FIRST not in converted(script(**slots, data="data = Kept()\ndata.make()"))


@pytest.mark.parametrize(("given", "makes"), [("'a.pt'", True), ("'a.pt', make=False", False), ("make=1 > 0", True)])
def test_a_data_set_that_is_told_not_to_make_its_file(given: str, makes: bool) -> None:
    there = "def is_there(self):\n        return os.path.exists(self.path)"
    slots = {"imports": IMPORTS, "definitions": OWN.format(test="if make and not self.is_there():", there=there)}
    output = converted(script(**slots, data=f"data = Kept()\nother = Kept({given})"))
    assert (first(f"data = Kept()\nother = Kept({given})") in output) is makes
    assert (f"\nother = Kept({given})" in output) is not makes


ENDS = """\
class Fetched(torch.utils.data.Dataset):
    def __init__(self, path="cache.pt"):
        self.path = path
        self.fetch()
        self.x = torch.load(path)

    def is_there(self):
        return os.path.exists(self.path)

    def fetch(self):
        if {}:
            return
        {}

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], i % 3
"""


@pytest.mark.parametrize("test", ["self.is_there()", "os.path.isfile(self.path)", "not self.path or self.is_there()"])
@pytest.mark.parametrize("made", ["torch.save(build(), self.path)", "zipfile.ZipFile('raw.zip').extractall('raw')"])
def test_a_method_that_ends_where_the_file_is_there(test: str, made: str) -> None:
    slots = {"imports": IMPORTS, "definitions": f"{HELPERS}\n\n{ENDS.format(test, made)}"}
    before = script(**slots, data="data = Fetched()")
    assert converted(before) == lifted(**slots, data=first("data = Fetched()"))
    assert findings(before) == []


BRINGS = [
    "os.system('wget http://a/raw.zip')",
    "subprocess.run(['unzip', 'raw.zip'])",
    "shutil.copytree('/data', 'raw')",
    "os.mknod('raw')",
    "shutil.move('/data', 'raw')",
    "zipfile.ZipFile('raw.zip').extract('a', 'raw')",
    "with zipfile.ZipFile('raw.zip') as archive:\n        archive.extract('a', 'raw')",
    "with open('raw.zip', 'wb') as file:\n        file.write(urllib.request.Request('http://a').data)",
]
BRING = {**SCRIPT, "imports": f"{IMPORTS}\nimport shutil\nimport subprocess"}


@pytest.mark.parametrize("brings", BRINGS)
@pytest.mark.parametrize("test", ["not os.path.exists('raw')", "'raw' not in os.listdir('.')", "not os.listdir('raw')"])
def test_what_brings_missing_files(brings: str, test: str) -> None:
    making = f"if {test}:\n    {brings}"
    before = script(**BRING, data=f"{making}\nmade = build()\n{MADE}")
    assert converted(before) == lifted(**BRING, data=f"{first(making)}\nmade = build()\n{MADE}")
    assert findings(before) == []


@pytest.mark.parametrize(
    ("opened", "written"),
    [
        ("lmdb.open('raw')", "made.begin(write=True).put(b'a', b'b')"),
        ("np.memmap('raw', 'float32', 'w+', shape=(2,))", "made[0] = 1"),
        ("sqlite3.connect('raw')", "made.execute('create table a (b int)')"),
    ],
)
def test_a_store_that_is_missing(opened: str, written: str) -> None:
    slots = {**BRING, "imports": f"{BRING['imports']}\nimport lmdb\nimport sqlite3"}
    making = f"if not os.path.exists('raw'):\n    made = {opened}\n    {written}"
    before = script(**slots, data=f"{making}\nmade = build()\n{MADE}")
    assert converted(before) == lifted(**slots, data=f"{first(making)}\nmade = build()\n{MADE}")
    assert findings(before) == []


def test_what_brings_files_where_reading_finds_none() -> None:
    making = "if os.path.isdir('raw'):\n    made = build()\nelse:\n    os.system('wget http://a')\n    made = build()"
    before = script(**BRING, data=f"{making}\n{MADE}")
    assert converted(before) == lifted(**BRING, data=f"{first(making)}\n{MADE}")
    function = "def bring(path):\n    if os.path.exists(path):\n        return\n    os.system('wget http://a')"
    slots = {**BRING, "definitions": f"{HELPERS}\n\n{function}"}
    call = "bring('raw')"
    before = script(**slots, data=f"{call}\nmade = build()\n{MADE}")
    assert converted(before) == lifted(**slots, data=f"{first(call)}\nmade = build()\n{MADE}")


@pytest.mark.parametrize(
    ("brings", "expected"),
    [
        ("if os.path.exists('raw'):\n    shutil.move('raw', 'old')", []),
        ("if os.path.exists('raw'):\n    os.system('rm -r raw')", ["COMMAND-ALL"]),
        ("if len(os.listdir('raw')) > 9:\n    os.system('rm -r raw')", ["COMMAND-ALL"]),
        ("os.system('wget http://a/raw.zip')", ["COMMAND-ALL"]),
        ("if len(data_names) > 3:\n    subprocess.run(['unzip', 'raw.zip'])", ["COMMAND-ALL"]),
        ("archive = zipfile.ZipFile('raw.zip')\narchive.extract('a', 'raw')", ["SAVE-RACE"]),
        ("found = other.extract('a', 'raw')", []),
    ],
)
def test_what_is_not_done_because_files_are_missing(brings: str, expected: list[str]) -> None:
    """What is moved out of the way would be moved again by the others, when there is another in its place."""
    setup = "data_names = ['a']\nother = build"
    before = script(**BRING, setup=setup, data=f"{brings}\nmade = build()\n{MADE}")
    assert FIRST not in converted(before)
    assert findings(before) == expected


@pytest.mark.parametrize("test", ["not self.is_there()", "len(self.path) > 99"])
def test_a_method_that_ends_for_another_reason(test: str) -> None:
    slots = {"imports": IMPORTS, "definitions": f"{HELPERS}\n\n{ENDS.format(test, 'torch.save(build(), self.path)')}"}
    before = script(**slots, data="data = Fetched()")
    assert FIRST not in converted(before)
    assert "SAVE-RACE" in findings(before)


SEED = "torch.manual_seed(0)\nnp.random.seed(0)"
ORDER = "torch.save(torch.randperm(64), 'order.pt')"
MAKES = "if not os.path.exists('order.pt'):\n    {}\norder = torch.load('order.pt')\n"
PICKED = "data = torch.utils.data.Subset(data, torch.randperm(64)[:32].tolist())"
DRAWS = """\
def order():
    return torch.randperm(64)


class Drawn(Cached):
    def __init__(self):
        if not os.path.exists("drawn.pt"):
            torch.save(torch.randn(64, 8), "drawn.pt")
        self.x = torch.load("drawn.pt")


def found():
    if os.path.exists("order.npy"):
        return np.load("order.npy")
    made = np.random.permutation(64)
    np.save("order.npy", made)
    return made
"""


def uneven(making: str, after: str, seed: str = SEED) -> bool:
    """Whether the draws of what makes a file are reported, once."""
    base = "data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)"
    text = script(imports=IMPORTS, definitions=f"{HELPERS}\n\n{DRAWS}", setup=seed, data=f"{base}\n{making}\n{after}")
    codes = findings(text)
    assert codes.count("CACHE-RNG") <= 1
    return "CACHE-RNG" in codes


@pytest.mark.parametrize(
    ("making", "after"),
    [
        (MAKES.format(ORDER), PICKED),
        (MAKES.format("torch.save(order(), 'order.pt')"), PICKED),
        (MAKES.format("torch.save([nn.Linear(8, 8)(x) for x, y in data], 'order.pt')"), PICKED),
        (MAKES.format("torch.save([x for x, y in DataLoader(data)], 'order.pt')"), PICKED),
        (MAKES.format("torch.manual_seed(3)\n    torch.save(build(), 'order.pt')"), PICKED),
        (MAKES.format(ORDER), "data, rest = torch.utils.data.random_split(data, [48, 16])"),
        ("", "data, rest = torch.utils.data.random_split(Drawn(), [48, 16])"),
        ("other = Drawn()", PICKED),
        ("made = found()", "data = torch.utils.data.Subset(data, np.random.choice(made, 32))"),
    ],
)
def test_what_draws_only_if_a_file_is_missing(making: str, after: str) -> None:
    assert uneven(making, after)


@pytest.mark.parametrize(
    ("making", "after"),
    [
        (MAKES.format("torch.save(build(), 'order.pt')"), PICKED),
        (MAKES.format(ORDER), ""),  # networks and the order of a loader are those of the main process
        (PICKED, MAKES.format(ORDER)),
        (MAKES.format(ORDER), f"torch.manual_seed(1)\n{PICKED}"),
        (MAKES.format(ORDER), "data = torch.utils.data.Subset(data, np.random.permutation(64)[:32])"),
        (MAKES.format(ORDER), "data, rest = torch.utils.data.random_split(data, [48, 16], torch.Generator())"),
        (MAKES.format(f"with torch.random.fork_rng():\n        {ORDER}"), PICKED),
        (MAKES.format(ORDER.replace("64", "64, generator=torch.Generator()")), PICKED),
        ("made = torch.randperm(64)", PICKED),
    ],
)
def test_what_draws_alike(making: str, after: str) -> None:
    assert not uneven(making, after)


def test_what_is_not_seeded_is_reported_as_that() -> None:
    assert not uneven(MAKES.format(ORDER), PICKED, seed="")


FETCH = """\
def fetch(name):
    path = os.path.join('cache', name)
    if not os.path.exists(path):
        with open(path, '{}') as file:
            file.write(urllib.request.urlopen(name).read())
    return {}
"""


@pytest.mark.parametrize(
    ("mode", "returned", "call", "expected"),
    [
        ("wb", "path", "fetch('a')", (True, False, [])),
        ("wb", "name, path", "fetch('a')[1]", (True, False, [])),
        ("wb", "path", "next(map(fetch, ['a']))", (False, False, ["CACHE-RACE"])),  # not known to be called there
        ("w", "name", "fetch('a')", (False, True, [])),  # a text that nothing reads
        ("wb", "name", "fetch('a')", (True, False, [])),  # which is no log
    ],
)
def test_a_missing_file_that_is_made_for_callers(
    mode: str, returned: str, call: str, expected: tuple[bool, bool, list[str]]
) -> None:
    slots = {**SCRIPT, "definitions": FETCH.format(mode, returned), "data": f"made = torch.load({call})\n{MADE}"}
    output = converted(script(**slots))
    assert (FIRST in output, "if accelerator.is_main_process:" in output, findings(script(**slots))) == expected


BEGIN = "with open('runs/begin.txt', 'w') as f:\n        f.write('x')"


@pytest.mark.parametrize("make", ["os.makedirs('runs')", "os.mkdir('runs')"])
def test_a_file_beside_what_makes_a_missing_folder(make: str) -> None:
    """A process that was faster would have made the folder, and the main process would write nothing into it."""
    setup = f"if not os.path.exists('runs'):\n    {make}\n    {BEGIN}"
    first = setup.replace(make, "os.makedirs('runs', exist_ok=True)")
    text = converted(script(imports="import os", before=setup))
    assert "with accelerator.main_process_first():\n" + textwrap.indent(first, "    ") in text


@pytest.mark.parametrize(
    "fill",
    [
        "open('runs/begin.txt', 'w').write('x')",
        "begin = open('runs/begin.txt', 'w')\n    begin.write('x')\n    begin.close()",
    ],
)
def test_a_missing_folder_is_filled_by_the_process_that_makes_it(fill: str) -> None:
    setup = f"if not os.path.exists('runs'):\n    os.makedirs('runs')\n    {fill}"
    first = setup.replace("('runs')\n", "('runs', exist_ok=True)\n")
    assert "with accelerator.main_process_first():\n" + textwrap.indent(first, "    ") in converted(
        script(imports="import os", before=setup)
    )


def test_a_file_in_a_missing_folder_that_is_kept_open_is_opened_by_all() -> None:
    setup = "if not os.path.exists('runs'):\n    os.makedirs('runs')\n    log = open('runs/log.txt', 'w')"
    text = converted(script(imports="import os", before=setup, after="log.write('x')"))
    assert FIRST not in text and "if accelerator.is_main_process else os.devnull" in text


FREE = """\
def fresh(root):
    for n in range(1000):
        path = f"{{root}}/{{n}}"
        if not os.path.exists(path):
            os.makedirs(path)
            with open(f"{{path}}/{name}", "w") as f:
                f.write("x")
            {ends}
    return path
"""


@pytest.mark.parametrize(
    ("ends", "first"),
    [("break", False), ("return path", False), ("print(path)", True)],  # makes all that are missing
)
def test_the_next_free_folder_is_no_file_that_the_others_find(ends: str, first: bool) -> None:
    """The others would find the one that the main process has made, and take another."""
    slots = {"imports": "import os", "definitions": FREE.format(name="log.txt", ends=ends)}
    output = converted(script(**slots, setup="out = fresh('runs')"))
    assert (FIRST in output) == first


@pytest.mark.parametrize(
    "setup",
    [
        f"if not os.path.exists('runs'):\n    os.makedirs('runs')\n{textwrap.dedent(BEGIN.replace('    ', ''))}",
        f"if not os.path.exists('runs/begin.txt'):\n    {BEGIN}",
    ],
)
def test_a_file_beside_no_folder_is_the_main_process_s_alone(setup: str) -> None:
    setup = setup.replace("f:\nf.", "f:\n    f.")
    text = converted(script(imports="import os", before=setup))
    assert "main_process_first" not in text and "if accelerator.is_main_process:" in text


FITS = """\
class Fit:
    def __init__(self, path):
        self.model = Net()
        self.loader = DataLoader(TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3), batch_size=16)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        {loads}self.load(path)

    def load(self, path):
        if os.path.exists(path):
            self.model.load_state_dict(torch.load(path))
        else:
            {trains}
            torch.save(self.model.state_dict(), path)
{method}
"""
PASS = """\
for x, y in self.loader:
    self.optimizer.zero_grad()
    F.cross_entropy(self.model(x), y).backward()
    self.optimizer.step()
"""
METHOD = f"\n    def train(self):\n{textwrap.indent(PASS, ' ' * 8)}"


@pytest.mark.parametrize(
    ("loads", "trains", "method"),
    [
        ("", "self.train()", METHOD),
        ("", textwrap.indent(PASS, " " * 12).strip(), ""),
        ("self.is_there = ", "for epoch in range(2):\n                self.train()", METHOD),
    ],
)
def test_what_training_makes_is_made_by_all_and_saved_by_one(loads: str, trains: str, method: str) -> None:
    slots = {"imports": "import os", "definitions": FITS.format(loads=loads, trains=trains, method=method)}
    text = script(**slots, **dict.fromkeys(("data", "loader", "model", "optimizer", "epochs", "loop"), ""), **BARE)
    output = converted(text)
    assert FIRST.split(".")[1] not in output
    assert "self.accelerator.save(" in output
    assert findings(text) == ["DEV-CPU"]


BARE = {**dict.fromkeys(("device", "move", "forward", "backward", "step"), ""), "after": "fit = Fit('net.pt')"}
