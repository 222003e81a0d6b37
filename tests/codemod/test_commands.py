"""Commands of the system whose results are used, or that are waited for."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import findings, script

_IMPORTS = "import asyncio\nimport os\nimport subprocess"
_VIDEO = "def video(name):\n    command = ['ffmpeg', '-i', 'a.png', name]\n    {}"


def _codes(lines: str, definitions: str = "") -> list[str]:
    text = script(imports=_IMPORTS, definitions=definitions, before=lines)
    return [code for code in findings(text) if code == "COMMAND-ALL"]


@pytest.mark.parametrize(
    "lines",
    [
        "subprocess.Popen(['ffmpeg', '-i', 'a.png', 'b.mp4']).wait()",
        "done = subprocess.run(['ffmpeg', '-i', 'a.png', 'b.mp4']).returncode",
        "p = subprocess.Popen(['ffmpeg', '-i', '-'], stdin=subprocess.PIPE)\np.communicate()",
        "text = subprocess.getoutput('ffmpeg -i a.png b.mp4')",
        "text = os.popen(f'/usr/bin/wget {x}').read()",
        "code = os.system('./get.sh')",
        "if subprocess.call('make') != 0:\n    raise SystemExit",
        "pid = os.spawnlp(os.P_WAIT, 'ffmpeg', 'ffmpeg', 'a')",
    ],
)
def test_what_does_something_is_told_of(lines: str) -> None:
    assert _codes(lines) == ["COMMAND-ALL"]


@pytest.mark.parametrize(
    "lines",
    [
        "text = subprocess.check_output(['nvidia-smi'])",
        "text = subprocess.check_output('./version.sh')",
        "text = subprocess.run(['ls'], capture_output=True).stdout",
        "text = subprocess.run('./version.sh', stdout=subprocess.PIPE).stdout",
        "code = subprocess.run(['ffmpeg', '-version']).returncode",
        "name = os.popen('hostname').read()",
        "commit = subprocess.Popen(['git', 'log'], stdout=subprocess.PIPE).communicate()",
    ],
)
def test_what_only_tells_something_is_not(lines: str) -> None:
    assert _codes(lines) == []


def test_a_command_in_a_function() -> None:
    assert _codes("video('a.mp4')", _VIDEO.format("subprocess.Popen(command).wait()")) == ["COMMAND-ALL"]
    assert _codes("video('a.mp4')", _VIDEO.format("return subprocess.check_output(command)")) == ["COMMAND-ALL"]


@pytest.mark.parametrize(
    "more", ["command = command + ' -v'", "command = '{} -v'.format(command)", "command = f'{command} -v'"]
)
def test_a_command_that_is_made_of_itself(more: str) -> None:
    definitions = f"def run():\n    while True:\n        {more}\n        code = os.system(command)"
    assert _codes("run()", definitions) == ["COMMAND-ALL"]
