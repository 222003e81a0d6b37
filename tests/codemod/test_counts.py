"""Samples seen so far: counted for all processes."""

from __future__ import annotations

import pytest
from scripts import converted, findings, lifted, script

LOOP = "for i, (x, y) in enumerate(loader):"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("n = i * len(x)", "n = i * len(x) * accelerator.num_processes"),
        ("n = len(y) * i", "n = len(y) * i * accelerator.num_processes"),
        ("n = i * x.size(0)", "n = i * x.size(0) * accelerator.num_processes"),
        ("n = i * y.shape[0]", "n = i * y.shape[0] * accelerator.num_processes"),
        ("n = 100.0 * i * len(x) / len(data)", "n = 100.0 * i * len(x) * accelerator.num_processes / len(data)"),
        ("n = i * 100 * len(x)", "n = i * 100 * len(x) * accelerator.num_processes"),
        ("n = 1 + i * len(x)", "n = 1 + i * len(x) * accelerator.num_processes"),
        ("n = i * 16 + len(x)", "n = i * 16 + len(x) * accelerator.num_processes"),
        ("n = x.size(0) + 16 * i", "n = x.size(0) * accelerator.num_processes + 16 * i"),
        ("print(i * 16 + len(x))", "accelerator.print(i * 16 + len(x) * accelerator.num_processes)"),
        (
            'print(f"{i * len(x)} of {len(data)}")',
            'accelerator.print(f"{i * len(x) * accelerator.num_processes} of {len(data)}")',
        ),
        (
            'print("%d/%d" % (i * len(x), len(data)))',
            'accelerator.print("%d/%d" % (i * len(x) * accelerator.num_processes, len(data)))',
        ),
    ],
)
def test_counts(before: str, after: str) -> None:
    assert converted(script(loop=LOOP, batch_end=before)) == lifted(loop=LOOP, batch_end=after)
    assert findings(script(loop=LOOP, batch_end=before)) == []


@pytest.mark.parametrize(
    "line",
    [
        "n = i * 16",  # the size of the whole batch
        "n = i * size",
        "n = 100.0 * i * 16 / len(data)",
        "n = epoch * i * len(x)",
        "n = 100.0 * epoch * len(x)",
        "n = i * loader.batch_size",
        "n = i * len(data)",
        "n = i * len(loader)",
        "n = i * x.size(1)",
        "n = i * x.shape[1]",
        "n = i + len(x)",
        "n = epoch * 16 + len(x)",
        "n = i * 16 + len(data)",
        "kept = torch.zeros(64)\nkept[i * 16 : i * 16 + len(x)] = 1",
        "kept, end = torch.zeros(64), i * 16\nend = i * 16 + len(x)\nkept[end - 16 : end] = 1",
        "n = epoch * len(x)",
        "n = i * len('abc')",
        "n = 100.0 * i / len(loader)",
        "x = x * len(x)",
    ],
)
def test_other_products_stay(line: str) -> None:
    slots = {"setup": "size = 16", "loop": LOOP, "batch_end": line}
    assert converted(script(**slots)) == lifted(**slots)


def test_numbers_that_do_not_number_the_batches_stay() -> None:
    slots = {"before": "i = 0", "batch_end": "n = i * len(x)\ni = i + 1"}
    assert converted(script(**slots)) == lifted(**slots)


def test_other_loops_stay() -> None:
    slots = {"after": "for i, (x, y) in enumerate([data[:8]]):\n    n = i * len(x)"}
    assert converted(script(**slots)) == lifted(**slots)


def test_a_gathered_batch_is_the_whole_batch() -> None:
    loaders = "loader = DataLoader(data, batch_size=16, shuffle=True)\ntest_loader = DataLoader(data, batch_size=16)"
    after = """\
with torch.no_grad():
    for i, (x, y) in enumerate(test_loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        correct = correct + (out.argmax(1) == y).sum().item()
        seen = i * len(y)"""
    output = converted(script(loader=loaders, before="correct = 0", after=f"{after}\nn = (seen, correct)"))
    assert "        out, y = accelerator.gather_for_metrics((out, y))\n" in output
    assert "        seen = i * len(y)\n" in output


def test_functions_without_the_accelerator_stay() -> None:
    """Where the loop trains, the accelerator is at hand."""
    definition = "def train(model, device, loader, optimizer):\n    {0}\n        {1}\n        {2}\n        n = {3}"
    body = "optimizer.zero_grad()\n        F.cross_entropy(model(x), y).backward()\n        optimizer.step()"
    text = script(
        main=True,
        definitions=definition.format(LOOP, "x, y = x.to(device), y.to(device)", body, "i * len(x)"),
        epoch="train(model, device, loader, optimizer)",
        **dict.fromkeys(("loop", "move", "forward", "backward", "step"), ""),
    )
    assert "        n = i * len(x) * accelerator.num_processes\n" in converted(text)


def test_left_out() -> None:
    slots = {"loop": LOOP, "batch_end": "n = i * len(x)"}
    assert converted(script(**slots), ignore=("SEEN",)) == lifted(**slots)


def test_counts_that_include_this_batch() -> None:
    text = script(loop=LOOP, batch_end="n = (i + 1) * len(x)")
    assert "n = (i + 1) * len(x) * accelerator.num_processes\n" in converted(text)


def test_parts_of_a_batch() -> None:
    slots = {"loop": LOOP, "batch_end": "few = x[:2]\nn = i * len(few)"}
    assert converted(script(**slots)) == lifted(**slots)


@pytest.mark.parametrize(
    ("bar", "before", "after"),
    [
        ("tqdm(total=len(data){})", "bar.update(len(x))", "bar.update(len(x) * accelerator.num_processes)"),
        ("tqdm(total=64{})", "bar.update(x.size(0))", "bar.update(x.size(0) * accelerator.num_processes)"),
        ("tqdm(total=len(loader){})", "bar.update(1)", "bar.update(1)"),
        ("tqdm(total=len(loader){})", "bar.update()", "bar.update()"),
        ("tqdm(total=64{})", "bar.update(x.size(1))", "bar.update(x.size(1))"),
    ],
)
def test_a_bar_that_counts_samples_counts_those_of_all(bar: str, before: str, after: str) -> None:
    made = bar.format(", disable=not accelerator.is_local_main_process")
    assert converted(
        script(from_imports="from tqdm import tqdm", epoch=f"bar = {bar.format('')}", batch_end=before)
    ) == lifted(from_imports="from tqdm import tqdm", epoch=f"bar = {made}", batch_end=after)


def test_what_else_is_updated_with_a_number_of_samples_stays() -> None:
    meter = "class Meter:\n    def update(self, n):\n        self.n = n"
    slots = {"definitions": meter, "before": "meter = Meter()", "batch_end": "meter.update(len(x))"}
    assert converted(script(**slots)) == lifted(**slots)


@pytest.mark.parametrize(
    ("made", "counted"),
    [
        ("flat = x.view(x.size(0), -1)", True),
        ("flat = torch.autograd.Variable(x.reshape(len(x), 8))", True),
        ("flat = x[y > 0]", False),  # some of the samples
        ("flat = x.view(-1)", True),  # of all processes, there are as many times more
        ("flat = x.t()", False),
    ],
)
def test_what_is_computed_from_a_batch_has_its_rows(made: str, counted: bool) -> None:
    text = converted(script(loop=LOOP, batch_end=f"{made}\nn = i * len(flat)"))
    assert ("n = i * len(flat) * accelerator.num_processes" in text) is counted


@pytest.mark.parametrize("slots", [{"before": "k = 0"}, {"epoch": "k = 0"}])
def test_batches_that_the_loop_counts_itself(slots: dict[str, str]) -> None:
    seen = "k += 1\nn = k * len(x)"
    assert converted(script(**slots, batch_end=seen)) == lifted(
        **slots, batch_end=f"{seen} * accelerator.num_processes"
    )


@pytest.mark.parametrize("lines", ["if epoch:\n    k += 1", "k += 1\nif epoch:\n    k = 0", "k += 2", "k -= 1"])
def test_other_counts_stay(lines: str) -> None:
    slots = {"before": "k = 0", "batch_end": f"{lines}\nn = k * len(x)"}
    assert converted(script(**slots)) == lifted(**slots)


STEP = """
def step(x, y, i):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    {end}
"""


@pytest.mark.parametrize(
    ("end", "call", "counted"),
    [
        ("print(i * len(x))", "step(x, y, i)", True),
        ("print((i + 1) * x.size(0))", "step(x, y, i)", True),
        ("print(i * len(x))", "step(x, y, 3)", False),
        ("i = 3\n    print(i * len(x))", "step(x, y, i)", False),
        ("print(i * len(x))", "step(x, y, i)\nstep(x, y, 2)", False),
        ("print(i * 16)", "step(x, y, i)", False),
    ],
)
def test_samples_seen_in_a_function_that_the_loop_calls(end: str, call: str, counted: bool) -> None:
    slots = {"loop": "for i, (x, y) in enumerate(loader):", "forward": call, "backward": "", "step": ""}
    assert ("num_processes" in converted(script(definitions=STEP.format(end=end), **slots))) is counted


def test_batches_of_one_sample_are_counted_as_they_are() -> None:
    """Every process gets each of them."""
    slots = {"loop": "for i, (x, y) in enumerate(loader):", "batch_end": "print(i * len(x))"}
    one = {"loader": "loader = DataLoader(data, batch_size=1)"}
    assert "accelerator.num_processes" in converted(script(**slots))
    assert "accelerator.num_processes" not in converted(script(**slots, **one))
    assert "accelerator.num_processes" in converted(script(**slots, **one), batch="per-process")


@pytest.mark.parametrize(
    ("epoch", "loop", "counted"),
    [
        ("bar = tqdm(enumerate(loader), total=len(loader))", "for i, (x, y) in bar:", True),
        ("", "for i, (x, y) in tqdm(enumerate(loader)):", True),
        ("numbered = enumerate(loader)", "for i, (x, y) in numbered:", True),
        ("", "for i, (x, y) in enumerate(tqdm(loader)):", True),
        ("bar = tqdm(zip([3] * 9, loader))", "for i, (x, y) in bar:", False),
    ],
)
def test_batches_that_are_numbered_outside_of_the_loop_s_header(epoch: str, loop: str, counted: bool) -> None:
    slots = {"from_imports": "from tqdm import tqdm", "epoch": epoch, "loop": loop, "batch_end": "print(i * len(x))"}
    assert ("i * len(x) * accelerator.num_processes" in converted(script(**slots))) == counted


@pytest.mark.parametrize(
    ("end", "counted"),
    [
        ("print(hits / ((i + 1) * len(y)))", False),
        ("print(100.0 * hits / float(i * len(y)))", False),
        ("print((out.argmax(1) == y).sum() / (i * len(y)))", False),
        ("seen = (i + 1) * len(y)\nprint(seen, hits / seen)", False),
        ("rate = hits\nrate /= i * len(y)\nprint(rate)", False),
        ("print(hits / n, i * len(y))", True),  # besides
        ("print(64 / ((i + 1) * len(y)))", True),  # of what all processes have
        ("print((i + 1) * len(y) / n)", True),
    ],
)
def test_samples_that_what_one_process_measures_is_divided_by(end: str, counted: bool) -> None:
    slots = {
        "epoch": "hits, n = 0, 1",
        "loop": LOOP,
        "forward": "optimizer.zero_grad()\nout = model(x)\nloss = F.cross_entropy(out, y)",
        "batch_end": f"hits += (out.argmax(1) == y).sum().item()\n{end}",
    }
    assert ("num_processes" in converted(script(**slots))) is counted


@pytest.mark.parametrize(
    ("end", "counted"), [("print(loss.item() / (i * len(x)))", False), ("print(i * len(x))", True)]
)
def test_samples_that_divide_in_a_function_that_the_loop_calls(end: str, counted: bool) -> None:
    slots = {"loop": LOOP, "forward": "step(x, y, i)", "backward": "", "step": ""}
    assert ("num_processes" in converted(script(definitions=STEP.format(end=end), **slots))) is counted
