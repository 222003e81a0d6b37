"""Side effects: on the main process only, and never around what all processes do together."""

from __future__ import annotations

import textwrap

import pytest
from scripts import convert, converted, findings, lifted, script, severities

GUARD = "if accelerator.is_main_process:"
OS = "import os"
OPENED = "from accelift import Accelerator, DataLoaderConfiguration"


def guarded(code: str) -> str:
    """Code under the guard."""
    return f"{GUARD}\n    " + code.replace("\n", "\n    ")


BETWEEN = "def keep(n):\n    os.mkdir('a')\n    {between}\n    os.mkdir('b')\n    os.mkdir({name})\n    {last}"


@pytest.mark.parametrize(
    "between",
    ["name = str(n)", "name = 'c'  # the third", "name = [i for i in range(n + 1)][-1] if n else os.path.join('c')"],
)
def test_what_only_guarded_statements_need_goes_with_them(between: str) -> None:
    before = BETWEEN.format(between=between, name="name", last="return n")
    lines = "\n".join(f"        {line.strip()}" for line in before.splitlines()[1:-1])
    after = f"def keep(n):\n    {GUARD}\n{lines}\n    return n"
    slots = {"imports": OS, "before": "keep(3)"}
    assert converted(script(definitions=before, **slots)) == lifted(definitions=after, **slots)


@pytest.mark.parametrize(
    ("between", "name", "last"),
    [
        ("name = str(n)", "name", "return name"),  # every process needs it
        ("name = input()", "name", "return n"),  # and does this
        ("n = name = str(n)", "name", "return n"),
        ("name = str(n)", "'c'", "name = str(name)"),
        ("print(n)", "str(n)", "return n"),
    ],
)
def test_what_others_need_or_do_stays_between_them(between: str, name: str, last: str) -> None:
    before = BETWEEN.format(between=between, name=name, last=last)
    output = converted(script(imports=OS, definitions=before, before="keep(3)"))
    assert output.count(f"    {GUARD}\n") == 2


@pytest.mark.parametrize(
    ("imports", "line"),
    [
        (OS, 'os.makedirs("out")'),
        (OS, 'os.makedirs("out", exist_ok=False)'),
        (OS, 'os.mkdir("out")'),
        (OS, 'os.remove("old")'),
        (OS, 'os.rename("a", "b")'),
        (OS, 'os.mknod("a")'),
        ("import os as system", 'system.makedirs("out")'),
        ("from os import makedirs", 'makedirs("out")'),
        ("import shutil", 'shutil.rmtree("out", ignore_errors=True)'),
        ("import shutil", 'shutil.copyfile("a", "b")'),
        ("import matplotlib.pyplot as plt", 'plt.savefig("a.png")'),
        ("import matplotlib.pylab as plt", 'plt.imsave("a.png", [[1]])'),
        ("import pylab", 'pylab.savefig("a.png")'),
        ("import matplotlib.pyplot as plt", "plt.show()"),
        ("import numpy as np", 'np.save("a.npy", np.zeros(3))'),
        ("import torchvision.utils as u", 'u.save_image(torch.zeros(3, 4, 4), "a.png")'),
        ("import matplotlib.image as image", "image.imsave('a.png', [[0.0]])"),
        ("import imageio", "imageio.mimwrite('a.mp4', [], fps=30)"),
        ("import imageio.v2 as imageio", "imageio.volwrite('a.tif', [])"),
        ("import mcubes", "mcubes.export_obj([], [], 'a.obj')"),
        ("import pandas as pd", 'pd.DataFrame([1]).to_csv("a.csv")'),
        ("import transformers", 'transformers.BertTokenizer("vocab.txt").save_vocabulary("out")'),
        ("import sys", 'sys.stdout.write("x")'),
        ("import json", 'json.dump({}, open("a.json", "w"))'),
        ("import zipfile", "with zipfile.ZipFile('a.zip', 'w') as f:\n    f.write('a')"),
        ("import imageio", "with imageio.get_writer('a.gif') as f:\n    f.append_data([])"),
        ("import pandas as pd", "with pd.ExcelWriter('a.xlsx') as f:\n    pd.DataFrame([1]).to_excel(f)"),
        ("import shelve", "with shelve.open('a') as f:\n    f['a'] = 1"),
        ("import h5py", "with h5py.File('a.h5', 'w') as f:\n    f.create_dataset('a', data=[1])"),
        ("import gzip\nimport pickle", "pickle.dump({}, gzip.open('a.gz', 'wb'))"),
        ("import joblib", "joblib.dump({}, 'a.pkl')"),
        ("import yaml", "yaml.safe_dump({}, open('a.yaml', 'w'))"),
        ("import spectral", "spectral.save_rgb('a.jpg', [])"),
        ("from medpy.io import save", "save([], 'a.nii')"),
        ("import SimpleITK as sitk", "sitk.WriteImage(sitk.Image(), 'a.nii')"),
        ("import xml.etree.ElementTree as ET", "ET.ElementTree(ET.Element('a')).write('a.xml')"),
        ("import pandas as pd", "pd.DataFrame([1]).to_feather('a')"),
        ("", "torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2)).save('a.pt')"),
        (OS, 'os.makedirs(\n    "out",  # here\n    exist_ok=False,\n)'),
    ],
)
def test_side_effects(imports: str, line: str) -> None:
    assert converted(script(imports=imports, before=line)) == lifted(imports=imports, before=guarded(line))
    assert findings(script(imports=imports, before=line)) == []


@pytest.mark.parametrize(
    ("imports", "line", "codes"),
    [
        (OS, 'os.system("tar -xf data.tar")', ["COMMAND-ALL"]),
        ("import subprocess", 'subprocess.run(["tar", "-xf", "data.tar"], check=True)', ["COMMAND-ALL"]),
        ("from subprocess import call", 'call("./get.sh")', ["COMMAND-ALL"]),
        ("import subprocess", 'commit = subprocess.run(["git", "log"], capture_output=True)', []),  # asked, not told
        ("import subprocess", 'commit = subprocess.check_output(["git", "log"])', []),
        ("", "system('x')", []),
        ("import tarfile", "tarfile.open('a.tgz', 'r:gz').extractall('raw')", ["SAVE-RACE"]),
        ("import zipfile", "with zipfile.ZipFile('a') as f:\n    f.extractall()", ["SAVE-RACE"]),
        ("import shutil", "shutil.unpack_archive('a.zip')", ["SAVE-RACE"]),
        ("import tarfile", "names = tarfile.open('a.tgz').getnames()", []),
        ("from elsewhere import pack", "pack.extractall()", []),
    ],
)
def test_commands_are_left_and_reported(imports: str, line: str, codes: list[str]) -> None:
    slots = {"imports": imports, "before": line, "definitions": "" if imports else "def system(name):\n    pass"}
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == codes


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'os.mkdir("a")\n# the second\nos.mkdir("b")',
            guarded('os.mkdir("a")\n# the second\nos.mkdir("b")'),
        ),
        (
            'os.mkdir("a")\nn = 1\nos.mkdir("b")',
            f'{guarded("""os.mkdir("a")""")}\nn = 1\n{guarded("""os.mkdir("b")""")}',
        ),
        (
            'if os.path.exists("a"):\n    os.rmdir("a")',
            f'if os.path.exists("a"):\n    {GUARD}\n        os.rmdir("a")',
        ),
        (
            'if os.path.isdir("a"):\n    os.rmdir("a")\nos.mkdir("a")',
            f'{GUARD}\n    if os.path.isdir("a"):\n        os.rmdir("a")\n    os.mkdir("a")',
        ),
        (
            'if os.remove("a"):\n    os.rmdir("b")\nos.mkdir("a")',
            f'if os.remove("a"):\n    {GUARD}\n        os.rmdir("b")\n{guarded("""os.mkdir("a")""")}',
        ),
        (
            'if n:\n    pass\nelif not n:\n    os.mkdir("a")\nelse:\n    n = 1',
            f'if n:\n    pass\nelif not n:\n    {GUARD}\n        os.mkdir("a")\nelse:\n    n = 1',
        ),
        (
            'try:\n    os.rmdir("a")\nexcept OSError:\n    pass',
            f'try:\n    {GUARD}\n        os.rmdir("a")\nexcept OSError:\n    pass',
        ),
    ],
)
def test_places(before: str, after: str) -> None:
    slots = {"imports": OS, "setup": "n = 0"}
    assert converted(script(before=before, **slots)) == lifted(before=after, **slots)


@pytest.mark.parametrize(
    ("imports", "line"),
    [
        (OS, 'names = os.listdir("out")'),
        (OS, 'path = os.path.join("out", "a")'),
        ("import json", "text = json.dumps({})"),
        ("import pandas as pd", "text = pd.DataFrame([1]).to_csv()"),
        ("import numpy as np", 'a = np.load("a.npy")'),
        ("import matplotlib.pyplot as plt", "plt.plot([1])\nplt.close()"),
        ("import shutil", 'where = shutil.which("git")'),
        ("import numpy as np", 'a = np.memmap("a.dat", mode="r", shape=(2,))'),
        ("import numpy as np", 'a = np.lib.format.open_memmap("a.npy", mode="r")'),
        ("import numpy as np", "a = np.memmap('a.dat', shape=(2,))\nb = [0]\nb[0] = a[0]"),
        ("import numpy as np", "a = np.memmap('a.dat', mode='c', shape=(2,))\na[0] = 1"),
        ("import numpy as np", "a = np.load('a.npy', mmap_mode='r')\nb = a[0]"),
        ("import numpy as np", "a = np.load('a.npy')\na[0] = 1"),
        ("import lmdb", "store = lmdb.open('a', readonly=True)\nwith store.begin() as t:\n    a = t.get(b'a')"),
        ("import lmdb", "store = lmdb.open('a')\nmade = TensorDataset()\nmade.begin(write=True)"),
        ("import tinydb", "rows = tinydb.TinyDB('a.json').all()"),
        ("import redis", "r = redis.Redis()\nnumber = r.get('a')"),
        ("import redis", "r = redis.Redis()\nnames = set()\nother = dict(a=1)\nnames.update(other)"),
        ("from pymongo import MongoClient", "rows = MongoClient()['a'].runs.find({})"),
        ("import requests", "page = requests.get('http://a').text"),
        ("import sqlalchemy", "engine = sqlalchemy.create_engine('sqlite://')"),
        ("import openpyxl", "book = openpyxl.load_workbook('a.xlsx')\nnumber = book.active['A1'].value"),
        ("import h5py", "f = h5py.File('a.h5')"),
        ("import shelve", "with shelve.open('a', flag='r') as f:\n    a = f['a']"),
        ("import pandas as pd", "f = pd.HDFStore('a.h5', mode='r')"),
        (OS, "f = os.open('a', os.O_RDONLY)"),
        ("import sqlite3", "rows = sqlite3.connect('a.db').execute('select * from a').fetchall()"),
        ("import sqlite3", "c = sqlite3.connect(':memory:')\nc.execute('create table a (b int)')"),
        ("", "class Kept(nn.Linear):\n    def save(self):\n        self.kept = True\n\nKept(2, 2).save()"),
        ("", "class Os:\n    def makedirs(self, name):\n        pass\n\nos = Os()\nos.makedirs('a')"),
        (OS, "# os.makedirs('a')\nmake = os.makedirs"),
        ("", 'with open("a.txt") as f:\n    text = f.read()'),
        ("", 'f = open("a.txt", "rb")'),
        ("import sys", "sys.stdout.flush()"),  # after a print
        ("", 'f = open("a.txt", mode="r", encoding="utf-8")'),
    ],
)
def test_what_has_no_side_effect_stays(imports: str, line: str) -> None:
    assert converted(script(imports=imports, before=line)) == lifted(imports=imports, before=line)


OWN = "import os, json, shutil\nimport tempfile"


@pytest.mark.parametrize(
    "lines",
    [
        "with tempfile.NamedTemporaryFile(delete=False) as file:\n    path = file.name\nos.unlink(path)",
        "folder = tempfile.mkdtemp()\nwith open(os.path.join(folder, 'a'), 'w') as f:\n    f.write('a')",
        "with tempfile.TemporaryDirectory() as d:\n    with open(f'{d}/a', 'w') as f:\n        json.dump(1, f)",
        "handle, path = tempfile.mkstemp()\nos.remove(path)",
        "folder = tempfile.TemporaryDirectory()\nshutil.rmtree(folder.name + '/a')",
        "folder = tempfile.TemporaryDirectory(dir='out')\nos.mkdir(folder.name + '/a')\nos.rmdir(folder.name + '/a')",
    ],
)
def test_every_process_has_temporary_files_of_its_own(lines: str) -> None:
    assert converted(script(imports=OWN, before=lines)) == lifted(imports=OWN, before=lines)


@pytest.mark.parametrize(
    ("made", "line"),
    [
        ("folder = tempfile.mkdtemp() if os.environ else 'out'", "os.rmdir(folder)"),
        ("folder = tempfile.gettempdir()", "os.remove(folder + '/a')"),
        ("folder = tempfile.mkdtemp()", "shutil.copy(folder + '/a', 'a')"),
        ("folder = tempfile.mkdtemp()", "os.remove(os.path.join('out', folder))"),
    ],
)
def test_other_files_are_shared(made: str, line: str) -> None:
    before = f"{made}\n{line}"
    assert converted(script(imports=OWN, before=before)) == lifted(imports=OWN, before=f"{made}\n{guarded(line)}")


@pytest.mark.parametrize(
    "uses",
    [
        ["plt.savefig(folder + '/a')", "os.remove(folder + '/a')"],  # the others would have nothing to remove
        ["shutil.copy('a', folder)", "os.remove(os.path.join(folder, 'a'))"],
        ["os.mkdir(folder + '/a')", "os.rename(folder + '/a', 'a')"],
    ],
)
def test_what_one_process_puts_into_its_temporary_folder(uses: list[str]) -> None:
    slots = {"imports": f"{OWN}\nimport matplotlib.pyplot as plt"}
    made = "folder = tempfile.mkdtemp()"
    after = guarded("\n".join(uses))
    assert converted(script(**slots, before="\n".join([made, *uses]))) == lifted(**slots, before=f"{made}\n{after}")


def test_a_temporary_name_in_a_folder_of_the_script_is_a_result() -> None:
    made, line = "folder = tempfile.mkdtemp(dir='runs')", "json.dump(1, open(folder + '/a', 'w'))"
    before = f"{made}\n{line}"
    assert converted(script(imports=OWN, before=before)) == lifted(imports=OWN, before=f"{made}\n{guarded(line)}")


def test_every_process_removes_what_it_has_made_itself_wherever_it_lies() -> None:
    made = "handle, path = tempfile.mkstemp(dir='runs')"
    before = f"{made}\nos.replace(path, 'a')\nif os.path.exists(path):\n    os.remove(path)"
    once = guarded("os.replace(path, 'a')")
    after = f"{made}\n{once}\nif os.path.exists(path):\n    os.remove(path)"
    assert converted(script(imports=OWN, before=before)) == lifted(imports=OWN, before=after)


def test_what_is_flushed_with_what_is_written() -> None:
    both = 'sys.stdout.write("x")\nsys.stdout.flush()'
    after = 'if accelerator.is_main_process:\n    sys.stdout.write("x")\n    sys.stdout.flush()'
    assert converted(script(imports="import sys", before=both)) == lifted(imports="import sys", before=after)


def test_functions_that_see_the_accelerator() -> None:
    definition = "def make(name):\n    os.makedirs(name)"
    assert converted(script(imports=OS, definitions=definition, before="make('a')")) == lifted(
        imports=OS, definitions=f"def make(name):\n    {GUARD}\n        os.makedirs(name)", before="make('a')"
    )


def test_an_animation_is_written_by_the_main_process() -> None:
    made = "fig = plt.figure()\nmoving = FuncAnimation(fig, print, frames=3)\n"
    imports = "import matplotlib.pyplot as plt\nfrom matplotlib.animation import FuncAnimation"
    output = converted(script(imports=imports, before=f"{made}moving.save('a.gif')"))
    assert output == lifted(imports=imports, before=made + guarded("moving.save('a.gif')"))


@pytest.mark.parametrize(
    ("imports", "line"),
    [
        ("import cv2", "film = cv2.VideoWriter('a.avi', 0, 5, (8, 8))\nfilm.write(None)"),
        ("import imageio", "film = imageio.get_writer('a.gif')\nfilm.append_data(None)\nfilm.close()"),
        ("import numpy as np", "table = np.memmap('a.dat', mode='w+', shape=(2,))\ntable[0] = 1"),
        ("import numpy as np", "table = np.lib.format.open_memmap('a.npy', mode='w+', shape=(2,))\ntable[0] = 1"),
        ("import numpy as np", "table = np.memmap('a.dat', mode='r+', shape=(2,))\ntable[0] = 1"),
        ("import numpy as np", "table = np.memmap('a.dat', shape=(2,))\ntable.fill(1)"),
        ("import numpy as np", "table = np.load('a.npy', mmap_mode='r+')\ntable[0, :] = 1"),
        (
            "import numpy as np",
            "import types\nkept = types.SimpleNamespace()\nkept.a = np.memmap('a', mode='r+')\nkept.a[0] = 1",
        ),
        ("import lmdb", "store = lmdb.open('a')\nwith store.begin(write=True) as t:\n    t.put(b'a', b'b')"),
        ("import lmdb", "store = lmdb.Environment('a')\nt = store.begin(write=True)\nt.put(b'a', b'b')\nt.commit()"),
        ("from tinydb import TinyDB", "rows = TinyDB('a.json')\nrows.table('a').insert({'a': 1})"),
        ("import dataset", "rows = dataset.connect('sqlite:///a.db')\nrows['a'].insert({'a': 1})"),
        ("import h5py", "f = h5py.File('a.h5', 'a')\nf.create_dataset('a', data=[1])"),
        ("import shelve", "f = shelve.open('a')\nf['a'] = 1"),
        ("import pandas as pd", "f = pd.HDFStore('a.h5')\nf['a'] = pd.DataFrame([1])"),
        ("import os", "f = os.open('a', os.O_WRONLY | os.O_CREAT)\nos.write(f, b'a')"),
        ("import sqlite3", "c = sqlite3.connect('a.db')\nc.execute('insert into a values (1)')"),
        ("import sqlite3", "c = sqlite3.connect('a.db')\nc.cursor().execute(statement)\nc.commit()"),
        ("import psycopg2", "c = psycopg2.connect('a')\nc.cursor().execute('insert into a values (1)')"),
        (
            "import sqlalchemy",
            "engine = sqlalchemy.create_engine('sqlite:///a.db')\n"
            "with engine.connect() as c:\n    c.execute(sqlalchemy.text('insert into a values (1)'))",
        ),
        ("import redis", "r = redis.Redis()\nr.set('a', 1)"),
        ("import redis", "r = redis.from_url('redis://a').pipeline()\nr.rpush('a', 1)"),
        ("from pymongo import MongoClient", "runs = MongoClient()['a'].runs\nruns.insert_one({'a': 1})"),
        ("import pymongo", "base = pymongo.MongoClient().a\nruns = base['b']\nruns.update_one({}, {})"),
        ("import requests", "requests.post('http://a', json={})"),
        ("import smtplib", "mail = smtplib.SMTP('a')\nmail.sendmail('a', 'b', 'c')"),
        ("import boto3", "boto3.client('s3').upload_file('a', 'b', 'c')"),
        ("from google.cloud import storage", "storage.Client().bucket('a').blob('b').upload_from_filename('c')"),
        ("from kafka import KafkaProducer", "queue = KafkaProducer()\nqueue.send('a', b'b')"),
        ("import openpyxl", "book = openpyxl.Workbook()\nbook.active['A1'] = 1\nbook.save('a.xlsx')"),
        (
            "from huggingface_hub import HfApi",
            "HfApi().upload_file(path_or_fileobj='a', path_in_repo='b', repo_id='c')",
        ),
    ],
)
def test_files_that_are_written_bit_by_bit_are_reported(imports: str, line: str) -> None:
    assert converted(script(imports=imports, before=line)) == lifted(imports=imports, before=line)
    assert findings(script(imports=imports, before=line)) == ["SAVE-RACE"]


@pytest.mark.parametrize("line", ['sys.stdout.write(f"{loss.item():.3f}")', 'pprint.pprint({"loss": loss.item()})'])
def test_what_a_share_measures_is_shown_once_and_told_of(line: str) -> None:
    text = script(imports="import pprint\nimport sys", batch_end=line)
    assert converted(text) == lifted(imports="import pprint\nimport sys", batch_end=guarded(line))
    assert findings(text) == ["METRIC-TRAIN"]


LINES = ["os.makedirs(name)", "shutil.rmtree(name)", "sys.stdout.write(name)"]


@pytest.mark.parametrize("line", LINES)
def test_functions_that_do_not_see_it(line: str) -> None:
    """They run after the accelerator is made, so they can ask for the state of the processes."""
    slots = {"imports": "import os\nimport shutil\nimport sys", "before": "make('a')"}
    text = script(main=True, definitions=f"def make(name):\n    {line}", **slots)
    guarded = f"def make(name):\n    if PartialState().is_main_process:\n        {line}"
    after = lifted(main=True, definitions=guarded, **slots)
    assert converted(text) == after.replace("DataLoaderConfiguration\n", "DataLoaderConfiguration, PartialState\n", 1)
    assert findings(text) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("os.makedirs(name)", ["SAVE-RACE"]),
        ("os.makedirs(name, exist_ok=True)", []),  # harmless on every process
        ("shutil.rmtree(name)", ["SAVE-RACE"]),
        ("sys.stdout.write(name)", []),
    ],
)
@pytest.mark.parametrize("slot", ["made(make)", "make = torch.no_grad()(make)"])
def test_functions_that_may_run_before_it(line: str, expected: list[str], slot: str) -> None:
    slots = {
        "imports": "import os\nimport shutil\nimport sys\nfrom elsewhere import made",
        "definitions": f"def make(name):\n    {line}\n\n\n{slot}",
        "before": "make('a')",
    }
    assert converted(script(main=True, **slots)) == lifted(main=True, **slots)
    assert findings(script(main=True, **slots)) == expected


def test_a_folder_that_may_be_there_is_made_by_every_process() -> None:
    imports = "import os\nfrom pathlib import Path"
    makes = "os.makedirs('a', 0o777, True)\nPath('b').mkdir(0o777, True, True)"
    alone = "Path('b').mkdir(0o777, True)"
    output = converted(script(main=True, imports=imports, before=f"{makes}\n{alone}"))
    assert output == lifted(main=True, imports=imports, before=f"{makes}\n{guarded(alone)}")


@pytest.mark.parametrize(
    ("line", "fails"),
    [
        ("os.makedirs(name)", True),
        ("os.makedirs(name, exist_ok=name == '')", True),
        ("Path(name).mkdir(parents=True, exist_ok=not name)", True),
        ("os.rmdir(name)", False),
    ],
)
def test_folders_that_another_process_may_have_made_by_then(line: str, fails: bool) -> None:
    slots = {
        "imports": "import os\nfrom pathlib import Path\nfrom elsewhere import made",
        "definitions": f"def make(name):\n    {line}\n\n\nmade(make)",
        "before": "make('a')",
    }
    result = convert(script(main=True, **slots))
    assert result.plan is not None
    (finding,) = result.plan.findings
    assert finding.code == "SAVE-RACE"
    assert ("may fail where another one was faster" in finding.message) is fails


# ---- files


@pytest.mark.parametrize(
    "block",
    [
        'with open("a.csv", "a") as f:\n    f.write("x")',
        'with open("a.csv", mode="w", newline="") as f:\n    f.write("x")\n    f.write("y")',
        'with open("a.txt", "w") as f:\n    for n in range(3):\n        f.write(str(n))',
        'with open("a.txt", "w") as f:\n    f.write("""a\n  b\n""")',
        'with open("a.json", "w") as f:\n    json.dump({}, f)',
        'with gzip.open("a.gz", "wb") as f:\n    f.write(b"x")',
        'with open("a.txt", "w" if epoch else "a") as f:\n    f.write("x")',
    ],
)
def test_blocks_that_write_a_file(block: str) -> None:
    imports = "import gzip\nimport json"
    expected = guarded(block).replace('\n      b\n    "', '\n  b\n"')  # a text keeps its own lines
    assert converted(script(imports=imports, after=block)) == lifted(imports=imports, after=expected)


MODES = 'def keep(text, mode="{mode}"):\n    with open("a.txt", mode) as f:\n        {block}\n'


@pytest.mark.parametrize(
    ("setup", "call"),
    [
        ("", 'keep("x")'),
        ("", 'keep("x", "w")'),
        ("", 'keep("x")\nkeep("y", mode="w")'),
        ('how = "w"', 'keep("x", how)'),
        ('how = "w" if len("a") else "ab"', 'keep("x", mode=how)'),
    ],
)
def test_a_mode_that_a_function_is_given(setup: str, call: str) -> None:
    text = script(definitions=MODES.format(mode="a", block="f.write(text)"), setup=setup, after=call)
    assert f"    {GUARD}\n        with open" in converted(text)
    assert findings(text) == []


def test_a_mode_to_read_in_stays() -> None:
    text = script(definitions=MODES.format(mode="r", block="return f.read()"), after='a = keep("x")')
    assert converted(text) == lifted(definitions=MODES.format(mode="r", block="return f.read()"), after='a = keep("x")')
    assert findings(text) == []


def test_a_mode_to_read_or_to_write_in() -> None:
    block = 'return f.read() if mode == "r" else f.write(text)'
    text = script(definitions=MODES.format(mode="r", block=block), after='keep("x", "w")\na = keep("")')
    assert findings(text) == ["SAVE-RACE"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('f = open("a.csv", "w")', 'f = open("a.csv" if accelerator.is_main_process else os.devnull, "w")'),
        (
            'f = open("a" + str(1), "a+", newline="")',
            'f = open("a" + str(1) if accelerator.is_main_process else os.devnull, "a+", newline="")',
        ),
        (  # the block leaves something behind that the other processes need
            'with open("a", "w") as f:\n    n = f.write("x")\nm = n',
            'with open("a" if accelerator.is_main_process else os.devnull, "w") as f:\n    n = f.write("x")\nm = n',
        ),
        (
            'rows = []\nwith open("a", "w") as f:\n    rows.append(f.write("x"))',
            "rows = []\n"
            'with open("a" if accelerator.is_main_process else os.devnull, "w") as f:\n    rows.append(f.write("x"))',
        ),
        (
            'with open("a", "w") as f:\n    f.write(str(model(torch.zeros(1, 8))))',
            'with open("a" if accelerator.is_main_process else os.devnull, "w") as f:\n'
            "    f.write(str(model(torch.zeros(1, 8))))",
        ),
    ],
)
def test_files_that_every_process_opens(before: str, after: str) -> None:
    assert converted(script(imports=OS, after=before)) == lifted(imports=OS, after=after)


def test_a_file_that_is_read_first_is_opened_by_every_process() -> None:
    block = 'with open("a", "r+") as f:\n    old = f.read()\n    f.write("x")\nprint(old)'
    kept = block.replace("print", "accelerator.print")
    assert converted(script(after=block)) == lifted(after=kept)
    assert findings(script(after=block)) == ["SAVE-RACE"]


@pytest.mark.parametrize("said", ['choices=["w", "a"], default="w"', 'default="w"'])
def test_a_mode_that_the_command_line_says(said: str) -> None:
    told = f"parser = argparse.ArgumentParser()\nparser.add_argument('--mode', {said})\nargs = parser.parse_args()"
    slots = {"imports": "import argparse", "setup": told}
    output = converted(script(**slots, before='f = open("a", args.mode)', batch_end="f.write('x')"))
    assert 'f = open("a" if accelerator.is_main_process else os.devnull, args.mode)' in output
    output = converted(script(**slots, epoch_end='with open("a", args.mode) as f:\n    f.write("x")'))
    assert "    if accelerator.is_main_process:\n        with open" in output
    output = converted(script(**slots, before='f = open("a", args.mode)\nimport csv\nw = csv.writer(f)'))
    assert 'f = open("a" if accelerator.is_main_process else os.devnull, args.mode)' in output
    for other in (
        "old = f.read()",
        "old = f.read()\nf.write('x')",
        "old = list(f)",
        "if args.mode == 'r':\n    old = json.load(f)\nelse:\n    f.write('x')",
        "old = sum(1 for line in f)\nf.write('x')",
        "start = f.tell()\nf.write('x')",
    ):
        output = converted(script(**slots, before=f'f = open("a", args.mode)\n{other}'))
        assert 'f = open("a", args.mode)' in output


def test_the_import_that_it_needs() -> None:
    output = converted(script(before='f = open("a", "w")'))
    assert output == lifted(
        accelerate=f"import os\n{OPENED}",
        before='f = open("a" if accelerator.is_main_process else os.devnull, "w")',
    )


NOWHERE = '"a" if accelerator.is_main_process else os.devnull'


def _in_function(*lines: str) -> str:
    return "def log(name):\n" + textwrap.indent("\n".join(lines), "    ")


def _logging(*lines: str, **slots: str) -> str:
    """A script with a function that logs, in which the accelerator is at hand."""
    return script(**{"definitions": _in_function(*lines), "after": "log(3)", "epoch": "log(epoch)", **slots})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (  # the function's own import is that of all that follows
            ["import os", 'f = open("a", "w")', "print(os.getcwd(), file=f)"],
            ["import os", f'f = open({NOWHERE}, "w")'],
        ),
        (
            ['f = open("a", "w")', "import os", "f.write(os.getcwd())"],
            ["import os", f'f = open({NOWHERE}, "w")', "import os"],
        ),
        (
            ['f, g = open("a", "w"), 1', "if g:", '    f = open("a", "a")', "import os", "f.write(os.getcwd())"],
            ["import os", f'f, g = open({NOWHERE}, "w"), 1', "if g:", f'    f = open({NOWHERE}, "a")', "import os"],
        ),
        (
            ["if name:", "    import os", '    f = open("a", "w")', "    f.write(os.getcwd())"],
            ["if name:", "    import os", f'    f = open({NOWHERE}, "w")'],
        ),
        (
            ["if name:", "    import os", "    os.getcwd()", 'f = open("a", "w")', "f.write(str(name))"],
            ["if name:", "    import os", "    os.getcwd()", "import os", f'f = open({NOWHERE}, "w")'],
        ),
    ],
)
def test_a_function_that_imports_the_module_itself(before: list[str], after: list[str]) -> None:
    output = converted(_logging(*before))
    assert _in_function(*after) in output
    assert "\nimport os\n" not in output  # nothing would read it
    assert findings(_logging(*before)) == []


@pytest.mark.parametrize(
    ("line", "slots"),
    [
        ("os = name", {}),
        ("os = name", {"imports": "import os", "setup": "os.getcwd()"}),
        ("name = 3", {"imports": "from posix import environ as os", "setup": "len(os)"}),
        ("name = 3", {"setup": "os = 3"}),
    ],
)
def test_a_name_that_means_something_else(line: str, slots: dict[str, str]) -> None:
    text = _logging(line, 'f = open("a", "w")', "f.write(str(name))", **slots)
    assert 'f = open("a", "w")' in converted(text)
    assert findings(text) == ["SAVE-RACE"]


def test_other_functions_import_it_for_themselves() -> None:
    text = _logging(
        'f = open("a", "w")', "f.write(str(name))", setup="def here():\n    import os\n    return os.getcwd()\nhere()"
    )
    output = converted(text)
    assert (
        f'f = open({NOWHERE}, "w")' in output and "import torch.nn.functional as F\nimport os\nfrom accelift" in output
    )


def test_an_import_after_its_use() -> None:
    slots = {"before": 'f = open("a", "w")\nimport os\nos.getcwd()'}
    after = {"before": f'import os\nf = open({NOWHERE}, "w")\nimport os\nos.getcwd()'}
    assert converted(script(**slots)) == lifted(**after)


MKDIR = "if not exists('out'):\n    mkdir('out')"


def test_a_function_that_knows_no_exist_ok() -> None:
    imports = "from os import mkdir\nfrom os.path import exists"
    output = converted(script(imports=imports, before=MKDIR))
    assert "if not exists('out'):\n    os.makedirs('out', exist_ok=True)\n" in output
    assert "import os\nfrom accelift import" in output and "import mkdir" not in output
    text = script(imports=imports, setup="os = 3", before=MKDIR)
    assert MKDIR in converted(text) and findings(text) == ["SAVE-RACE"]


# ---- what all processes do together


@pytest.mark.parametrize(
    ("line", "output", "write"),
    [
        (
            'np.save("a.npy", model(torch.zeros(1, 8)).detach().numpy())',
            "model(torch.zeros(1, 8)).detach().numpy()",
            'np.save("a.npy", output)',
        ),
        (
            "save_image(model(x[:4]).view(-1, 3), f'{epoch}.png', nrow=2)",
            "model(x[:4]).view(-1, 3)",
            "save_image(output, f'{epoch}.png', nrow=2)",
        ),
        ("save_image(tensor=model(x), fp='a.png')", "model(x)", "save_image(tensor=output, fp='a.png')"),
    ],
)
def test_a_forward_pass_is_taken_out_of_what_the_main_process_writes(line: str, output: str, write: str) -> None:
    slots = {"imports": "import numpy as np", "from_imports": "from torchvision.utils import save_image"}
    after = f"output = {output}\nif accelerator.is_main_process:\n    {write}"
    assert converted(script(epoch_end=line, **slots)) == lifted(epoch_end=after, **slots)
    assert findings(script(epoch_end=line, **slots)) in ([], ["METRIC-TRAIN"])


def test_a_forward_pass_on_several_lines_is_taken_out_as_it_is_written() -> None:
    line = "save_image(\n    model(x)\n    .view(-1, 3),\n    'a.png')"
    after = converted(script(from_imports="from torchvision.utils import save_image", epoch_end=line))
    assert "    output = (model(x)\n" in after and "save_image(\n            output,\n" in after


@pytest.mark.parametrize(
    "line",
    [
        'np.save("a.npy", predict(model))',
        'np.save("a.npy", torch.stack([model(torch.zeros(1, 8)) for _ in range(2)]).detach().numpy())',
        'np.save(f"{model(torch.zeros(1, 8)).sum()}.npy", model(torch.zeros(1, 8)).detach().numpy())',
        "np.save(next(names), model(torch.zeros(1, 8)).detach().numpy())",
    ],
)
def test_never_around_a_forward_pass(line: str) -> None:
    slots = {
        "imports": "import numpy as np",
        "definitions": "def predict(net):\n    return net(torch.zeros(1, 8)).detach().numpy()",
        "setup": "names = iter('abc')",
        "after": line,
    }
    assert converted(script(**slots)) == lifted(**slots)
    result = convert(script(**slots))
    assert result.plan is not None
    (finding,) = result.plan.findings
    assert (finding.code, finding.severity.value) == ("COLL-MAIN", "error")
    assert finding.remedy == (
        "compute the value on a line of its own, and write it under `if accelerator.is_main_process:`"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'torch.onnx.export(model, torch.zeros(1, 8), "m.onnx")',
            'torch.onnx.export(accelerator.unwrap_model(model), torch.zeros(1, 8), "m.onnx")',
        ),
        (
            'torch.jit.save(torch.jit.script(model), "m.pt")',
            'torch.jit.save(torch.jit.script(accelerator.unwrap_model(model)), "m.pt")',
        ),
    ],
)
def test_an_unwrapped_model_may_run_on_one_process(before: str, after: str) -> None:
    assert converted(script(after=before)) == lifted(after=guarded(after))


def test_left_out() -> None:
    slots = {"imports": OS, "before": 'os.makedirs("out")\nf = open("a", "w")'}
    assert converted(script(**slots), ignore=("GUARD",)) == lifted(**slots)


@pytest.mark.parametrize(
    ("line", "apart"),
    [
        ('os.mkdir("out"); n = 1', f'{GUARD}\n    os.mkdir("out")\nn = 1'),
        ("if len(data) > 3: os.rmdir('out')", f"if len(data) > 3:\n    {GUARD}\n        os.rmdir('out')"),
        ('if not os.path.isdir("a"): os.mkdir("a")', 'if not os.path.isdir("a"): os.makedirs("a", exist_ok=True)'),
    ],
)
def test_statements_on_a_shared_line(line: str, apart: str) -> None:
    assert converted(script(imports=OS, before=line)) == lifted(imports=OS, before=apart)
    assert findings(script(imports=OS, before=line)) == []


# ---- loops and branches that do nothing else


BAR = """\
import sys


def bar(done, total):
    sys.stdout.write("[")
    for _ in range(done):
        sys.stdout.write("=")
    if done < total:
        sys.stdout.write(">")
    else:
        sys.stdout.write("]")"""
GUARDED = """\
import sys


def bar(done, total):
    if PartialState().is_main_process:
        sys.stdout.write("[")
        for _ in range(done):
            sys.stdout.write("=")
        if done < total:
            sys.stdout.write(">")
        else:
            sys.stdout.write("]")"""


def bars(definitions: str) -> tuple[str, str]:
    slots = {"epoch_end": "bar(epoch, 2)"}
    text = script(main=True, definitions=definitions, **slots)
    return converted(text), lifted(main=True, definitions="\0", **slots)


def expected_bars(frame: str, definitions: str) -> str:
    return frame.replace("DataLoaderConfiguration\n", "DataLoaderConfiguration, PartialState\n", 1).replace(
        "\0", definitions
    )


def test_loops_and_branches_go_under_one_guard() -> None:
    output, frame = bars(BAR)
    assert output == expected_bars(frame, GUARDED)


MAIN = "if PartialState().is_main_process:"
LONE = f"""\
    {MAIN}
        sys.stdout.write("[")
    for _ in range(done):
        {MAIN}
            sys.stdout.write("=")
"""
ENDS = f"""\
    {MAIN}
        if done < total:
            sys.stdout.write(">")
        else:
            sys.stdout.write("]")"""
APART = f"""\
        {MAIN}
            sys.stdout.write(">")
    else:
        {MAIN}
            sys.stdout.write("]")"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            "range(done)", "ask(done)", LONE.replace("range", "ask") + ENDS, id="the iterable may do something"
        ),
        pytest.param(
            "done < total",
            "ask(done)",
            GUARDED[GUARDED.index("    if Partial") : GUARDED.index("        if done")] + f"    if ask(done):\n{APART}",
            id="the test may do something",
        ),
        pytest.param(
            '("=")',
            '("=")\n        total += 1',
            LONE + "        total += 1\n" + ENDS,
            id="the loop does something else",
        ),
        pytest.param(
            "    if done <",
            "    total += _\n    if done <",
            LONE + "    total += _\n" + ENDS,
            id="its variable is read later",
        ),
    ],
)
def test_loops_and_branches_that_do_more_stay(old: str, new: str, expected: str) -> None:
    start = "import sys\n\nfrom elsewhere import ask\n\n\ndef bar(done, total):\n"
    output, frame = bars(BAR.replace(BAR[: BAR.index("    sys")], start).replace(old, new))
    assert output == expected_bars(frame, start + expected)


@pytest.mark.parametrize(
    "loop",
    [
        "for n in range(2):\n    os.rmdir(f'{n}')",
        "for i, (a, b) in enumerate(zip('ab', 'cd')):\n    os.rename(a, b + str(i))",
        "for a in 'ab':\n    for b in 'cd':\n        os.rename(a, b)\n    os.rmdir(a)",
        "for a in 'ab':\n    os.rmdir(a)\na = 1\nos.environ['a'] = str(a)",
    ],
)
def test_a_loop_outside_functions_goes_under_its_guard(loop: str) -> None:
    body, _, rest = loop.partition("\na = 1")
    after = f"{guarded(body)}{_}{rest}"
    assert converted(script(imports=OS, after=loop)) == lifted(imports=OS, after=after)


@pytest.mark.parametrize(
    ("loop", "written"),
    [
        ("for i, a in enumerate('ab'):\n    {}\nos.environ['i'] = str(i)", "os.rmdir(a)"),  # read later
        ("for a, b in other:\n    {}", "np.save('a.npy', a)"),  # every process draws the order of the loader
        ("drawn = (np.random.rand() for n in 'ab')\nfor i, a in enumerate(drawn):\n    {}", "np.save(f'{i}', a)"),
        ("pairs = zip('ab', 'cd')\nfor a, b in pairs:\n    {}\nassert not [*pairs]", "np.save(a, b)"),
        ("def deal():\n    yield np.random.rand()\n\n\nonce = deal()\nfor a in once:\n    {}", "np.save('a', a)"),
    ],
)
def test_loops_that_others_need_stay(loop: str, written: str) -> None:
    slots = {"imports": f"{OS}\nimport numpy as np", "before": "other = DataLoader(data)"}
    inner = guarded(written).replace("\n", "\n    ")
    expected = lifted(**slots, after=loop.format(inner))
    assert converted(script(**slots, after=loop.format(written))) == expected


def test_a_branch_alone_stays_outside() -> None:
    text = "import sys\n\n\ndef bar(done, total):\n    if done < total:\n        sys.stdout.write('>')"
    output, frame = bars(text)
    guarded = f"        {MAIN}\n            sys.stdout.write('>')"
    assert output == expected_bars(frame, text.replace("        sys.stdout.write('>')", guarded))


@pytest.mark.parametrize("test", ["7 in y.tolist()", "(y[0] == 2).item()", "epoch == 1 and 7 in y.tolist()"])
def test_what_is_written_of_a_certain_sample_is_written_by_the_process_that_has_it(test: str) -> None:
    text = script(imports="import numpy as np", batch_end=f"if {test}:\n    np.save('found.npy', x.numpy())")
    assert "is_main_process" not in converted(text)
    assert "SAVE-RACE" in findings(text)


@pytest.mark.parametrize(
    "test", ["epoch == 1", "epoch in (0, 1)", "x.size(0) == 16", "loss.item() < 0.5", "len(y) == 16"]
)
def test_what_is_written_at_a_certain_time_is_written_by_the_main_process(test: str) -> None:
    text = script(imports="import numpy as np", batch_end=f"if {test}:\n    np.save('found.npy', x.numpy())")
    assert "if accelerator.is_main_process:" in converted(text)
    assert "SAVE-RACE" not in findings(text)


@pytest.mark.parametrize(
    "test",
    [
        "if os.path.exists('out'):\n    raise SystemExit('it is there')\nelse:\n    os.makedirs('out')",
        "if not os.path.exists('out'):\n    os.makedirs('out')\nelse:\n    raise SystemExit('it is there')",
    ],
)
def test_a_folder_that_must_not_be_there_is_asked_for_once(test: str) -> None:
    """A slower process would find that of the main process, and end."""
    assert converted(script(imports=OS, before=test)) == lifted(imports=OS, before=guarded(test))


TAKEN = "if os.path.exists('out'):\n    raise SystemExit('it is there')"


@pytest.mark.parametrize("ends", ["raise SystemExit('it is there')", "exit()", "raise FileExistsError('out')"])
def test_nor_is_one_found_that_may_be_there_where_it_is_made(ends: str) -> None:
    """All ask before any makes it: all end, or none, and nobody waits for one that has ended."""
    taken, made = f"if os.path.exists('out'):\n    {ends}", "os.makedirs('out', exist_ok=True)"
    after = f"{taken}\naccelerator.wait_for_everyone()\n{made}"
    assert converted(script(imports=OS, before=f"{taken}\n{made}")) == lifted(imports=OS, before=after)


@pytest.mark.parametrize(
    "statements",
    [
        f"{TAKEN}\nos.makedirs('other', exist_ok=True)",
        "if not os.path.exists('out'):\n    raise SystemExit('it is not there')\nos.makedirs('out', exist_ok=True)",
        "if os.path.exists('out'):\n    epochs = 3\nos.makedirs('out', exist_ok=True)",
        "os.makedirs('out', exist_ok=True)",
    ],
)
def test_other_tests_before_folders_are_made_stay(statements: str) -> None:
    assert converted(script(imports=OS, before=statements)) == lifted(imports=OS, before=statements)


WRITTEN = "print(epochs, file=open('log.txt', 'a'))\nprint(model, file=open('log.txt', 'a'))"


@pytest.mark.parametrize("between", ["", "reset(model)\n"])
def test_what_stands_after_several_guarded_statements_is_not_guarded(between: str) -> None:
    """Nor between them: all processes prepare."""
    first, last = WRITTEN.split("\n")
    text = script(
        setup="epochs = 2", optimizer=f"{first}\n{last}\n{between}optimizer = torch.optim.SGD(model.parameters())"
    )
    after = script(setup="epochs = 2", before=f"{between}{WRITTEN}")
    for output in (converted(text), converted(after)):
        assert "\nmodel, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n" in output
        assert f"if accelerator.is_main_process:\n    {first}\n    {last}\n" in output


PICTURES = {
    "imports": "import torchvision.transforms as T\nfrom torchvision.transforms.functional import to_pil_image",
    "setup": "show = T.ToPILImage()",
}


@pytest.mark.parametrize(
    "picture",
    ["T.ToPILImage()(x[0])", "to_pil_image(x[0])", "show(x[0]).resize((4, 4))", "T.functional.to_pil_image(x[0])"],
)
def test_pictures_made_of_tensors_are_saved_once(picture: str) -> None:
    made = f"shown = {picture}\n"
    before = script(epoch_end=f"{made}shown.save('a.png')", **PICTURES)
    after = lifted(epoch_end=f"{made}if accelerator.is_main_process:\n    shown.save('a.png')", **PICTURES)
    assert converted(before) == after


@pytest.mark.parametrize("made", ["T.ToTensor()(x[0])", "T.Compose([])(x[0])", "T.ToPILImage()"])
def test_other_things_that_can_be_saved_stay(made: str) -> None:
    slots = {"epoch_end": f"shown = {made}\nshown.save('a.png')", **PICTURES}
    assert converted(script(**slots)) == lifted(**slots)


SAVER = """\
class Saver{base}:
    def save(self, rows):
        with open("rows.txt", "w") as file:
            file.write(str(rows))"""


@pytest.mark.parametrize(
    ("base", "setup", "codes"),
    [
        ("", "saver = Saver()", []),
        ("(object)", "saver = Saver()\ntorch.manual_seed(0)", []),
        ("", "saver = Saver()\nwrite = saver.save", ["SAVE-RACE"]),
        ("", "saver = Saver()\nwrite = getattr(saver, 'save')", ["SAVE-RACE"]),
        ("(Base)", "saver = Saver()", ["SAVE-RACE"]),  # which may call it
        ("(nn.Module)", "saver = Saver()", []),  # which has no such method
        ("(torch.utils.data.Dataset)", "saver = Saver()", []),
    ],
)
def test_methods_that_nothing_calls_write_nothing(base: str, setup: str, codes: list[str]) -> None:
    text = script(imports="from other import Base", definitions=SAVER.format(base=base), setup=setup)
    assert [code for code in findings(text) if code == "SAVE-RACE"] == codes


@pytest.mark.parametrize(("name", "codes"), [("keep", []), ("extra_repr", ["SAVE-RACE"])])
def test_nor_do_those_that_torch_does_not_know_of(name: str, codes: list[str]) -> None:
    text = script(definitions=SAVER.format(base="(nn.Module)").replace("save(", f"{name}("), setup="saver = Saver()")
    assert [code for code in findings(text) if code == "SAVE-RACE"] == codes


SAVES = """class Saved(Net):
    def save(self, path):
        torch.save(self.state_dict(), path)


def small(number):
    return Saved()


def large(number):
    return Saved()"""
CHOSEN = "if epochs > 2:\n    create = large\nelse:\n    create = small\nmodel = create(3).to(device)"


@pytest.mark.parametrize(("more", "codes"), [("", []), ("\nkept = model.save", ["SAVE-RACE"])])
def test_a_method_that_is_only_called_on_the_main_process_writes_once(more: str, codes: list[str]) -> None:
    ends = f"model.save('model.pt'){more}"
    text = script(definitions=SAVES, setup="epochs = 2", model=CHOSEN, epoch_end=ends)
    assert "if accelerator.is_main_process:\n        accelerator.unwrap_model(model).save('m" in converted(text)
    assert [code for code in findings(text) if code == "SAVE-RACE"] == codes


FETCHES = """def fetch():
    if not os.path.exists("net.pt"):
        os.system("wget example.org/net.t7")
        torch.save(read("net.t7"), "net.pt")"""


@pytest.mark.parametrize(("test", "codes"), [("not os.path.exists", []), ("len", ["COMMAND-ALL"])])
def test_a_command_that_fetches_what_a_missing_file_is_made_of(test: str, codes: list[str]) -> None:
    definitions = FETCHES.replace("not os.path.exists", test)
    text = script(imports=OS, from_imports="from a import read", definitions=definitions, before="fetch()")
    assert [code for code in findings(text) if code == "COMMAND-ALL"] == codes


@pytest.mark.parametrize(
    ("then", "kept"),
    [
        ("if os.path.getsize(path) == 0:\n    log.write('epoch')", False),  # which fails where there is no such file
        ("print(os.stat(path).st_size)", False),
        ("print(os.path.getsize('other.txt'))", True),
        ("if os.path.exists(path):\n    log.write('epoch')", True),
    ],
)
def test_a_log_that_has_to_be_there_is_not_opened_elsewhere(then: str, kept: bool) -> None:
    setup = f"path = 'log.txt'\nlog = open(path, 'a')\n{then}"
    text = script(imports="import os", before=setup)
    assert ("os.devnull" in converted(text)) == kept
    assert ("SAVE-RACE" in findings(text)) == (not kept)


@pytest.mark.parametrize(
    ("given", "guarded"),
    [
        ("str(solver)", True),
        ("getattr(solver, '__name__', '')", True),
        ("solver(model, x)", False),
    ],
)
def test_asking_a_function_for_its_name_runs_nothing(given: str, guarded: bool) -> None:
    definitions = "def solve(f, x):\n    return f(x)\n\n\nsolver = solve"
    text = script(
        imports="import mlflow",
        definitions=definitions,
        epoch_end=f"mlflow.log_param('a', {given})",
    )
    assert ("COLL-MAIN" in findings(text)) == (not guarded)


@pytest.mark.parametrize(
    ("mode", "then", "kept"),
    [
        ("a", "log.write('begin')", True),
        ("a+", "log.write('begin')", True),
        ("a+", "log.seek(0)\nbegun = log.read()", False),
        ("w+", "lines = log.readlines()", False),
    ],
)
def test_a_file_that_is_read_back_is_not_nowhere(mode: str, then: str, kept: bool) -> None:
    text = script(before=f"log = open('log.txt', '{mode}')\n{then}")
    assert ("os.devnull" in converted(text)) == kept
    assert ("SAVE-RACE" in findings(text)) == (not kept)


@pytest.mark.parametrize(("handler", "guarded"), [("sys.exit('it is there')", True), ("print('it is there')", False)])
def test_a_folder_whose_being_there_ends_the_script(handler: str, guarded: bool) -> None:
    setup = f"try:\n    os.mkdir('run')\nexcept FileExistsError:\n    {handler}"
    output = converted(script(imports="import os\nimport sys", before=setup))
    assert ("    if accelerator.is_main_process:\n        os.mkdir('run')" in output) == guarded


@pytest.mark.parametrize(
    ("handler", "severity"),
    [
        ("logging.FileHandler({}, 'w')", "warning"),
        ("logging.FileHandler({}, mode='w')", "warning"),
        ("logging.basicConfig(filename={}, filemode='w')", "warning"),
        ("logging.basicConfig(filename={})", "note"),
        ("logging.getLogger().addHandler(logging.FileHandler(filename={}, mode='a'))", "note"),
        ("logging.handlers.WatchedFileHandler({})", "note"),
    ],
)
def test_a_log_file_is_written_by_the_main_process(handler: str, severity: str) -> None:
    imports = "import logging.handlers\nimport os"
    before = handler.format("'a.log'")
    after = handler.format("'a.log' if accelerator.is_main_process else os.devnull")
    text = script(imports=imports, before=before)
    joined = converted(text).replace("(\n    ", "(").replace("\n)", ")").replace("\n    ", " ")
    assert after in joined and findings(text) == []
    asked = f"{before}\nno_cuda = os.environ.pop('CPU', '')"  # before which there is no accelerator
    chosen = 'device = torch.device("cpu" if no_cuda or not torch.cuda.is_available() else "cuda")'
    early = script(imports=imports, setup=asked, device=chosen)
    assert f"\n{before}\n" in converted(early)
    assert severities(early, "SAVE-RACE") == [severity]
    unknown = script(imports="import logging.handlers", before=f"os = 1\n{before}")
    assert converted(unknown) == lifted(imports="import logging.handlers", before=f"os = 1\n{before}")
    assert severities(unknown, "SAVE-RACE") == [severity]


@pytest.mark.parametrize(
    "handler",
    [
        "logging.basicConfig(level=logging.INFO)",
        "logging.basicConfig(filename=None)",
        "logging.StreamHandler()",
        "logging.handlers.RotatingFileHandler('a.log')",  # which would move the file away
        "Handler('a.log')",
    ],
)
def test_what_logs_into_no_file_stays(handler: str) -> None:
    slots = {"imports": "import logging.handlers\nimport os", "definitions": "class Handler(str):\n    pass"}
    assert converted(script(**slots, before=f"handler = {handler}")) == lifted(**slots, before=f"handler = {handler}")


def test_a_log_file_that_is_named_by_a_choice() -> None:
    slots = {"imports": "import logging\nimport os\nimport sys", "definitions": "def name(argv):\n    return argv[0]"}
    before = "handler = logging.FileHandler(name(sys.argv) if sys.argv else 'a.log', encoding='utf-8')"
    output = converted(script(**slots, before=before))
    assert "(name(sys.argv) if sys.argv else 'a.log') if accelerator.is_main_process else os.devnull" in " ".join(
        output.split()
    )


def test_what_is_prepared_after_the_last_of_several_leaves_them_under_one_header() -> None:
    text = script(
        imports="from torch.utils.tensorboard import SummaryWriter",
        before='writer = SummaryWriter("runs")\nwriter.add_text("a", "b")\nwriter.add_graph(model, torch.zeros(1, 4))\n'
        "writer.close()",
    )
    assert (
        'if accelerator.is_main_process:\n    writer.add_text("a", "b")\n'
        "    writer.add_graph(model, torch.zeros(1, 4))\n"
        "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n"
        "if accelerator.is_main_process:\n    writer.close()\n"
    ) in converted(text)


def test_what_only_one_process_makes_and_the_others_wait_for() -> None:
    saving = (
        "def save(folder, args):\n    if not os.path.exists(folder):\n        os.makedirs(folder)\n"
        '        with open(os.path.join(folder, "config.yml"), "w") as file:\n            json.dump(args, file)'
    )
    text = script(
        imports="import json\nimport os\nfrom torch.utils.tensorboard import SummaryWriter",
        definitions=saving,
        before="writer = SummaryWriter()\nsave(writer.log_dir, {})",
    )
    assert (
        "with accelerator.main_process_first():\n    if accelerator.is_main_process:\n"
        "        save(writer.log_dir, {})\n"
    ) in converted(text)
