"""Models, optimizers and loaders in dicts and lists that are filled entry by entry, and those that functions make."""

from __future__ import annotations

import pytest
from scripts import NO_BODY, added, converted, findings, lifted, removed, script, unchanged

TRAINED = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)"
TWO_NETS = {
    "model": "encoder = nn.Linear(8, 8).to(device)\nhead = Net().to(device)",
    "optimizer": (
        "first = torch.optim.SGD(encoder.parameters(), lr=0.1)\nsecond = torch.optim.SGD(head.parameters(), lr=0.1)"
    ),
    "forward": "loss = F.cross_entropy(head(encoder(x)), y)",
    "step": "first.step()\nsecond.step()\nfirst.zero_grad()\nsecond.zero_grad()",
}
NETS = "nets = {'e': nn.Linear(8, 8).to(device), 'h': Net().to(device)}"


def prepared(text: str) -> list[str]:
    """The calls of prepare in the converted script, on one line each."""
    joined = " ".join(converted(text).split())
    return [part.partition(")")[0].strip() for part in joined.split("accelerator.prepare(")[1:]]


# ---- filled entry by entry


@pytest.mark.parametrize(
    ("loader", "iterable", "entry"),
    [
        ("loaders = {}\nloaders['a'] = DataLoader(data, batch_size=16)", "loaders['a']", "loaders['a']"),
        ("loaders = dict()\nloaders['a'] = DataLoader(data, batch_size=16)", "loaders['a']", "loaders['a']"),
        ("loaders = {}\nfor k in ['a', 'b']:\n    loaders[k] = DataLoader(data)", "loaders['a']", "loaders['a']"),
        ("loaders = []\nloaders.append(DataLoader(data, batch_size=16))", "loaders[0]", "loaders[0]"),
    ],
)
def test_loaders_put_into_a_container(loader: str, iterable: str, entry: str) -> None:
    text = script(loader=loader, loop=f"for x, y in {iterable}:")
    (call,) = prepared(text)
    assert call.replace('"', "'").startswith(f"model, optimizer, {entry}")
    assert "x, y = x.to(device), y.to(device)" in removed(text)


@pytest.mark.parametrize(
    "loader",
    [
        "loaders = {}\nif len(data) > 9:\n    loaders['a'] = DataLoader(data)",  # perhaps it is not there
        "loaders = {}\nfor k in ['a', 'b']:\n    if k == 'b':\n        break\n    loaders[k] = DataLoader(data)",
        "loaders = {}\nloaders['a'] = DataLoader(data)\nloaders['a'] = data",  # or something else
        "loaders = {}\nloaders['a'] = DataLoader(data)\nloaders['b'] = data",
        "loaders = {}\nloaders['a'] = DataLoader(data)\nloaders.update(b=data)",
        "loaders = {}\nloaders['a'] = DataLoader(data)\ndel loaders['a']",
        "loaders = {}\ndef fill():\n    loaders['a'] = DataLoader(data)\nfill()",  # who knows when
        "loaders = {}\nloaders[str(len(data))] = DataLoader(data)",
    ],
)
def test_loaders_that_may_not_be_there(loader: str) -> None:
    assert unchanged(script(loader=loader, loop="for x, y in loaders['a']:")).code == "PREP-NO-POINT"


FILLED = "sets = {}\nfor k in ['a', 'b']:\n    sets[k] = DataLoader(data, batch_size=16)"
MADE = "sets = {k: DataLoader(data, batch_size=16) for k in ['a', 'b']}"
RETURNED = """\
def make():
    sets = {}
    for k in ['a', 'b']:
        sets[k] = DataLoader(data, batch_size=16)
    return sets
"""
COUNTED = """\
right = {}
for x, y in sets['b']:
    out = model(x.to(device)).argmax(1)
    for i in range(len(y)):
        right[int(y[i])] = right.get(int(y[i]), 0) + int(out[i] == y[i])
print(right)
"""
ONE = "one = DataLoader(data, batch_size=16)\nsets = {k: one for k in ['a', 'b']}"


@pytest.mark.parametrize(
    "slots", [{"loader": FILLED}, {"loader": MADE}, {"loader": "sets = make()", "definitions": RETURNED}]
)
def test_loaders_that_a_loop_makes_are_told_apart(slots: dict[str, str]) -> None:
    """One of them is left to every process where its evaluation cannot be gathered."""
    text = script(**slots, loop="for x, y in sets['a']:", epoch_end=COUNTED)
    (call,) = prepared(text)
    assert call.replace('"', "'").endswith("model, optimizer, sets['a']")
    assert findings(text) == ["EVAL-REPLICATED"]
    assert "out = model(x.to(device)).argmax(1)" in converted(text)


def test_they_are_prepared_together_where_both_can_be_gathered() -> None:
    summed = "right = 0\nfor x, y in sets['b']:\n    right += (model(x).argmax(1) == y).sum().item()\nprint(right)"
    (call,) = prepared(script(loader=FILLED, loop="for x, y in sets['a']:", epoch_end=summed))
    assert call.replace('"', "'").endswith("model, optimizer, sets['a'], sets['b']")


def test_one_loader_under_several_keys_is_one() -> None:
    text = script(loader=ONE, loop="for x, y in sets['a']:", epoch_end=COUNTED)
    assert findings(text) == ["METRIC-LOCAL"]


def test_an_entry_made_later_is_not_prepared_before() -> None:
    loader = "loaders = {}\nloaders['a'] = DataLoader(data)"
    after = "loaders['b'] = DataLoader(data)\nfor x, y in loaders['b']:\n    print(model(x.to(device)).sum())"
    text = script(loader=loader, loop="for x, y in loaders['a']:", after=after)
    assert unchanged(text).code == "PREP-NO-POINT"


# ---- optimizers and models


@pytest.mark.parametrize(
    "optimizers",
    ["optimizers = [first, second]", "optimizers = []\noptimizers.append(first)\noptimizers.append(second)"],
)
def test_optimizers_in_a_list(optimizers: str) -> None:
    step = "for one in optimizers:\n    one.step()\n    one.zero_grad()"
    text = script(**{**TWO_NETS, "before": optimizers, "step": step})
    assert prepared(text) == ["encoder, head, optimizers[0], optimizers[1], loader"]
    assert "accelerator.backward(loss)" in added(text)


def test_optimizers_used_by_name_and_from_the_list_are_prepared_before_they_enter_it() -> None:
    step = "first.zero_grad()\nsecond.zero_grad()\nfor one in optimizers:\n    one.step()"
    output = converted(script(**{**TWO_NETS, "before": "optimizers = [first, second]", "step": step}))
    place = "loader = accelerator.prepare(\n    encoder, head, first, second, loader\n)\noptimizers = [first, second]"
    assert place in output


TRAVEL = """\
def train(nets, batches, optimizers):
    encoder, head = nets
    for x, y in batches:
        x, y = x.to(device), y.to(device)
        for one in optimizers:
            one.zero_grad()
        F.cross_entropy(head(encoder(x)), y).backward()
        for one in optimizers:
            one.step()


def test(nets, batches):
    first, second = nets
    for x, y in batches:
        print(second(first(x.to(device))).sum().item())
"""


@pytest.mark.parametrize("pair", ["[encoder, head]", "(encoder, head)"])
@pytest.mark.parametrize("tested", ["\ntest({}, DataLoader(data))", ""])
def test_models_that_travel_in_a_list(pair: str, tested: str) -> None:
    """They are prepared where they are made, before they are put into it."""
    slots = {
        "definitions": TRAVEL,
        **{k: v for k, v in TWO_NETS.items() if k in ("model", "optimizer")},
        "loop": f"train({pair}, loader, [first, second]){tested.format(pair)}",
    }
    text = script(**slots, **dict.fromkeys(("move", "forward", "backward", "step"), ""))
    assert prepared(text) == ["encoder, head, first, second, loader"]


def test_models_in_a_dict() -> None:
    slots = {
        "model": NETS,
        "optimizer": "optimizer = torch.optim.SGD([*nets['e'].parameters(), *nets['h'].parameters()], lr=0.1)",
        "forward": "optimizer.zero_grad()\nloss = F.cross_entropy(nets['h'](nets['e'](x)), y)",
        "epoch": "for net in nets.values():\n    net.train()",
        "after": "torch.save(nets['e'].state_dict(), 'e.pt')\nfor k, net in nets.items():\n"
        "    torch.save(net.state_dict(), k)",
    }
    after = {
        **slots,
        "model": "nets = {'e': nn.Linear(8, 8), 'h': Net()}",
        "prepare": 'nets["e"], nets["h"], optimizer, loader = accelerator.prepare(\n'
        '    nets["e"], nets["h"], optimizer, loader\n)',
        "after": "accelerator.save(accelerator.unwrap_model(nets['e']).state_dict(), 'e.pt')\n"
        "for k, net in nets.items():\n    accelerator.save(accelerator.unwrap_model(net).state_dict(), k)",
    }
    assert converted(script(**slots)) == lifted(**after)
    assert findings(script(**slots)) == []


def test_a_move_of_an_entry_that_stands_alone_goes() -> None:
    made = "nets = {{'e': nn.Linear(8, 8){0}, 'h': Net(){0}}}"
    slots = {
        "optimizer": "optimizer = torch.optim.SGD([*nets['e'].parameters(), *nets['h'].parameters()], lr=0.1)",
        "forward": "optimizer.zero_grad()\nloss = F.cross_entropy(nets['h'](nets['e'](x)), y)",
    }
    alone = converted(script(**slots, model=f"{made.format('')}\nnets['e'].to(device)\nnets['h'].to(device)"))
    assert alone == converted(script(**slots, model=made.format(".to(device)")))


def test_a_model_taken_out_of_a_dict_is_prepared_under_its_new_name() -> None:
    slots = {"model": f"{NETS}\nmodel = nets['h']"}
    text = converted(script(**slots))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in text


@pytest.mark.parametrize(
    ("models", "used"),
    [
        ("nets = (nn.Linear(8, 8).to(device), Net().to(device))", "nets[1](nets[0](x))"),  # a tuple stays as it is
        ("nets = {i: nn.Linear(8, 8) for i in range(2)}", "nets[1](nets[0](x))"),  # keys that are not written out
        ("nets = [nn.Linear(8, 8), Net()]\nnets.reverse()", "nets[0](nets[1](x))"),
    ],
)
def test_models_that_cannot_be_told_apart(models: str, used: str) -> None:
    optimizer = "optimizer = torch.optim.SGD([*nets[0].parameters(), *nets[1].parameters()], lr=0.1)"
    text = script(model=models, optimizer=optimizer, forward=f"loss = F.cross_entropy({used}, y)")
    assert unchanged(text).code == "PREP-NO-POINT"


@pytest.mark.parametrize("kept", ["torch.save(nets, 'n.pt')", "torch.save({'nets': nets}, 'n.pt')"])
def test_a_dict_of_models_that_is_saved_whole_is_reported(kept: str) -> None:
    optimizer = "optimizer = torch.optim.SGD([*nets['e'].parameters(), *nets['h'].parameters()], lr=0.1)"
    forward = "optimizer.zero_grad()\nloss = F.cross_entropy(nets['h'](nets['e'](x)), y)"
    text = script(model=NETS, optimizer=optimizer, forward=forward, after=kept)
    assert findings(text) == ["CKPT-WRAPPED"]
    assert findings(text.replace(kept, "torch.save({k: v.state_dict() for k, v in nets.items()}, 'n.pt')")) == []


# ---- objects that a function makes with each of its calls


def test_loaders_of_one_function() -> None:
    definitions = "def load(rows, shuffle):\n    return DataLoader(rows, batch_size=16, shuffle=shuffle)"
    loader = "loader = load(data, True)\ntest_loader = load(data, False)"
    after = "right = 0\nfor x, y in test_loader:\n    {}right += (model(x).argmax(1) == y).sum().item()\nprint(right)"
    slots = {"definitions": definitions, "loader": loader}
    gathered = (
        "right = 0\nfor x, y in test_loader:\n    y = accelerator.gather_for_metrics(y)\n"
        "    right += (accelerator.gather_for_metrics(model(x)).argmax(1) == y).sum().item()\naccelerator.print(right)"
    )
    prepare = (
        "model, optimizer, loader, test_loader = accelerator.prepare(\n    model, optimizer, loader, test_loader\n)"
    )
    text = script(**slots, after=after.format("x, y = x.to(device), y.to(device)\n    "))
    assert converted(text) == lifted(**slots, prepare=prepare, after=gathered)


def test_a_student_and_a_frozen_teacher_of_one_function() -> None:
    definitions = "def build():\n    return nn.Sequential(nn.Linear(8, 8), Net())"
    model = "teacher = build().to(device)\nmodel = build()"
    slots = {"definitions": definitions, "forward": "loss = F.mse_loss(model(x), teacher(x).detach())"}
    after = lifted(**slots, model=model).replace(
        "split_batches=True))", "split_batches=True))\ndevice = accelerator.device"
    )
    assert converted(script(**slots, model=f"{model}.to(device)")) == after


def test_models_and_optimizers_of_one_function() -> None:
    made = "    net = nn.Linear(8, size).to(device)\n    return net, torch.optim.SGD(net.parameters(), lr=0.1)"
    slots = {**TWO_NETS, "definitions": f"def build(size):\n{made}", "model": "encoder, first = build(8)"}
    text = script(**{**slots, "optimizer": "head, second = build(3)"})
    assert prepared(text) == ["encoder, head, first, second, loader"]


def test_a_function_that_trains_what_it_makes_prepares_it_itself() -> None:
    fit = """\
def fit(lr):
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
    return model
"""
    empty = NO_BODY
    text = script(definitions=fit, after="a, b = fit(0.1), fit(0.2)\ntorch.save(b.state_dict(), 'b.pt')", **empty)
    calls = prepared(text)
    assert calls == ["model, optimizer", "loader"]
    assert "accelerator.save(accelerator.unwrap_model(b).state_dict(), 'b.pt')" in converted(text)


def test_a_function_that_hands_out_one_object_makes_none() -> None:
    definitions = "def load():\n    return loader"
    slots = {"definitions": definitions, "before": "first = load()\nsecond = load()", "loop": "for x, y in second:"}
    assert prepared(script(**slots)) == ["model, optimizer, second"]


# ---- loaders in no variable, and generators that pass batches on

MADE = "DataLoader(data, batch_size=16, shuffle=True)"
TRAIN = """\
def train(loader):
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()"""
CYCLE = "def cycle(loader):\n    while True:\n        for batch in loader:\n            yield batch"
ALONE = {"loader": "", "prepare": "model, optimizer = accelerator.prepare(model, optimizer)"}


def test_a_loader_in_no_variable_is_prepared_where_it_is_made() -> None:
    after = lifted(**ALONE, loop=f"for x, y in accelerator.prepare({MADE}):")
    assert converted(script(loader="", loop=f"for x, y in {MADE}:")) == after


def test_a_loader_that_is_handed_on_at_once() -> None:
    empty = dict.fromkeys(("loop", "move", "forward", "backward", "step"), "")
    text = script(definitions=TRAIN, loader="", epoch=f"train({MADE})", **empty)
    assert f"train(accelerator.prepare({MADE}))" in added(text)


@pytest.mark.parametrize("target", ["accelerate", "runtime"])
def test_a_loader_in_no_variable_whose_batches_are_used_on_the_cpu(target: str) -> None:
    text = script(loader="", loop=f"for x, y in {MADE}:", step="optimizer.step()\nprint(x.numpy())", move="pass")
    text = text.replace("model(x), y)", "model(x.to(device)), y.to(device))")
    call = f"for x, y in accelerator.prepare_data_loader({MADE}, device_placement=False):"
    assert call in " ".join(converted(text, target=target).split()).replace("( D", "(D").replace(" )", ")")


@pytest.mark.parametrize(
    ("generator", "passed"),
    [
        (CYCLE, True),
        (CYCLE.replace("batch in", "x, y in").replace("yield batch", "yield x, y"), True),
        (CYCLE.replace("yield batch", "if len(batch) > 1:\n                yield batch"), False),  # not each
        (CYCLE.replace("yield batch", "yield batch\n            yield batch"), False),
        (CYCLE.replace("yield batch", "yield batch[0], batch[1] * 2"), False),
        (CYCLE.replace("batch in", "x, y in").replace("yield batch", "yield y, x"), True),
        (CYCLE.replace("yield batch", "batch = [*batch]\n            yield batch"), False),
        (CYCLE.replace("yield batch", "yield batch\n            break"), False),
    ],
)
def test_generators_that_pass_each_batch_on(generator: str, passed: bool) -> None:
    slots = {"definitions": generator, "loop": "for step in range(4):"}
    move = "x, y = next(batches)"
    text = script(**slots, loader=f"batches = cycle({MADE})", move=f"{move}\nx, y = x.to(device), y.to(device)")
    if passed:
        after = f"batches = cycle(accelerator.prepare({MADE}))"
        assert converted(text) == lifted(**{**ALONE, **slots, "loader": after}, move=move)
    else:
        assert unchanged(text).code == "LOADER-UNKNOWN"


def test_a_loader_is_prepared_before_an_iterator_is_made_of_it() -> None:
    slots = {"definitions": CYCLE, "loop": "for step in range(4):", "move": "x, y = next(batches)"}
    text = script(**slots, loader=f"loader = {MADE}\nbatches = cycle(loader)")
    after = f"loader = {MADE}\nloader = accelerator.prepare(loader)\nbatches = cycle(loader)\nmodel = "
    assert after in converted(text)
    text = script(
        **slots, before="batches = cycle(loader)", optimizer="optimizer = torch.optim.SGD(model.parameters())"
    )
    assert prepared(text) == ["model, optimizer, loader"]


def test_two_cycles_are_two_loaders() -> None:
    loader = f"batches = cycle({MADE})\nothers = cycle({MADE})"
    after = "with torch.no_grad():\n    x, y = next(others)\n    print(model(x).sum())"
    text = script(
        definitions=CYCLE, loader=loader, loop="for step in range(4):", move="x, y = next(batches)", after=after
    )
    assert sum("accelerator.prepare(DataLoader" in line.replace("    ", "") for line in added(text)) == 1


# ---- lists of as many objects as there are

SEVERAL = {
    "optimizer": "optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]",
    "forward": "for net, optimizer in zip(nets, optimizers):\n    optimizer.zero_grad()",
    "backward": "    F.cross_entropy(net(x), y).backward()",
    "step": "    optimizer.step()",
}


@pytest.mark.parametrize(
    "nets",
    [
        "nets = [Net().to(device) for _ in range(3)]",
        "nets = []\nfor _ in range(3):\n    nets.append(Net().to(device))",
        "nets = list()\nfor _ in range(3):\n    net = Net()\n    nets.append(net)",
    ],
)
def test_lists_whose_entries_are_each_made_anew(nets: str) -> None:
    output = converted(script(**{**SEVERAL, "model": nets}))
    lines = [line.strip() for line in output.splitlines()]
    assert lines.count("nets[:] = [accelerator.prepare(entry) for entry in nets]") == 1
    assert lines.count("optimizers[:] = [accelerator.prepare(entry) for entry in optimizers]") == 1
    assert "accelerator.backward(F.cross_entropy(net(x), y))" in lines


@pytest.mark.parametrize(
    "nets",
    [
        "nets = [Net() for _ in range(3)]\nnets = [net.to(device) for net in nets]",
        "nets = [Net() for _ in range(3)]\nnets = [one.to(device).train() for one in nets]",
        "nets = []\nfor _ in range(3):\n    nets.append(Net())\nnets = [one.cuda() for one in nets]",
    ],
)
def test_a_list_of_what_it_has_moved_is_that_list(nets: str) -> None:
    text = script(**{**SEVERAL, "model": nets})
    lines = [line.strip() for line in converted(text).splitlines()]
    assert lines.count("nets[:] = [accelerator.prepare(entry) for entry in nets]") == 1
    assert any("in nets]" in line for line in removed(text)) or "one.train()" in converted(text)


@pytest.mark.parametrize(
    ("made", "moved", "entries"),
    [
        ("[nn.Linear(8, 3), Net()]", "[net.to(device) for net in nets]", "nets[0], nets[1]"),
        ('{"a": Net(), 3: Net()}', "{k: net.to(device) for k, net in nets.items()}", 'nets["a"], nets[3]'),
    ],
)
def test_what_is_moved_is_told_apart_as_before(made: str, moved: str, entries: str) -> None:
    each = "list(nets.values())" if made.startswith("{") else "nets"
    training = {**SEVERAL, "forward": f"for net, optimizer in zip({each}, optimizers):\n    optimizer.zero_grad()"}
    training["optimizer"] = f"optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in {each}]"
    text = script(**{**training, "model": f"nets = {made}\nnets = {moved}"})
    assert prepared(text)[0].startswith(entries)


@pytest.mark.parametrize(
    "nets",
    [
        "nets = [nn.Linear(8, 3)]\nnets.append(Net())\nnets = [net.to(device) for net in nets]",
        "nets = [nn.Linear(8, 3)]\nnets = [net.to(device) for net in nets]\nnets.append(Net())",
    ],
)
def test_what_is_put_into_a_list_is_in_the_moved_one_once(nets: str) -> None:
    training = {**SEVERAL, "forward": "for net, optimizer in zip(nets, optimizers):\n    optimizer.zero_grad()"}
    training["optimizer"] = "optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]"
    assert prepared(script(**{**training, "model": nets}))[0].startswith("nets[0], nets[1], loader")


@pytest.mark.parametrize(
    "nets",
    [
        "old = [nn.Linear(8, 3)]\nnets = [net.to(device) for net in old]\nold.append(Net())",  # not in `nets`
        "old = [nn.Linear(8, 3), Net()]\nold.reverse()\nnets = [net.to(device) for net in old]",
        "nets = [nn.Linear(8, 3), Net()]\nnets = [net.to(device) for net in reversed(nets)]",
        "nets = [Net() for _ in range(3)]\nnets = [net.to(device) for net in nets if net.layer]",  # perhaps not all
        "nets = [Net() for _ in range(3)]\nnets = [net.to(device) for net in nets for _ in range(2)]",  # each twice
        "nets = [Net() for _ in range(3)]\nnets = [nets[0].to(device) for net in nets]",
        "more = [Net() for _ in range(3)]\nnets = more\nnets = [net.to(device) for net in more]",
        "nets = (Net() for _ in range(3))\nnets = [net.to(device) for net in nets]",
        "nets = {k: Net() for k in 'ab'}.values()\nnets = {k: net.to(device) for k, net in enumerate(nets)}.values()",
    ],
)
def test_lists_of_what_another_has(nets: str) -> None:
    assert unchanged(script(**{**SEVERAL, "model": nets})).code == "PREP-NO-POINT"


@pytest.mark.parametrize(
    "nets",
    [
        "one = Net()\nnets = [one for _ in range(3)]",  # one object
        "one = Net()\nnets = []\nfor _ in range(3):\n    nets.append(one)",
        "nets = [Net() for _ in range(3)]\nnets.append(Net())",  # of two kinds
        "nets = {Net() for _ in range(3)}",
        "nets = []\ndef fill():\n    for _ in range(3):\n        nets.append(Net())\nfill()",  # when?
        "nets = [Net() for _ in range(3)]\nnets.pop()",
    ],
)
def test_lists_whose_entries_are_not_known(nets: str) -> None:
    assert unchanged(script(**{**SEVERAL, "model": nets})).code == "PREP-NO-POINT"


# ---- whose parameters an optimizer has


@pytest.mark.parametrize(
    "moved", ["map(lambda m: m.to(device), (encoder, head))", "map(lambda m: m.cuda(), [encoder, head])"]
)
def test_models_that_are_moved_together(moved: str) -> None:
    model = f"encoder, head = nn.Linear(8, 8), Net()\nencoder, head = {moved}"
    assert prepared(script(**{**TWO_NETS, "model": model}))[0] == "encoder, head, first, second, loader"


@pytest.mark.parametrize(
    "parameters",
    [
        "list(model.parameters()) + list(other.parameters())",
        "[*model.parameters(), *other.named_parameters()]",
        "list(model.parameters()) + (list(other.parameters()) if len(data) else [])",
        "[{'params': model.parameters()}, {'params': other.parameters()}]",
    ],
)
@pytest.mark.parametrize("other", ["model, other = map(helper, (model, Net()))", "other = Net()"])
def test_an_optimizer_of_which_a_part_cannot_be_told(parameters: str, other: str) -> None:
    slots = {"model": "model = Net().to(device)", "before": "", "imports": "from elsewhere import helper"}
    made = f"{other.replace('model, other', 'kept, other')}\noptimizer = torch.optim.SGD({parameters}, lr=0.1)"
    text = script(**{**slots, "optimizer": made, "forward": "loss = F.cross_entropy(model(x) + other(x), y)"})
    if "helper" in other:
        assert unchanged(text).code == "OPT-UNKNOWN"
    else:
        assert prepared(text) == ["model, other, optimizer, loader"]


PARTS = """\
class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.body(x))

    def chosen(self, rate):
        {}
"""
CHOSEN = {"model": "model = Parts().to(device)", "optimizer": "optimizer = torch.optim.SGD(model.chosen(0.1), lr=0.1)"}
OF_MODULES = """\
for m in [self.body, self.head][0].named_modules():
            if isinstance(m[1], nn.Linear):
                for p in m[1].parameters():
                    yield p"""


@pytest.mark.parametrize(
    "chosen",
    [
        OF_MODULES,
        "for name, m in self.body.named_children():\n            yield from m.parameters()",
        "return self.head.parameters()",
        "groups = [{'params': self.head.parameters(), 'lr': rate}]\n"
        "        groups.append({'params': self.body.parameters()})\n        return groups",
    ],
)
def test_a_method_of_the_network_that_chooses_among_its_parameters(chosen: str) -> None:
    text = script(**CHOSEN, definitions=PARTS.format(chosen))
    assert prepared(text) == ["model, optimizer, loader"]


@pytest.mark.parametrize(
    ("chosen", "code"),
    [
        ("return [torch.zeros(3, requires_grad=True)]", "OPT-UNKNOWN"),
        ("return other.parameters()", "OPT-UNKNOWN"),  # of another network, which the loop does not train
    ],
)
def test_a_method_of_the_network_that_gives_other_parameters(chosen: str, code: str) -> None:
    text = script(**CHOSEN, definitions=PARTS.format(chosen), before="other = Net()")
    assert unchanged(text).code == code


@pytest.mark.parametrize(
    "fill",
    [
        "for name, p in model.named_parameters():\n    groups += [{'params': [p], 'lr': 0.1}]",
        "groups += [{'params': model.parameters()}]",
        "groups += list(model.parameters())",
    ],
)
def test_a_list_of_parameters_that_grows(fill: str) -> None:
    grown = f"groups = []\n{fill}\noptimizer = torch.optim.SGD(groups, lr=0.1)"
    assert prepared(script(optimizer=grown)) == ["model, optimizer, loader"]
    helper = {"imports": "from elsewhere import helper", "optimizer": grown.replace("model.", "helper(model).")}
    assert unchanged(script(**helper)).code == "OPT-UNKNOWN"


@pytest.mark.parametrize(("many", "known"), [(45, True), (99, False)])
def test_a_function_that_makes_one_of_many_networks(many: int, known: bool) -> None:
    tests = "".join(f"    if name == {n}:\n        return nn.Linear(8, {n})\n" for n in range(3, many))
    text = script(definitions=f"def make(name):\n{tests}", model="model = make(len(data) // 20)\nmodel.to(device)")
    assert prepared(text) == ["model, optimizer, loader"] if known else unchanged(text).code == "OPT-UNKNOWN"


def test_what_decides_whether_parameters_are_trained_is_no_model() -> None:
    parameters = "model.parameters() if setup.all else model.layer.parameters()"
    optimizer = f"setup = Setup()\noptimizer = torch.optim.SGD({parameters}, lr=0.1)"
    text = script(imports="from elsewhere import Setup", optimizer=optimizer)
    assert prepared(text) == ["model, optimizer, loader"]


SPLITS = """\
def splits():
    train = DataLoader(data, batch_size=16, shuffle=True)
    valid = DataLoader(data, batch_size=8)
    test = DataLoader(data, batch_size=4)
    return train, valid, test
"""


@pytest.mark.parametrize(
    ("taken", "known"),
    [
        ("loader, valid = splits()[:2]", "loader"),
        ("more, loader = splits()[1:]", "loader"),
        ("valid, loader = splits()[-2:]", "loader"),
        ("loader, valid = splits()[:len(data)]", ""),
        ("loader, test = splits()[::2]", ""),
    ],
)
def test_a_part_of_a_tuple_has_these_loaders(taken: str, known: str) -> None:
    text = script(definitions=SPLITS, loader=taken)
    if known:
        assert prepared(text) == [f"model, optimizer, {known}"]
    else:
        assert unchanged(text).code in ("LOADER-UNKNOWN", "PREP-NO-POINT")
