"""Networks with a method that makes their optimizer: what it trains is told by who calls the method."""

from __future__ import annotations

import textwrap

import pytest
from scripts import convert, converted, lifted, script, unchanged

_NETWORK = """\
class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        return self.layer(x)

"""


def _own(
    *body: str, use: str = "optimizer = model.make(0.1)", head: str = "def make(self, lr):", more: str = ""
) -> str:
    method = f"{head}\n{textwrap.indent(chr(10).join(body), '    ')}"
    definitions = _NETWORK + textwrap.indent(method, "    ") + more
    return script(definitions=definitions, model="model = Own().to(device)", optimizer=use)


@pytest.mark.parametrize(
    "body",
    [
        ["return torch.optim.SGD(self.parameters(), lr=lr)"],
        ["return torch.optim.SGD(self.layer.parameters(), lr=lr)"],
        [
            "named = {n: p for n, p in self.named_parameters()}",
            "named = {n: p for n, p in named.items() if p.requires_grad}",
            "wide = [p for n, p in named.items() if p.dim() >= 2]",
            "thin = [p for n, p in named.items() if p.dim() < 2]",
            "groups = [{'params': wide, 'weight_decay': 0.1}, {'params': thin, 'weight_decay': 0.0}]",
            "return torch.optim.AdamW(groups, lr=lr)",
        ],
        [
            "names = set()",
            "for name, part in self.named_modules():",
            "    for key, p in part.named_parameters():",
            "        names.add('%s.%s' % (name, key) if name else key)",
            "named = {n: p for n, p in self.named_parameters()}",
            "groups = [{'params': [named[n] for n in sorted(list(names))], 'weight_decay': 0.1}]",
            "return torch.optim.AdamW(groups, lr=lr)",
        ],
    ],
)
def test_an_optimizer_of_the_network_s_own_making(body: list[str]) -> None:
    after = converted(_own(*body))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in after
    assert all(line in after for line in body)


def test_a_method_that_calls_the_one_that_makes_it() -> None:
    more = "\n\n    def setup(self):\n        return self.make(0.1)\n"
    after = converted(
        _own("return torch.optim.SGD(self.parameters(), lr=lr)", use="optimizer = model.setup()", more=more)
    )
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in after


def test_an_optimizer_that_the_network_keeps_is_prepared_where_it_is_made() -> None:
    use = "model.make(0.1)\noptimizer = model.optimizer"
    after = converted(_own("self.optimizer = torch.optim.SGD(self.parameters(), lr=lr)", use=use))
    assert "self.optimizer = accelerator.prepare(torch.optim.SGD(self.parameters(), lr=lr))" in after
    assert "model, loader = accelerator.prepare(model, loader)" in after


def test_two_networks_that_make_theirs() -> None:
    body = "return torch.optim.SGD(self.parameters(), lr=lr)"
    use = "optimizer = model.make(0.1)\nother = Own().to(device)\nslow = other.make(0.01)"
    text = _own(body, use=use).replace("F.cross_entropy(model(x), y)", "F.cross_entropy(model(x) + other(x), y)")
    after = converted(text.replace("    optimizer.step()", "    optimizer.step()\n        slow.step()"))
    assert "prepare(\n    model, other, optimizer, slow, loader\n)" in after


def test_a_method_that_nothing_names_makes_nothing() -> None:
    body = "return torch.optim.SGD(self.parameters(), lr=lr)"
    after = converted(_own(body, use="optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in after


@pytest.mark.parametrize(
    ("text", "code"),
    [
        # the constructor makes it
        (
            _own(
                "self.optimizer = torch.optim.SGD(self.parameters(), lr=lr)", use="optimizer = model.optimizer"
            ).replace(
                "class Own(nn.Module):\n    def __init__(self):\n",
                "class Own(nn.Module):\n    def __init__(self):\n        self.later = lambda: self.make(0.1)\n",
            ),
            "LOOP-IN-CLASS",
        ),
        # of one network more, which cannot be told
        (
            _own(
                "return torch.optim.SGD(self.parameters(), lr=lr)",
                use="optimizer = model.make(0.1)\nimport nets\nslow = nets.net().make(0.1)",
            ),
            "LOOP-IN-CLASS",
        ),
    ],
)
def test_what_it_trains_cannot_be_told(text: str, code: str) -> None:
    assert unchanged(text).code == code


@pytest.mark.parametrize(
    ("named", "code"),
    [
        ("{n: p for n, p in model.named_parameters()}", ""),
        ("{n: torch.randn(3, requires_grad=True) for n in 'ab'}", "OPT-UNKNOWN"),
        ("load()", "OPT-UNKNOWN"),
    ],
)
@pytest.mark.parametrize(
    "use", ["[named[n] for n in sorted(named)]", "named.values()", "[p for n, p in named.items()]"]
)
def test_parameters_by_name(named: str, code: str, use: str) -> None:
    setup = "from nets import load" if "load" in named else ""
    text = script(setup=setup, optimizer=f"named = {named}\noptimizer = torch.optim.SGD({use}, lr=0.1)")
    if code:
        assert unchanged(text).code in (code, "DDP-FREEPARAM")
    else:
        assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in converted(text)


@pytest.mark.parametrize(
    ("made", "converts"),
    [("torch.ones(1, requires_grad=True)", False), ("nn.Parameter(torch.ones(1))", True)],
)
@pytest.mark.parametrize(
    ("body", "use"),
    [
        ("return torch.optim.SGD([self.scale, self.layer.weight], lr=lr)", "optimizer = model.make(0.1)"),
        ("return [self.scale, self.layer.weight]", "optimizer = torch.optim.SGD(model.make(0.1), lr=0.1)"),
        ("return lr", "optimizer = torch.optim.SGD([model.scale, *model.layer.parameters()], lr=0.1)"),
    ],
)
def test_a_tensor_that_is_kept_beside_the_parameters(body: str, use: str, made: str, converts: bool) -> None:
    kept = f"self.layer = nn.Linear(8, 3)\n        self.scale = {made}\n\n    def forward(self, x):"
    text = _own(body, use=use).replace("self.layer = nn.Linear(8, 3)\n\n    def forward(self, x):", kept)
    if converts:
        assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in converted(text)
    else:
        assert unchanged(text).code == "DDP-FREEPARAM"


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("transformers", "AdamW"),
        ("transformers.optimization", "AdamW"),
        ("pytorch_transformers", "AdamW"),
        ("pytorch_transformers.optimization", "AdamW"),
        ("pytorch_pretrained_bert.optimization", "BertAdam"),
        ("pytorch_pretrained_bert", "BertAdam"),
    ],
)
def test_optimizers_of_transformers_by_all_its_names(module: str, name: str) -> None:
    slots = {"from_imports": f"from {module} import {name}"}
    optimizer = f"optimizer = {name}(model.parameters(), lr=0.1)"
    assert converted(script(optimizer=optimizer, **slots)) == lifted(optimizer=optimizer, **slots)


@pytest.mark.parametrize("module", ["transformers_of_mine", "transformers.models", "pytorch_pretrained_bert.modeling"])
def test_what_has_the_name_of_an_optimizer_elsewhere_is_none(module: str) -> None:
    slots = {"from_imports": f"from {module} import AdamW"}
    assert unchanged(script(optimizer="optimizer = AdamW(model.parameters())", **slots)).code == "OPT-UNKNOWN"


# ---- classes of optimizers that make another one of their own groups

SHARP = """\
class Sharp(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base = base(self.param_groups, **kwargs)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def climb(self):
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old"] = p.data.clone()
                p.add_(p.grad * group["rho"])
        self.zero_grad()

    @torch.no_grad()
    def descend(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old"]
        self.base.step()
"""
TWICE = "optimizer.climb()\nF.cross_entropy(model(x), y).backward()\noptimizer.descend()"


def _sharp(definitions: str = SHARP, **slots: str) -> str:
    made = "optimizer = Sharp(model.parameters(), torch.optim.SGD, lr=0.1)"
    return script(definitions=definitions, **{"optimizer": made, "step": TWICE, **slots})


def test_an_optimizer_that_makes_another_of_its_own_groups_is_one() -> None:
    after = converted(_sharp())
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in after
    assert "optimizer.climb()\n        accelerator.backward(F.cross_entropy(model(x), y))" in after
    assert SHARP in after


@pytest.mark.parametrize("base", ["torch.optim.SGD(self.param_groups, lr=0.1)", "base(self.param_groups, **kwargs)"])
def test_whatever_it_makes_of_them(base: str) -> None:
    definitions = SHARP.replace("base(self.param_groups, **kwargs)", base)
    assert "accelerator.prepare(model, optimizer, loader)" in converted(_sharp(definitions))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("base(self.param_groups, **kwargs)", "base(other.parameters(), **kwargs)"),
        ("class Sharp(torch.optim.Optimizer):", "class Sharp:"),
    ],
)
def test_what_it_makes_of_something_else_is_another(old: str, new: str) -> None:
    definitions = f"other = nn.Linear(8, 3)\n\n\n{SHARP.replace(old, new)}"
    text = _sharp(definitions.replace("        super().__init__(params, dict(rho=rho, **kwargs))\n", ""))
    after = (convert(text).output or b"").decode()
    assert "accelerator.prepare(model, optimizer, loader)" not in after


def test_the_other_target_has_no_such_methods() -> None:
    assert "climb() of its class Sharp" in unchanged(_sharp(), target="accelerate").message
    plain = SHARP.replace("def climb", "def step").replace(
        "(self):\n        for", "(self, closure=None):\n        for", 1
    )
    text = _sharp(plain, step="optimizer.step()")
    assert "accelerator.prepare" in converted(text, target="accelerate")


MADE = "noise = torch.zeros({}requires_grad=True)\nattack = torch.optim.SGD([noise], lr=1.0)\n"
ATTACK = "(-F.cross_entropy(model(x + noise), y)).backward()\nattack.step()\n"
LOSS = "loss = F.cross_entropy(model(x + noise.detach()), y)"
HARD = "loss = F.cross_entropy(harder(model, x, y{}), y)"
GIVEN = "attack = torch.optim.SGD([noise], lr=1.0)\n"


def _harder(parameters: str, made: str) -> str:
    body = textwrap.indent(f"{made}{ATTACK}return model(x + noise.detach())\n", "    ")
    return f"def harder({parameters}):\n{body}"


@pytest.mark.parametrize(
    ("slots", "of_batch"),
    [
        ({"forward": MADE.format("x.shape, ") + ATTACK + LOSS}, True),
        ({"before": MADE.format("8, "), "forward": ATTACK + LOSS}, False),
        ({"definitions": _harder("model, x, y", MADE.format("x.shape, ")), "forward": HARD.format("")}, True),
        (
            {
                "definitions": _harder("model, x, y, noise", GIVEN),
                "before": "noise = torch.zeros(8, requires_grad=True)",
                "forward": HARD.format(", noise"),
            },
            False,
        ),
    ],
)
def test_what_each_batch_has_anew_is_no_parameter_of_a_module(slots: dict[str, str], of_batch: bool) -> None:
    refused = unchanged(script(**slots))
    assert refused.code == "DDP-FREEPARAM"
    assert ("which each batch has anew" in refused.message) == of_batch
    assert ("make it an nn.Parameter" in refused.remedy) != of_batch
