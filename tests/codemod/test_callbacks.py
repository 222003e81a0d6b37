"""Trainers that hand themselves to functions that they keep: what becomes of them, and which are left alone."""

from __future__ import annotations

import pytest
from scripts import converted, findings, script, unchanged

NO_BODY = dict.fromkeys(("device", "model", "optimizer", "epochs", "loop", "move", "forward", "backward", "step"), "")
TRAINER = """\
class Trainer:
    def __init__(self, model, {given}):
        self.model = model
        self.callbacks = {kept}
        self.epoch = 0
        self.loss = None
        self.stop = False

    def set_callback(self, event, callback):
        {put}

    def run(self, loader):
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for self.epoch in range(2):
            for x, y in loader:
                self.optimizer.zero_grad()
                self.loss = F.cross_entropy(self.model(x), y)
                self.loss.backward()
                self.optimizer.step()
            {called}
            if self.stop:
                break
    {more}


def log(trainer):
    {body}


def other(trainer):
    print(trainer.epoch)
"""
PARTS = {
    "given": "name='a'",
    "kept": "defaultdict(list)",
    "put": "self.callbacks[event] = [callback]",
    "called": "for callback in self.callbacks.get('epoch', []):\n                callback(self)",
    "more": "",
    "body": "print(trainer.epoch, trainer.loss.item())",
}
AFTER = "trainer = Trainer(Net())\ntrainer.set_callback('epoch', log)\ntrainer.run(loader)"


def calling(after: str = AFTER, **parts: str) -> str:
    text = TRAINER.format(**{**PARTS, **parts})
    return script(imports="from collections import defaultdict", definitions=text, after=after, **NO_BODY)


@pytest.mark.parametrize(
    ("after", "parts"),
    [
        (AFTER, {}),
        (AFTER, {"kept": "{}", "put": "self.callbacks.setdefault(event, []).append(callback)"}),
        (
            AFTER,
            {"kept": "{}", "called": "if 'epoch' in self.callbacks:\n                self.callbacks['epoch'][0](self)"},
        ),
        (AFTER.replace("trainer.run", "trainer.set_callback('end', other)\ntrainer.run"), {}),
        (AFTER, {"kept": "None", "put": "self.callbacks = callback", "called": "self.callbacks(self)"}),
        (
            "trainer = Trainer(Net(), [log])\ntrainer.run(loader)",
            {
                "given": "callbacks",
                "kept": "callbacks",
                "called": "for call in self.callbacks:\n                call(self)",
            },
        ),
    ],
)
def test_the_functions_that_a_trainer_keeps(after: str, parts: dict[str, str]) -> None:
    text = calling(after, **parts)
    assert "accelerator.print(trainer.epoch, trainer.loss.item())" in converted(text)
    assert [code for code in findings(text) if code not in ("DEV-CPU",)] == ["METRIC-TRAIN"]


@pytest.mark.parametrize(
    ("body", "new"),
    [
        (
            "torch.save(trainer.model.state_dict(), 'net.pt')",
            'accelerator.save(accelerator.unwrap_model(trainer.model).state_dict(), "net.pt")',
        ),
        ("if trainer.epoch == 1:\n        trainer.stop = True", "trainer.stop = True"),
        (
            "loss = trainer.loss.item()\n    torch.save({'loss': loss, 'step': trainer.epoch}, 'net.pt')",
            "accelerator.save({'loss': loss, 'step': trainer.epoch}, \"net.pt\")",
        ),
        ("losses.append(trainer.loss.item())\n\n\nlosses = []", "losses.append(trainer.loss.item())"),
        ("for g in trainer.optimizer.param_groups:\n        g['lr'] *= 0.5", "g['lr'] *= 0.5"),
    ],
)
def test_what_it_does_with_what_all_processes_have(body: str, new: str) -> None:
    assert new in converted(calling(body=body)).replace("'net.pt'", '"net.pt"')


@pytest.mark.parametrize(
    "body",
    [
        "if trainer.loss.item() < 1:\n        trainer.stop = True",
        "low = trainer.loss.item() < 1\n    if low:\n        trainer.stop = True",
        "for g in trainer.optimizer.param_groups:\n        g['lr'] *= min(1.0, trainer.loss.item())",
        "losses.append(trainer.loss.item())\n    if losses[-1] < 1:\n        trainer.stop = True\n\n\nlosses = []",
        "if trainer.last() < 1:\n        trainer.stop = True",
    ],
)
def test_what_one_process_has_measured_decides_nothing(body: str) -> None:
    finding = unchanged(calling(body=body, more="def last(self):\n        return self.loss.item()"))
    assert finding.code == "LOOP-IN-CLASS" and "does more than show" in finding.message, finding.message


@pytest.mark.parametrize(
    ("after", "parts"),
    [
        (AFTER.replace("log)", "lambda t: log(t))"), {}),
        (AFTER.replace("log)", "print)"), {}),
        (AFTER.replace("log)", "globals()[input()])"), {}),
        (AFTER.replace("trainer.run", "trainer.set_callback('epoch', print)\ntrainer.run"), {}),
        (AFTER.replace("trainer.run", "trainer.callbacks['epoch'] = [other]\ntrainer.run"), {}),
        (AFTER.replace("trainer.set_callback", "put = [trainer.set_callback]\nput[0]"), {}),
        (AFTER, {"put": "self.callbacks[event] += [callback]"}),
        (AFTER, {"called": "[callback(self) for event, callback in self.callbacks.items()]"}),
        (AFTER, {"kept": "load()"}),
        (AFTER, {"body": "kept.append(trainer)"}),
        (AFTER, {"body": "trainer.model = nn.Linear(8, 3)"}),
        (AFTER, {"body": "setattr(trainer, 'stop', True)"}),
        (AFTER, {"body": "vars(trainer)['stop'] = True"}),
    ],
)
def test_functions_that_cannot_be_told_or_do_more_than_ask(after: str, parts: dict[str, str]) -> None:
    assert unchanged(calling(after, **parts)).code == "LOOP-IN-CLASS"


def test_a_network_that_is_evaluated_by_its_trainer_s_name() -> None:
    body = """trainer.model.eval()
    right = 0
    with torch.no_grad():
        for x, y in test:
            right += (trainer.model(x).argmax(1) == y).sum().item()
    trainer.stop = right > 60
    print(right)"""
    after = f"test = DataLoader(data, batch_size=8)\nnet = Net()\n{AFTER}".replace("Trainer(Net())", "Trainer(net)")
    text = converted(
        calling(after, body=body.replace("trainer.stop = right > 60", "if right > 60:\n        trainer.stop = True"))
    )
    assert "net, test = accelerator.prepare(net, test)" in text or "accelerator.prepare(net, loader, test)" in text
    assert "accelerator.gather_for_metrics(trainer.model(x)).argmax(1)" in text


NONE = "trainer = Trainer(Net())\ntrainer.run(loader)"


@pytest.mark.parametrize(
    "parts", [{}, {"kept": "None", "put": "self.callbacks = callback", "called": "self.callbacks(self)"}]
)
def test_a_trainer_that_is_given_no_function_hands_itself_to_none(parts: dict[str, str]) -> None:
    assert findings(calling(NONE, **parts)) == ["DEV-CPU"]


@pytest.mark.parametrize(
    ("after", "parts"),
    [
        (f"from hooks import *\n{NONE}", {"kept": "hooks"}),
        (NONE.replace("\n", "\ntrainer.callbacks['epoch'] = [hook]\n"), {}),
        (NONE, {"called": "self.notify(self)", "more": "def notify(self, trainer):\n        hook(trainer)"}),
        (NONE, {"called": "self.hook(self)", "more": "hook = staticmethod(other)"}),
    ],
)
def test_functions_that_a_trainer_may_have_from_elsewhere(after: str, parts: dict[str, str]) -> None:
    assert unchanged(calling(after, **parts)).code == "LOOP-IN-CLASS"
