"""What models of transformers return that are given labels: a mean over samples, or over labels that are not -100."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from scripts import convert, findings, script

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


class Encoding(NamedTuple):
    """How a network of the script uses an encoder of transformers, and what it returns."""

    call: str = "self.bert(ids, attention_mask=mask)"
    gives: str = "out.last_hidden_state[:, 0]"
    made: str = "transformers.BertModel.from_pretrained('bert')"


def encoded(encoding: Encoding, forward: str) -> list[str]:
    """The codes of the findings about the loss of a script whose network has an encoder."""
    network = f"""\
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.bert = {encoding.made}
        self.head = nn.Linear(8, 3)

    def forward(self, ids, mask=None):
        out = {encoding.call}
        return {encoding.gives}
"""
    result = convert(
        script(
            imports="import transformers\nfrom own_models import BertModel",
            definitions=network,
            model="model = Encoder().to(device)",
            forward=f"optimizer.zero_grad()\n{forward}",
        )
    )
    assert result.plan is not None and "accelerator.backward(loss" in result.diff
    assert ('reduction="sum"' in result.diff) == ("sum(" in forward)
    return [f.code for f in result.plan.findings if f.code.startswith("LOSS-")]


IN_BATCH = "out = model(x, x > 0)\nloss = F.cross_entropy(out @ model(x).t(), torch.arange(len(x), device=device))"
ENCODINGS = [
    Encoding(),
    Encoding(gives="self.head(out.pooler_output)"),
    Encoding(gives="self.head(out[1])"),
    Encoding(gives="out['last_hidden_state'].mean(1)"),
    Encoding(gives="(out[0] * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)"),
    Encoding("self.bert(ids, output_hidden_states=True)", "out.hidden_states[-2][:, 0]"),
    Encoding("self.bert(ids, mask, return_dict=False)[1]", "self.head(out)"),
    Encoding(made="transformers.AutoModel.from_pretrained('bert')"),
    Encoding(made="transformers.models.roberta.RobertaModel(transformers.RobertaConfig())"),
]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_encoder_gives_one_row_for_each_sample(encoding: Encoding) -> None:
    assert encoded(encoding, IN_BATCH) == ["LOSS-INBATCH"]
    assert encoded(encoding, "loss = F.cross_entropy(model(x), y)") == []
    assert encoded(encoding, "loss = (model(x) - 1).pow(2).sum()") == []


def test_what_stands_in_a_dict_reaches_an_encoder() -> None:
    batches = "batch = {'ids': x, 'mask': x > 0}\n"
    loss = "loss = F.cross_entropy(out @ out.flip(1).t(), torch.arange(len(x), device=device))"
    assert encoded(Encoding(), f"{batches}out = model(**batch)\n{loss}") == ["LOSS-INBATCH"]
    later = "batch = {'ids': x}\nif epoch:\n    batch['mask'] = x > 0\n"
    assert encoded(Encoding(), f"{later}out = model(**batch)\n{loss}") == ["LOSS-INBATCH"]
    whole = "batch = {k: v for k, v in {'ids': x}.items()}\n"
    assert encoded(Encoding(), f"{whole}loss = F.cross_entropy(model(**batch), y)") == []


@pytest.mark.parametrize(
    "encoding",
    [
        Encoding(made="transformers.CLIPModel.from_pretrained('clip')"),
        Encoding(made="transformers.XLNetModel.from_pretrained('xlnet')"),
        Encoding("self.bert(ids.sum(0), mask)"),
        Encoding(made="BertModel()"),
    ],
)
def test_of_other_models_it_is_not_known(encoding: Encoding) -> None:
    assert encoded(encoding._replace(gives="out[0]"), "loss = torch.add(model(x).view(-1).dot(x.view(-1)), 0)") == [
        "LOSS-UNKNOWN"
    ]


MARKED = [
    "y[y == 0] = -100",
    "y = y.masked_fill(y == 0, -100)",
    "y = torch.where(y == 0, torch.tensor(-100).to(y), y)",
    "y = torch.where(y == 0, torch.tensor(F_LOSS.ignore_index).type_as(y), y)",
    "y = torch.tensor([-100 if label == 0 else label for label in y.tolist()])",
    "collator = transformers.DataCollatorForTokenClassification(None)",
]


@pytest.mark.parametrize("mark", MARKED)
@pytest.mark.parametrize("loss", ["F.cross_entropy(model(x), y)", "F_LOSS(model(x), y)"])
def test_labels_that_are_marked_to_be_ignored_make_a_mean_over_the_others(mark: str, loss: str) -> None:
    text = script(
        imports="import transformers",
        before="F_LOSS = nn.CrossEntropyLoss()",
        forward=f"optimizer.zero_grad()\n{mark}\nloss = {loss}",
    )
    assert [c for c in findings(text) if c.startswith("LOSS-")] == ["LOSS-MASKMEAN"]


@pytest.mark.parametrize(
    ("mark", "loss"),
    [
        ("keep = y != -100", "F.cross_entropy(model(x), y)"),  # it is only asked for
        ("z = x - 100", "F.cross_entropy(model(x), y)"),
        ("z = torch.clamp(x, min=-100, max=100)", "F.cross_entropy(model(x), y)"),
        ("z = x.clamp(-100, 100)", "F.cross_entropy(model(x), y)"),
        ("y[y == 0] = -100", "F.mse_loss(model(x), x[:, :3])"),  # which ignores none
        ("print(F_LOSS.ignore_index)", "F_LOSS(model(x), y)"),
    ],
)
def test_other_numbers_mark_nothing(mark: str, loss: str) -> None:
    text = script(before="F_LOSS = nn.CrossEntropyLoss()", forward=f"optimizer.zero_grad()\n{mark}\nloss = {loss}")
    assert [c for c in findings(text) if c.startswith("LOSS-")] == []


HIDE = "def hide(y, number{default}):\n    {body}\n    return y\n"


@pytest.mark.parametrize(
    ("default", "call"), [("=-100", "hide(y)"), ("", "hide(y, -100)"), ("=0", "hide(y, number=-100)")]
)
@pytest.mark.parametrize("body", ["y[y == 0] = number", "y = y.masked_fill(y == 0, number)", "y.fill_(number)"])
def test_a_parameter_may_be_the_mark(default: str, call: str, body: str) -> None:
    assert hidden(default, call, body) == ["LOSS-MASKMEAN"]


@pytest.mark.parametrize(
    ("default", "call", "body"),
    [
        ("=-100", "hide(y)", "keep = y != number"),
        ("=-100", "hide(y)", "kept = number"),
        ("=0", "hide(y)", "y[y == 0] = number"),
        ("", "hide(y, -100)", "number = abs(number)"),
    ],
)
def test_a_parameter_that_gets_into_nothing_is_none(default: str, call: str, body: str) -> None:
    assert hidden(default, call, body) == []


def hidden(default: str, call: str, body: str) -> list[str]:
    definitions = HIDE.format(default=default, body=body)
    forward = f"optimizer.zero_grad()\ny = {call}\nloss = F.cross_entropy(model(x), y)"
    return [c for c in findings(script(definitions=definitions, forward=forward)) if c.startswith("LOSS-")]
