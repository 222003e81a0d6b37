"""`accelift check` finds wrong metrics, damaged files and broken wrappers, and right ones right."""

from __future__ import annotations

import pytest

from tests.codemod.checks import evaluating, findings, marked, script

COUNT = "correct += (model(x).argmax(1) == y).sum().item()"
GATHERED = "out, y = accelerator.{}((model(x), y))\ncorrect += (out.argmax(1) == y).sum().item()"
PADDED = "for x, y in {}:\n    {}\n    n = accelerator.gather({}"
AFTER = """\
correct = 0
with torch.no_grad():
    for x, y in test_loader:
        correct += (model(x).argmax(1) == y).sum()
{}
accelerator.print(correct)
"""
METHODS = """\
class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.width = 3

    def encode(self, x):
        return self.layer(x)

    def forward(self, x):
        return self.encode(x)
"""
STATE = "model.state_dict()"
HOOK = """\
def hook(models, weights, folder):
    torch.save(3, 'best.pt'){mark}

accelerator.register_save_state_pre_hook(hook)
"""
GUARDED = "if accelerator.is_main_process:"
KEEPER = """\
class Keeper:
    def keep(self, state):
        torch.save(state, 'm.pt'){mark}
"""

JUDGE = {
    "imports": "import transformers",
    "model": "judge = transformers.AutoModelForSequenceClassification.from_pretrained('a')\nmodel = Net()",
}
OTHERS = {"imports": "import nets", "setup": "many = True", "model": "model = nets.load('a')"}
WRONG = {
    "METRIC-LOCAL": [
        evaluating(f"{COUNT}  # HERE"),
        evaluating("correct += judge(x).logits.sum().item()  # HERE", **JUDGE),
        evaluating(
            "x = torchvision.transforms.functional.hflip(x).to(accelerator.device)\n" + f"{COUNT}  # HERE",
            imports="import torchvision",
        ),
        evaluating(f"{COUNT}  # HERE", "accelift"),
        evaluating(
            "meter.add(model(x).sum().item())  # HERE",
            "accelift",
            definitions="class Meter:\n    def __init__(self):\n        self.sum = 0\n\n"
            "    def add(self, value):\n        self.sum += value\n",
            after="meter = Meter()\nfor x, y in test_loader:\n    meter.add(model(x).sum().item())  # HERE\n"
            "accelerator.print(meter.sum)",
        ),
        evaluating(
            "",
            definitions="def test():\n    total = 0\n    for x, y in test_loader:\n"
            "        total += model(x).sum().item()  # HERE\n    return total\n",
            after="accelerator.print(test())",
        ),
        evaluating(
            "correct += model(x).sum().item()  # HERE",
            from_imports="from project import Network",
            model="model = Network()",
        ),
        evaluating(
            "losses.append(F.cross_entropy(model(x), y).item())  # HERE",
            before="losses = []",
            epoch_end="losses = []",
            after="losses = []\nwith torch.no_grad():\n    for x, y in test_loader:\n"
            "        losses.append(F.cross_entropy(model(x), y).item())  # HERE\naccelerator.print(sum(losses))",
        ),
        evaluating(
            "",
            definitions="def accuracy(out, y):\n    return (out.argmax(1) == y).float().mean().item()\n\n\n"
            "def test(model, test_loader):\n    total = 0.0\n    for x, y in test_loader:\n"
            "        total += accuracy(model(x), y)  # HERE\n    return total / len(test_loader)\n",
            after="accelerator.print(test(model, test_loader))",
        ),
    ],
    "METRIC-PADDED": [
        evaluating("out, y = accelerator.gather((model(x), y))  # HERE\ncorrect += (out.argmax(1) == y).sum().item()"),
        evaluating("correct += accelerator.gather(F.cross_entropy(model(x), y)).mean()  # HERE"),
    ],
    "METRIC-AFTERLOOP": [
        evaluating("", after=AFTER.format("correct = accelerator.reduce(correct)  # HERE")),
        evaluating("", after=AFTER.format("correct = accelerator.gather(correct.unsqueeze(0)).sum()  # HERE")),
    ],
    "METRIC-TWICE": [
        evaluating(
            f"{GATHERED.format('gather_for_metrics')}\nn = accelerator.reduce(torch.tensor(correct), 'sum')  # HERE"
        ),
        evaluating(
            f"{GATHERED.format('gather_for_metrics')}",
            "accelift",
            epoch_end="for x, y in test_loader:\n    guesses = accelerator.gather(model(x))\n"
            "    total = accelerator.reduce(guesses.sum())  # HERE",
        ),
        script(after="for x, y in DataLoader(data):\n    y = accelerator.gather_for_metrics(y)  # HERE"),
        script(after=PADDED.format("DataLoader(data)", "y = accelerator.pad_across_processes(y, dim=1)", "y)  # HERE")),
        script(after=PADDED.format("DataLoader(data)", "z = y", "accelerator.pad_across_processes(y))  # HERE")),
        script(
            from_imports="from accelerate.utils import pad_across_processes",
            after=PADDED.format(
                "DataLoader(data)", "out = model(x)\n    out = pad_across_processes(out)", "out)  # HERE"
            ),
        ),
    ],
    "REDUCE-OP": [
        script(after="best = accelerator.reduce(loss, reduction='min')  # HERE"),
        script(from_imports="from accelerate.utils import reduce", after="kind = 'none'\nreduce(loss, kind)  # HERE"),
    ],
    "GATHEROBJ": [
        script(from_imports="from accelerate.utils import gather_object", after="gather_object({'a': 1})  # HERE"),
        script(
            from_imports="from accelerate.utils import gather_object",
            after="text = f'{epoch}'\ngather_object(text)  # HERE",
        ),
    ],
    "SAVE-WRAPPED": [
        script(after=f"accelerator.save({STATE}, 'm.pt')  # HERE"),
        script(after=f"state = {{'model': {STATE}, 'epoch': 1}}  # HERE\naccelerator.save(state, 'm.pt')"),
        script(
            definitions="def save(state):\n    torch.save(state, 'm.pt')\n",
            after=f"if accelerator.is_main_process:\n    save({STATE})  # HERE",
        ),
    ],
    "SAVE-RACE": [
        script(after="torch.save(accelerator.unwrap_model(model).state_dict(), 'm.pt')  # HERE"),
        script("accelift", imports="import os", setup="os.makedirs('out')  # HERE"),
        script(imports="import os", setup="try:\n    os.mkdir('out')  # HERE\nexcept OSError:\n    raise"),
        script(imports="import os", setup="try:\n    os.mkdir('out')  # HERE\nexcept KeyError:\n    pass"),
        script(after="with open('log.txt', 'a') as log:  # HERE\n    log.write('x')"),
        script(
            definitions="def save(net):\n    torch.save(net, 'm.pt')  # HERE\n", epoch_end="if epoch > 1:\n    save(3)"
        ),
        script(batch_end="torch.save(x, f'{epoch}_{len(y)}.pt')  # HERE"),
        script(
            definitions="def finish(saver):\n    saver('m.pt')\n",
            after="def write(path):\n    torch.save(3, path)  # HERE\n\nfinish(write)",
        ),
        script(batch_end="for i, one in enumerate(x):\n    torch.save(one, f'{epoch}_{i}.pt')  # HERE"),
        script(before=HOOK.format(mark="  # HERE"), epoch_end="accelerator.save_state('out')"),
        script(
            definitions=KEEPER.format(mark="  # HERE"),
            from_imports="from project import chosen",
            after="keeper = chosen(Keeper)\nkeeper.keep(3)\nif accelerator.is_main_process:\n    keeper.keep(4)",
        ),
    ],
    "PRINT-ALL": [
        script(epoch_end="print(epoch)  # HERE"),
        script("accelift", definitions="def say(x):\n    print(x)  # HERE\n", after="say(1)"),
    ],
    "DL-RACE": [
        script(imports="import torchvision", before="torchvision.datasets.MNIST('d', download=True)  # HERE"),
        script(
            "accelift",
            from_imports="from urllib.request import urlretrieve",
            before="urlretrieve('http://x/y', 'y')  # HERE",
        ),
    ],
    "DDP-METHOD": [
        script(definitions=METHODS, model="model = Coder()", after="model.encode(x)  # HERE"),
        script(definitions=METHODS, model="model = Coder()", epoch_end="accelerator.print(model.width)  # HERE"),
        script(
            forward="optimizer.zero_grad()\nloss = F.cross_entropy(accelerator.unwrap_model(model)(x), y)  # HERE",
        ),
        script(model="model = nn.Sequential(nn.Linear(8, 3))", after="model[0].weight  # HERE"),
        script(
            from_imports="from transformers import AutoModelForCausalLM",
            model="model = AutoModelForCausalLM.from_pretrained('gpt2')",
            after="model.save_pretrained('out')  # HERE",
        ),
        script(**OTHERS, after="model.encoder(x)  # HERE"),  # whatever it is, there is a wrapper around what trains
        script(**OTHERS, after="accelerator.print(model.config)  # HERE"),
    ],
    "LOADER-ATTR": [
        script(after="accelerator.print(loader.batch_size)  # HERE"),
        script(epoch="loader.sampler.set_epoch(epoch)  # HERE"),
    ],
    "UNWRAP-FP32": [
        script(epoch_end="accelerator.unwrap_model(model, keep_fp32_wrapper=False)  # HERE"),
        script(batch_end="net = accelerator.unwrap_model(model, False)  # HERE"),
    ],
    "DEV-LEFT": [
        script(move="x = x.cuda()  # HERE"),
        script(setup="dev = torch.device('cuda')", move="y = y.to(dev)  # HERE"),
        script("accelift", before="model.to('cuda')  # HERE"),
    ],
    "DEV-INDEX": [
        script(after="mask = torch.ones(3).to('cuda:0')  # HERE"),
        script("accelift", before="torch.cuda.set_device(0)  # HERE"),
        script(after="mask = torch.ones(3, device='cuda:0')  # HERE"),
        script(after="mask = torch.ones(3).to(0)  # HERE\nmask = mask.to(device='cuda:1')  # HERE"),
        script(before="state = torch.load('m.pt', map_location='cuda:0')  # HERE"),
        script(setup="GPU = 'cuda:0'", after="mask = torch.ones(3).to(GPU)  # HERE"),
        script(before="gpu = torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')  # HERE"),
        script(before="gpu = torch.device('cuda', 0)  # HERE"),
        script(imports="import os", setup="os.environ['CUDA_VISIBLE_DEVICES'] = '0'  # HERE"),
    ],
    "DEV-DEFAULT": [
        script(setup="torch.set_default_device('cuda')  # HERE"),
        script("accelift", setup="torch.set_default_tensor_type(torch.cuda.FloatTensor)  # HERE"),
    ],
    "NOTE-BN": [
        script(before="bn = nn.BatchNorm2d(3)  # HERE"),
        script("accelift", before="a = nn.BatchNorm1d(3)  # HERE\nb = nn.BatchNorm1d(3)"),
    ],
}
RIGHT = {
    "METRIC-LOCAL": [
        evaluating("correct += accelerator.reduce(judge(x).logits.sum()).item()", **JUDGE),
        evaluating(
            "correct += judge(x).logits.sum().item()",
            imports="import judges",
            model="judge = judges.load('a')\nmodel = Net()",
        ),
        evaluating(GATHERED.format("gather_for_metrics")),
        evaluating(GATHERED.format("gather_for_metrics"), "accelift"),
        evaluating("", after=AFTER.format("correct = accelerator.reduce(correct)")),
        evaluating(COUNT, prepare="model, optimizer, loader = accelerator.prepare(model, optimizer, loader)"),
        evaluating("count = 0\ncount += len(x)"),
        evaluating(COUNT, epoch_end="name = f'part{accelerator.process_index}'"),
        evaluating("", imports="from metrics import join", after=AFTER.format("correct = join(correct)")),
        evaluating("for part in (1, 2):\n    loss = model(x).mean()\n    accelerator.print(loss)"),
    ],
    "METRIC-PADDED": [
        evaluating(GATHERED.format("gather_for_metrics")),
        evaluating(GATHERED.format("gather"), "accelift"),
        evaluating("out = accelerator.gather(model(x))[: len(data) - correct]"),
        script(batch_end="accelerator.print(accelerator.gather(loss).mean())"),
    ],
    "METRIC-AFTERLOOP": [
        evaluating(GATHERED.format("gather_for_metrics")),
        evaluating("", "accelift", after=AFTER.format("correct = accelerator.reduce(correct)")),
        evaluating(
            "",
            loader="loader = DataLoader(data)\ntest_loader = DataLoader(data, drop_last=True)",
            after=AFTER.format("correct = accelerator.reduce(correct)"),
        ),
    ],
    "METRIC-TWICE": [
        evaluating(GATHERED.format("gather_for_metrics")),
        evaluating(
            f"{GATHERED.format('gather_for_metrics')}\nmean = accelerator.reduce(torch.tensor(correct), 'mean')"
        ),
        evaluating("", after=AFTER.format("correct = accelerator.reduce(correct, 'sum')")),
        script(after=PADDED.format("loader", "y = accelerator.pad_across_processes(y, dim=1)", "y)")),
        script(after=PADDED.format("DataLoader(data)", "y = accelerator.pad_across_processes(loss.detach())", "y)")),
        script(
            after=PADDED.format(
                "DataLoader(data)", "y = accelerator.pad_across_processes(y[accelerator.process_index :: 2])", "y)"
            )
        ),
    ],
    "REDUCE-OP": [
        script(after="accelerator.reduce(loss)\naccelerator.reduce(loss, 'max')\naccelerator.reduce(loss, 'mean')"),
        script("accelift", after="accelerator.reduce(loss, 'min')"),
        script(after="import functools\nfunctools.reduce(max, 'min')"),
    ],
    "GATHEROBJ": [
        script(from_imports="from accelerate.utils import gather_object", after="gather_object([{'a': 1}])"),
        script(from_imports="from helpers import gather_object", after="gather_object({'a': 1})"),
    ],
    "SAVE-WRAPPED": [
        script(after="accelerator.save(accelerator.unwrap_model(model).state_dict(), 'm.pt')"),
        script(after="accelerator.save(accelerator.get_state_dict(model), 'm.pt')"),
        script("accelift", after=f"accelerator.save({STATE}, 'm.pt')"),
        script(after="accelerator.save(optimizer.state_dict(), 'o.pt')"),
        script(before="plain = Net()", after="accelerator.save(plain.state_dict(), 'p.pt')"),
    ],
    "SAVE-RACE": [
        script(after="accelerator.save(accelerator.unwrap_model(model).state_dict(), 'm.pt')"),
        script(after="if accelerator.is_main_process:\n    torch.save(3, 'm.pt')"),
        script(after="torch.save(3, f'part{accelerator.process_index}.pt')"),
        script(after="with open('log.txt') as log:\n    log.read()"),
        script(after="torch.save(3, f'best_{loss.item()}.pt')"),
        script(batch_end="torch.save(3, 'of_' + y[0] + '.pt')"),
        script(imports="import os", batch_end="for z, name in zip(x, y):\n    torch.save(z, os.path.join('o', name))"),
        script(
            definitions="def load(fetch=False):\n    if fetch:\n        torch.save(3, 'm.pt')\n",
            before="with accelerator.main_process_first():\n    load(True)\nload()",
        ),
        script(imports="import os", setup="os.makedirs('out', exist_ok=True)"),
        script(imports="import os", setup="try:\n    os.makedirs('out')\nexcept OSError:\n    pass"),
        script(imports="import os", after="if os.environ.get('RANK', '0') == '0':\n    torch.save(3, 'm.pt')"),
        script(
            definitions="def save(net):\n    torch.save(net, 'm.pt')\n",
            after="if accelerator.is_main_process:\n    save(3)",
        ),
        script(definitions="def never_called(net):\n    torch.save(net, 'm.pt')\n"),
        script(
            definitions="def finish(saver):\n    saver('m.pt')\n",
            after=f"def write(path):\n    torch.save(3, path)\n\n{GUARDED} finish(write)",
        ),
        script(
            definitions=KEEPER.format(mark=""),
            from_imports="from project import chosen",
            after=f"keeper = chosen(Keeper)\n{GUARDED} keeper.keep(3)\nnp.keep(3)",
            imports="import numpy as np",
        ),
        script(
            before=HOOK.format(mark=""), epoch_end="if accelerator.is_main_process:\n    accelerator.save_state('out')"
        ),
        script(
            definitions=KEEPER.format(mark=""),
            from_imports="from project import chosen",
            after="keeper = chosen(Keeper)\nif accelerator.is_main_process:\n    keeper.keep(3)",
        ),
    ],
    "PRINT-ALL": [
        script(epoch_end="accelerator.print(epoch)"),
        script(epoch_end="if accelerator.is_local_main_process:\n    print(epoch)"),
        script(imports="from rich import print", epoch_end="print(epoch)"),
    ],
    "DL-RACE": [
        script(
            imports="import torchvision",
            before="with accelerator.main_process_first():\n    torchvision.datasets.MNIST('d', download=True)",
        ),
        script(imports="import torchvision", before="torchvision.datasets.MNIST('d', download=False)"),
        script(from_imports="from datasets import load_dataset", before="load_dataset('glue')"),
    ],
    "DDP-METHOD": [
        script(definitions=METHODS, model="model = Coder()", after="accelerator.unwrap_model(model).encode(x)"),
        script("accelift", definitions=METHODS, model="model = Coder()", after="model.encode(x)"),
        script(definitions=METHODS, model="model = Coder()", before="plain = Coder()", after="plain.encode(x)"),
        script(after="model.eval()\nmodel.parameters()\nmodel.train()"),
        script(
            definitions=METHODS,
            model="model = Coder()",
            forward="optimizer.zero_grad()\n"
            "loss = F.cross_entropy(model(x), y) + accelerator.unwrap_model(model).encode(x).mean()",
        ),
        script(
            definitions=METHODS,
            model="model = Coder()",
            after="net = model.module if hasattr(model, 'module') else model\nnet.encode(x)",
        ),
        script(**OTHERS, after="accelerator.unwrap_model(model).encoder(x)\nmodel.eval()\nmodel.module.encoder(x)"),
        script(**OTHERS, after="part = model.module.encoder if many else model.encoder"),
        script(
            **OTHERS,
            before="teacher = nets.load('b')\nteacher = accelerator.prepare(teacher)",
            after="teacher.encoder(x)",  # of which nobody knows whether it is trained, and wrapped
        ),
    ],
    "LOADER-ATTR": [
        script("accelift", after="accelerator.print(loader.batch_size)"),
        script(before="plain = DataLoader(data, batch_size=4, shuffle=True)", after="plain.batch_size"),
        script(after="loader.total_batch_size\nloader.dataset"),
    ],
    "UNWRAP-FP32": [
        script(after="accelerator.unwrap_model(model, keep_fp32_wrapper=False)"),
        script(epoch_end="accelerator.unwrap_model(model)"),
    ],
    "DEV-LEFT": [
        script(move="x = x.to(accelerator.device)"),
        script(before="device = accelerator.device", move="x = x.to(device, torch.float32)"),
        script(batch_end="noise = torch.ones(3).cuda()\nx.cpu()\nx.to('cpu')\nx.to(torch.float16)"),
    ],
    "DEV-INDEX": [
        script(after="mask = torch.ones(3).to('cuda')"),
        script(after="torch.cuda.set_device(accelerator.local_process_index)"),
        script(after="mask = torch.ones(3, device='cuda').to(accelerator.device)\nmask.to(torch.float16).to('cpu')"),
        script(before="state = torch.load('m.pt', map_location='cpu')"),
        script(before="state = torch.load('m.pt', map_location={'cuda:0': 'cpu'})"),
        script(before="gpu = torch.device('cuda', accelerator.local_process_index)"),
        script(imports="import sys", setup="GPU = 'cuda:0'\nGPU = sys.argv[1]", after="torch.ones(3).to(GPU)"),
        script(imports="import os", setup="os.environ['CUDA_VISIBLE_DEVICES'] = '0,1'"),
        script(imports="import os", setup="if os.environ.get('ONE'):\n    os.environ['CUDA_VISIBLE_DEVICES'] = '0'"),
        script(before="free = torch.cuda.mem_get_info(device='cuda:0')"),
        script(after="if accelerator.is_main_process:\n    torch.ones(3).to('cuda:0')"),
    ],
    "DEV-DEFAULT": [
        script(before="torch.set_default_device(accelerator.device)"),
        script(setup="torch.set_default_device('cpu')\ntorch.set_default_tensor_type(torch.DoubleTensor)"),
    ],
    "NOTE-BN": [
        script(),
        script(before="bn = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(3))"),
    ],
}


@pytest.mark.parametrize(("code", "text"), [(c, t) for c, texts in WRONG.items() for t in texts])
def test_what_is_wrong_on_several_processes_is_reported(code: str, text: str) -> None:
    assert marked(text)
    assert [f.line for f in findings(text, code)] == marked(text)


@pytest.mark.parametrize(("code", "text"), [(c, t) for c, texts in RIGHT.items() for t in texts])
def test_what_is_right_is_not_reported(code: str, text: str) -> None:
    assert findings(text, code) == []
