"""`accelift check` is silent about metrics for a reason that has to do with them, not for a word elsewhere."""

from __future__ import annotations

import pytest

from tests.codemod.checks import evaluating, findings, marked, script
from tests.codemod.test_check_results import AFTER, COUNT, GATHERED

DROPS = "loader = DataLoader(data, drop_last=True)\ntest_loader = DataLoader(data, batch_size=9{})"
REDUCED = AFTER.format("correct = accelerator.reduce(correct){}")
PADDED = "out, y = accelerator.gather((model(x), y))  # HERE\ncorrect += (out.argmax(1) == y).sum().item()"
CUT = """\
kept = []
for x, y in test_loader:
    kept.append(accelerator.gather(model(x).argmax(1)))
kept = torch.cat(kept)
accelerator.print({})
"""
TWICE = GATHERED.format("gather_for_metrics") + "\nn = accelerator.reduce(torch.tensor(correct), 'sum')"
TOTAL = "total = 16 * accelerator.num_processes\naccelerator.print(total)"
DIM0 = "print(accelerator.gather(loss).item())"
LOGGED = "import logging\nlogger = logging.getLogger()\nlogger.info('%d is here', accelerator.process_index)"

RANK = "accelerator.process_index"
TELLS = [
    f"who = f'[{{{RANK}}}]'\nprint(who, 'is here')",
    f"who = 'rank %d' % {RANK}\nline = 'here is {{}}'.format(who)\naccelerator.print(line + '!')",
    f"from tqdm import tqdm\nfor _ in tqdm(range(3), desc=f'on {{{RANK}}}', position={RANK}):\n    pass",
    f"rank = {RANK}\nif rank == 0:\n    print(rank)",
    f"if {RANK} > 7:\n    raise ValueError(f'no room for {{{RANK}}}')",
]
KEEPS = [
    f"name = f'part{{{RANK}}}.pt'\ntorch.save(3, name)",
    f"name = 'part' + str({RANK})\nprint(name)\nopen(name, 'w')",
    f"rank = {RANK}\nprint(rank, data[rank::2])\nmine = list(range(rank, 64))",
    f"name = {RANK}",
]
# An evaluation by what the function is given.
GIVEN = """\
def hits(out, y):
    return (out.argmax(1) == y).sum()


def errors(out, y):
    return {errors}


def evaluate(measure):
    total = 0
    for x, y in test_loader:
        total += measure(model(x), y).item(){mark}
    return total


"""
RUNS = "accelerator.print(evaluate(hits), {})"
BY_CALL = {"errors": "(out.argmax(1) != y).sum()", "mark": "  # HERE"}
JOINED = "accelerator.reduce((out.argmax(1) != y).sum())"


def measured(by: str, imports: str = "", **slots: str) -> str:
    definitions = GIVEN.format(**{**BY_CALL, **slots})
    return evaluating("", definitions=definitions, after=RUNS.format(by), imports=imports)


REPORTED = [
    *(("METRIC-LOCAL", evaluating(f"{COUNT}  # HERE", before=tells)) for tells in TELLS),
    ("METRIC-LOCAL", measured("evaluate(errors)")),
    ("METRIC-LOCAL", measured("evaluate(F.cross_entropy)")),
    ("METRIC-AFTERLOOP", evaluating("", loader=DROPS.format(""), after=REDUCED.format("  # HERE"))),
    ("METRIC-AFTERLOOP", evaluating("", loader=DROPS.format(", drop_last=False"), after=REDUCED.format("  # HERE"))),
    ("METRIC-PADDED", evaluating(PADDED, loader=DROPS.format(""))),
    ("METRIC-PADDED", evaluating(PADDED, before="names = ['cat', 'dog']\naccelerator.print(names[:1])")),
    ("METRIC-PADDED", evaluating("", after=CUT.format("'done'[:2], kept.sum()").replace("(1)))", "(1)))  # HERE"))),
    ("METRIC-TWICE", evaluating(f"{TWICE}  # HERE", before=TOTAL)),
    ("METRIC-TWICE", evaluating(f"{TWICE}  # HERE", before="steps = len(loader) // accelerator.num_processes")),
    ("METRIC-DIM0", script(before=TOTAL, batch_end=f"{DIM0}  # HERE")),
    ("METRIC-LOCAL", evaluating(f"{COUNT}  # HERE", before="print(f'{accelerator.process_index} is here')")),
    ("METRIC-LOCAL", evaluating(f"{COUNT}  # HERE", before=LOGGED)),
    ("METRIC-LOCAL", evaluating(f"{COUNT}  # HERE", before="torch.cuda.set_device(accelerator.local_process_index)")),
    ("METRIC-LOCAL", evaluating(f"{COUNT}  # HERE", before="if accelerator.process_index == 0:\n    print('go')")),
]
SILENT = [
    *(("METRIC-LOCAL", evaluating(COUNT, before=keeps)) for keeps in KEEPS),
    ("METRIC-LOCAL", measured("evaluate(errors)", errors=JOINED, mark="")),
    ("METRIC-LOCAL", measured("evaluate(project.score)", "import project", mark="")),
    ("METRIC-LOCAL", measured("evaluate(torch.distributed.all_reduce)", mark="")),
    ("METRIC-AFTERLOOP", evaluating("", loader=DROPS.format(", drop_last=True"), after=REDUCED.format(""))),
    ("METRIC-AFTERLOOP", evaluating("", loader=DROPS.format(", drop_last=flag()"), after=REDUCED.format(""))),
    ("METRIC-PADDED", evaluating("out = accelerator.gather(model(x))\nout = out[:5]")),
    ("METRIC-PADDED", evaluating("", after=CUT.format("kept[: len(data)].sum()"))),
    (
        "METRIC-PADDED",
        evaluating(
            "",
            definitions="def guesses():\n    for x, y in test_loader:\n        kept = accelerator.gather(model(x))\n"
            "    return kept\n",
            after="accelerator.print(guesses()[:64])",
        ),
    ),
    ("METRIC-TWICE", evaluating(f"{TWICE} / accelerator.num_processes")),
    ("METRIC-TWICE", evaluating(f"{TWICE}\nn = n.float()\nn /= accelerator.num_processes")),
    (
        "METRIC-TWICE",
        evaluating(
            TWICE.replace("n = accelerator.reduce(torch.tensor(correct), 'sum')", "n = joined(correct)"),
            definitions="def joined(value):\n    return accelerator.reduce(torch.tensor(value), 'sum')",
            epoch_end="count = accelerator.num_processes",
            before="mean = joined(3) / accelerator.num_processes",
        ),
    ),
    ("METRIC-DIM0", script(batch_end=f"if accelerator.num_processes > 1:\n    continue\n{DIM0}")),
    ("METRIC-LOCAL", evaluating(COUNT, epoch_end="part = f'part{accelerator.process_index}'")),
    (
        "METRIC-LOCAL",
        evaluating(COUNT, epoch_end="print(data[accelerator.process_index :: 2])\nlocal = accelerator.process_index"),
    ),
]


@pytest.mark.parametrize(("code", "text"), REPORTED)
def test_words_elsewhere_silence_nothing(code: str, text: str) -> None:
    assert marked(text)
    assert [f.line for f in findings(text, code)] == marked(text)


@pytest.mark.parametrize(("code", "text"), SILENT)
def test_what_is_done_to_the_metric_does(code: str, text: str) -> None:
    assert findings(text, code) == []
