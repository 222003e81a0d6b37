"""PREPARE: after the last change of what it takes, before the first loop that uses it."""

from __future__ import annotations

import pytest
from scripts import NO_LOOP, REBOUND, TRAINS, added, convert, converted, findings, lifted, removed, script, unchanged

SCHEDULER = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)"
OPTIMIZER = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
PREPARED = "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)"


@pytest.mark.parametrize(
    "last",
    [
        SCHEDULER,
        'model.load_state_dict(torch.load("a.pt"))',
        'optimizer.load_state_dict(torch.load("a.pt"))',
        "for p in model.layer.parameters():\n    p.requires_grad = False",
        "if epoch_count > 3:\n    model.train()",
        "for group in optimizer.param_groups:\n    group['lr'] = 0.2",
        "scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, steps_per_epoch=len(loader), epochs=2)",
    ],
)
def test_it_stands_after_the_last_statement_that_changes_something(last: str) -> None:
    slots = {"setup": "epoch_count = 3"}
    before = script(optimizer=f"optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n{last}", **slots)
    after = lifted(optimizer=f"optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n{last}", **slots)
    assert converted(before) == after
    assert findings(before) == []


@pytest.mark.parametrize("unrelated", ["best = 0.0", "history = []\nsteps = len(loader)", "torch.manual_seed(0)"])
def test_statements_that_change_nothing_come_after_it(unrelated: str) -> None:
    assert converted(script(before=unrelated)) == lifted(before=unrelated)


def test_schedulers_are_not_prepared() -> None:
    slots = {"optimizer": f"optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n{SCHEDULER}"}
    slots |= {"epoch_end": "scheduler.step()"}
    assert converted(script(**slots)) == lifted(**slots)


def test_a_loader_made_last_is_waited_for() -> None:
    slots = {"loader": "", "optimizer": "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"}
    slots["optimizer"] += "loader = DataLoader(data, batch_size=16)"
    assert converted(script(**slots)) == lifted(**slots)


@pytest.mark.parametrize(
    ("model", "optimizer", "names"),
    [
        (
            "a = Net().to(device)\nb = Net().to(device)",
            "optimizer = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)",
            "a, b, optimizer, loader",
        ),
        (
            "a = Net().to(device)\nb = Net().to(device)",
            "optimizer = torch.optim.SGD(list(a.parameters()) + list(b.parameters()), lr=0.1)",
            "a, b, optimizer, loader",
        ),
        (
            "a = Net().to(device)\nb = Net().to(device)",
            "optimizer = torch.optim.SGD([{'params': a.parameters()}, {'params': b.parameters(), 'lr': 1}], lr=0.1)",
            "a, b, optimizer, loader",
        ),
    ],
)
def test_all_models_of_an_optimizer_are_prepared(model: str, optimizer: str, names: str) -> None:
    forward = "optimizer.zero_grad()\nloss = F.cross_entropy(a(x) + b(x), y)"
    after = lifted(
        model=model.replace(".to(device)", ""),
        optimizer=optimizer,
        prepare=f"{names} = accelerator.prepare({names})",
        forward=forward,
    )
    assert converted(script(model=model, optimizer=optimizer, forward=forward)) == after


def test_two_models_with_an_optimizer_each() -> None:
    slots = {
        "optimizer": "opt_g = torch.optim.SGD(gen.parameters())\nopt_d = torch.optim.SGD(disc.parameters())",
        "forward": "opt_g.zero_grad()\nopt_d.zero_grad()\nloss = F.mse_loss(disc(x), gen(x))",
        "step": "opt_g.step()\nopt_d.step()",
    }
    names = "gen, disc, opt_g, opt_d, loader"
    before = script(model="gen = Net().to(device)\ndisc = Net().to(device)", **slots)
    after = lifted(model="gen = Net()\ndisc = Net()", prepare=f"{names} = accelerator.prepare({names})", **slots)
    assert converted(before) == after


def test_a_loss_with_parameters_in_the_optimizer_is_prepared() -> None:
    slots = {
        "definitions": "class Center(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.c = nn.Parameter(torch.zeros(3))\n\n    def forward(self, x):\n"
        "        return (x - self.c).pow(2).mean()",
        "optimizer": "optimizer = torch.optim.SGD([*model.parameters(), *center.parameters()], lr=0.1)",
        "forward": "optimizer.zero_grad()\nloss = center(model(x))",
    }
    names = "model, center, optimizer, loader"
    before = script(model="model = Net().to(device)\ncenter = Center().to(device)", **slots)
    after = lifted(model="model = Net()\ncenter = Center()", prepare=f"{names} = accelerator.prepare({names})", **slots)
    assert converted(before) == after


@pytest.mark.parametrize(
    ("loader", "model"),
    [
        ("unused = DataLoader(data, batch_size=4)", ""),
        ("loaders = [[1, 2], [3, 4]]", ""),
        ("", "unused = Net()"),
        ("", "teacher = Net().eval()"),
    ],
)
def test_what_does_not_train_is_not_prepared(loader: str, model: str) -> None:
    """Neither a loader that no loop uses, nor a list called loaders, nor a model without an optimizer."""
    made = "loader = DataLoader(data, batch_size=16, shuffle=True)"
    before = script(loader=f"{made}\n{loader}", model=f"model = Net().to(device)\n{model}")
    assert converted(before) == lifted(loader=f"{made}\n{loader}", model=f"model = Net()\n{model}")


def test_what_is_made_anew_in_every_epoch_is_prepared_there() -> None:
    before = script(loader="", epoch="loader = DataLoader(data, batch_size=16)")
    assert "    loader = DataLoader(data, batch_size=16)\n    loader = accelerator.prepare(loader)\n" in converted(
        before
    )
    assert "\nmodel, optimizer = accelerator.prepare(model, optimizer)\nfor epoch" in converted(before)


def test_a_choice_of_optimizers_is_prepared_after_it() -> None:
    slots = {
        "setup": "adam = False",
        "optimizer": "if adam:\n    optimizer = torch.optim.Adam(model.parameters())\nelse:\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
    }
    assert converted(script(**slots)) == lifted(**slots)


@pytest.mark.parametrize(
    "model",
    [
        "if len(data) > 9:\n    model = Net()\nelse:\n    for n in (1, 2):\n        model = Net()",
        "for n in (1, 2):\n    if n > 1:\n        model = Net()\n    else:\n        model = nn.Linear(8, 3)",
        "for n in (1, 2):\n    model = Net()",
        "if len(data) > 9:\n    model = Net()\nelse:\n    model = nn.Linear(8, 3)",
    ],
)
def test_what_a_variable_may_hold_when_training_begins_is_prepared_in_one_place(model: str) -> None:
    text = converted(script(model=f"{model}\nmodel.to(device)"))
    assert text.count("accelerator.prepare(") == 1
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in text


def test_a_function_that_makes_the_objects_returns_them_bare() -> None:
    definitions = "def build():\n    net = Net()\n    return net, torch.optim.SGD(net.parameters(), lr=0.1)"
    before = script(definitions=definitions, model="model, optimizer = build()\nmodel.to(device)", optimizer="")
    after = lifted(definitions=definitions, model="model, optimizer = build()", optimizer="")
    assert converted(before) == after


def test_an_iterator_is_drawn_from_the_prepared_loader() -> None:
    slots = {"loop": "batches = iter(loader)\nfor _ in range(len(loader)):\n    x, y = next(batches)"}
    after = converted(script(**slots))
    assert after.index(PREPARED) < after.index("iter(loader)")


def test_a_later_object_of_the_same_name_stays_bare() -> None:
    slots = {"after": "model = Net()\nsize = len(list(model.parameters()))"}
    assert converted(script(**slots)) == lifted(**slots)


def test_what_is_made_anew_for_each_batch_that_is_drawn_of_it_has_no_place() -> None:
    move = "x, y = x.to(device), y.to(device)"
    drawn = {"epochs": "for step in range(9):", "loop": "", **dict.fromkeys(("forward", "backward", "step"), "")}
    trains = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)\nloss.backward()\noptimizer.step()"
    steps = {**drawn, "move": "", "epoch": f"x, y = next(iter(loader))\n{move}\n{trains}"}
    anew = script(**{**steps, "loader": "", "epoch": f"loader = DataLoader(data, batch_size=16)\n{steps['epoch']}"})
    message = unchanged(anew).message
    assert message.startswith("`loader` is made anew in each iteration of this loop, which trains (line ")
    assert "prepare(model, optimizer, loader)" in converted(script(**steps))


def test_batches_that_the_loop_also_needs_on_the_cpu_are_not_placed() -> None:
    before = script(move="rows = x.numpy()\nx, y = x.to(device), y.to(device)")
    assert "loader = accelerator.prepare_data_loader(loader, device_placement=False)" in added(before)
    assert "x, y = x.to(device), y.to(device)" not in removed(before)
    assert REBOUND in converted(before)


def test_a_batch_that_becomes_an_array_before_its_loader_is_prepared_was_on_the_cpu() -> None:
    look = "first, _ = next(iter(loader))\nprint(first[0].numpy().sum())"
    early = converted(script(model=f"{look}\nmodel = Net().to(device)"))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in early
    assert "x.to(" not in early
    assert "prepare_data_loader(loader, device_placement=False)" in converted(script(after=look))


# ---- no place for it


@pytest.mark.parametrize(
    ("slots", "line"),
    [
        (
            {"epoch_end": "optimizer = torch.optim.SGD(model.parameters(), lr=0.01) if epoch else optimizer"},
            "for x, y in loader:",
        ),
        (
            {"loader": "loaders = (DataLoader(data), 1)", "loop": "for x, y in loaders[0]:"},
            "loaders = (DataLoader(data), 1)",
        ),
        (
            {
                "imports": "import types",
                "model": "bag = types.SimpleNamespace()\nbag.model = Net().to(device)",
                "optimizer": "optimizer = torch.optim.SGD(bag.model.parameters(), lr=0.1)",
                "forward": "optimizer.zero_grad()\nloss = F.cross_entropy(bag.model(x), y)",
            },
            "loss = F.cross_entropy(bag.model(x), y)",
        ),
    ],
)
def test_without_one_variable_the_script_is_left_alone(slots: dict[str, str], line: str) -> None:
    text = script(**slots)
    finding = unchanged(text)
    assert finding.code == "PREP-NO-POINT"
    assert text.splitlines()[finding.line - 1].strip() == line


_TRAIN = """\
def train():
    for x, y in loader:
        {move}
        optimizer.zero_grad()
        {backward}
        optimizer.step()
"""


@pytest.mark.parametrize("gone", ["del loader", "del model, optimizer", "if len(data) > 3:\n    del loader"])
def test_variables_that_are_deleted_when_training_is_done(gone: str) -> None:
    loss = "F.cross_entropy(model(x), y)"
    old = _TRAIN.format(move="x, y = x.to(device), y.to(device)", backward=f"{loss}.backward()")
    new = _TRAIN.replace("        {move}\n", "").format(backward=f"accelerator.backward({loss})")
    slots = {**NO_LOOP, "after": f"train()\n{gone}"}
    assert converted(script(definitions=old, **slots)) == lifted(definitions=new, **slots)


@pytest.mark.parametrize(
    "other", ["loader = make()", "loader, size = [], 3", "from other import loader", "for loader in make():\n    pass"]
)
def test_variables_that_are_bound_to_something_else_once_they_are_deleted(other: str) -> None:
    """Nothing else is said of them than if they were not deleted before."""
    old = _TRAIN.format(move="x, y = x.to(device), y.to(device)", backward="F.cross_entropy(model(x), y).backward()")
    slots = {**NO_LOOP, "definitions": f"from other import make\n\n{old}"}
    bound = script(**slots, after=f"train()\n{other}\ntrain()")
    deleted = script(**slots, after=f"train()\ndel loader\n{other}\ntrain()")
    assert findings(bound) == findings(deleted)
    assert (convert(bound).output is None) is (convert(deleted).output is None)


# ---- what Accelerate would do differently


@pytest.mark.parametrize(
    ("loader", "codes"),
    [
        ("DataLoader(data, batch_size=16)", ["DATA-TAIL"]),
        ("DataLoader(data, batch_size=16, drop_last=True)", []),
        ("DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 8, True))", ["DATA-BUCKET"]),
    ],
)
def test_limits_of_accelerate_are_reported_for_that_target_only(loader: str, codes: list[str]) -> None:
    imports = "from torch.utils.data import BatchSampler, RandomSampler"
    before = script(from_imports=imports, loader=f"loader = {loader}")
    assert findings(before, target="accelerate") == codes
    assert findings(before) == []


FROZEN = "for p in model.layer.parameters():\n    p.requires_grad = False\nmodel.head = nn.Linear(3, 3)"


@pytest.mark.parametrize(
    ("model", "epoch", "codes"),
    [
        (FROZEN, "if epoch == 1:\n    for p in model.parameters():\n        p.requires_grad = True", ["DDP-UNFREEZE"]),
        (FROZEN, "for name, p in model.named_parameters():\n    p.requires_grad_(epoch > 0)", ["DDP-UNFREEZE"]),
        (FROZEN, "for p in model.parameters():\n    p.requires_grad = False", []),
        (FROZEN, "for p in other.parameters():\n    p.grad = None", []),
        (
            "for p in other.parameters():\n    p.requires_grad = False",  # of a network that is not prepared
            "for p in model.parameters():\n    p.requires_grad = epoch > 0",
            [],
        ),
        ("other = Net()", "for p in model.parameters():\n    p.requires_grad = epoch > 0", []),  # trained when wrapped
        (f"{FROZEN}\nfor p in model.parameters():\n    p.requires_grad = True", "", []),
    ],
)
def test_parameters_that_are_unfrozen_after_prepare(model: str, epoch: str, codes: list[str]) -> None:
    loader = "loader = DataLoader(data, batch_size=16, drop_last=True)"
    text = script(loader=loader, model=f"model = Net().to(device)\nother = Net()\n{model}", epoch=epoch)
    assert [code for code in findings(text, target="accelerate") if code == "DDP-UNFREEZE"] == codes
    assert "DDP-UNFREEZE" not in findings(text)


def test_copies_and_tied_weights_stay() -> None:
    copied = {"imports": "import copy", "optimizer": f"ema = copy.deepcopy(model)\n{OPTIMIZER}"}
    assert converted(script(**copied)) == lifted(device=REBOUND, model="model = Net().to(device)", **copied)
    model = "model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).to(device)\nmodel[1].weight = model[0].weight"
    assert converted(script(model=model)) == lifted(device=REBOUND, model=model)


MAYBE = "import sys\nmore = len(sys.argv) > 1\nif more:\n    extra = nn.Linear(8, 8)"
BOTH = "optimizer = torch.optim.SGD(list(model.parameters()) + {}, lr=0.1)"


def test_what_may_not_be_there_is_not_prepared() -> None:
    optimizer = BOTH.format("(list(extra.parameters()) if more else [])")
    forward = "optimizer.zero_grad()\nif more:\n    x = extra(x)\nloss = F.cross_entropy(model(x), y)"
    finding = unchanged(script(model=f"model = Net()\n{MAYBE}", optimizer=optimizer, forward=forward))
    assert finding.code == "PREP-NO-POINT" and "`extra` is only made under a condition" in finding.message


@pytest.mark.parametrize(
    "made",
    [
        f"{MAYBE}\nelse:\n    extra = nn.Linear(8, 8, bias=False)",
        MAYBE,  # without it the script would end before the training, as it does now
        f"{MAYBE}\nif not more:\n    raise SystemExit",
        f"{MAYBE.replace('extra = ', 'extra = other = ')}\nelse:\n    raise SystemExit",
    ],
)
def test_what_is_there_if_the_script_goes_on_is_prepared(made: str) -> None:
    optimizer = BOTH.format("list(extra.parameters())")
    forward = "optimizer.zero_grad()\nloss = F.cross_entropy(model(extra(x)), y)"
    output = converted(script(model=f"model = Net()\n{made}", optimizer=optimizer, forward=forward))
    assert "model, extra, optimizer, loader = accelerator.prepare(model, extra, optimizer, loader)" in output


MODES = "import sys\nmode = sys.argv[1] if len(sys.argv) > 1 else 'train'"
SGD = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
TRAIN = f"""\
def train():
{TRAINS}
def test():
    with torch.no_grad():
        return model(torch.ones(1, 8).to(device))
"""
TEST = "if mode == 'test':\n    print(test())\nelif mode == 'train':\n    train()"


def _modes(made: str, use: str) -> str:
    head, _, _ = script(optimizer=f"{MODES}\n{made}", definitions=TRAIN).partition("for epoch in range(2):")
    return f"{head}{use}\n"


@pytest.mark.parametrize(
    ("made", "use"),
    [
        (f"if mode == 'train':\n    {SGD}", TEST),
        (f"if mode == 'train':\n    {SGD}\nelif mode == 'more':\n    {SGD}", TEST),
        (f"try:\n    {SGD}\nexcept ValueError:\n    pass", TEST),
        (f"for _ in range(len(mode)):\n    {SGD}", TEST),
        (f"if mode == 'train':\n    {SGD}", "if mode == 'test':\n    test()\n    sys.exit()\ntrain()"),
        (f"if mode == 'train':\n    {SGD}", "for _ in range(2):\n    if mode == 'train':\n        train()\n    test()"),
    ],
)
def test_what_exists_in_one_mode_only_is_not_prepared_in_all(made: str, use: str) -> None:
    finding = unchanged(_modes(made, use))
    assert finding.code == "PREP-NO-POINT" and "`optimizer` is only made under a condition" in finding.message


@pytest.mark.parametrize(
    ("made", "use"),
    [
        (SGD, TEST),
        (f"if mode == 'train':\n    {SGD}\nelse:\n    {SGD.replace('0.1', '0.2')}", TEST),
        (f"if mode == 'train':\n    {SGD}\nelse:\n    raise ValueError(mode)", TEST),
        (f"if mode == 'train':\n    {SGD}\nelse:\n    sys.exit()", TEST),
        (f"try:\n    {SGD}\nexcept ValueError:\n    raise SystemExit", TEST),
        (f"with torch.enable_grad():\n    {SGD}", TEST),
        (f"if mode == 'train':\n    {SGD}", "for epoch in range(2):\n    train()"),  # needs it in any mode
        (f"if mode == 'train':\n    {SGD}", "for epoch in range(2):\n    if epoch > 0:\n        train()"),
    ],
)
def test_what_is_made_in_every_mode_is_prepared(made: str, use: str) -> None:
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in converted(_modes(made, use))


ARMS = """\
{made}
if mode == 'train':
    {move}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train()
else:
    {move}
    print(test())
"""


@pytest.mark.parametrize(
    "move",
    [
        "model = model.to(device)",
        "if torch.cuda.is_available():\n        model = model.cuda()",
        "model = nn.DataParallel(model).to(device)",
    ],
)
def test_a_model_that_is_moved_in_each_mode_is_prepared_before_them(move: str) -> None:
    after = converted(_modes("", ARMS.format(made="model = Net()", move=move)))
    assert "model = Net()\nmodel = accelerator.prepare(model)\nif mode == 'train':\n    optimizer = " in after
    arms = "    optimizer, loader = accelerator.prepare(optimizer, loader)\n    train()\nelse:\n    accelerator.print("
    assert arms in after


@pytest.mark.parametrize(
    ("move", "prepared"),
    [
        ("model = nn.Sequential(model, nn.Linear(3, 3)).to(device)", True),
        ("model = Net().to(device)", True),
        ("model = model.to('cpu')", False),  # the script is left alone
    ],
)
def test_a_model_that_is_another_one_in_each_mode_is_prepared_in_its_own(move: str, prepared: bool) -> None:
    output = convert(_modes("", ARMS.format(made="model = Net()", move=move))).output
    lines = output.decode().splitlines() if output is not None else []
    assert [line for line in lines if "accelerator.prepare(" in line] == ([f"    {PREPARED}"] if prepared else [])


def test_another_condition_of_its_use_does_not_matter() -> None:
    made = "kind = 'sgd'\nif kind == 'sgd':\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    step = "if i % 2 == 0:\n    optimizer.step()\n    optimizer.zero_grad()"
    slots = {"optimizer": made, "forward": "loss = F.cross_entropy(model(x), y)", "step": step}
    assert "model, optimizer, loader = accelerator.prepare(" in converted(
        script(**slots, loop="for i, (x, y) in enumerate(loader):")
    )


# ---- layers that have no weights before the first batch

DEEP = (
    "class Head(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = nn.LazyLinear(3)\n"
    "\nclass Deep(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.head = Head()"
)
LAZY = "model = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.Linear(4, 3)).to(device)"


@pytest.mark.parametrize("model", [LAZY, "model = Deep().to(device)", "model = nn.LazyLinear(3)\nprint(model)"])
def test_layers_without_weights_are_reported(model: str) -> None:
    assert findings(script(definitions=DEEP, model=model)) == ["MODEL-LAZY"]


@pytest.mark.parametrize(
    "model",
    [
        "model = nn.Sequential(nn.Linear(8, 3))",
        f"{LAZY}\nmodel(torch.zeros(2, 8, device=device))",
        f"{LAZY}\nwith torch.no_grad():\n    model(next(iter(loader))[0].to(device))",
        f"import torchinfo\n{LAZY}\ntorchinfo.summary(model, (2, 8))",
        "model = Net()\nother = nn.LazyLinear(3)",
    ],
)
def test_layers_that_have_weights_are_not(model: str) -> None:
    assert "MODEL-LAZY" not in findings(script(definitions=DEEP, model=model))


DEV = "more = len(data) > 8\nif more:\n    dev = DataLoader(data, batch_size=16)"
EVAL = """\
if more:
    with torch.no_grad():
        for x, y in dev:
            x, y = x.to(device), y.to(device)
            print(model(x).argmax(1))"""


def test_a_loader_that_is_made_and_used_under_a_condition_is_prepared_there() -> None:
    output = converted(
        script(loader=f"loader = DataLoader(data, batch_size=16)\n{DEV}", epoch_end=EVAL.format("if more"))
    )
    assert "if more:\n    dev = DataLoader(data, batch_size=16)\n    dev = accelerator.prepare(dev)\n" in output
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n" in output
    assert "accelerator.gather_for_metrics" in output


@pytest.mark.parametrize("header", ["for _ in range(more):", "while more:\n    more = False"])
def test_one_that_a_loop_makes_is_not(header: str) -> None:
    text = script(loader=f"loader = DataLoader(data, batch_size=16)\n{DEV.replace('if more:', header)}", epoch_end=EVAL)
    assert "    dev = accelerator.prepare(dev)\n" not in (convert(text).output or b"").decode()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("shuffle=True", True),
        ("shuffle=len(data) > 3", True),
        ("shuffle=False", False),
        ("sampler=torch.utils.data.RandomSampler(data)", True),
        ("sampler=torch.utils.data.RandomSampler(data, generator=torch.Generator().manual_seed(0))", False),
        ("sampler=torch.utils.data.SequentialSampler(data)", False),
        ("shuffle=True, generator=torch.Generator().manual_seed(0)", False),
        ("batch_size=4", False),
    ],
)
def test_the_order_that_accelerate_draws_by_another_generator(arguments: str, told: bool) -> None:
    text = script(loader=f"loader = DataLoader(data, drop_last=True, {arguments})")
    assert ("DATA-ORDER" in findings(text, target="accelerate")) is told
    assert "DATA-ORDER" not in findings(text)


def test_the_order_of_an_evaluation_is_not_told_of() -> None:
    evaluation = "with torch.no_grad():\n    for x, y in held:\n        print(model(x.to(device)).mean().item())"
    text = script(
        loader="loader = DataLoader(data, drop_last=True)\nheld = DataLoader(data, shuffle=True)", after=evaluation
    )
    assert "DATA-ORDER" not in findings(text, target="accelerate")


@pytest.mark.parametrize(
    ("said", "behind"),
    [
        ("# optimizer = torch.optim.Adam(model.parameters())  # worse", True),
        ("#optimizer = None\n# optimizer = torch.optim.Adam(model.parameters())", True),
        ("# model = Net()", False),  # it may be about what follows
        ("# optimizer = the best that there is", False),
        ("\n# optimizer = torch.optim.Adam(model.parameters())", False),
    ],
)
def test_prepare_stands_behind_other_choices_that_are_commented_out(said: str, behind: bool) -> None:
    made = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    prepare = "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)"
    order = f"{said}\n{prepare}" if behind else f"{prepare}\n{said}"
    assert f"{made}\n{order}\n" in converted(script(optimizer=f"{made}\n{said}"))


@pytest.mark.parametrize("names", [("loader", "test_loader"), ("test_loader", "loader")])
def test_loaders_that_move_nothing_are_prepared_as_they_are_written(names: tuple[str, str]) -> None:
    loaders = "\n".join(f"{name} = DataLoader(data, batch_size=16)" for name in names)
    tests = "for x, y in test_loader:\n    noise = x * 2\n    print(model(noise.to(device)).argmax(1).sum().item())"
    text = converted(script(loader=loaders, move="noise = x * 2\nx, y = noise.to(device), y.to(device)", after=tests))
    prepared = (f"{name} = accelerator.prepare_data_loader({name}, device_placement=False)" for name in names)
    assert "\n".join(prepared) in text
