"""Files that the main process has written one by one, and that a loop reads again: frames of a film."""

from __future__ import annotations

import pytest
from scripts import converted, lifted, script

IMPORTS = "import glob\nimport imageio\nfrom torchvision.utils import save_image\n"
GUARD = "if accelerator.is_main_process:"
WAIT = "accelerator.wait_for_everyone()"
SAVE = "save_image(torch.zeros(1, 8, 8), 'runs/' + 'fake_epoch%03d' % epoch + '.png')"
FILM = """\
def film(path, n):
    frames = []
    for e in range(n):
        name = path + '_epoch%03d' % e + '.png'
        frames.append(imageio.imread(name))
    return frames
"""


def read(after: str, waited: str, definitions: str = "", save: str = SAVE) -> None:
    """Saves a picture in each epoch, and reads."""
    slots = {"imports": IMPORTS, "definitions": definitions}
    guarded = f"{GUARD}\n    {save}"
    text = converted(script(**slots, epoch_end=save, after=after))
    assert text == lifted(**slots, epoch_end=guarded, after=waited)


@pytest.mark.parametrize(
    "after",
    [
        "frames = []\n{}for e in range(2):\n    frames.append(imageio.imread('runs/fake_epoch%03d.png' % e))",
        "{}frames = [imageio.imread('runs/fake_epoch%03d.png' % e) for e in range(2)]",
        "{}frames = [imageio.imread(f'runs/fake_epoch{{e:03d}}.png') for e in range(2)]",
        "model.eval()\n{}if len(data) > 3:\n    for e in range(2):\n        a = imageio.imread('fake_epoch%d.png' % e)",
        "{0}for e in range(2):\n    a = imageio.imread('fake_epoch%03d.png' % e)\n"
        "for e in range(2):\n    a = imageio.imread('fake_epoch%03d.png' % e)",
    ],
)
def test_a_loop_that_reads_them_waits_before_it(after: str) -> None:
    read(after.format(""), after.format(f"{WAIT}\n"))


def test_a_function_that_reads_them() -> None:
    read("film('runs/fake', 2)", f"{WAIT}\nfilm('runs/fake', 2)", FILM)
    read("film('other', 2)", f"{WAIT}\nfilm('other', 2)", FILM)  # another end of the name is the same


def test_a_function_that_writes_them() -> None:
    slots = {"imports": IMPORTS, "after": "{}for e in range(2):\n    a = imageio.imread('fake_epoch%03d.png' % e)"}
    keep = "def keep(picture, path):\n    {}\n"
    saves = {"epoch_end": "keep(torch.zeros(1, 8, 8), 'runs/' + 'fake_epoch%03d' % epoch + '.png')"}
    text = script(
        **{**slots, "after": slots["after"].format("")}, **saves, definitions=keep.format("save_image(picture, path)")
    )
    assert converted(text) == lifted(
        **{**slots, "after": slots["after"].format(f"{WAIT}\n")},
        **saves,
        definitions=keep.format(f"{GUARD}\n        save_image(picture, path)"),
    )


@pytest.mark.parametrize(
    "after",
    [
        "for e in range(2):\n    a = imageio.imread('photo_%03d.png' % e)",  # others
        "for e in range(2):\n    print(e)",
        "names = ['a.png']\nfor name in names:\n    a = imageio.imread(name)",
    ],
)
def test_what_is_not_known_to_read_them(after: str) -> None:
    read(after, after.replace("print", "accelerator.print"))


def test_what_was_read_before_they_are_written() -> None:
    frames = "frames = [imageio.imread('fake_epoch%03d.png' % e) for e in range(2)]"
    slots = {"imports": IMPORTS, "before": frames}
    assert converted(script(**slots, after=SAVE.replace("epoch,", "1,"))).count(WAIT) == 0


def test_texts_of_the_script_s_own_are_not_taken_for_those_that_it_reads() -> None:
    """They have the names of folders in common."""
    log = "with open('runs/fake_log%03d.txt' % epoch, 'w') as f:\n    f.write('x')"
    lists = "for e in range(2):\n    a = open('runs/fake_list%03d.txt' % e).read()"
    assert WAIT not in converted(script(epoch_end=log, after=lists))
