"""Evaluations of networks that return their loss themselves: the mean of all shares, beside gathered rows."""

from __future__ import annotations

import textwrap

import pytest
from scripts import convert, converted, findings, script

LOADERS = "loader = DataLoader(data, batch_size=16, shuffle=True)\ntest_loader = DataLoader(data, batch_size=15)"
NET = """\
class Scored(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 3)

    def forward(self, x, y):
        scores = self.head(x)
        {loss}
        return {returned}
"""
LOSS = "error = F.cross_entropy(scores, y)"
SHOWN = "print('%.6g' % (total / len(test_loader)), correct)"
ENTRIES = '{"error": error, "scores": scores}'
CORRECT = 'correct += (out["scores"].argmax(1) == y).sum().item()'


def evaluated(
    body: str, loss: str = LOSS, returned: str = ENTRIES, model: str = "Scored()", train: str = "", imports: str = ""
) -> str:
    """A script that adds up, after training, what its network returns of each batch."""
    loop = textwrap.indent(f"for x, y in test_loader:\n{textwrap.indent(body, '    ')}", "    ")
    return script(
        from_imports=imports,
        definitions=NET.format(loss=textwrap.indent(loss, " " * 8).lstrip(), returned=returned),
        loader=LOADERS,
        model=f"model = {model}",
        forward="optimizer.zero_grad()\n" + (train or 'loss = model(x, y)["error"]'),
        after=f"model.eval()\ntotal = correct = 0\nwith torch.no_grad():\n{loop}\n{SHOWN}",
    )


@pytest.mark.parametrize(
    ("body", "now"),
    [
        (
            f'out = model(x, y)\ntotal += out["error"].item()\n{CORRECT}',
            'out_scores, y = accelerator.gather_for_metrics((out["scores"], y))\n'
            'out_error = accelerator.batch_mean(out["error"])\n'
            "total += out_error.item()\n"
            "correct += (out_scores.argmax(1) == y).sum().item()\n",
        ),
        ('out = model(x, y)\ntotal += out["error"].item()\n', 'out_error = accelerator.batch_mean(out["error"])\n'),
        (
            'error = model(x, y)["error"]\ntotal += error.item() * len(y)\ncorrect += len(y)\n',
            "y = accelerator.gather_for_metrics(y)\nerror = accelerator.batch_mean(error)\n",
        ),
    ],
)
def test_the_mean_of_a_share_becomes_that_of_the_batch(body: str, now: str) -> None:
    text = evaluated(body)
    assert textwrap.indent(now, " " * 8) in converted(text)
    assert findings(text) == []


def test_what_a_model_of_transformers_returns() -> None:
    text = evaluated(
        "out = model(x, labels=y)\ntotal += out.loss.item()\ncorrect += (out.logits.argmax(1) == y).sum().item()",
        model='transformers.AutoModelForSequenceClassification.from_pretrained("bert")',
        train="loss = model(x, labels=y).loss",
        imports="import transformers",
    )
    assert "        logits, y = accelerator.gather_for_metrics((out.logits, y))\n" in converted(text)
    assert "_loss = accelerator.batch_mean(out.loss)\n" in converted(text)
    assert findings(text) == []


def test_rows_are_gathered_where_these_are_all_that_is_read() -> None:
    """The mean is computed from them then, to the bit."""
    output = converted(evaluated('out = model(x, y)\ntotal += F.cross_entropy(out["scores"], y).item()'))
    assert "gather_for_metrics((" in output and "batch_mean" not in output


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": f"{LOSS}.item()", "train": 'loss = model(x, y)["scores"].mean()'},  # no tensor
        {"loss": "error = F.cross_entropy(scores, y, ignore_index=0)"},  # a mean over some of the samples
        {"loss": "error = F.cross_entropy(scores, y) ** 0.5"},  # of no mean over samples
        {"loss": "error = F.cross_entropy(scores, y, self.head.weight.new_ones(3))"},  # weighted
        {"returned": '{"error": error.item() if y.sum() else error, "scores": scores}'},
        # of something unknown: perhaps of what compares the samples
        {"loss": "error = torch.mean(pairs(scores, y))", "imports": "from mining import pairs"},
        {
            "loss": "error = F.mse_loss(pairs(scores), torch.zeros(len(y), len(y)))",
            "imports": "from mining import pairs",
        },
    ],
)
def test_other_numbers_are_not_averaged(changes: dict[str, str]) -> None:
    text = evaluated(f'out = model(x, y)\ntotal += float(out["error"])\n{CORRECT}', **changes)
    assert "batch_mean" not in converted(text) and "EVAL-REPLICATED" in findings(text)


def test_accelerate_has_nothing_that_averages_uneven_shares() -> None:
    text = evaluated(f'out = model(x, y)\ntotal += out["error"].item()\n{CORRECT}')
    result = convert(text, target="accelerate")
    assert result.plan is not None and result.output is not None
    assert b"gather_for_metrics" not in result.output
    assert "EVAL-REPLICATED" in [finding.code for finding in result.plan.findings]


def test_the_loss_of_what_is_compared_with_the_samples() -> None:
    """That is taken for a sign that it has as many rows, as elsewhere; it is no mean that is known otherwise."""
    part = 'scores = out["scores"][:, :2] if correct else out["scores"]\n'
    error = "error = F.cross_entropy(scores, {})\ntotal += error.item()"
    unknown = {"returned": '{"error": error, "scores": hidden(scores)}', "imports": "from nets import hidden"}
    text = evaluated(f"out = model(x, y)\n{part}{error.format('y')}", **unknown)
    assert "        error = accelerator.batch_mean(error)\n" in converted(text)
    other = evaluated(f"out = model(x, y)\n{part}{error.format('hidden(y)')}", **unknown)
    assert "batch_mean" not in converted(other) and "EVAL-REPLICATED" in findings(other)


def test_shares_that_have_samples_twice_have_other_means() -> None:
    text = evaluated(f'out = model(x, y)\ntotal += out["error"].item()\n{CORRECT}')
    assert "batch_mean" not in converted(text, batch="per-process")
    assert "EVAL-REPLICATED" in findings(text, batch="per-process")
    rows = evaluated('out = model(x, y)\ncorrect += (out["scores"].argmax(1) == y).sum().item()')
    assert "gather_for_metrics" in converted(rows, batch="per-process")
