"""Classes of the script that keep a loader and hand on its batches, and functions that move whatever they are given."""

from __future__ import annotations

import pytest
from scripts import NO_LOOP, converted, findings, script, unchanged

MOVE = """\
def to_device(data, device):
    if isinstance(data, (list, tuple)):
        return [to_device(x, device) for x in data]
    return data.to(device, non_blocking=True)


"""
DEALER = """\
class Dealer:
    def __init__(self, dl, device):
        self.dl = dl
        self.device = device

    def __iter__(self):
        for b in self.dl:
            yield to_device(b, self.device)

    def __len__(self):
        return len(self.dl)
"""
MADE = "loader = DataLoader(data, batch_size=16, shuffle=True)"


def dealt(definitions: str, made: str = "batches = Dealer(loader, device)") -> dict[str, str]:
    return {"definitions": definitions, "loader": f"{MADE}\n{made}", "loop": "for x, y in batches:", "move": ""}


@pytest.mark.parametrize(
    ("definitions", "made"),
    [
        (MOVE + DEALER, "batches = Dealer(loader, device)"),
        (MOVE + DEALER, "batches = Dealer(device=device, dl=loader)"),
        (MOVE + DEALER, "loader = Dealer(loader, device)\nbatches = loader"),
        (DEALER.replace("to_device(b, self.device)", "b"), "batches = Dealer(loader, device)"),
        (f"{MOVE}{DEALER}\n\nclass Own(Dealer):\n    pass", "batches = Own(loader, device)"),
    ],
)
def test_the_batches_of_a_loader_that_an_object_keeps(definitions: str, made: str) -> None:
    text = converted(script(**dealt(definitions, made)))
    assert f"{MADE}\nloader = accelerator.prepare(loader)\n{made}" in text
    assert "model, optimizer = accelerator.prepare(model, optimizer)" in text
    assert findings(script(**dealt(definitions, made))) == []


@pytest.mark.parametrize(
    ("moved", "followed"),
    [
        ("[t.to(self.device) for t in b]", True),
        ("tuple(t.to(self.device) for t in b)", True),
        ("[t.to(self.device) for t in b if len(t) > 1]", False),
        ("[t.to(self.device)[:8] for t in b]", False),
        ("[t.to(self.device) for t in b[:1]]", False),
        ("[t.to(self.device) for t in b for _ in range(2)]", False),
    ],
)
def test_parts_of_batches_that_an_object_moves_one_by_one(moved: str, followed: bool) -> None:
    text = script(**dealt(DEALER.replace("to_device(b, self.device)", moved)))
    if followed:
        assert "loader = accelerator.prepare_data_loader(loader, device_placement=False)\n" in converted(text)
        assert findings(text) == []
    else:
        assert unchanged(text).code == "LOADER-UNKNOWN"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("yield to_device(b, self.device)", "if len(b) > 1:\n                yield b"),  # leaves some out
        ("yield to_device(b, self.device)", "yield b\n            yield b"),
        ("yield to_device(b, self.device)", "yield [b[0].cuda(), b[1].cuda()]"),
        ("self.dl = dl", "self.dl = dl if device else None"),
        ("self.dl = dl\n", "self.dl = dl\n        self.dl = list(dl)\n"),
        ("def __len__(self):", "def put(self, dl):\n        self.dl = dl\n\n    def __len__(self):"),
        ("self.dl = dl\n", "if device:\n            self.dl = dl\n"),
        ("self.dl = dl\n", "dl = list(dl)\n        self.dl = dl\n"),
    ],
)
def test_objects_that_deal_in_another_way(old: str, new: str) -> None:
    assert old in DEALER
    assert unchanged(script(**dealt(MOVE + DEALER.replace(old, new)))).code == "LOADER-UNKNOWN"


def test_an_object_whose_loader_others_set() -> None:
    made = "batches = Dealer(loader, device)\nbatches.dl = [next(iter(loader))]"
    assert unchanged(script(**dealt(MOVE + DEALER, made))).code == "LOADER-UNKNOWN"


DICT = MOVE.replace("(list, tuple)", "dict").replace(
    "[to_device(x, device) for x in data]", "{k: to_device(x, device) for k, x in data.items()}"
)


@pytest.mark.parametrize("definition", [MOVE, DICT, MOVE.replace("[to", "tuple(to").replace("data]", "data)")])
def test_a_function_that_moves_each_of_several_things_gives_back_what_it_is_given(definition: str) -> None:
    slots = {"definitions": definition}
    model, move = "model = to_device(Net(), device)", "x, y = to_device((x, y), device)"
    text = converted(script(**slots, model=model, move=move))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in text
    assert model in text and move in text


@pytest.mark.parametrize(
    "given",
    [
        "[to_device(x, device) for x in data if x is not None]",
        "[to_device(x[:1], device) for x in data]",
        "[to_device(device, x) for x in data]",
        "[to_device(x, device) for x in (data, device)]",
        "to_device(data, device)",
    ],
)
def test_functions_that_make_something_else_of_it(given: str) -> None:
    definitions = MOVE.replace("[to_device(x, device) for x in data]", given) + DEALER
    assert unchanged(script(**dealt(definitions))).code == "LOADER-UNKNOWN"


ENDLESS = """\
class Endless:
    def __init__(self, dl, device=None):
        self.dl = dl
        self.batches = iter(self.dl)
        self.device = device

    def __next__(self):
        try:
            batch = next(self.batches)
        except StopIteration:
            self.batches = iter(self.dl)
            batch = next(self.batches)
        batch = to_device(batch, self.device)
        return batch

    def __len__(self):
        return len(self.dl)
"""
KIND = MOVE.replace("[to", "type(data)(to").replace("data]", "data)")


def drawn(definitions: str, draw: str = "next(batches)", made: str = "batches = Endless(loader, device)") -> str:
    slots = {"definitions": definitions, "loader": f"{MADE}\n{made}", "move": ""}
    forward = f"x, y = {draw}\noptimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)"
    return script(**slots, loop="for step in range(20):", forward=forward)


@pytest.mark.parametrize(
    ("old", "new", "draw"),
    [
        ("", "", "next(batches)"),
        ("", "", "batches.__next__()"),
        ("__next__", "next", "batches.next()"),
        (MOVE, KIND, "next(batches)"),
        (" = iter(self.dl)\n        self.device", " = iter(dl)\n        self.device", "next(batches)"),
        ("        batch = to_device(batch, self.device)\n", "", "to_device(next(batches), device)"),
        ("return batch", "return to_device(batch, self.device)", "next(batches)"),
    ],
)
def test_an_object_that_gives_the_next_batch_of_a_loader_each_time(old: str, new: str, draw: str) -> None:
    text = drawn((MOVE + ENDLESS).replace(old, new) if old else MOVE + ENDLESS, draw)
    assert f"{MADE}\nloader = accelerator.prepare(loader)\nbatches = Endless(loader, device)" in converted(text)
    assert findings(text) == []


def test_an_object_that_gives_the_parts_of_the_next_batch() -> None:
    parts = ENDLESS.replace("batch = next(", "x, y = next(").replace("batch = to_device(batch, self.device)", "")
    given = parts.replace("return batch", "return x.to(self.device), y.to(self.device)")
    prepared = "loader = accelerator.prepare_data_loader(loader, device_placement=False)"
    assert f"{prepared}\nbatches = Endless(loader, device)" in converted(drawn(given))
    turned = parts.replace("return batch", "return y.to(self.device), x.to(self.device)")
    assert unchanged(drawn(turned)).code == "LOADER-UNKNOWN"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return batch", "return batch[0][:8], batch[1][:8]"),
        ("return batch", "batch[0].add_(1)\n        return batch"),  # it does more than to hand it on
        ("return batch", "return next(self) if len(batch) < 2 else batch"),
        ("return batch", "self.dl = [batch]\n        return batch"),
        ("self.batches = iter(self.dl)\n            batch", "self.batches = iter([batch])\n            batch"),
        ("self.dl = dl", "self.dl = dl if device else None"),
    ],
)
def test_objects_that_give_something_else_each_time(old: str, new: str) -> None:
    assert old in ENDLESS
    assert unchanged(drawn(MOVE + ENDLESS.replace(old, new))).code == "LOADER-UNKNOWN"


def test_an_object_whose_iterator_others_set() -> None:
    made = "batches = Endless(loader, device)\nbatches.batches = iter([next(iter(loader))])"
    assert unchanged(drawn(MOVE + ENDLESS, made=made)).code == "LOADER-UNKNOWN"


PREPARE = """\
def prepare(x, y):
    return x.view(-1, 2, 4).to(device), y.long().cuda()


class Dealer:
    def __init__(self, dl, func):
        self.dl = dl
        self.func = func

    def __iter__(self):
        batches = iter(self.dl)
        for b in batches:
            yield (self.func(*b))
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("        batches = iter(self.dl)\n        for b in batches:", "        for b in self.dl:"),
        ("        batches = iter(self.dl)\n        for b in batches:", "        for b in iter(self.dl):"),
    ],
)
def test_the_parts_of_each_batch_go_through_a_function(old: str, new: str) -> None:
    slots = dealt(PREPARE.replace(old, new), "batches = Dealer(loader, prepare)") | {"forward": SQUARE}
    text = converted(script(**slots))
    assert "loader = accelerator.prepare" in text and "backward(loss)" in text


SQUARE = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x.view(-1, 8)), y)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x.view(-1, 2, 4).to(device), y.long().cuda()", "y, x"),
        ("x.view(-1, 2, 4)", "x[torch.randperm(len(x))]"),
        ("x.view(-1, 2, 4)", "x.view(-1)"),
        ("x.view(-1, 2, 4)", "x.transpose(0, 1)"),
        ("    return x", "    x = x[:8]\n    return x"),
        ("(*b)", "(b)"),
        ("yield (self", "print(next(batches))\n            yield (self"),
        ("self.func = func", "self.func = lambda *b: b[:1]"),
    ],
)
def test_functions_that_make_other_batches_of_them(old: str, new: str) -> None:
    assert old in PREPARE
    slots = dealt(PREPARE.replace(old, new), "batches = Dealer(loader, prepare)") | {"forward": SQUARE}
    assert unchanged(script(**slots)).code == "LOADER-UNKNOWN"


SUBCLASS = """\
class Dealt(DataLoader):
    def __iter__(self):
        {}

    def halved(self):
        return len(self) // 2
"""


@pytest.mark.parametrize(
    "body",
    [
        "for x, y in super().__iter__():\n            yield x, y",
        "return ahead(super(Dealt, self).__iter__())",
        "yield from DataLoader.__iter__(self)",
    ],
)
def test_a_dataloader_that_takes_its_batches_from_its_base(body: str) -> None:
    slots = {"imports": "from ahead import ahead", "definitions": SUBCLASS.format(body)}
    text = script(loader="loader = Dealt(data, batch_size=16)", **slots)
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in converted(text)


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(0, 64, 16):\n            yield self.dataset[i : i + 16]",
        "for i in range(len(self)):\n            yield next(self.iterator)",
        "yield from map(self.collate_fn, self.batch_sampler)",
    ],
)
def test_a_dataloader_that_deals_its_data_in_its_own_way(body: str) -> None:
    definitions = SUBCLASS.format(body)
    if "iterator" in body:
        definitions += "\n    def __init__(self, data, batch_size):\n        super().__init__(data, batch_size)\n"
        definitions += "        self.iterator = super().__iter__()\n"
    refused = unchanged(script(definitions=definitions, loader="loader = Dealt(data, batch_size=16)"))
    assert refused.code == "LOADER-UNKNOWN"
    assert "an object of Dealt, a class of the script that hands out batches in its own way" in refused.message


# ---- a name in the header of the loop

NAMED = """\
class Trainer:
    def __init__(self, model, loader):
        self.model = model
        self.loader = loader

    def fit(self):
        for x, y in {over}:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            optimizer.step()
"""


@pytest.mark.parametrize("over", ["(bar := tqdm(self.loader))", "tqdm(bar := self.loader)", "(bar := self.loader)"])
def test_what_a_loop_is_over_has_a_name_there(over: str) -> None:
    nothing = NO_LOOP
    made = {"imports": "from tqdm import tqdm", "definitions": NAMED.format(over=over)}
    text = converted(script(**nothing, **made, after="Trainer(model, loader).fit()"))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in text


def test_what_a_loop_is_over_is_not_known() -> None:
    nothing = NO_LOOP
    made = {"imports": "from elsewhere import wrap", "definitions": NAMED.format(over="(bar := wrap(self.loader))")}
    assert unchanged(script(**nothing, **made, after="Trainer(model, loader).fit()")).code == "LOADER-UNKNOWN"
