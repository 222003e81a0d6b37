"""Functions that set the environment for CUDA: what runs before that asks for no state of the processes."""

from __future__ import annotations

import pytest
from scripts import converted, findings, script

SET = 'os.environ["CUDA_VISIBLE_DEVICES"] = gpu'


def text_of(definitions: str, setup: str = "prepare_gpu('1')") -> str:
    return script(imports="import os", definitions=definitions, setup=setup)


@pytest.mark.parametrize(
    "body",
    [
        f"print('start')\n    {SET}",
        f"if gpu:\n        print('start')\n    {SET}",
        f"if gpu:\n        print('start')\n        {SET}",
        "print('start')\n    pick(gpu)",
        "tell()\n    pick(gpu)",
        "with open('a.txt', 'w') as f:\n        f.write('start')\n    pick(gpu)",
    ],
)
def test_what_stands_before_the_setting(body: str) -> None:
    more = f"def tell():\n    print('start')\n\ndef pick(gpu):\n    {SET}\n\n"
    text = text_of(f"{more}def prepare_gpu(gpu):\n    {body}")
    assert "PartialState" not in converted(text)
    assert {"PRINT-ALL", "SAVE-RACE"} & set(findings(text))


@pytest.mark.parametrize(
    "body",
    [
        f"{SET}\n    print('start')",
        f"if gpu:\n        {SET}\n        print('start')",
        f"{SET}\n    tell()",
        "pick(gpu)\n    tell()",
        f"if gpu:\n        {SET}\n    else:\n        print('start')",
    ],
)
def test_what_stands_behind_the_setting(body: str) -> None:
    more = f"def tell():\n    print('start')\n\ndef pick(gpu):\n    {SET}\n\n"
    assert "PartialState().print('start')" in converted(text_of(f"{more}def prepare_gpu(gpu):\n    {body}"))


def test_another_function_that_is_called_behind_it() -> None:
    definitions = f"def tell():\n    print('start')\n\ndef prepare_gpu(gpu):\n    {SET}"
    behind, before = "prepare_gpu('1')\ntell()", "tell()\nprepare_gpu('1')"
    assert ".print('start')" in converted(text_of(definitions, behind))
    assert "PartialState" not in converted(text_of(definitions, before))
