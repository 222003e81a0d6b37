"""torch.save and torch.load: one process writes, all of them wait before they read."""

from __future__ import annotations

from textwrap import indent

import pytest
from scripts import REBOUND, convert, converted, findings, lifted, script

STATE = "accelerator.unwrap_model(model).state_dict()"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('torch.save(model.state_dict(), "m.pt")', f'accelerator.save({STATE}, "m.pt")'),
        ('torch.save(model, "m.pt")', 'accelerator.save(accelerator.unwrap_model(model), "m.pt")'),
        ('torch.save(obj=model.state_dict(), f="m.pt")', f'accelerator.save(obj={STATE}, f="m.pt")'),
        ('torch.save(torch.zeros(1), "t.pt")', 'accelerator.save(torch.zeros(1), "t.pt")'),
        (
            'torch.save({"model": model, "step": epoch}, "m.pt")',
            'accelerator.save({"model": accelerator.unwrap_model(model), "step": epoch}, "m.pt")',
        ),
        (
            'state = {"m": model.state_dict()}\ntorch.save(state, "m.pt")',
            f'state = {{"m": {STATE}}}\naccelerator.save(state, "m.pt")',
        ),
        (
            'if epoch: torch.save(model.state_dict(), "m.pt")',
            f'if epoch: accelerator.save({STATE}, "m.pt")',
        ),
        (
            'torch.save(model.state_dict(), "m.pt", pickle_protocol=4)',
            f'if accelerator.is_main_process:\n    torch.save({STATE}, "m.pt", pickle_protocol=4)',
        ),
        (
            'with open("m.pt", "wb") as f:\n    torch.save(model.state_dict(), f)',
            f'if accelerator.is_main_process:\n    with open("m.pt", "wb") as f:\n        accelerator.save({STATE}, f)',
        ),
        (
            'try:\n    torch.save(model.state_dict(), "m.pt")\nexcept OSError:\n    pass',
            f'try:\n    accelerator.save({STATE}, "m.pt")\nexcept OSError:\n    pass',
        ),
    ],
)
def test_saves(before: str, after: str) -> None:
    assert converted(script(epoch_end=before)) == lifted(epoch_end=after)
    assert findings(script(epoch_end=before)) == []


def test_names_of_torch_s_functions() -> None:
    before = 'save(model.state_dict(), "m.pt")\nmodel.load_state_dict(load("m.pt"))'
    after = (
        f'accelerator.save({STATE}, "m.pt")\naccelerator.wait_for_everyone()\n'
        'accelerator.unwrap_model(model).load_state_dict(load("m.pt"))'
    )
    assert converted(script(from_imports="from torch import save, load", after=before)) == lifted(
        from_imports="from torch import load", after=after
    )


@pytest.mark.parametrize(
    ("imports", "definitions", "line"),
    [
        ("", "def save(thing, name):\n    pass", 'save(data, "m.pt")'),
        ("", "class Store:\n    def save(self, *things):\n        pass\n\nstore = Store()", 'store.save(data, "m")'),
        ("", "", "keep = torch.save"),
        ("", "", 'text = "torch.save(model, f)"'),
    ],
)
def test_what_is_no_torch_save_stays(imports: str, definitions: str, line: str) -> None:
    slots = {"imports": imports, "definitions": definitions, "after": line}
    assert converted(script(**slots)) == lifted(**slots)


def test_functions_that_save() -> None:
    definition = 'def keep(net, path="m.pt"):\n    torch.save(net.state_dict(), path)'
    inside = "    accelerator.save(accelerator.unwrap_model(net).state_dict(), path)"
    slots = {"epoch_end": 'keep(model)\nkeep(model, path="b.pt")'}
    assert converted(script(definitions=definition, **slots)) == lifted(
        definitions=f'def keep(net, path="m.pt"):\n{inside}', **slots
    )
    assert converted(script(main=True, definitions=definition, **slots)) == lifted(
        main=True,
        definitions=f'def keep(net, accelerator, path="m.pt"):\n{inside}',
        epoch_end='keep(model, accelerator)\nkeep(model, accelerator, path="b.pt")',
    )


def test_what_is_saved_before_training_is_reported() -> None:
    slots = {"before": 'torch.save(data, "data.pt")'}
    assert converted(script(**slots)) == lifted(**slots)
    result = convert(script(**slots))
    assert result.plan is not None
    assert [str(f) for f in result.plan.findings] == [
        "SAVE-RACE every process saves this file, for it may be read again before training begins; "
        "save it once before launching, or under `with accelerator.main_process_first():`"
    ]


def early(lines: str) -> dict[str, str]:
    """Statements before the objects are prepared."""
    return {"optimizer": f"optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n{lines}"}


@pytest.mark.parametrize(
    "saved", ["model.state_dict()", '{"net": model.state_dict(), "epoch": 0}', "optimizer.state_dict()"]
)
def test_a_checkpoint_that_is_saved_before_training(saved: str) -> None:
    text = script(**early(f'torch.save({saved}, "m.pt")'))
    assert converted(text) == lifted(**early(f'accelerator.save({saved}, "m.pt")'))
    assert findings(text) == []


@pytest.mark.parametrize(("path", "waits"), [('"m.pt"', True), ("sys.argv[1]", True), ('"other.pt"', False)])
def test_a_checkpoint_of_before_training_that_is_loaded_then(path: str, waits: bool) -> None:
    load = f"model.load_state_dict(torch.load({path}))"
    wait = "accelerator.wait_for_everyone()\n" if waits else ""
    text = script(imports="import sys", **early(f'torch.save(model.state_dict(), "m.pt")\n{load}'))
    after = f'accelerator.save(model.state_dict(), "m.pt")\n{wait}{load}'
    assert converted(text) == lifted(imports="import sys", **early(after))


def test_what_was_loaded_before_it_was_saved_is_not_waited_for() -> None:
    lines = 'model.load_state_dict(torch.load("m.pt"))\nLIBRARY.save(model.state_dict(), "m.pt")'
    text = script(**early(lines.replace("LIBRARY", "torch")))
    assert converted(text) == lifted(**early(lines.replace("LIBRARY", "accelerator")))


def test_a_checkpoint_that_functions_save_and_load_before_training() -> None:
    definitions = """\
def keep(net):
    LIBRARY.save(net.state_dict(), "m.pt")


def back(net):
    WAIT
    net.load_state_dict(torch.load("m.pt"))
"""
    slots = early("keep(model)\nback(model)")
    before = definitions.replace("    WAIT\n", "").replace("LIBRARY", "torch")
    after = definitions.replace("WAIT", "accelerator.wait_for_everyone()").replace("LIBRARY", "accelerator")
    assert converted(script(definitions=before, **slots)) == lifted(
        definitions=after, device=REBOUND, model="model = Net().to(device)", **slots
    )


# ---- load


def test_loading_what_was_saved() -> None:
    before = 'torch.save(model.state_dict(), "m.pt")\nmodel.load_state_dict(torch.load("m.pt"))\nn = 1'
    after = (
        f'accelerator.save({STATE}, "m.pt")\naccelerator.wait_for_everyone()\n'
        'accelerator.unwrap_model(model).load_state_dict(torch.load("m.pt"))\nn = 1'
    )
    assert converted(script(after=before)) == lifted(after=after)


def test_nobody_waits_where_something_has_failed_for_some() -> None:
    """The link is the main process's alone, and so is what is done instead."""
    link = 'os.symlink("m.pt", "last.pt")'
    caught = 'except OSError:\n    {}save(torch.load("m.pt"), "last.pt")'
    before = f'torch.save(model.state_dict(), "m.pt")\ntry:\n    {link}\n{caught.format("torch.")}'
    after = (
        f'accelerator.save({STATE}, "m.pt")\ntry:\n    if accelerator.is_main_process:\n        {link}\n'
        f"{caught.format('accelerator.')}"
    )
    assert converted(script(imports="import os", after=before)) == lifted(imports="import os", after=after)


@pytest.mark.parametrize(
    "line",
    ['state = torch.load("m.pt") if data else None', 'if torch.load("m.pt"):\n    pass'],
)
def test_loading_inside_of_something(line: str) -> None:
    before = f'torch.save(model.state_dict(), "m.pt")\n{line}'
    after = f'accelerator.save({STATE}, "m.pt")\naccelerator.wait_for_everyone()\n{line}'
    assert converted(script(after=before)) == lifted(after=after)


def test_no_process_waits_alone() -> None:
    before = 'torch.save(data, "m.pt")\nwith open("a", "w") as f:\n    f.write(str(torch.load("m.pt")))'
    after = (
        'accelerator.save(data, "m.pt")\nif accelerator.is_main_process:\n'
        '    with open("a", "w") as f:\n        f.write(str(torch.load("m.pt")))'
    )
    assert converted(script(after=before)) == lifted(after=after)


def test_loading_what_was_there_before() -> None:
    """Nothing is waited for: no process writes the file."""
    load = 'model.load_state_dict(torch.load("m.pt"))'
    slots = {"before": load, "epoch_end": 'torch.save(model.state_dict(), "m.pt")'}
    output = converted(script(**slots))
    assert "wait_for_everyone" not in output
    assert output.index('model.load_state_dict(torch.load("m.pt"))\n') < output.index("accelerator.prepare(")
    after = converted(script(after=load))
    assert after == lifted(after='accelerator.unwrap_model(model).load_state_dict(torch.load("m.pt"))')


def test_left_out() -> None:
    slots = {"after": 'torch.save(data, "m.pt")\ntorch.load("m.pt")'}
    assert converted(script(**slots), ignore=("SAVE",)) == lifted(**slots)


# ---- what does not work yet


def test_never_a_guard_around_a_forward_pass() -> None:
    """On the main process alone it would wait for the others for ever."""
    text = script(after='torch.save(model(torch.zeros(1, 8)), "y.pt", pickle_protocol=4)')
    assert "if accelerator.is_main_process:\n    torch.save(model(" not in converted(text)


def test_a_model_in_a_dictionary_that_is_saved_later() -> None:
    text = script(after='state = {"net": model}\ntorch.save(state, "m.pt")')
    assert 'state = {"net": accelerator.unwrap_model(model)}' in converted(text)


def test_saving_into_memory() -> None:
    slots = {"imports": "import io", "after": "b = io.BytesIO()\ntorch.save(data, b)\nn = len(b.getvalue())"}
    assert converted(script(**slots)) == lifted(**slots)


def test_more_arguments_on_a_shared_line() -> None:
    text = script(epoch_end='if epoch: torch.save(data, "m.pt", pickle_protocol=4)')
    assert "accelerator.backward(loss)" in converted(text)


WAIT = "accelerator.wait_for_everyone()"
SAVED = "torch.save(model.state_dict(), 'last.pt')"
TASKS = """\
def train(task):
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = Net().to(device)
    if task > 0:
        model.load_state_dict(torch.load({path}))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
    torch.save(model.state_dict(), f"task{{task}}.pt")


{calls}
"""


def tasks(calls: str, path: str = 'f"task{task - 1}.pt"') -> str:
    """A script that trains one network after another, each from the checkpoint of the one before."""
    text = script()
    head, data = text[: text.index("device = ")], text[text.index("device = ") : text.index("loader = ")]
    return f"{head}{data}\n\n{TASKS.format(path=path, calls=calls)}"


@pytest.mark.parametrize("calls", ["train(0)\ntrain(1)", "for task in range(2):\n    train(task)"])
def test_what_an_earlier_call_has_saved_is_waited_for(calls: str) -> None:
    assert f"    {WAIT}\n    if task > 0:\n" in converted(tasks(calls))


def test_what_only_one_call_loads_was_there_before() -> None:
    assert WAIT not in converted(tasks("train(1)"))


BY_HELPERS = """\
def save(path):
    torch.save(model.state_dict(), path)


def read(path):
    model.load_state_dict(torch.load(path))


def reload(path):
    if os.path.exists(path):
        read(path)"""


def test_what_functions_have_saved_is_waited_for_before_it_is_looked_for() -> None:
    looks = 'if os.path.exists("last.pt"):\n    read("last.pt")'
    for epoch, look in ((looks, "if os.path"), ('reload("last.pt")', "reload(")):
        text = script(
            imports="import os", before=BY_HELPERS.replace("\n\n\n", "\n"), epoch=epoch, epoch_end='save("last.pt")'
        )
        output = converted(text)
        assert output.count(WAIT) == 1
        inside = look == "reload("
        assert (f"    {WAIT}\n    if os.path.exists(path):" if inside else f"    {WAIT}\n    {look}") in output
    after = script(imports="import os", before=BY_HELPERS, after=f'save("last.pt")\n{looks}')
    assert f"{WAIT}\nif os.path" in converted(after)


def test_a_look_that_is_kept_is_waited_for() -> None:
    """Inside the function that reads, a process that saw no file would not come to where the others wait."""
    helpers = BY_HELPERS.partition("\n\n\ndef reload")[0].replace("path", '"last.pt"').replace('("last.pt"):', "():")
    looks = 'there = os.path.exists("last.pt")\nif there:\n    read()'
    text = script(imports="import os", before=helpers.replace("\n\n\n", "\n"), epoch=looks, epoch_end="save()")
    output = converted(text)
    assert f"    {WAIT}\n    there = os.path" in output and output.count(WAIT) == 1


def test_what_functions_load_once_or_save_elsewhere_is_not_waited_for() -> None:
    slots = {"imports": "import os", "epoch_end": 'save("last.pt")'}
    assert WAIT not in converted(script(before=f'{BY_HELPERS}\nreload("first.pt")', **slots))
    assert WAIT not in converted(script(before=BY_HELPERS, epoch='reload("first.pt")', **slots))


def test_another_file_is_not_waited_for() -> None:
    load = "model.load_state_dict(torch.load('{}.pt'))"
    assert WAIT not in converted(script(epoch=load.format("first"), epoch_end=SAVED))
    assert WAIT in converted(script(epoch=load.format("last"), epoch_end=SAVED))


FEATURES = """\
def features(path):
    return torch.load(path)


def prepared(folder, names, ending):
    return [features({}) for name in names]
"""


@pytest.mark.parametrize(
    ("path", "waiting"),
    [
        ("os.path.join(folder, f'{name}.feat')", False),
        ("folder + '/' + name + '.feat'", False),
        ("os.path.join(folder, 'first.pt')", False),
        ("os.path.join(folder, f'{name}.pt')", True),
        ("os.path.join(folder, name + ending)", False),
        ("os.path.join(folder, os.environ[name])", True),
        ("folder + '/st.pt' if folder else name + '.feat'", True),
    ],
)
def test_files_of_another_name_are_not_waited_for(path: str, waiting: bool) -> None:
    """A function that loads data before training and after it does not wait for the checkpoint each time."""
    slots = {"imports": "import os", "definitions": FEATURES.format(path), "epoch_end": SAVED}
    calls = "kept = prepared('features', {}, '.feat')"
    text = script(before=calls.format("['a']"), after=calls.format("['b']"), **slots)
    assert (f"    {WAIT}\n    return torch.load(path)" in converted(text)) is waiting


@pytest.mark.parametrize(
    ("read", "waiting"),
    [
        ("if epoch > 0:\n    {load}('last.pt'))", "    if epoch > 0:"),
        ("if os.path.exists('last.pt'):\n    {load}('last.pt'))", "    if os.path.exists('last.pt'):"),
        ("found = sorted(glob.glob('*.pt'))\nif found:\n    {load}(found[-1]))", "    found = sorted("),
        (
            "for name in os.listdir('.'):\n    if name == 'last.pt':\n        {load}(name))",
            "    for name in os.listdir",
        ),
    ],
)
def test_what_an_earlier_epoch_has_saved_is_waited_for(read: str, waiting: str) -> None:
    epoch = read.format(load="model.load_state_dict(torch.load")
    output = converted(script(imports="import os, glob", epoch=epoch, epoch_end=SAVED))
    assert f"    {WAIT}\n{waiting}" in output
    assert output.count(WAIT) == 1


@pytest.mark.parametrize(
    "look",
    [
        "best = sorted(glob.glob('*.pt'))[-1]",
        "best = 'last.pt' if os.path.exists('last.pt') else 'first.pt'",
        "best = max(os.listdir('.'), key=os.path.getmtime)",
        "best = latest()",
    ],
)
def test_who_looks_for_a_checkpoint_waits_before(look: str) -> None:
    latest = "def latest():\n    return sorted(pathlib.Path('.').glob('*.pt'))[-1]"
    load = f"{look}\nmodel.load_state_dict(torch.load(best))"
    output = converted(script(imports="import os, glob, pathlib", definitions=latest, epoch_end=SAVED, after=load))
    assert f"{WAIT}\n{look}\n" in output
    assert output.count(WAIT) == 1


def test_who_looks_before_training_finds_what_was_there() -> None:
    look = "found = sorted(glob.glob('*.pt'))\nif found:\n    model.load_state_dict(torch.load(found[-1]))"
    assert WAIT not in converted(script(imports="import glob", before=look, epoch_end=SAVED))


def test_a_folder_that_was_named_by_listing_before_training_is_not_waited_for_there() -> None:
    """The wait stands before the file is loaded, not before the folders are counted."""
    setup = "number = len(os.listdir('runs'))\nfolder = f'runs/{number}'"
    save, load = "torch.save(model.state_dict(), f'{folder}/m.pt')", "state = torch.load(f'{folder}/m.pt')"
    output = converted(script(imports="import os", setup=setup, after=f"{save}\n{load}"))
    assert f"accelerator.wait_for_everyone()\n{load}" in output
    assert output.count("wait_for_everyone") == 1
    found = "name = os.listdir('runs')[-1]\nstate = torch.load(name)"
    output = converted(script(imports="import os", after=f"{save.replace('{folder}/', '')}\n{found}"))
    assert f"accelerator.wait_for_everyone()\n{found}" in output


@pytest.mark.parametrize(
    ("opened", "above"),
    [
        ("with open('last.pt', 'rb') as f:\n    {}", True),
        ("if len(data) > 3:\n    with open('last.pt', 'rb') as f:\n        {}", True),
        ("with torch.no_grad():\n    {}", False),
    ],
)
def test_the_wait_stands_before_what_opens_the_file(opened: str, above: bool) -> None:
    """Who has opened the file before the main process has written it reads what was in it, or finds none."""
    load = (
        opened.format("state = torch.load(f)") if " as f" in opened else opened.format("state = torch.load('last.pt')")
    )
    output = converted(script(epoch_end=SAVED.replace('"', "'"), after=load))
    first = next(line for line in output.splitlines() if line.strip() == WAIT)
    following = output.split(f"{first}\n")[1].splitlines()[0].strip()
    assert output.count(WAIT) == 1
    assert following == (load.splitlines()[0] if above else load.splitlines()[-1].strip())


@pytest.mark.parametrize(
    "line",
    [
        "pickle.dump({}, file)",
        "pickle.dump({{'model': {}, 'n': 1}}, file)",
        "file.write(pickle.dumps({}))",
        "joblib.dump({}, file)",
        "joblib.dump(value={}, filename=file)",
        "torch.save(obj={}, f=file, pickle_protocol=4)",
    ],
)
def test_a_model_is_kept_without_its_wrapper(line: str) -> None:
    slots = {"imports": "import pickle\n\nimport joblib"}
    before, after = (line.format(model) for model in ("model", "accelerator.unwrap_model(model)"))
    opened = 'with open("m.pkl", "wb") as file:'
    text = script(**slots, after=f"{opened}\n    {before}")
    guarded = f"if accelerator.is_main_process:\n    {opened}\n        {after}"
    assert converted(text) == lifted(**slots, after=guarded)


@pytest.mark.parametrize(
    "line",
    [
        "pickle.dump(device, file)",
        "pickle.dump({'rows': len(loader)}, file)",
        "pickle.dump(dict(names=['model']), file)",
        "joblib.dump(value=[1], filename=file)",
    ],
)
def test_other_things_that_are_kept_stay(line: str) -> None:
    text = script(imports="import pickle\n\nimport joblib", after=f'with open("m.pkl", "wb") as file:\n    {line}')
    assert line in converted(text)


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        ("Thread(target=torch.save, args=(state, 'm.pt')).start()", ["SAVE-RACE"]),
        ("executor.submit(np.save, 'a.npy', state)", ["SAVE-RACE"]),
        ("write = torch.save\nwrite(state, 'm.pt')", ["SAVE-RACE"]),
        ("write = partial(torch.save, f='m.pt')\nwrite(state)", ["SAVE-RACE"]),
        ("list(map(os.remove, names))", ["SAVE-RACE"]),
        ("writers = {'pt': torch.save}\nwriters['pt'](state, 'm.pt')", ["SAVE-RACE"]),
        ("list(map(os.path.exists, names))", []),
        ("Thread(target=torch.load, args=('m.pt',)).start()", []),
        ("os.remove('m.pt')", []),  # which is guarded
        ("assert torch.save is not None", []),
        ("names.append(plt.show)", []),
        ("plt.savefig = print", []),
    ],
)
def test_functions_that_write_and_are_handed_on_are_reported(lines: str, codes: list[str]) -> None:
    slots = {
        "imports": "import os\nfrom functools import partial\nfrom threading import Thread\n\nimport numpy as np",
        "from_imports": "import matplotlib.pyplot as plt\nfrom concurrent.futures import ThreadPoolExecutor",
        "setup": "executor, names, state = ThreadPoolExecutor(), [], 1",
    }
    assert findings(script(**slots, after=lines)) == codes


def test_functions_that_write_and_are_handed_on_by_the_main_process_are_not_reported() -> None:
    text = script(
        after="with open('a', 'w') as file:\n    file.write(str(list(map(os.remove, []))))", imports="import os"
    )
    assert findings(text) == []


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("save_checkpoint(model, 'm.pt')", ["SAVE-RACE"]),
        ("save_checkpoint({'state': model.state_dict(), 'epoch': epoch}, filename='out/m')", ["SAVE-RACE"]),
        ("tools.keep(os.path.join('out', name), model.state_dict())", ["SAVE-RACE"]),
        ("state = {'m': model.state_dict()}\nkept = tools.keep(state, f'{name}.pt')", ["SAVE-RACE"]),
        ("saver.save(model, 'm.pt')", ["SAVE-RACE"]),
        ("tools.keep([1, 2], 'm.png')", []),  # every process may do that, or not: nothing says that it writes
        ("tools.keep(model, 'cuda')", []),
        ("tools.show(model, epoch)", []),
        ("print(model, 'm.pt')", []),
        ("copied = copy.deepcopy(model)", []),
    ],
)
def test_unknown_functions_that_may_save_a_model(line: str, codes: list[str]) -> None:
    slots = {
        "imports": "import copy\nimport os",
        "from_imports": "from elsewhere import save_checkpoint, tools, Saver",
        "setup": "name, saver = 'm', Saver()",
    }
    assert findings(script(**slots, epoch_end=line)) == codes
    assert findings(script(**slots, before=line.replace("epoch", "1"))) == []  # where something is loaded, perhaps


def test_a_function_of_the_script_that_saves_is_known() -> None:
    save = "def save(model, path):\n    torch.save(model.state_dict(), path)"
    assert findings(script(definitions=save, epoch_end="save(model, 'm.pt')")) == []


WHOLE = "torch.save(model, 'model.pt')\nbest = {}\n{}"


@pytest.mark.parametrize(
    ("load", "use", "placed"),
    [
        ("torch.load('model.pt')", "best(x)", True),
        ("torch.load('model.pt', weights_only=False)", "best.eval()", True),
        ("torch.load('model.pt').to(device)", "best(x)", False),
        ("torch.load('model.pt')", "best.to(device)", False),
        ("torch.load('model.pt')", "best = best.cpu()", False),
        ("torch.load('model.pt', map_location='cpu')", "best(x)", False),
        ("torch.load('state.th')", "best.keys()", False),  # another file
    ],
)
def test_a_whole_network_is_loaded_where_the_process_computes(load: str, use: str, placed: bool) -> None:
    output = converted(script(after=WHOLE.format(load, use)))
    assert ("map_location=accelerator.device)" in output) == placed


@pytest.mark.parametrize(
    "saved",
    [
        "other = copy.deepcopy(model).cpu()\ntorch.save(other, 'model.pt')",
        "torch.save(model.cpu(), 'model.pt')",
        "model.to('cpu')\ntorch.save(model, 'model.pt')",
    ],
)
def test_a_network_that_was_saved_from_the_cpu_is_loaded_there(saved: str) -> None:
    text = script(imports="import copy", after=f"{saved}\nbest = torch.load('model.pt')\nbest(torch.ones(1, 8))")
    assert "map_location" not in converted(text)


def test_the_state_of_one_stays_where_it_is_loaded() -> None:
    saved = "torch.save(model.state_dict(), 'model.pt')\nmodel.load_state_dict(torch.load('model.pt'))"
    assert "map_location" not in converted(script(after=saved))


@pytest.mark.parametrize("made", ["{'net': Net}['net']()", "models.__dict__[name]()", "getattr(models, name)()"])
def test_the_first_weights_of_a_network_that_is_looked_up_are_a_checkpoint(made: str) -> None:
    slots = {"from_imports": "import models", "setup": "name = 'net'", "model": f"model = {made}.to(device)"}
    text = script(before="torch.save({'state': model.state_dict()}, 'first.pt')", **slots)
    assert "accelerator.save({'state': model.state_dict()}, 'first.pt')" in converted(text)
    assert "SAVE-RACE" not in findings(text)


@pytest.mark.parametrize(
    ("made", "called", "codes"),
    [
        ("Keeper(model, 'out')", "keeper.save('last')", ["SAVE-RACE"]),
        ("Keeper('out', net=model)", "keeper.save('last', step=3)", ["SAVE-RACE"]),
        ("Keeper('out')", "keeper.save('last')", []),
        ("Keeper(model, 'out')", "keeper.show('last')", []),
        ("Keeper(model, 'out')", "with torch.no_grad():\n    pass", []),
    ],
)
def test_an_object_that_was_given_a_model_may_save_it(made: str, called: str, codes: list[str]) -> None:
    slots = {"from_imports": "from keepers import Keeper", "before": f"keeper = {made}"}
    assert [code for code in findings(script(epoch_end=called, **slots)) if code == "SAVE-RACE"] == codes


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("keep({'net': model.state_dict(), 'epoch': epoch}, folder)", ["SAVE-RACE"]),
        ("kept = keep(model.state_dict())", []),
        ("keep(epoch, folder)", []),
    ],
)
def test_unknown_functions_that_are_handed_a_state(line: str, codes: list[str]) -> None:
    slots = {"from_imports": "from keepers import folder, keep"}
    assert [code for code in findings(script(epoch_end=line, **slots)) if code == "SAVE-RACE"] == codes


@pytest.mark.parametrize(
    "look",
    [
        "assert os.path.exists(path)",
        "if not math.isfinite(best) or not os.path.isfile(path):\n    raise RuntimeError",
        'there = (Path("out") / "m.pt").exists()\naccelerator.print(there)',
    ],
)
def test_who_looks_for_the_file_before_it_is_loaded_waits_before_that(look: str) -> None:
    imports = "import math\nimport os\nfrom pathlib import Path"
    setup = 'path = os.path.join("out", "m.pt")\nbest = 0.0'
    load = "model.load_state_dict(torch.load(path))"
    text = script(
        imports=imports,
        setup=setup,
        epoch_end="torch.save(model.state_dict(), path)",
        after=look.replace("accelerator.", "") + f"\n{load}",
    )
    assert converted(text) == lifted(
        imports=imports,
        setup=setup,
        epoch_end=f"accelerator.save({STATE}, path)",
        after=f"accelerator.wait_for_everyone()\n{look}\naccelerator.unwrap_model(model).load_state_dict(torch.load(path))",
    )


@pytest.mark.parametrize("between", ['assert os.path.exists("other.pt")', "torch.save(model.state_dict(), path)"])
def test_nobody_waits_before_what_looks_for_another_file_or_before_it_is_saved(between: str) -> None:
    text = script(
        imports="import os",
        setup='path = "m.pt"',
        epoch_end="torch.save(model.state_dict(), path)",
        after=f"assert os.path.exists(path)\n{between}\nmodel.load_state_dict(torch.load(path))"
        if "save" in between
        else f"{between}\nmodel.load_state_dict(torch.load(path))",
    )
    lines = converted(text).splitlines()
    assert "accelerator.unwrap_model(model)" in lines[lines.index("accelerator.wait_for_everyone()") + 1]


LATEST = """\
def latest(folder):
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    if not names:
        return None
    return os.path.join(folder, names[-1])


def read(path):
    return torch.load(path)


def read_all(path):
    model.load_state_dict(read(path))"""


@pytest.mark.parametrize(
    ("looks", "waits"),
    [
        ('p = latest("ck")\nif p is not None:\n    model.load_state_dict(torch.load(p))', 1),
        ('p = latest("ck")\nif p is not None:\n    read_all(p)', 1),  # a process that finds none reads none
        ('if os.path.exists("ck/9.pt"):\n    read_all("ck/9.pt")', 1),
        ('p = latest("ck")\nif p is not None:\n    print(p)', 0),
        ('p = latest("ck")\nif p is not None:\n    read_all("ck/start.onnx")', 0),
    ],
)
def test_processes_wait_before_functions_find_a_checkpoint(looks: str, waits: int) -> None:
    slots = {"imports": "import os", "before": LATEST.replace("\n\n\n", "\n"), "epoch": looks}
    output = converted(script(**slots, epoch_end='torch.save(model.state_dict(), f"ck/{epoch}.pt")'))
    assert output.count(WAIT) == waits
    if waits:
        assert f"    {WAIT}\n    {looks.splitlines()[0]}" in output


@pytest.mark.parametrize(("around", "waits"), [("", False), ("for run in range(2):\n", True)])
def test_a_checkpoint_of_another_run_is_not_waited_for(around: str, waits: bool) -> None:
    """What is loaded between two trainings was not saved by the second one, unless all of it is run again."""
    again = 'for x, y in loader:\n    F.cross_entropy(model(x), y).backward()\ntorch.save(model.state_dict(), "m.pt")'
    after = f'model.load_state_dict(torch.load("m.pt"))\n{again}'
    body = f"{around}{indent(after, '    ')}" if around else after
    assert ("wait_for_everyone" in converted(script(after=body))) == waits


@pytest.mark.parametrize(
    ("save", "after", "guarded"),
    [
        ('torch.save(net.state_dict(), "m.pt")', "", True),
        ('torch.save({"net": net.state_dict(), "n": 1}, "m.pt")', "", True),
        ('torch.save(3, "n.pt")', "", False),  # no checkpoint: it may be read before training
        ('torch.save(net.state_dict(), "m.pt")', "torch.load('m.pt')", False),  # nothing would wait for the file there
        ('torch.save(net.state_dict(), "m.pt")', "torch.load('m.json')", True),
    ],
)
def test_a_class_whose_attributes_are_not_followed_saves_once(save: str, after: str, guarded: bool) -> None:
    lines = f"class Keeper:\n    def keep(self, net):\n        {save}\n        {after or 'pass'}"
    slots = {
        "imports": "import sys",
        "definitions": lines,
        "before": "keeper = Keeper()\nsetattr(keeper, sys.argv[1], 1)",
        "epoch_end": "keeper.keep(model)",
    }
    text = script(**slots)
    assert (f"        if accelerator.is_main_process:\n            {save}\n" in converted(text)) is guarded
    assert ("SAVE-RACE" in findings(text)) is not guarded
