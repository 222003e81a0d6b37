"""Objects that a function which runs for each batch, or each epoch, takes out of what it is handed."""

from __future__ import annotations

import pytest
from accelift_codemod.plan import Outcome
from scripts import TRAINS, convert, converted, findings, script

STEP = """\
def step(context, x, y):
    {take}
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
EPOCH = f"""\
def epoch(context, loader):
    {{take}}
{TRAINS}"""
ENTRIES = 'model = context["model"]\n    optimizer = context["optimizer"]'
MADE = "model = Net()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
DICT = MADE + 'context = {"model": model, "optimizer": optimizer}'
PREPARED = "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)"
EMPTY = {"optimizer": "", "forward": "", "backward": "", "step": "step(context, x, y)"}


def stepping(take: str, made: str, before: str = "") -> str:
    return script(**EMPTY, definitions=before + STEP.format(take=take), model=made)


@pytest.mark.parametrize(
    ("take", "made", "prepared"),
    [
        (ENTRIES, DICT, PREPARED),
        ("model, optimizer = context[0], context[1]", MADE + "context = [model, optimizer]", PREPARED),
        ("model, optimizer = context", MADE + "context = (model, optimizer)", PREPARED),
        (f"{ENTRIES}\n    model.train()", DICT, PREPARED),
        (
            ENTRIES,
            "context = {}\ncontext['model'] = Net()\n"
            "context['optimizer'] = torch.optim.SGD(context['model'].parameters(), lr=0.1)",
            'context["model"], context["optimizer"], loader = accelerator.prepare(\n'
            '    context["model"], context["optimizer"], loader\n)',
        ),
    ],
)
def test_what_a_step_takes_out_of_a_container_is_prepared_before(take: str, made: str, prepared: str) -> None:
    text = converted(stepping(take, made))
    assert text.count("accelerator.prepare(") == 1
    assert f"\n{prepared}\n" in text and text.index(prepared) > text.index("optimizer.step()")
    assert findings(stepping(take, made)) == []


BUILD = "def build():\n    {}\n    return dict(model=model, optimizer=optimizer)\n\n\n"


@pytest.mark.parametrize(
    ("take", "made"),
    [
        (ENTRIES, 'context = {"nets": 1, **build_and_keep()}'),
        (ENTRIES.replace('["model"]', '["model"].train()'), DICT),
    ],
)
def test_nothing_is_prepared_for_each_batch(take: str, made: str) -> None:
    build = BUILD.format(MADE.strip().replace("\n", "\n    "))
    keep = build.replace("build", "build_and_keep").replace("return ", "made = ").rstrip() + "\n    return made\n\n\n"
    assert convert(stepping(take, made, build + keep)).outcome is Outcome.REFUSED


def test_what_a_function_returns_is_prepared_before() -> None:
    text = converted(
        stepping(ENTRIES, 'context = {"nets": 1, **build()}', BUILD.format(MADE.strip().replace("\n", "\n    ")))
    )
    assert "    model, optimizer = accelerator.prepare(model, optimizer)\n    return dict(" in text


def test_an_epoch_takes_what_was_prepared_before_the_first() -> None:
    slots = {**EMPTY, "loop": "if True:", "move": "", "step": "epoch(context, loader)", "epochs": "for _ in range(2):"}
    text = converted(script(**slots, definitions=EPOCH.format(take=ENTRIES), model=DICT))
    assert text.count("accelerator.prepare(") == 1 and f"\n{PREPARED}\n" in text


STATE = """\
class State:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer


"""


def test_an_object_that_keeps_the_model_needs_the_runtime() -> None:
    """It trains by the bare model, whose gradients Accelerate does not average; the runtime does."""
    take = "model = context.model\n    optimizer = context.optimizer"
    text = stepping(take, MADE + "context = State(model, optimizer)", STATE)
    assert f"\n{PREPARED}\n" in converted(text)
    assert convert(text, target="accelerate").outcome is Outcome.REFUSED
    assert PREPARED in converted(stepping(ENTRIES, DICT), target="accelerate")
