"""Checkpoints that are compared with a network key by key, once it is no DataParallel any more."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import converted, script, severities

_STRIPPED = "key.removeprefix("
_CONSUMED = "consume_prefix"
_READ = 'ckpt = torch.load("net.pt")\nstate = model.state_dict()\n'
_SAVED = 'torch.save(model.state_dict(), "net.pt")'


def _script(lines: str, definitions: str = "") -> str:
    model = "model = nn.DataParallel(Net()).to(device)"
    return script(definitions=definitions, model=model, before=lines, after=_SAVED)


@pytest.mark.parametrize(
    "lines",
    [
        "for k, v in ckpt.items():\n    if k in state:\n        state[k] = v\nmodel.load_state_dict(state)",
        "for k, v in ckpt.items():\n    if k in state:\n        state[k].copy_(v)",
        "for k in state:\n    if k in ckpt:\n        state[k] = ckpt[k]\nmodel.load_state_dict(state)",
        "for (k, v), (name, w) in zip(state.items(), ckpt.items()):\n    if k == name:\n        v.copy_(w)",
        "for k, name in zip(state.keys(), ckpt.keys()):\n    assert name == k",
        "for k in state.keys():\n    if k in ckpt.keys():\n        state[k] = ckpt[k]\nmodel.load_state_dict(state)",
    ],
)
def test_the_prefix_is_taken_off_what_was_read(lines: str) -> None:
    text = converted(_script(_READ + lines))
    assert text.count(_STRIPPED) == 1 and _CONSUMED not in text
    assert severities(_script(_READ + lines), "CKPT-KEYS") == ["note"]


def test_entries_that_are_collected_first_are_those_of_what_was_read() -> None:
    lines = "kept = {}\nfor k, v in ckpt.items():\n    if k in state:\n        kept[k] = v\nstate.update(kept)\n"
    text = converted(_script(f"{_READ}{lines}model.load_state_dict(state)"))
    assert text.count(_STRIPPED) == 1
    assert severities(_script(f"{_READ}{lines}model.load_state_dict(state)"), "CKPT-KEYS") == ["note"]


def test_an_entry_of_a_checkpoint_is_stripped_where_it_is_taken() -> None:
    lines = "old = ckpt['net']\nfor k, v in old.items():\n    if k in state:\n        state[k] = v\n"
    text = converted(_script(f"{_READ}{lines}model.load_state_dict(state)"))
    assert "old = {key.removeprefix('module.'): value for key, value in ckpt['net'].items()}\n" in text
    assert 'ckpt = torch.load("net.pt")\n' in text


def test_what_cannot_be_stripped_is_told_of() -> None:
    definitions = "def read(path):\n    return torch.load(path)"
    lines = "state = model.state_dict()\nckpt = read('net.pt')\nfor k, v in ckpt.items():\n    if k in state:\n"
    text = _script(f"{lines}        state[k] = v\nmodel.load_state_dict(state)", definitions)
    assert severities(text, "CKPT-KEYS") == ["note", "warning"]
    assert _STRIPPED not in converted(text)


@pytest.mark.parametrize(
    "lines",
    [
        "for k, v in ckpt.items():\n    k = k.replace('module.', '')\n    if k in state:\n        state[k] = v",
        "for k, v in ckpt.items():\n    if k[7:] in state:\n        state[k[7:]] = v",
        "for k, v in ckpt.items():\n    print(k, v.shape)",
        "other = Net().state_dict()\nfor k, v in ckpt.items():\n    if k in other:\n        print(k)",
    ],
)
def test_keys_that_the_script_spells_itself_stay(lines: str) -> None:
    assert _STRIPPED not in converted(_script(_READ + lines))


def test_a_checkpoint_that_is_loaded_as_it_is_is_stripped_there() -> None:
    text = converted(_script('ckpt = torch.load("net.pt")\nmodel.load_state_dict(ckpt)'))
    assert _CONSUMED in text and _STRIPPED not in text


@pytest.mark.parametrize(
    "lines",
    [
        "for k in state:\n    print(state[k])\nrows = torch.load('rows.pt')\nfor k in range(3):\n    print(rows[k])",
        "skipped = torch.load('skipped.pt')\nfor k in state:\n    if k in skipped:\n        print(k)",
    ],
)
def test_what_is_no_dict_of_such_keys_stays(lines: str) -> None:
    text = _script(f"state = model.state_dict()\n{lines}")
    assert _STRIPPED not in converted(text)
    assert severities(text, "CKPT-KEYS") == ["note"]


def test_each_function_has_a_checkpoint_of_its_own() -> None:
    lines = "    saved = torch.load(path)\n    own = model.state_dict()\n    for k in own:\n        own[k] = saved[k]\n"
    text = _script("first('a.pt')\nsecond('a.pt')", f"def first(path):\n{lines}\n\ndef second(path):\n{lines}")
    assert converted(text).count(_STRIPPED) == 2


def test_what_two_functions_read_is_stripped_once() -> None:
    lines = "    own = model.state_dict()\n    for k in own:\n        own[k] = saved[k]\n"
    text = _script("saved = torch.load('a.pt')\nfirst()\nsecond()", f"def first():\n{lines}\n\ndef second():\n{lines}")
    assert converted(text).count(_STRIPPED) == 1


def test_what_is_taken_in_turn_stays() -> None:
    """No key is compared with another one."""
    lines = "for (k, v), (name, w) in zip(state.items(), ckpt.items()):\n    v.copy_(w)"
    assert _STRIPPED not in converted(_script(_READ + lines))
