"""NAME-OWN: names of folders and files that every process would make up for itself."""

from __future__ import annotations

import pytest
from scripts import findings, script

IMPORTS = """\
import datetime
import os
import random
import tempfile
import time
import uuid
from datetime import datetime as clock
from pathlib import Path
import numpy as np
"""
MAKE = "os.makedirs(folder, exist_ok=True)"
SAVE = "torch.save(model.state_dict(), os.path.join(folder, 'm.pt'))"
READ = "model.load_state_dict(torch.load(os.path.join(folder, 'm.pt')))"


def found(setup: str, **slots: str) -> list[str]:
    """The findings about names in a script."""
    return [code for code in findings(script(imports=IMPORTS, setup=setup, **slots)) if code == "NAME-OWN"]


@pytest.mark.parametrize(
    "folder",
    [
        "folder = f'runs/{time.time()}'",
        "folder = f'runs/{time.time():.0f}'",
        "folder = f'runs/{clock.now():%H-%M}'",
        "folder = 'runs/' + time.strftime('%Y%m%d-%H%M%S')",
        "folder = os.path.join('runs', str(int(time.time())))",
        "folder = os.path.join('runs', clock.now().strftime('%b%d_%H-%M-%S'))",
        "stamp = datetime.datetime.now().isoformat()\nfolder = 'runs/{}'.format(stamp)",
        "name = uuid.uuid4().hex\nfolder = Path('runs') / name",
        "folder = 'run%d' % random.randint(0, 1000)",
        "folder = f'run{os.getpid()}'",
        "def named():\n    return f'runs/{time.time()}'\n\n\nfolder = named()",
        "class Settings:\n    pass\n\n\nsettings = Settings()\nsettings.out = str(time.time())\nfolder = settings.out",
    ],
)
@pytest.mark.parametrize(
    ("slots", "count"), [({"before": MAKE}, 1), ({"after": f"{SAVE}\n{READ}"}, 1), ({"after": SAVE}, 0)]
)
def test_names_of_the_time_and_of_chance(folder: str, slots: dict[str, str], count: int) -> None:
    assert found(folder, **slots) == ["NAME-OWN"] * count


RUNS = "import wandb\nfrom hydra.core.hydra_config import HydraConfig\n"


@pytest.mark.parametrize(
    ("setup", "folder", "count"),
    [
        ("wandb.init()", "wandb.run.dir", 1),
        ("wandb.init()", "'runs/' + wandb.run.name", 1),
        ("run = wandb.init()", "run.dir", 1),
        ("run = wandb.init()", "run.config.out", 0),
        ("name = wandb.util.generate_id()", "name", 1),
        ("folder = HydraConfig.get().runtime.output_dir", "folder", 1),
        ("folder = HydraConfig.get().job.name", "folder", 0),
        ("wandb.init()", "'runs'", 0),
        ("wandb.init(name='a')", "wandb.config.out", 0),
    ],
)
def test_folders_of_a_run(setup: str, folder: str, count: int) -> None:
    save, read = (line.replace("folder", f"({folder})") for line in (SAVE, READ))
    assert found(RUNS + setup, after=f"{save}\n{read}") == ["NAME-OWN"] * count
    assert found(RUNS + setup, after=save) == []


@pytest.mark.parametrize(
    "folder",
    [
        "folder = 'runs/first'",
        "folder = time.strftime('%Y-%m-%d')",  # but at midnight
        "folder = f'runs/{clock.now():%Y-%m-%d}'",
        "folder = f'runs/{clock.now().year}'",
        "folder = str(clock.now().date())",
        "now = clock.now()\nfolder = f'runs/{now:%Y%m%d}'",
        "random.seed(1)\nfolder = 'run%d' % random.randint(0, 1000)",
        "started = time.time()\nfolder = 'runs'",
        "folder = f'runs/{len(os.sep)}'",
    ],
)
def test_names_that_are_alike(folder: str) -> None:
    assert found(folder, before=MAKE, after=f"{SAVE}\n{READ}") == []


FOLDER = "folder = f'runs/{time.time()}'"


@pytest.mark.parametrize(
    "use",
    [
        "os.makedirs(folder)",  # on the main process only
        "with open(folder + '.txt', 'w') as file:\n    file.write('done')",
        "np.save(os.path.join(folder, 'a.npy'), np.zeros(3))",
        "log = open(folder + '.txt', 'w')\nlog.write('done')",
        "print(folder)",
        "import json\nwith open(folder, 'w') as file:\n    json.dump({}, file)",
        "from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter(folder)",
    ],
)
def test_what_only_the_main_process_writes_may_have_its_own_name(use: str) -> None:
    assert found(FOLDER, before=use) == []


@pytest.mark.parametrize(
    "use",
    [
        "if not os.path.exists(folder):\n    os.makedirs(folder)",
        "Path(folder).mkdir(parents=True, exist_ok=True)",
        "def begin(path):\n    os.makedirs(path, exist_ok=True)\n\n\nbegin(folder)",
    ],
)
def test_a_folder_that_every_process_makes(use: str) -> None:
    assert found(FOLDER, before=use) == ["NAME-OWN"]


def test_a_temporary_folder_is_the_process_s_own_unless_others_read_there() -> None:
    folder = "folder = tempfile.mkdtemp()"
    assert found(folder, before=MAKE) == []
    assert found(folder, after=SAVE) == []
    assert found(folder, after=f"{SAVE}\n{READ}") == ["NAME-OWN"]
    assert found("folder = tempfile.NamedTemporaryFile().name", after=f"{SAVE}\n{READ}") == ["NAME-OWN"]


def test_it_is_said_once_for_a_name_with_its_place() -> None:
    from scripts import convert

    result = convert(script(imports=IMPORTS, setup=FOLDER, before=f"{MAKE}\n{MAKE}", after=f"{SAVE}\n{READ}"))
    assert result.plan is not None
    (finding,) = (f for f in result.plan.findings if f.code == "NAME-OWN")
    assert "`time.time()` differs from process to process" in finding.message


@pytest.mark.parametrize(
    "folder",
    [
        "number = len(os.listdir('runs'))\nfolder = f'runs/{number}'",
        "folder = os.path.join('runs', str(1 + max([int(name[3:]) for name in os.listdir('runs')], default=0)))",
        "folder = f'runs/{len(list(Path(\"runs\").iterdir()))}'",
        "number = 0\nwhile os.path.exists(f'run{number}'):\n    number += 1\nfolder = f'run{number}'",
        "number = 0\nfolder = 'run0'\nwhile os.path.isdir(folder):\n    number += 1\n    folder = f'run{number}'",
        "for number in range(99):\n    folder = f'run{number}'\n    if not Path(folder).exists():\n        break",
        "def free():\n    return 'run%d' % len(os.listdir('.'))\n\n\nfolder = free()",
        "folder = ''.join(random.choice('abc') for _ in range(6))",
        "folder = 'run' + ''.join([random.choice('abc') for _ in range(6)])",
    ],
)
def test_the_next_free_number_and_letters_of_chance(folder: str) -> None:
    assert found(folder, before="os.makedirs(folder)", after=f"{SAVE}\n{READ}") == ["NAME-OWN"]
    assert found(folder, before="os.makedirs(folder)", after=SAVE) == []  # only the main process uses it


@pytest.mark.parametrize(
    "folder",
    [
        "number = len(os.listdir('runs'))\nfolder = 'runs'",
        "number = 0\nwhile os.path.exists(f'old{number}'):\n    number += 1\nfolder = 'runs'",
        "folder = ''.join(letter for letter in 'runs')",
        "for number in range(3):\n    folder = f'run{number}'\n    if os.path.exists(folder):\n        print(folder)",
    ],
)
def test_folders_with_names_of_their_own(folder: str) -> None:
    assert found(folder, before="os.makedirs(folder, exist_ok=True)", after=f"{SAVE}\n{READ}") == []


def test_files_that_are_listed_to_be_read() -> None:
    setup = "folder = sorted(os.listdir('runs'))[-1]"
    assert found(setup, after=f"{SAVE}\n{READ}") == []
    assert found("folder = os.path.join('runs', max(os.listdir('runs')))", after=f"{SAVE}\n{READ}") == []


CFG = """\
class CFG:
    now = {now}
    rate = 0.1
    folder = {folder}


class Longer(CFG):
    seed = 1


cfg = CFG()
{more}
"""
NOW = "datetime.datetime.now().strftime('%Y%m%d-%H%M%S')"


@pytest.mark.parametrize(
    ("now", "folder", "more"),
    [
        (NOW, "'runs'", "folder = f'./{CFG.now}/'"),
        (NOW, "'runs'", "folder = f'./{cfg.now}/'"),
        (NOW, "'runs'", "folder = f'./{Longer.now}/'"),
        (NOW, "f'runs/{now}'", "folder = CFG.folder"),
        (NOW, "'runs'", "CFG.name = f'{CFG.now}-base'\nCFG.out = f'./{CFG.name}/'\nfolder = CFG.out"),
    ],
)
def test_a_time_in_the_body_of_a_class(now: str, folder: str, more: str) -> None:
    setup = CFG.format(now=now, folder=folder, more=more)
    assert found(setup, before=MAKE) == ["NAME-OWN"]
    assert found(setup, after=SAVE) == []


@pytest.mark.parametrize(
    ("now", "folder", "more"),
    [
        (NOW, "'runs'", "folder = CFG.folder"),
        ("time.strftime('%Y-%m-%d')", "'runs'", "folder = f'runs/{CFG.now}'"),
        ("'first'", "'runs'", "folder = f'runs/{cfg.now}'"),
        (NOW, "'runs'", "CFG.now = 'first'\nfolder = f'./{CFG.now}/'"),
        (NOW, "'runs'", "cfg = CFG(now='first')\nfolder = f'./{cfg.now}/'"),
        (NOW, "'runs'", "class Other:\n    now = 'first'\n\n\nfolder = f'./{Other.now}/'"),
        (NOW, "'runs'", "class Other(CFG):\n    now = 'first'\n\n\nfolder = f'./{Other.now}/'"),
    ],
)
def test_what_else_the_body_of_a_class_sets(now: str, folder: str, more: str) -> None:
    assert found(CFG.format(now=now, folder=folder, more=more), before=MAKE) == []


@pytest.mark.parametrize(
    ("path", "codes"), [("'a.npy'", []), ("f'{time.time()}.npy'", ["NAME-OWN"]), ("folder + '/a.npy'", ["NAME-OWN"])]
)
def test_what_is_written_is_no_name(path: str, codes: list[str]) -> None:
    write = f"print([np.save({path}, np.random.rand(3)) for _ in range(2)])"
    write = f"done = [np.save({path}, np.random.rand(3)) for _ in range(2)]\nprint(done)"
    assert found("folder = f'runs/{time.time()}'", before=write) == codes


WRITER = "from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter({})"


@pytest.mark.parametrize(
    ("made", "path", "count"),
    [
        ("f'runs/{time.time()}'", "f'{writer.log_dir}/m.pt'", 1),
        ("log_dir=f'runs/{time.time()}'", "os.path.join(writer.get_logdir(), 'm.pt')", 1),
        ("", "writer.log_dir + '/m.pt'", 1),  # it is named after the time
        ("comment='a'", "writer.get_logdir() + '/m.pt'", 1),
        ("'runs/a'", "writer.log_dir + '/m.pt'", 0),
        ("f'runs/{time.time()}'", "'m.pt'", 0),
    ],
)
def test_the_folder_of_a_writer(made: str, path: str, count: int) -> None:
    save, read = f"torch.save(model.state_dict(), {path})", f"model.load_state_dict(torch.load({path}))"
    assert found(WRITER.format(made), after=f"{save}\n{read}") == ["NAME-OWN"] * count
