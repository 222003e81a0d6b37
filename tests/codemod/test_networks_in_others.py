"""Networks that others are handed, and run for them: a module around one, an object that keeps one."""

from __future__ import annotations

import pytest
from scripts import NO_LOOP, convert, converted, findings, script, unchanged

AROUND = """\
class Around(nn.Module):
    def __init__(self, net, scale=2.0):
        super().__init__()
        self.net = net
        self.scale = scale

    def forward(self, x, y):
        return F.cross_entropy(self.net(x * self.scale), y)

    def measure(self, x, y):
        return self(x, y)

    @torch.no_grad()
    def sample(self, x):
        return self.net(x)
"""
HOLDER = """\
class Holder:
    def __init__(self, net, device="cpu"):
        self.net = net.to(device)
        self.device = device

    def measure(self, x, y):
        return F.cross_entropy(self.net(x), y)
"""
FORWARD = "optimizer.zero_grad()\nloss = {}"


def around(forward: str = "around(x, y)", made: str = "around = Around(model).to(device)", **slots: str) -> str:
    """A script whose network is trained as a part of another one."""
    slots = {"definitions": AROUND, "before": made, **slots}
    return script(forward=FORWARD.format(forward), **slots)


def lines(text: str, **options: object) -> list[str]:
    return [line.strip() for line in converted(text, **options).splitlines()]


PREPARED = "around, optimizer, loader = accelerator.prepare(around, optimizer, loader)"


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"forward": "around.measure(x, y)"},
        {"forward": "around(x, y)", "batch_end": "model.eval()\nprint(around.sample(x))\nmodel.train()"},
        {"batch_end": "with torch.no_grad():\n    print(model(x).sum())"},
        {"made": "around = Around(net=model)\nother = Around(model)", "after": "print(other.sample(x))"},
        {"made": "around = Around(model)\nother = Around(model)", "batch_end": "print(other.sample(x))"},
        {"step": "nn.utils.clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()"},
        {"after": "torch.save(model.state_dict(), 'm.pt')"},
        {"definitions": AROUND.replace("= net\n", "= net.to('cpu')\n").replace("('cpu')", "(torch.device('cpu'))")},
        {
            "definitions": f"{AROUND}\n\ndef count(net):\n    return sum(p.numel() for p in net.parameters())",
            "batch_end": "print(count(model), len(model.state_dict()))",
        },
    ],
)
def test_the_network_that_runs_it_is_prepared(parts: dict[str, str]) -> None:
    assert PREPARED in lines(around(**parts))


def test_what_is_done_to_the_part_is_done_before() -> None:
    frozen = "around = Around(model)\nfor p in model.layer.parameters():\n    p.requires_grad = True\nprint(model)"
    text = lines(around(made=frozen))
    assert text.index(PREPARED) > text.index("accelerator.print(model)")


def test_two_parts_of_one_network_with_an_optimizer_each() -> None:
    pair = """\
class Pair(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def forward(self, x):
        return self.decoder(self.encoder(x))
"""
    text = script(
        definitions=pair,
        model="encoder = nn.Linear(8, 4).to(device)\ndecoder = nn.Linear(4, 3).to(device)\n"
        "model = Pair(encoder, decoder)",
        optimizer="optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)\n"
        "other = torch.optim.SGD(decoder.parameters(), lr=0.1)",
        step="optimizer.step()\nother.step()",
    )
    assert "model, optimizer, other, loader = accelerator.prepare(model, optimizer, other, loader)" in [
        " ".join(line.split()) for line in lines(text)
    ]
    alone = text.replace("other.step()", "other.step()\n        decoder(torch.zeros(2, 4)).sum().backward()")
    assert "model, optimizer, other" not in (convert(alone).output or b"").decode()


@pytest.mark.parametrize(
    "parts",
    [
        {"forward": "around(x, y) + model(x).sum()"},
        {"forward": "around(x, y) + model.layer(x).sum()"},
        {"imports": "from other import penalty", "forward": "around(x, y) + penalty(model)"},
    ],
)
def test_a_network_that_is_trained_by_itself_too_is_prepared_itself(parts: dict[str, str]) -> None:
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in lines(around(**parts))


def test_a_network_that_is_a_part_of_two_is_not_prepared() -> None:
    text = around(made="around = Around(model)\nother = Around(model)", forward="around(x, y) + other(x, y)")
    assert unchanged(text).code == "OPT-UNKNOWN"


@pytest.mark.parametrize(
    "definitions",
    [
        AROUND.replace("self.net = net\n", "self.net = nn.Linear(8, 3)\n        self.net = net\n"),
        AROUND.replace("self.net = net\n", "net = nn.Linear(8, 3)\n        self.net = net\n"),
        AROUND.replace("    @torch", "    def change(self, net):\n        self.net = net\n\n    @torch"),
        AROUND.replace("self.net = net\n", "self.nets = [net]\n").replace("self.net(", "self.nets[0]("),
    ],
)
def test_what_may_not_be_a_part_is_left_alone(definitions: str) -> None:
    assert unchanged(around(definitions=definitions)).code == "OPT-UNKNOWN"


def test_the_other_target_is_told_of_parts_that_are_trained_later() -> None:
    frozen = "around = Around(model)\nfor p in model.parameters():\n    p.requires_grad = False"
    later = "for p in model.parameters():\n    p.requires_grad = True"
    assert "DDP-UNFREEZE" in findings(around(made=frozen, epoch=later), target="accelerate")
    assert "DDP-UNFREEZE" not in findings(around(made=frozen), target="accelerate")
    assert "DDP-UNFREEZE" not in findings(around(made=frozen, epoch=later))


# ---- objects that are no networks


def held(definitions: str = HOLDER, **slots: str) -> str:
    slots = {"before": "holder = Holder(model, device)", **slots}
    return script(definitions=definitions, forward=FORWARD.format("holder.measure(x, y)"), **slots)


@pytest.mark.parametrize(
    "kept",
    [
        "net",
        "net.to(device)",
        "net.to(device=device)",
        "net.train()",
        "net.train(True).to(device, non_blocking=True)",
        "net.cuda()",
    ],
)
def test_a_network_is_prepared_before_an_object_keeps_it(kept: str) -> None:
    text = lines(held(HOLDER.replace("net.to(device)", kept)))
    prepared = text.index("model, optimizer, loader = accelerator.prepare(model, optimizer, loader)")
    assert prepared < next(number for number, line in enumerate(text) if line.startswith("holder = Holder(model, "))


def test_an_object_that_is_handed_something_else_is_left_as_it_is() -> None:
    """Nothing is prepared of what is called, and is no network that trains."""
    other = HOLDER.replace("Holder", "Measure").replace("net.to(device)", "net")
    text = script(definitions=other, before="measure = Measure(len)", epoch="print(measure.net(data))")
    assert "measure = Measure(len)" in lines(text)
    assert "self.net = net" in lines(text)


def test_two_objects_keep_the_same_network() -> None:
    twice = "holder = Holder(model, device)\nother = Holder(model, device)"
    assert "other = Holder(model, device)" in lines(held(before=twice))


@pytest.mark.parametrize(
    "kept",
    [
        "net.half()",
        "net.to(torch.float64)",
        "net.to(device, torch.float64)",
        "net.to(other)",
        "net.requires_grad_(True)",
    ],
)
def test_a_network_that_is_changed_as_it_is_kept_is_not_prepared_before(kept: str) -> None:
    text = (convert(held(HOLDER.replace("net.to(device)", kept), setup="other = 'cpu'")).output or b"").decode()
    assert text.find("accelerator.prepare(model, optimizer") == -1


def test_a_network_that_is_kept_elsewhere_is_not_prepared_before() -> None:
    text = convert(held(before="holder = Holder(model)", after="print(holder.device)"))
    assert text.output is None or b"accelerator.prepare(model, optimizer" not in text.output


AVERAGE = """\
class Average:
    def __init__(self, net):
        self.net = net
        self.kept = {n: p.data.clone() for n, p in net.named_parameters()}

    def update(self):
        for n, p in self.net.named_parameters():
            self.kept[n] = 0.9 * self.kept[n] + 0.1 * p.data


def fit(net):
    average = Average(net) if len(data) else None
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
        if average is not None:
            average.update()
"""


def test_an_object_asks_a_prepared_network_for_its_parameters() -> None:
    nothing = NO_LOOP
    text = converted(script(definitions=AVERAGE, after="fit(model)", **nothing))
    assert "for n, p in accelerator.unwrap_model(net).named_parameters()\n" in text
    assert "for n, p in accelerator.unwrap_model(self.net).named_parameters():" in text


def test_what_a_trainer_moves_is_prepared_with_the_optimizer_that_it_is_handed() -> None:
    fit = """
    def fit(self, loader, optimizer):
        for x, y in loader:
            x, y = x.to(self.device), y.to(self.device)
            optimizer.zero_grad()
            self.measure(x, y).backward()
            optimizer.step()
"""
    text = script(
        definitions=HOLDER + fit,
        **NO_LOOP,
        after="Holder(model, device).fit(loader, optimizer)",
    )
    text = "\n".join(lines(text))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\nHolder(model, device)" in text
