"""What models of transformers return that are given labels: a mean over samples, or over labels that are not -100."""

from __future__ import annotations

import pytest
from scripts import convert, script

AUTO = "transformers.AutoModel"


def said(model: str, forward: str, imports: str = "import transformers") -> list[str]:
    """The findings about the loss of a script that trains a model."""
    text = script(
        from_imports=imports,
        model=f"model = {model}.from_pretrained('bert').to(device)",
        forward=f"optimizer.zero_grad()\n{forward}",
    )
    result = convert(text)
    assert result.plan is not None and "accelerator.backward(loss)" in result.diff
    return [f.code for f in result.plan.findings if f.code.startswith("LOSS-")]


LOSSES = [
    "outputs = model(x, labels=y)\nloss = outputs.loss",
    "outputs = model(x, labels=y)\nloss = outputs[0]",
    "outputs = model(input_ids=x, attention_mask=None, labels=y)\nloss = outputs['loss']",
    "loss, logits = model(x, labels=y)",
    "batch = {'input_ids': x, 'labels': y}\nloss = model(**batch).loss",
]


@pytest.mark.parametrize("forward", LOSSES)
@pytest.mark.parametrize("model", [f"{AUTO}ForSequenceClassification", "transformers.BertForSequenceClassification"])
def test_a_mean_over_the_samples_is_known_as_one(model: str, forward: str) -> None:
    assert said(model, forward) == []


@pytest.mark.parametrize("forward", LOSSES)
@pytest.mark.parametrize("model", [f"{AUTO}ForTokenClassification", "transformers.GPT2LMHeadModel"])
def test_a_mean_over_the_labels_that_count_is_warned_of(model: str, forward: str) -> None:
    assert said(model, forward) == ["LOSS-MASKMEAN"]


@pytest.mark.parametrize(
    ("model", "forward", "imports"),
    [
        (f"{AUTO}ForSequenceClassification", "loss = model(x).loss", "import transformers"),  # without labels
        (f"{AUTO}ForCTC", LOSSES[0], "import transformers"),  # another loss
        ("BertForSequenceClassification", LOSSES[0], "from own_models import BertForSequenceClassification"),
        (AUTO, LOSSES[0], "import transformers"),
    ],
)
def test_other_models_are_not(model: str, forward: str, imports: str) -> None:
    assert said(model, forward, imports) == ["LOSS-UNKNOWN"]
