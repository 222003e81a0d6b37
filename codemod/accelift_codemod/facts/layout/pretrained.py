"""What models of transformers return: the loss, if they are given labels, and what they compute for each sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from accelift_codemod.facts.layout.algebra import Layout, Record, Shape, are_rows
from accelift_codemod.facts.values import Value

# By what their classes do: the loss is a mean over the samples, or over the labels that are not -100.
_SAMPLES = ("ForSequenceClassification", "ForMultipleChoice", "ForImageClassification", "ForAudioClassification")
_TOKENS = tuple(
    "ForTokenClassification ForMaskedLM ForCausalLM ForSeq2SeqLM ForConditionalGeneration LMHeadModel".split()
)
_MADE = (".from_pretrained", ".from_config")
# Models without a head, in which no sample meets another. Not those of pictures and texts, which compare the samples.
_BARE = frozenset(
    f"{name}Model"
    for name in (
        "Albert Auto Bart Bert BigBird Camembert ConvBert Deberta DebertaV2 DistilBert Electra Ernie ErnieM Flaubert "
        "GPT2 GPTNeo GPTNeoX Hubert Llama Longformer MPNet MT5Encoder MegatronBert MobileBert ModernBert Nezha OPT "
        "OpenAIGPT Qwen2 RoFormer Roberta SqueezeBert T5Encoder UniSpeech ViT Wav2Vec2 WavLM XLM XLMRoberta"
    ).split()
)
_STATES = Record.of(
    {
        "last_hidden_state": Layout.ROWS,
        "pooler_output": Layout.BATCH,  # or what the model has in this place instead, of which each part is one
        "hidden_states": Layout.BATCH,
        "attentions": Layout.BATCH,
    }
)


def returned(values: Sequence[Value], arguments: Sequence[Shape], keywords: Mapping[str, Shape]) -> Record | None:
    """What a call gives, if all that is called are such models; None if not, or if nothing is known of it."""
    names = [_class(v.name) for v in values]
    if not names:
        return None
    if all(name in _BARE for name in names):
        return _STATES if are_rows([*arguments, *keywords.values()]) else None
    if not {"labels", "**"} & keywords.keys():
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
