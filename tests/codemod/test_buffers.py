"""BUFFER: what networks keep from batch to batch, which every process fills with its own share."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import converted, findings, lifted, script

NET = """\
class Keeping(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.register_buffer("memory", torch.zeros(3, 64))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))
        self.plain = torch.zeros(3)
        self.steps = 0

    @torch.no_grad()
    def remember(self, keys, momentum=0.9):
        start = int(self.place)
        {remember}
        self.place[0] = (start + keys.size(0)) % 64

    def forward(self, x):
        out = self.layer(x)
        {forward}
        return out
"""
SLOTS = {"model": "model = Keeping().to(device)"}


def keeping(forward: str = "pass", remember: str = "pass", **slots: str) -> str:
    return script(definitions=NET.format(forward=forward, remember=remember), **{**SLOTS, **slots})


@pytest.mark.parametrize(
    "write",
    [
        "self.memory[:, : len(x)] = out.detach().T",
        "self.memory.copy_(0.9 * self.memory + 0.1 * out.detach().mean())",
        "self.memory = 0.9 * self.memory + 0.1 * out.detach().mean()",
        "self.memory.mul_(0.9).add_(out.detach().mean(), alpha=0.1)",
        "self.memory.data[0, 0] = x.mean()",
        "self.memory += out.detach().mean()",
        "keys = out.detach().T\n        self.memory = torch.cat([keys, self.memory], dim=1)[:, :64]",
        "for i, key in enumerate(out.detach()):\n            self.memory[:, i] = key",
        "self.plain[:] = 0.9 * self.plain + 0.1 * out.detach().mean(0)",
        "if self.training:\n            self.plain.lerp_(out.detach().mean(0), 0.1)",
    ],
)
def test_what_is_kept_of_a_share_is_reported(write: str) -> None:
    text = keeping(write)
    assert findings(text) == ["BUFFER-OWN"]
    definitions = NET.format(forward=write, remember="pass")
    assert converted(text) == lifted(definitions=definitions, model="model = Keeping()")


CODES = """\
class Codes(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.codes = {made}
        self.sums = self.codes.clone()

    def forward(self, x):
        out = self.layer(x)
        counts = torch.zeros_like(self.sums)
        counts.{fill}
        {write}
        return out + self.codes.mean() + self.sums.mean()
"""


@pytest.mark.parametrize(
    ("made", "fill", "write", "said"),
    [
        ("torch.ones(4, 3) / 2", "index_add_(0, out.argmax(1), out.detach())", "self.sums[:] = 0.9 * counts", True),
        ("torch.ones(4, 3)", "add_(out.detach().mean())", "self.sums[counts > 0] += 1 - counts[counts > 0]", True),
        ("torch.ones(4, 3) / 2", "add_(1)", "self.codes[:] = 0.9 * self.codes + out.detach().mean()", True),
        ("torch.ones(4, 3) / 2", "add_(len(x))", "self.sums[:] = 0.9 * counts", False),
        ("torch.ones(4, 3) / 2", "index_add_(0, out.argmax(1), out.detach())", "out = out + counts.mean()", False),
        ("1 / 2 + torch.ones(4, 3)", "add_(1)", "self.sums.mul_(0.9)", False),
    ],
)
def test_what_is_counted_in_a_tensor_and_kept(made: str, fill: str, write: str, said: bool) -> None:
    definitions = CODES.format(made=made, fill=fill, write=write)
    assert ("BUFFER-OWN" in findings(script(definitions=definitions, model="model = Codes().to(device)"))) is said


@pytest.mark.parametrize(
    "write",
    [
        "pass",
        "self.place += 1",
        "self.place[0] = (self.place + x.size(0)) % 64",
        "self.steps += 1",
        "self.memory.mul_(0.99)",
        "self.memory[:, 0] = self.layer.weight.detach().mean(1)",
        "self.last = out.detach()",
        "self.plain = out.detach().mean(0)",
        "out = out + self.memory.mean() + self.plain",
        "shown = out.detach().clone().zero_()",
    ],
)
def test_counters_schedules_and_what_is_only_shown_are_not(write: str) -> None:
    assert findings(keeping(write)) == []


def test_methods_that_the_forward_pass_or_the_loop_calls() -> None:
    queue = "self.memory[:, start : start + keys.size(0)] = keys.T"
    assert findings(keeping("self.remember(out.detach())", queue)) == ["BUFFER-OWN"]
    in_loop = "optimizer.zero_grad()\nout = model(x)\nloss = F.cross_entropy(out, y)\nmodel.remember(out.detach())"
    assert "BUFFER-OWN" in findings(_looped(queue, in_loop))
    assert "BUFFER-OWN" not in findings(_looped("pass", in_loop))
    assert findings(keeping("self.remember(self.layer.weight)", queue)) == []
    assert findings(keeping("pass", queue)) == []


def _looped(remember: str, loop: str) -> str:
    return script(definitions=NET.format(forward="pass", remember=remember), forward=loop, **SLOTS)


def test_parts_of_a_network_and_losses() -> None:
    part = NET.format(forward="self.memory[0, 0] = x.mean()", remember="pass")
    outer = """

class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Keeping()

    def forward(self, x, scale=1.0):
        return self.inner({given})
"""
    slots = {"model": "model = Outer().to(device)"}
    assert findings(script(definitions=part + outer.format(given="x"), **slots)) == ["BUFFER-OWN"]
    assert findings(script(definitions=part + outer.format(given="torch.ones(16, 8)"), **slots)) == []
    loss = """\
class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("centres", torch.zeros(3))

    def forward(self, out, y):
        self.centres = 0.9 * self.centres + 0.1 * out.detach().mean(0)
        return F.cross_entropy(out - self.centres, y)
"""
    slots = {"before": "criterion = Centred().to(device)"}
    forward = "optimizer.zero_grad()\nloss = criterion(model(x), y)"
    assert "BUFFER-OWN" in findings(script(definitions=loss, forward=forward, **slots))


def test_statistics_of_batch_norm_are_another_matter() -> None:
    text = script(model="model = nn.Sequential(nn.Linear(8, 3), nn.BatchNorm1d(3)).to(device)")
    assert findings(text) == ["NOTE-BN"]


def test_what_only_an_evaluation_fills_is_not() -> None:
    queue = "self.memory[:, 0] = keys.mean()"
    after = "model.eval()\nwith torch.no_grad():\n    for x, y in loader:\n        model.remember(x.to(device))"
    assert "BUFFER-OWN" not in findings(keeping("pass", queue, after=after))


PART = """\
class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        {kept}

    def forward(self, x):
        {forward}
        return self.layer(x)
"""


def part(kept: str, forward: str, model: str = "nn.Sequential(Part(), nn.Linear(8, 3))") -> str:
    return script(definitions=PART.format(kept=kept, forward=forward), model=f"model = {model}.to(device)")


MOVED = "m = x.detach().mean(0)\n        self.m = m if self.m is None else 0.9 * self.m + 0.1 * m"
BANK = "self.bank.append(x.detach().mean(0))\n        x = x - torch.stack({read}).mean(0)"


@pytest.mark.parametrize(
    ("kept", "forward"),
    [
        ('self.register_buffer("m", torch.zeros(8))', "self.m.mul_(0.9).add_(x.mean(0), alpha=0.1)"),
        ("self.m = None", MOVED),
        (
            "self.m = None",
            "if self.m is None:\n            self.m = x[0]\n        self.m = 0.9 * self.m + 0.1 * x.mean(0)",
        ),
        ("self.codes = nn.Parameter(torch.ones(4, 8), requires_grad=False)", "self.codes.data[0] = x.detach().mean(0)"),
        ("self.codes = nn.Parameter(torch.ones(4, 8))", "self.codes.data.lerp_(x.detach().mean(0), 0.1)"),
        ("self.bank = []", BANK.format(read="self.bank")),
        ("self.bank = list()", BANK.format(read="self.bank")),
    ],
)
@pytest.mark.parametrize(
    "model", ["nn.Sequential(Part(), nn.Linear(8, 3))", "nn.Sequential(nn.Sequential(Part()))", "Part()"]
)
def test_items_of_containers_and_what_is_none_a_parameter_or_a_list(kept: str, forward: str, model: str) -> None:
    assert findings(part(kept, forward, model)) == ["BUFFER-OWN"]


@pytest.mark.parametrize(
    ("kept", "forward"),
    [
        ('self.register_buffer("m", torch.zeros(8))', "self.m.mul_(0.9)"),
        ("self.last = None", "self.last = x.detach()"),
        ("self.rnn, self.h = nn.GRUCell(8, 8), None", "self.h = self.rnn(x, self.h)"),
        ("self.h = None\n        self.rnn = nn.GRUCell(8, 8)", "self.h = self.rnn(x, self.h)"),
        ("self.scale = nn.Parameter(torch.ones(8))", "x = x * self.scale"),
        ("self.scale = nn.Parameter(torch.ones(8))", "self.scale.data.clamp_(0, 1)"),
        ("self.norms = []", "self.norms.append(x.norm().item())"),
        ("self.norms = []", "self.norms.append(x.norm().item())\n        print(len(self.norms), self.norms[-1])"),
        ("self.bank = []", "self.bank = []\n        " + BANK.format(read="self.bank")),
        ("self.bank = []", BANK.format(read="self.bank") + "\n        self.bank.clear()"),
        ("self.bank = []", "bank = []\n        " + BANK.format(read="bank + [x]").replace("self.bank", "bank")),
    ],
)
def test_what_is_kept_for_one_batch_only_or_of_no_batch_is_not(kept: str, forward: str) -> None:
    assert "BUFFER-OWN" not in findings(part(kept, forward))


def test_other_methods_of_a_container_run_no_forward_pass() -> None:
    kept, fill = 'self.register_buffer("m", torch.zeros(8))', "self.m += x.mean(0)"
    once = {"model": "model = Net().to(device)\nother = nn.Sequential(Part()).to(device)", "batch_end": "other.eval()"}
    assert "BUFFER-OWN" not in findings(script(definitions=PART.format(kept=kept, forward=fill), **once))


BANK = """\
class Compared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, bank):
        {saved}
        return x.mm(bank.t())

    @staticmethod
    def backward(ctx, grad):
        {taken}
        {write}
        return grad.mm(bank), None, None


def compared(x, y, bank):
    return Compared.apply(x, y, bank)


class Keeping(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.register_buffer("bank", torch.zeros(3, 3))

    def forward(self, x):
        {call}
"""
SAVED = {"saved": "ctx.save_for_backward(x, y, bank)", "taken": "x, y, bank = ctx.saved_tensors"}
APPLIED = "return Compared.apply(self.layer(x), x[:, 0].long(), self.bank)"


@pytest.mark.parametrize(
    ("slots", "told"),
    [
        ({**SAVED, "write": "bank.index_copy_(0, y, x)"}, True),
        ({**SAVED, "write": "bank[y] = 0.9 * bank[y] + 0.1 * x"}, True),
        ({**SAVED, "write": "bank.data += x.mean(0)"}, True),
        ({"saved": "ctx.x, ctx.kept = x, bank\n        ctx.bank = bank", "taken": "x, bank = ctx.x, ctx.bank"}, False),
        ({"saved": "ctx.bank = bank", "taken": "bank = ctx.bank", "write": "ctx.bank[0] += grad.mean()"}, True),
        ({**SAVED, "write": "bank = bank.index_copy(0, y, x)"}, False),
        ({**SAVED, "write": "x.mul_(2)"}, False),  # what belongs to the batch
        ({**SAVED, "write": "pass"}, False),
    ],
)
@pytest.mark.parametrize("call", [APPLIED, APPLIED.replace("Compared.apply", "compared")])
def test_what_an_autograd_function_writes_into_a_buffer(slots: dict[str, str], told: bool, call: str) -> None:
    """Memory banks are often brought up to date in the backward pass of the loss that compares with them."""
    definitions = BANK.format(**{"write": "pass", **slots}, call=call)
    text = script(definitions=definitions, model="model = Keeping().to(device)")
    assert ("BUFFER-OWN" in findings(text)) is told
    constant = (
        "self.layer(x)\n        return Compared.apply(torch.eye(3), torch.arange(3), self.bank).mean() + self.layer(x)"
    )
    text = script(
        definitions=BANK.format(**{"write": "pass", **slots}, call=constant), model="model = Keeping().to(device)"
    )
    assert "BUFFER-OWN" not in findings(text)


NORMED = "nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).to(device)"
CLASS = """\
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x):
        return self.norm(x)


class Steady(Encoder):
    def train(self, mode=True):
        return super().train(False)


class Both(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.encoder(x))
"""
SWITCHED = {"epoch": "encoder.train()", "epoch_end": "encoder.eval()"}
FROZEN = "optimizer.zero_grad()\nloss = F.cross_entropy(model(encoder(x)), y)"


@pytest.mark.parametrize(
    ("encoder", "slots", "said"),
    [
        (NORMED, {}, False),
        (NORMED, {"after": "torch.save(encoder.state_dict(), 'encoder.pt')"}, True),
        (NORMED, {"epoch": "encoder.train()", "after": "torch.save(encoder.state_dict(), 'encoder.pt')"}, True),
        (NORMED, SWITCHED, True),
        (NORMED, {"epoch": "encoder.eval()", "epoch_end": "encoder.train()"}, False),
        (NORMED, {"before": "encoder.eval()"}, False),
        (NORMED, {"before": "encoder.train(False)"}, False),
        (NORMED, {"before": "for part in encoder.modules():\n    part.eval()"}, False),
        (f"{NORMED}.eval()", {}, False),
        (NORMED.replace("BatchNorm1d", "LayerNorm"), SWITCHED, False),
        (NORMED.replace("(8))", "(8, track_running_stats=False))"), SWITCHED, False),
        (NORMED.replace("(8))", "(8, track_running_stats=True))"), SWITCHED, True),
        ("Encoder().to(device)", SWITCHED, True),
        ("Encoder().to(device)", {"before": "print(encoder)", **SWITCHED}, True),
        ("Steady().to(device)", SWITCHED, False),
        ("torchvision.models.resnet18()", {"imports": "import torchvision", **SWITCHED}, True),
        ("torchvision.models.alexnet()", {"imports": "import torchvision", **SWITCHED}, False),
        ("Encoder()", {"forward": "loss = F.cross_entropy(model(x), y)", **SWITCHED}, False),
        (
            "Encoder()",
            {"model": "encoder = Encoder()\nmodel = Both(encoder).to(device)", "forward": FROZEN, **SWITCHED},
            False,
        ),
    ],
)
def test_averages_of_a_network_that_is_not_prepared(encoder: str, slots: dict[str, str], said: bool) -> None:
    made = {"model": f"encoder = {encoder}\nmodel = Net().to(device)", "forward": FROZEN}
    assert ("BUFFER-OWN" in findings(script(definitions=CLASS, **{**made, **slots}))) is said
