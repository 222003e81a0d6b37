"""Evaluation loops whose batches stay dicts or lists: what they take out of them is gathered under a name of its own.

Nothing else of the batch is sent.
"""

from __future__ import annotations

import textwrap

import pytest
from scripts import converted, findings, script

HEAD = """\
class Named(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return {"x": torch.full((8,), float(i)), "labels": torch.tensor(i % 3), "name": str(i)}
"""
MOVED = "batch = {k: v.to(device) for k, v in batch.items()}"
NAMED = "data = Named()"
TRAINS = {
    "data": NAMED,
    "loop": "for batch in loader:",
    "move": "",
    "forward": "optimizer.zero_grad()\n"
    'loss = F.cross_entropy(model(batch["x"].to(device)), batch["labels"].to(device))',
}
COUNTS = 'right += (out.argmax(1) == batch["labels"]).sum().item()'


def evaluates(
    *body: str, start: str = "right = n = 0", data: str = "data", definitions: str = "", after: str = ""
) -> str:
    """A script that trains on dicts and evaluates in a function."""
    loop = "".join(f"            {line}\n" for line in "\n".join(body).splitlines())
    function = (
        "def evaluate(model, loader, device):\n"
        f"    {start}\n    with torch.no_grad():\n        for batch in loader:\n{loop}"
        f"    return {start.split(' =')[0]}\n"
    )
    return script(
        definitions=f"{HEAD}\n\n{function}{definitions}",
        before=f"test_loader = DataLoader({data}, batch_size=16)",
        after=f"print(evaluate(model, test_loader, device)){after}",
        **TRAINS,
    )


def squeezed(text: str) -> str:
    """A text without spaces and ends of lines, and without commas that stand where black puts some."""
    return "".join(text.split()).replace(",)", ")")


@pytest.mark.parametrize(
    ("body", "gathers"),
    [
        (  # the entry has a name of its own from then on
            (MOVED, 'out = model(batch["x"])', COUNTS, 'n += len(batch["labels"])'),
            'out, labels = accelerator.gather_for_metrics((out, batch["labels"]))\n'
            "            right += (out.argmax(1) == labels).sum().item()\n"
            "            n += len(labels)\n",
        ),
        (  # predictions are narrower
            (
                MOVED,
                'out = model(batch["x"])',
                "pred = out.argmax(1)",
                'right += (pred == batch["labels"]).sum().item()',
            ),
            'pred, labels = accelerator.gather_for_metrics((pred, batch["labels"]))\n'
            "            right += (pred == labels).sum().item()\n",
        ),
        (  # a name that the function has already
            (MOVED, 'labels = "0123"', 'out = model(batch["x"])', COUNTS, "n += len(labels)"),
            'out, batch_labels = accelerator.gather_for_metrics((out, batch["labels"]))\n'
            "            right += (out.argmax(1) == batch_labels).sum().item()\n",
        ),
        (  # where it is moved when it is read
            (
                'out = model(batch["x"].to(device))',
                'right += (out.argmax(1) == batch["labels"].to(device)).sum().item()',
            ),
            'out, labels = accelerator.gather_for_metrics((out, batch["labels"]))\n'
            "            right += (out.argmax(1) == labels).sum().item()\n",
        ),
        (  # a length is asked of what is gathered anyway
            (MOVED, 'out = model(batch["x"])', 'n += batch["x"].size(0)', COUNTS),
            'labels, out = accelerator.gather_for_metrics((batch["labels"], out))\n'
            "            n += labels.size(0)\n"
            "            right += (out.argmax(1) == labels).sum().item()\n",
        ),
        (  # a model called where its result is kept
            (MOVED, 'right += (model(batch["x"]).argmax(1) == batch["labels"]).sum().item()'),
            'right += ((accelerator.gather_for_metrics(model(batch["x"])).argmax(1) == '
            'accelerator.gather_for_metrics(batch["labels"])).sum().item())',
        ),
    ],
)
def test_parts_of_a_batch(body: tuple[str, ...], gathers: str) -> None:
    text = evaluates(*body)
    assert squeezed(gathers) in squeezed(converted(text))
    assert "EVAL-REPLICATED" not in findings(text)


def test_a_list_whose_parts_are_taken_by_number() -> None:
    text = script(
        before="test_loader = DataLoader(data, batch_size=16)",
        after="right = 0\nfor batch in test_loader:\n    out = model(batch[0].to(device))\n"
        "    right += (out.argmax(1) == batch[1].to(device)).sum().item()\nprint(right)",
    )
    assert "    out, batch_1 = accelerator.gather_for_metrics((out, batch[1]))\n" in converted(text)


def test_what_a_model_of_a_library_returns() -> None:
    text = evaluates(
        MOVED,
        'outputs = bert(batch["x"], labels=batch["labels"])',
        "shown.extend(outputs.logits.argmax(-1).tolist())",
        start="shown = []",
    ).replace("evaluate(model, loader", "evaluate(bert, loader")
    text = text.replace(
        "from torch.utils.data", "from transformers import BertForSequenceClassification\nfrom torch.utils.data"
    )
    text = text.replace("model = Net()", "model = BertForSequenceClassification.from_pretrained('bert-base-uncased')")
    output = converted(text)
    assert "            logits = accelerator.gather_for_metrics(outputs.logits)\n" in output
    assert "            shown.extend(logits.argmax(-1).tolist())\n" in output


@pytest.mark.parametrize("made", [".cpu().numpy()", ".tolist()", ".detach().cpu().numpy().astype(int)"])
def test_an_array_of_what_it_returns_is_none_to_gather(made: str) -> None:
    text = evaluates(
        MOVED,
        'outputs = bert(batch["x"], labels=batch["labels"])',
        f"picked = outputs.logits.argmax(-1){made}",
        f'labels = batch["labels"]{made}',
        "shown.extend(picked)",
        "right += sum(picked == labels)",
        start="shown = []",
    ).replace("evaluate(model, loader", "evaluate(bert, loader")
    text = text.replace(
        "from torch.utils.data", "from transformers import BertForSequenceClassification\nfrom torch.utils.data"
    )
    text = text.replace("model = Net()", "model = BertForSequenceClassification.from_pretrained('bert-base-uncased')")
    gathers = 'logits, batch_labels = accelerator.gather_for_metrics((outputs.logits, batch["labels"]))'
    assert squeezed(gathers) in squeezed(converted(text))


@pytest.mark.parametrize(
    "body",
    [
        ('out = model(batch["x"].to(device))', "shown(batch)", COUNTS),  # it is handed on as a whole
        (MOVED, 'out = model(batch["x"])', COUNTS, 'batch["labels"] = None'),  # it is changed
        (MOVED, 'out = model(batch["x"])', COUNTS, "batch.clear()"),
        (MOVED, 'out = model(batch["x"])', COUNTS, 'n += sum(batch[k].sum() for k in ("labels",))'),
        ('out = model(batch["x"].to(device))', 'names.extend(batch["name"])', COUNTS),  # strings
        (MOVED, 'out = model(batch["x"])', "def f():\n    return batch['labels']", "right += f().sum().item()", COUNTS),
    ],
)
def test_no_parts(body: tuple[str, ...]) -> None:
    text = evaluates(*body, definitions="\n\nnames = []\n\n\ndef shown(batch):\n    print(batch['labels'])\n")
    assert "gather_for_metrics" not in converted(text)
    assert "EVAL-REPLICATED" in findings(text)


def test_a_variable_that_functions_read_is_not_taken_apart() -> None:
    text = script(
        definitions=f"{HEAD}\n\ndef labels_of():\n    return batch['labels'].sum().item()\n",
        before="test_loader = DataLoader(data, batch_size=16)",
        after="right = 0\nfor batch in test_loader:\n    out = model(batch['x'].to(device))\n"
        f"    {COUNTS}\n    right += labels_of()\nprint(right)",
        **TRAINS,
    )
    assert "gather_for_metrics" not in converted(text)


def test_what_is_read_after_the_loop_is_no_share() -> None:
    text = script(
        definitions=HEAD,
        before="test_loader = DataLoader(data, batch_size=16)",
        after="right = 0\nfor batch in test_loader:\n    out = model(batch['x'].to(device))\n"
        f"    {COUNTS}\nprint(right, batch['labels'].sum().item())",
        **TRAINS,
    )
    assert "gather_for_metrics" not in converted(text)
    assert "EVAL-REPLICATED" in findings(text)


@pytest.mark.parametrize(
    ("taken", "alone"),
    [
        ("a, b = batch\na, b = a.to(device), b.to(device)", True),
        ("a, b = batch\na = a.to(device)\nb = b.to(device)", True),
        ("a = batch[0].to(device)\nb = batch[1].to(device)", True),
        ("a, b = batch\na, b = a.to(device).repeat(2, 1), b.to(device).repeat(2)", False),
    ],
)
@pytest.mark.parametrize("count", ["{}.size(0)", "{}.shape[0]", "{}.size()[0]", "len({})"])
def test_parts_of_a_batch_that_are_only_counted_are_not_gathered(taken: str, alone: bool, count: str) -> None:
    """The number of rows is that of what is gathered besides."""
    body = f"{taken}\nout = model(a)\ntotal += F.cross_entropy(out, b).item() * {count.format('a')}"
    loop = f"for batch in test_loader:\n{textwrap.indent(body, '    ')}"
    after = f"model.eval()\ntotal = 0.0\nwith torch.no_grad():\n{textwrap.indent(loop, '    ')}\nprint(total / 64)"
    loaders = "loader = DataLoader(data, batch_size=16, shuffle=True)\ntest_loader = DataLoader(data, batch_size=16)"
    text = converted(script(loader=loaders, after=after))
    assert ("out, b = accelerator.gather_for_metrics((out, b))" in text) is alone
    assert (f".item() * {count.format('b')}" in text) is alone


def test_inputs_are_not_gathered_before_any_network_has_run() -> None:
    text = evaluates(
        MOVED,
        'rows, labels = batch["x"], batch["labels"]',
        "out = other(rows)",
        "right += (measured(out, 2) * (labels + 1).sum()).item()",
    ).replace("model = Net()", "other = Other().to(device)\nmodel = Net()")
    text = text.replace("from torch.utils.data", "from elsewhere import measured\nfrom torch.utils.data")
    other = "class Other(nn.Module):\n    def forward(self, x):\n        return measured(x, 1)\n\n\ndef evaluate"
    text = text.replace("def evaluate", other)
    assert "gather_for_metrics" not in converted(text)
    assert "EVAL-REPLICATED" in findings(text)
