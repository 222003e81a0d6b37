"""`accelift check` finds variables that the main process alone is given and that all processes read."""

from __future__ import annotations

import pytest

from tests.codemod.checks import findings, marked, script

GIVEN = "if accelerator.is_main_process:\n    result = {'epoch': epoch}\n    print(result)\n"


@pytest.mark.parametrize("library", ["accelerate", "accelift"])
@pytest.mark.parametrize(
    "after",
    [
        f"{GIVEN}accelerator.log(result)  # HERE",
        f"{GIVEN}if args.tracks:\n    accelerator.log(result)  # HERE",
        f"{GIVEN}for i in range(3):\n    torch.zeros(i) + result['epoch']  # HERE",
        f"{GIVEN}if result['epoch'] > 1:  # HERE\n    print('late')",
        f"{GIVEN}while result is not None and epoch:  # HERE\n    break",
        f"{GIVEN}shown = epoch if result else None  # HERE",
        f"{GIVEN}if epoch > 1 and result:  # HERE\n    print('late')",
        "if not accelerator.is_main_process:\n    pass\nelse:\n    total = 3\naccelerator.print(total)  # HERE",
        "if accelerator.process_index == 0:\n    with open('a.txt') as file:\n        text = 'a'\nstep(text)  # HERE",
    ],
)
def test_what_the_main_process_is_given_alone(library: str, after: str) -> None:
    text = script(library, setup="args = asked()", epoch_end=after)
    assert [f.line for f in findings(text, "STATE-MAIN")] == marked(text)
    within = script(library, main=True, setup="args = asked()", epoch_end=after)
    assert [f.line for f in findings(within, "STATE-MAIN")] == marked(within)


@pytest.mark.parametrize(
    "after",
    [
        f"{GIVEN}    accelerator.log(result)",
        f"{GIVEN}if accelerator.is_main_process and epoch:\n    accelerator.log(result)",
        f"result = None\n{GIVEN}accelerator.log(result)",
        f"{GIVEN}else:\n    result = None\naccelerator.log(result)",
        f"{GIVEN}if not accelerator.is_main_process:\n    continue\naccelerator.log(result)",
        f"main = accelerator.is_main_process\n{GIVEN}if main:\n    accelerator.log(result)",
        f"main = is_main()\n{GIVEN}if main:\n    accelerator.log(result)",
        f"{GIVEN}if is_first():\n    accelerator.log(result)",
        f"{GIVEN}if is_first() and result['epoch'] > 1:\n    print('late')",
        f"main = accelerator.is_main_process\n{GIVEN}shown = epoch if main and result else None",
        f"saves = False\n{GIVEN}    saves = True\nif saves:\n    accelerator.log(result)",
        f"saves = False\n{GIVEN}    saves = True\nif not saves:\n    continue\naccelerator.log(result)",
        f"{GIVEN}accelerator.is_main_process and accelerator.log(result)",
        f"{GIVEN}if not accelerator.is_main_process:\n    exit()\naccelerator.log(result)",
        f"{GIVEN}if not accelerator.is_main_process:\n    sys.exit(0)\naccelerator.log(result)",
        f"{GIVEN}assert accelerator.is_main_process\naccelerator.log(result)",
        f"{GIVEN}accelerator.log(result if accelerator.is_main_process else None)",
        f"{GIVEN}accelerator.log([result for _ in range(2) if accelerator.is_main_process])",
        f"{GIVEN}try:\n    accelerator.log(result)\nexcept NameError:\n    pass",
        f"{GIVEN}def show():\n    print(result)\n",
        "if epoch > 1:\n    result = 3\nif epoch > 2:\n    print(result)",
        "with accelerator.main_process_first():\n    result = 3\nprint(result)",
        "for i in range(3):\n    if accelerator.is_main_process:\n        result = i\n        print(result)",
    ],
)
def test_what_every_process_has_or_the_others_do_not_read(after: str) -> None:
    assert findings(script(imports="import sys", epoch_end=after), "STATE-MAIN") == []


def test_the_message_says_where_it_is_given() -> None:
    (found,) = findings(script(epoch_end=f"{GIVEN}accelerator.log(result)"), "STATE-MAIN")
    line = found.evidence[0].line
    assert found.message == (
        f"`result` is given a value on some processes only (line {line}): for the others reading it is an error"
    )
