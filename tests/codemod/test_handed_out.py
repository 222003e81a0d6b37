"""What functions keep that something else runs: handlers that are registered, or looked up."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import findings, script

_EVENTS = """
class Events:
    def __init__(self):
        self.handlers = {}

    def on(self, event):
        def register(function):
            self.handlers.setdefault(event, []).append(function)
            return function
        return register

    def fire(self, event, *args):
        for function in self.handlers.get(event, []):
            function(*args)


events = Events()
state = {"losses": [], "seen": []}


"""
_KEEPS = 'def keep(loss):\n    state["losses"].append(loss.item())\n\n\n'
_AFTER = 'print(sum(state["losses"]) / 8)'


def _said(definitions: str, call: str, after: str = _AFTER) -> list[str]:
    text = script(definitions=_EVENTS + definitions, batch_end=call, after=after)
    return [code for code in findings(text) if code in ("METRIC-TRAIN", "COLL-RANKFLOW")]


@pytest.mark.parametrize(
    ("definitions", "call"),
    [
        ('@events.on("batch")\n' + _KEEPS, 'events.fire("batch", loss)'),
        (_KEEPS + 'events.on("batch")(keep)', 'events.fire("batch", loss)'),
        (_KEEPS + 'table = {"batch": keep}', 'table["batch"](loss)'),
        (_KEEPS + "every = [keep]", "for one in every:\n    one(loss)"),
    ],
)
def test_what_a_handler_keeps_is_of_a_share(definitions: str, call: str) -> None:
    assert _said(definitions, call) == ["METRIC-TRAIN"]
    assert _said(definitions, call, "") == []


@pytest.mark.parametrize(
    ("definitions", "call"),
    [
        ('@events.on("batch")\n' + _KEEPS, 'events.fire("batch", epoch)'),  # the same everywhere
        (_KEEPS + "table = {}\ntable['a'] = keep", 'table["batch"](loss, epoch)'),  # which it could not be given
        (_KEEPS, 'events.fire("batch", loss)'),  # nobody has it
        ('@events.on("batch")\ndef keep(loss):\n    state["seen"].append(1)\n', 'events.fire("batch", loss)'),
    ],
)
def test_what_no_handler_keeps(definitions: str, call: str) -> None:
    assert _said(definitions, call) == []
