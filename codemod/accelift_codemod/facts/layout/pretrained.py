"""What models of transformers return that are given labels."""

from __future__ import annotations

import ast

from accelift_codemod.facts.layout.algebra import Layout, Record
from accelift_codemod.facts.values import Values

# By what their classes do: the loss is a mean over the samples, or over the labels that are not -100.
_SAMPLES = ("ForSequenceClassification", "ForMultipleChoice", "ForImageClassification", "ForAudioClassification")
_TOKENS = tuple(
    "ForTokenClassification ForMaskedLM ForCausalLM ForSeq2SeqLM ForConditionalGeneration LMHeadModel".split()
)
_MADE = (".from_pretrained", ".from_config")


def returned(values: Values, call: ast.Call) -> Record | None:
    """The loss and the logits, if all that is called are such models; None if not, or if they are given no labels."""
    names = [_class(v.name) for v in values]
    if not names or not any(k.arg in ("labels", None) for k in call.keywords):
        return None
    if all(name.endswith(_SAMPLES) for name in names):
        return Record.of({"loss": Layout.MEAN, "logits": Layout.ROWS})
    if all(name.endswith(_TOKENS) for name in names):
        return Record.of({"loss": Layout.WEIGHTED, "logits": Layout.UNKNOWN})
    return None


def _class(qualified: str) -> str:
    """The class of transformers whose object something is: `BertForTokenClassification`; empty if of none."""
    made = next((qualified.removesuffix(way) for way in _MADE if qualified.endswith(way)), qualified)
    package, _, rest = made.partition(".")
    return rest.rpartition(".")[2] if package == "transformers" and "[" not in rest else ""
