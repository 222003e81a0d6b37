"""What draws a picture is left to the process that saves or shows it."""

from __future__ import annotations

import textwrap

import pytest

from tests.codemod.scripts import converted, lifted, script

IMPORTS = "import io\nimport matplotlib.pyplot as plt\nimport numpy as np"
NUMBERS = "numbers = [1.0, 2.0]"
GUARD = "if accelerator.is_main_process:"


def guarded(text: str) -> str:
    return f"{GUARD}\n{textwrap.indent(text, '    ')}"


def drawn(before: str, after: str) -> None:
    slots = {"imports": IMPORTS, "setup": NUMBERS}
    assert converted(script(**slots, after=before)) == lifted(**slots, after=after)


@pytest.mark.parametrize(
    "drawing",
    [
        "plt.figure()\nplt.plot(numbers, label='loss')\nplt.legend()\nplt.savefig('a.png')\nplt.close()",
        "plt.plot(np.cumsum(numbers))\nplt.show()",
        "fig, axes = plt.subplots(2, 2)\naxes[0, 1].plot(numbers)\nplt.tight_layout()\nfig.savefig('a.png')",
        "fig = plt.figure()\nax = fig.add_subplot(111)\nax.plot(numbers)\nplt.savefig('a.png')\nplt.close(fig)",
        "fig, axes = plt.subplots(1, 2)\nfor ax, n in zip(axes.flat, numbers):\n    ax.plot(n)\n    ax.axis('off')\n"
        "plt.savefig('a.png')",
        "plt.figure()\nif len(numbers) > 1:\n    plt.plot(numbers)\nplt.savefig('a.png')",
        "for i, n in enumerate(numbers):\n    plt.figure()\n    plt.title(f'{n:.2f}')\n    plt.savefig(f'{i}.png')",
    ],
)
def test_a_picture_is_drawn_by_the_process_that_saves_it(drawing: str) -> None:
    drawn(drawing, guarded(drawing))


@pytest.mark.parametrize(
    "drawing",
    [
        # something else needs the figure
        "fig = plt.figure()\nplt.plot(numbers)\n{}\nnumbers.append(fig)",
        "plt.plot(numbers)\n{}\nfig = plt.gcf()\nnumbers.append(fig)",
        "plt.plot(numbers)\n{}\nbuffer = io.BytesIO()\nplt.savefig(buffer)",
        # what all processes have to do
        "plt.plot(np.random.rand(2))\n{}",
        "plt.plot(numbers.pop())\n{}",
        "plt.plot(data.draw())\n{}",
    ],
)
def test_other_drawing_stays_with_all_processes(drawing: str) -> None:
    save = "plt.savefig('a.png')"
    drawn(drawing.format(save), drawing.format(guarded(save)))


def test_a_picture_in_memory_is_that_of_every_process() -> None:
    drawing = "plt.plot(numbers)\nbuffer = io.BytesIO()\nplt.savefig(buffer, format='png')\npicture = buffer.getvalue()"
    drawn(drawing, drawing)


@pytest.mark.parametrize(("around", "together"), [("", True), ("plt.plot(numbers)", False)])
def test_what_a_caller_draws_is_finished_by_all(around: str, together: bool) -> None:
    """`plt.close()` on one process would leave the pictures of the others open."""
    slots = {"imports": IMPORTS, "setup": NUMBERS}
    finish = "def finish():\n    plt.title('losses')\n    plt.savefig('a.png')\n    plt.close()"
    text = converted(script(**slots, definitions=finish, after=f"{around}\nfinish()"))
    drawing = "        plt.title('losses')\n        plt.savefig('a.png')\n        plt.close()\n"
    assert (drawing in text) is together
