"""CLEAN: what the conversion has made useless goes, what was useless before stays."""

from __future__ import annotations

from textwrap import indent

import pytest
from accelift_codemod.draft import mentioned
from scripts import CREATED, added, converted, lifted, removed, script

QUESTION = "use_cuda = torch.cuda.is_available()"
MOVED = {"move": "if use_cuda:\n    x, y = x.cuda(), y.cuda()"}
# Without a device variable the accelerator is made before the model.
MADE = f"{CREATED}\nmodel = Net()"
MODEL = "model = Net()\nif use_cuda:\n    model.cuda()"


def asking(model: str = MODEL, **slots: str) -> str:
    """A script that asks for the GPU at every move."""
    return script(**{"device": QUESTION, "model": model, **MOVED, **slots})


@pytest.mark.parametrize(
    "model",
    [
        MODEL,
        f"{MODEL}\nelse:\n    pass",
        "model = Net()\nif use_cuda:\n    model = model.cuda()",
        "model = Net()\nif torch.cuda.is_available() and use_cuda:\n    model.cuda()",
        "model = Net()\nif use_cuda:\n    model.cuda()\nelif torch.backends.mps.is_available():\n    model.to('mps')",
    ],
)
def test_blocks_left_empty_go_with_the_variable_they_asked(model: str) -> None:
    assert converted(asking(model)) == lifted(device="", model=MADE)


def test_a_variable_goes_whose_name_is_that_of_a_setting() -> None:
    use = 'use_gpu = config["use_gpu"] and torch.cuda.is_available()'
    text = script(setup='config = {"use_gpu": True}', device=f'{use}\ndevice = "cuda" if use_gpu else "cpu"')
    assert use in removed(text) and 'cpu=not config["use_gpu"],' in "".join(added(text))


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("cpu=not config['use_gpu']", {"not", "config"}),
        ('print(f"{use_gpu}" + use, "it\'s")', {"print", "f", "use_gpu", "use"}),
        ('open("a\\"b" + name)', {"open", "name"}),
    ],
)
def test_the_names_that_code_reads(code: str, names: set[str]) -> None:
    assert mentioned(code) == names


@pytest.mark.parametrize(
    "slots",
    [
        {"after": "shown = use_cuda"},
        {"after": "shown = f'{use_cuda}'"},
        {"after": "__all__ = ['use_cuda']"},
        {"definitions": "def info():\n    return use_cuda", "after": "shown = info()"},
        {"loader": "loader = DataLoader(data, batch_size=16, pin_memory=use_cuda)"},
    ],
)
def test_a_variable_that_something_else_reads_stays(slots: dict[str, str]) -> None:
    assert converted(asking(**slots)) == lifted(device=QUESTION, model=MADE, **slots)


@pytest.mark.parametrize(
    ("block", "left"),
    [
        (
            "if use_cuda:\n    model.cuda()\n    torch.backends.cudnn.benchmark = True",
            "if use_cuda:\n    torch.backends.cudnn.benchmark = True",
        ),
        ("if use_cuda:\n    model.cuda()\nelse:\n    slow = True", "if use_cuda:\n    pass\nelse:\n    slow = True"),
    ],
)
def test_blocks_with_something_left_stay(block: str, left: str) -> None:
    after = lifted(device=QUESTION, model=f"{MADE}\n{left}")
    assert converted(asking(f"model = Net()\n{block}")) == after


KEPT = "mask = torch.ones(8)\n"
FLAG = "import argparse", "parser = argparse.ArgumentParser()\nparser.add_argument('--cuda', action='store_true')"
BY_FLAG = f"{FLAG[1]}\nargs = parser.parse_args()"


@pytest.mark.parametrize(
    ("block", "left"),
    [
        ("if use_cuda:\n    mask = mask.cuda()", "mask = mask.to(accelerator.device)"),
        ("if use_cuda:\n    x, y, mask = x.cuda(), y.cuda(), mask.cuda()", "mask = mask.to(accelerator.device)"),
        (
            "if use_cuda and use_cuda:\n    # the mask\n    x, y = x.cuda(), y.cuda()\n    mask = mask.cuda()",
            "# the mask\nmask = mask.to(accelerator.device)",
        ),
        ("mask = mask.cuda() if use_cuda else mask", "mask = mask.to(accelerator.device)"),
        ("mask = torch.ones(8).cuda() if use_cuda else torch.ones(8)", "mask = torch.ones(8).to(accelerator.device)"),
    ],
)
def test_a_move_to_the_device_of_the_accelerator_does_not_ask_for_a_gpu(block: str, left: str) -> None:
    slots = {"before": "mask = torch.ones(8)"}
    assert converted(asking(**slots, move=block)) == lifted(device="", model=MADE, **slots, move=left)


def test_nor_does_it_ask_for_the_flag_that_the_accelerator_is_told() -> None:
    slots = {
        "imports": FLAG[0],
        "setup": BY_FLAG,
        "device": "",
        "model": "model = Net()\nif args.cuda:\n    model.cuda()",
    }
    output = converted(
        script(**slots, move="", before="if args.cuda:\n    mask = torch.ones(8)\n    mask = mask.cuda()")
    )
    assert "cpu=not args.cuda" in output and "if args.cuda:\n    mask = torch.ones(8)\n" in output
    output = converted(script(**slots, move="", before=f"{KEPT}if args.cuda:\n    mask = mask.cuda()"))
    assert f"{KEPT}mask = mask.to(accelerator.device)\n" in output


@pytest.mark.parametrize(
    ("block", "left"),
    [
        ("if use_cuda:\n    shown = mask.cuda()", "if use_cuda:\n    shown = mask.to(accelerator.device)"),
        (
            "if use_cuda:\n    mask = mask.cuda()\n    fast = True",
            "if use_cuda:\n    mask = mask.to(accelerator.device)\n    fast = True",
        ),
        (
            "if use_cuda:\n    mask = mask.cuda()\nelse:\n    fast = False",
            "if use_cuda:\n    mask = mask.to(accelerator.device)\nelse:\n    fast = False",
        ),
        (
            "if use_cuda and epoch:\n    mask = mask.cuda()",
            "if use_cuda and epoch:\n    mask = mask.to(accelerator.device)",
        ),
        (
            "if use_cuda and __name__ == '__main__':\n    mask = mask.cuda()",
            "if use_cuda and __name__ == '__main__':\n    mask = mask.to(accelerator.device)",
        ),
        ("mask = mask.cuda() if use_cuda else -mask", "mask = mask.to(accelerator.device) if use_cuda else -mask"),
        (
            "if use_cuda:\n    mask = mask.to('cuda', torch.half)",
            "if use_cuda:\n    mask = mask.to(accelerator.device, torch.half)",
        ),
        (
            "mask = mask.to('cuda', torch.half) if use_cuda else mask",
            "mask = mask.to(accelerator.device, torch.half) if use_cuda else mask",
        ),
    ],
)
def test_what_does_more_than_move_asks_as_before(block: str, left: str) -> None:
    slots = {"before": "mask = torch.ones(8)", "move": ""}
    after = lifted(device=QUESTION, model=MADE, before=slots["before"], batch_end=left)
    assert converted(asking(**slots, batch_end=block)) == after


def test_a_question_in_a_file_that_mixes_tabs_and_blanks_goes() -> None:
    noise = "def noise(n):\n\t  out = torch.randn(n)\n\t  if use_cuda:\n\t      out = out.cuda()\n\t  return out"
    left = "def noise(n):\n\t  out = torch.randn(n)\n\t  out = out.to(accelerator.device)\n\t  return out\n"
    assert left in converted(asking(definitions=noise, before="noise(3)"))


def test_a_question_that_does_something_is_still_asked() -> None:
    slots = {"definitions": "asked = []\n\n\ndef ask():\n    asked.append(1)\n    return True", "device": ""}
    before = script(model="model = Net()\nif ask():\n    model.cuda()", move="x, y = x.cuda(), y.cuda()", **slots)
    after = lifted(model=f"{MADE}\nif ask():\n    pass", **slots)
    assert converted(before) == after


def test_a_name_bound_by_the_question_stays_bound() -> None:
    question = "if (count := torch.cuda.device_count()) > 0:\n    "
    slots = {"device": "", "after": "shown = count"}
    before = script(model=f"model = Net()\n{question}model.cuda()", move="x, y = x.cuda(), y.cuda()", **slots)
    after = lifted(model=f"{MADE}\n{question}pass", **slots)
    assert converted(before) == after


def test_comments_of_what_goes_stay() -> None:
    output = converted(asking("model = Net()\nif use_cuda:  # fast\n    model.cuda()  # all of it"))
    assert "# fast\n# all of it\n" in output and "use_cuda" not in output


MOVES = "x = x.to(device)\ny = y.to(device)\n"


@pytest.mark.parametrize(
    ("said", "moves"),
    [
        ("# Move the batch to the GPU\n", MOVES),
        ("# to GPU, if available\n", MOVES),
        ("# ---- DEVICE 할당 ----\n", f"{MOVES}\n# then\n"),  # a paragraph
        ("", MOVES.replace("(device)", "(device)  # on CUDA")),
        ("# data parallel\n# on one device\n", f"{MOVES}# then\n"),
        ("# x, y = x.cuda(), y.cuda()\n", MOVES),
        ("#x = Variable(x.cuda(), volatile=True)\n", f"{MOVES}\n# then\n"),
        ("", MOVES.replace("y =", "# z.to(device)\ny =")),
        ("", f"if torch.cuda.is_available():\n    # x = x.cuda(non_blocking=True)\n{indent(MOVES, '    ')}"),
    ],
)
def test_what_is_said_of_moves_goes_with_them(said: str, moves: str) -> None:
    left = "# then" if "# then" in moves else ""
    assert converted(script(move=said + moves)) == lifted(move=left)


@pytest.mark.parametrize(
    ("said", "moves"),
    [
        ("# one GPU is enough\n", MOVES),  # what follows may be meant, too
        ("# move to the GPU and learn\n", MOVES),
        ("# gpu_batches are small\n", f"{MOVES}\n# then\n"),
        ("# the next batch\n", f"{MOVES}\n# then\n"),
        ("# x = augment(x.to(device))\n", f"{MOVES}\n# then\n"),
        ("# z = y.to(device)\n", f"{MOVES}\n# then\n"),  # which is another one from there on
        ("# x, y = x.cuda(), 1\n", f"{MOVES}\n# then\n"),
        ("# x = x.to(torch.float64)\n", f"{MOVES}\n# then\n"),
        ("# x = x.to(device, dtype=half)\n", f"{MOVES}\n# then\n"),
        ("# the next batch\n# goes to the GPU\n", f"{MOVES}\n# then\n"),
        ("# to the GPU\n", "z = 1\n"),
        ("# %% to the GPU\n", MOVES),
        ("# TODO: it diverges on several GPUs\n", f"{MOVES}\n# then\n"),
        ("# on one GPU it takes two hours and most of the memory\n", f"{MOVES}\n# then\n"),
        (
            "# fails on MPS: see issue 12 of the GPU\n",
            "x, y = x.to(device), y.to(device)  # fails on MPS: see issue 12 of the GPU\n",
        ),
    ],
)
def test_what_may_be_said_of_more_stays(said: str, moves: str) -> None:
    assert said.strip() in converted(script(move=said + moves)).replace("\n        #", "\n#")


TAKEN = "a, b = batch[0].to(device), batch[1].to(device)\n"


@pytest.mark.parametrize(
    ("said", "moves", "goes"),
    [
        ("# Transfer the data to the GPU if available\n", TAKEN, True),
        ("# to the GPU\n", "a = batch[0].to(device)\nb = batch[1].to(device)\n", True),
        ("# a = batch[0].cuda()\n", TAKEN, False),  # of another variable
        ("# to the GPU\n", f"{TAKEN}noise = torch.ones(3).to(device)\n", False),
        ("# to the GPU\n", f"{TAKEN}\nnoise = torch.ones(3).to(device)\n", True),
        ("# the next batch\n", TAKEN, False),
        ("# to the GPU\n", "a, b = batch[0].float(), batch[1]\n", False),
    ],
)
def test_what_is_said_of_moves_goes_where_what_they_move_stays(said: str, moves: str, goes: bool) -> None:
    text = script(loop="for batch in loader:", move=f"{said}{moves}x, y = a, b")
    assert (said.strip() not in converted(text)) == goes


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("# (batch_size (N), 3, 300, 300)", "# x: (batch_size (N), 3, 300, 300)"),
        ("#(N, 8)", "# x: (N, 8)"),
        ("# B,S,C,H,W", "# x: B,S,C,H,W"),
        ("# [B, 3, H, W]", "# x: [B, 3, H, W]"),
        ("# BATCH_SIZE*28*28", "# x: BATCH_SIZE*28*28"),
        ("# not useful when testing", "# not useful when testing"),
        ("# a, b", "# a, b"),
        ("# 학습시 실행", "# 학습시 실행"),
    ],
)
def test_the_shape_of_what_was_moved_stays_told(said: str, left: str) -> None:
    assert converted(script(move=f"x = x.to(device)  {said}\ny = y.to(device)")) == lifted(move=left)


def test_the_shape_of_what_was_moved_together_stays_told() -> None:
    pair = "x, y = x.to(device), y.to(device)  # {}"
    assert converted(script(move=pair.format("(N, 3)"))) == lifted(move="# x, y: (N, 3)")
    assert converted(script(move=pair.format("shuffled"))) == lifted(move="# shuffled")


# ---- imports


@pytest.mark.parametrize(
    ("before", "left"),
    [
        ("from torch.nn.utils import clip_grad_norm_", ""),
        (
            "from torch.nn.utils import clip_grad_norm_, parameters_to_vector",
            "from torch.nn.utils import parameters_to_vector",
        ),
        ("from torch.nn.utils import clip_grad_norm_ as clip_grad_norm_", ""),
        (
            "from torch.nn.utils import clip_grad_norm_, parameters_to_vector, clip_grad_norm_",
            "from torch.nn.utils import parameters_to_vector",
        ),
        ("from torch.nn.utils import clip_grad_norm_\nfrom torch.nn.utils import clip_grad_norm_", ""),
    ],
)
def test_an_import_without_a_use_left_goes(before: str, left: str) -> None:
    slots = {"after": "vector = parameters_to_vector(model.parameters())"} if left else {}
    text = script(from_imports=before, step="clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()", **slots)
    step = "accelerator.clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()"
    assert converted(text) == lifted(from_imports=left, step=step, **slots)


@pytest.mark.parametrize("again", ["torch.nn.utils", "torch.nn.utils.clip_grad"])
def test_an_import_that_is_tried_stays(again: str) -> None:
    tried = "try:\n    from torch.nn.utils import clip_grad_norm_\nexcept ImportError:\n"
    slots = {"from_imports": f"{tried}    from {again} import clip_grad_norm_"}
    text = script(step="clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()", **slots)
    step = "accelerator.clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()"
    assert converted(text) == lifted(step=step, **slots)


def test_an_import_that_something_else_uses_stays() -> None:
    slots = {"from_imports": "from torch.nn.utils import clip_grad_norm_", "after": "shown = clip_grad_norm_"}
    text = script(step="clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()", **slots)
    step = "accelerator.clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()"
    assert converted(text) == lifted(step=step, **slots)


@pytest.mark.parametrize(
    "slots",
    [
        {"imports": "import sys"},
        {"imports": "import os, sys"},
        {"from_imports": "from torch.nn.utils import clip_grad_value_"},
        {"setup": "unused = torch.cuda.is_available()"},
        {"setup": "if torch.cuda.is_available():\n    pass"},
    ],
)
def test_what_was_unused_before_stays(slots: dict[str, str]) -> None:
    assert converted(script(**slots)) == lifted(**slots)


def test_the_device_variable_goes_only_if_nothing_reads_it() -> None:
    assert "device" not in converted(script()).replace("dataloader", "")
    output = converted(script(after="shown = [device]"))
    assert f"{CREATED}\ndevice = accelerator.device\n" in output


PLAIN = {"move": "", "device": QUESTION, "forward": "optimizer.zero_grad()\nloss = F.cross_entropy(net(x), y)"}
OPTIMIZER = "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)"


@pytest.mark.parametrize(
    ("choice", "left"),
    [
        ("model.cuda() if use_cuda else model", "model"),
        ("model if not use_cuda else model.cuda()", "model"),
        ("model.cuda() if use_cuda else Net()", "model if use_cuda else Net()"),
        (
            "model.cuda() if use_cuda or data.tensors[0].sum() else model",
            "model if use_cuda or data.tensors[0].sum() else model",
        ),
    ],
)
def test_a_choice_between_the_same_goes(choice: str, left: str) -> None:
    text = converted(script(model=f"model = Net()\nnet = {choice}", optimizer=OPTIMIZER, **PLAIN))
    assert f"\nnet = {left}\n" in text
    assert (QUESTION in text) is ("use_cuda" in left)


WRAPPED = "    model = nn.DataParallel(model)"
OPTIONS = "import argparse\nimport os"
PARSED = "parser = argparse.ArgumentParser()\nparser.add_argument('--gpus', default='0')\nargs = parser.parse_args()"
CALM = "class Config:\n    def split(self, sign):\n        print('asked')\n        return [0]\n\n\nconfig = Config()"
ASKED = "def several():\n    print('asked')\n    return True"


@pytest.mark.parametrize(
    "test",
    [
        "len(args.gpus.split(',')) > 1",
        "args.gpus.strip() and not args.gpus.startswith('c')",
        "os.environ.get('GPUS', '').lower() == 'all'",
        "os.getenv('GPUS')",
        "hasattr(args, 'gpus') and isinstance(args.gpus, str)",
    ],
)
def test_an_empty_block_goes_whose_condition_only_asks(test: str) -> None:
    slots = {"imports": OPTIONS, "setup": PARSED, "after": "system = os.name"}
    optimizer = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    wrapped = script(**slots, optimizer=f"if {test}:\n{WRAPPED}\n{optimizer}")
    assert converted(wrapped) == lifted(**slots)


@pytest.mark.parametrize("test", ["config.split(',')", "several()", "len(ids := [0]) > 1", "ids.pop() > 0"])
def test_an_empty_block_stays_whose_condition_may_do_more(test: str) -> None:
    slots = {"definitions": f"{CALM}\n\n\n{ASKED}\n", "setup": "ids = [0, 1]"}
    optimizer = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    after = converted(script(**slots, optimizer=f"if {test}:\n{WRAPPED}\n{optimizer}"))
    assert f"if {test}:\n    pass\n{optimizer}" in after


PARAMETER = """\
def train({signature}):
    for x, y in loader:
{moves}        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        {backward}
        optimizer.step()
"""
MOVES = "        if use_cuda:\n            x, y = x.cuda(), y.cuda()\n"
CALLED = {
    "setup": "use_cuda = torch.cuda.is_available()",
    "device": "",
    "move": "",
    "forward": "",
    "backward": "",
    "step": "",
}


def parameter(signature: str, call: str, moves: str = MOVES, backward: str = "loss.backward()") -> str:
    definition = PARAMETER.format(signature=signature, moves=moves, backward=backward)
    return script(main=True, definitions=definition, model="model = Net()", loop=call, **CALLED)


@pytest.mark.parametrize(
    ("signature", "call", "new_signature", "new_call"),
    [
        (
            "loader, model, optimizer, use_cuda",
            "train(loader, model, optimizer, use_cuda)",
            "loader, model, optimizer, accelerator",
            "train(loader, model, optimizer, accelerator)",
        ),
        (
            "use_cuda, loader, model, optimizer, *, clip=1",
            "train(use_cuda, loader, model, optimizer, clip=2)",
            "loader, model, optimizer, accelerator, *, clip=1",
            "train(loader, model, optimizer, accelerator, clip=2)",
        ),
        (
            "loader, model, optimizer, use_cuda=False",
            "train(loader, model, optimizer)",
            "loader, model, optimizer, accelerator",
            "train(loader, model, optimizer, accelerator)",
        ),
        (
            "loader, model, optimizer, *, use_cuda",
            "train(loader, model, optimizer=optimizer, use_cuda=use_cuda)",
            "loader, model, optimizer, accelerator",
            "train(loader, model, optimizer=optimizer, accelerator=accelerator)",
        ),
    ],
)
def test_a_parameter_that_only_asked_for_a_gpu_goes(
    signature: str, call: str, new_signature: str, new_call: str
) -> None:
    output = converted(parameter(signature, call))
    assert PARAMETER.format(signature=new_signature, moves="", backward="accelerator.backward(loss)") in output
    assert f"        {new_call}\n" in output and ("use_cuda" not in output or "use_cuda" not in call)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("optimizer.step()", "optimizer.step()\n    return use_cuda"),  # still read
        ("        optimizer.zero", "        print(use_cuda)\n        optimizer.zero"),
        ("        optimizer.zero", "        print('{use_cuda}'.format(**locals()))\n        optimizer.zero"),
        ("use_cuda):\n", "use_cuda):  # as main() says\n"),
        ("use_cuda):\n", 'use_cuda):\n    """Train. Use the GPU if use_cuda holds."""\n'),
    ],
)
def test_other_parameters_stay(old: str, new: str) -> None:
    text = parameter("loader, model, optimizer, use_cuda", "train(loader, model, optimizer, use_cuda)")
    assert old in text
    assert "train(loader, model, optimizer, use_cuda, accelerator)" in converted(text.replace(old, new))


def test_the_lines_of_a_call_stay_when_an_argument_goes() -> None:
    call = "train(loader=loader, use_cuda=use_cuda,\n              model=model, optimizer=optimizer)"
    output = converted(parameter("loader, model, use_cuda, optimizer", call))
    assert (
        "train(loader=loader,\n" in output and " model=model, optimizer=optimizer, accelerator=accelerator)" in output
    )


def test_a_parameter_that_was_unread_before_stays() -> None:
    text = parameter("loader, model, optimizer, use_cuda", "train(loader, model, optimizer, use_cuda)", moves="")
    assert "train(loader, model, optimizer, use_cuda, accelerator)" in converted(text)


WRAPS = "model = Net().to(device)\nif len(data) > 9:\n    model = nn.DataParallel(model)"
STATE = "accelerator.unwrap_model(model).state_dict()"


def arms(first: str, second: str, test: str = "len(data) > 9", otherwise: str = "else:") -> str:
    return f"if {test}:\n    {first}\n{otherwise}\n    {second}"


@pytest.mark.parametrize(
    ("legacy", "left"),
    [
        (arms("s = model.module.state_dict()", "s = model.state_dict()"), f"s = {STATE}"),
        (arms("s = {'net': model.module.state_dict()}", "s = {'net': model.state_dict()}"), f"s = {{'net': {STATE}}}"),
        (
            arms("torch.save(model.module.state_dict(), 'a.pt')", "torch.save(model.state_dict(), 'a.pt')"),
            f"accelerator.save({STATE}, 'a.pt')",
        ),
        (
            arms("loss_fn = nn.MSELoss().cuda()", "loss_fn = nn.MSELoss()", "torch.cuda.is_available()"),
            "loss_fn = nn.MSELoss()",
        ),
        ("s = (model.module if len(data) > 9 else model).state_dict()", f"s = {STATE}"),
    ],
)
def test_of_a_choice_whose_arms_are_the_same_now_one_arm_is_left(legacy: str, left: str) -> None:
    after = converted(script(model=WRAPS, after=f"{legacy}\nprint(1)"))
    assert after.endswith(f"optimizer.step()\n{left}\naccelerator.print(1)\n")


def test_strings_of_several_lines_in_arms_that_are_the_same_now_stay_as_they_are() -> None:
    said = 's = "a\\\n  b"'
    legacy = arms(f"t = model.module.state_dict()\n    {said}", f"t = model.state_dict()\n    {said}\n    # saved")
    after = converted(script(model=WRAPS, after=f"{legacy}\nprint(1)"))
    assert after.endswith(f"\nt = {STATE}\n{said}\n# saved\naccelerator.print(1)\n")


@pytest.mark.parametrize(
    "legacy",
    [
        arms("s = model.module.state_dict()", "s = model.layer.state_dict()"),
        arms("s = model.module.state_dict()", "s = model.state_dict()", "data.pop()"),
        arms("s = model.module.state_dict()", "s = model.state_dict()", otherwise="else:  # without a wrapper"),
        arms("s = model.module.state_dict()", "s = model.state_dict()  # without a wrapper"),
        arms("s = 1", "s = 1"),
    ],
)
def test_a_choice_stays_that_does_or_says_more(legacy: str) -> None:
    after = converted(script(model=WRAPS, after=legacy))
    assert "\nelse:" in after and after.count("    s = ") == 2


@pytest.mark.parametrize(
    ("signature", "call", "left"),
    [
        ("device, loader, model, optimizer", "train('cuda', loader, model, optimizer)", "loader, model, optimizer"),
        ("loader, model, optimizer, device", "train(loader, model, optimizer, 'cuda')", "loader, model, optimizer"),
        (
            "loader, device, model, optimizer",
            "train(loader, ('cu' 'da'), model, optimizer)",
            "loader, model, optimizer",
        ),
        (
            "loader, device, model, optimizer",
            "train(loader, f'cuda:{len([])}', model, optimizer)",
            "loader, model, optimizer",
        ),
    ],
)
def test_a_parameter_goes_whose_argument_is_written_out(signature: str, call: str, left: str) -> None:
    moves = "        x, y = x.to(device), y.to(device)\n"
    output = converted(parameter(signature, call, moves))
    assert f"train({left}, accelerator" in output and "device" not in output.partition("train(")[2].partition(":")[0]


@pytest.mark.parametrize("given", ["'cuda:0'", "f'cuda:{len([])}'", "'cuda:%d' % len([])"])
def test_what_an_argument_would_become_goes_with_it(given: str) -> None:
    makes = "def make(n, device='cuda'):\n    return Net().to(device)"
    output = converted(script(definitions=makes, model=f"model = make(3, {given})"))
    assert "def make(n):\n    return Net()\n" in output and "model = make(3)\n" in output


def test_one_stays_beside_a_literal() -> None:
    output = converted(parameter("loader, n, model, optimizer, device", "train(loader, 3, model, optimizer, 'cuda')"))
    assert "train(loader, 3, model, optimizer, 'cuda'" in output  # nothing has read it


PREPARES = """\
def prepare_device(wanted):
    count = torch.cuda.device_count()
    if wanted > 0 and count == 0:
        print("no GPU")
        wanted = 0
    if wanted > count:
        print(f"only {{count}}")
        {more}
    device = torch.device("cuda:0" if wanted > 0 else "cpu")
    return device, list(range(wanted))
"""
PREPARED = """\
device, numbers = prepare_device(config["n_gpu"])
model = Net().to(device)
if len(numbers) > 1:
    model = nn.DataParallel(model, device_ids=numbers)"""


@pytest.mark.parametrize(
    ("more", "goes"),
    [
        ("wanted = count", True),
        ("wanted = count  # all", True),
        ("LEFT.append(count)", False),
        ("assert wanted < 9", False),
    ],
)
def test_a_call_that_only_asks_for_devices_goes_with_what_it_gave(more: str, goes: bool) -> None:
    setup = "import json\nLEFT = []\nconfig = json.load(open('config.json'))"
    slots = {"definitions": PREPARES.format(more=more), "setup": setup, "device": ""}
    text = script(model=PREPARED, move="x, y = x.to(device), y.to(device)", **slots)
    after = converted(text)
    assert ("= prepare_device(" not in after) == goes
    assert "= prepare_device(" in converted(f"{text}print(numbers)\n")
