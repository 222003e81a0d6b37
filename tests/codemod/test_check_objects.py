"""`accelift check` finds gradients that go past the wrapper, what prepared objects lack, and chance out of step."""

from __future__ import annotations

import pytest

from tests.codemod.checks import findings, marked, script

ALL = "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)"
TWO_HEADS = """\
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        h = self.encoder(x)
        return self.head(h), h
"""
TWO = {"definitions": TWO_HEADS, "model": "model = Two()"}
FORWARD = "optimizer.zero_grad()\nlogits, features = model(x)\nloss = F.cross_entropy(logits, y)"
FREEZE = "model.layer.requires_grad_(False)"
LOOP_FREEZE = "for p in model.parameters():\n    p.requires_grad = False"
TEACHER = "teacher = Net()\nteacher.requires_grad_(False)"
SCHEDULER = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)"
WITH_SCHEDULER = f"{SCHEDULER}\noptimizer, scheduler = accelerator.prepare(optimizer, scheduler)"
NUMPY = "import numpy as np"
SAMPLER = """\
class Shuffled(torch.utils.data.Sampler):
    def __init__(self, data):
        self.data = data

    def __iter__(self):
        return iter(np.random.permutation(len(self.data)).tolist())
"""
BUCKETS = """\
class Buckets(torch.utils.data.Sampler):
    def __init__(self, buckets, batch_size):
        self.buckets, self.batch_size = buckets, batch_size

    def __iter__(self):
        for bucket in self.buckets:
            for start in range(0, len(bucket), self.batch_size):
                yield bucket[start : start + self.batch_size]
"""
BUCKETED = "loader = DataLoader(data, batch_sampler=Buckets([[1, 2, 3], [4, 5]], 2))"
NOISY = """\
class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.randn(8), index % 3
"""
SEED = "torch.manual_seed(0)"
NOISE = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x + torch.randn_like(x)), y)"
UNEVEN = """\
accelerator = Accelerator(
    dataloader_config=DataLoaderConfiguration(even_batches=False)
)
"""
CONFIG = {"imports": "from accelerate import DataLoaderConfiguration"}
GRADIENTS = """\
parameters = list(model.parameters())
gradients = torch.autograd.grad(loss, parameters)
"""
UPDATE = "with torch.no_grad():\n    for p, g in zip(parameters, gradients):\n        {}"
SIAMESE = (
    "a, b = F.normalize(model(x)), F.normalize(model(x * 2))\nloss = F.cross_entropy(a @ b.T, torch.arange(len(x)))"
)


def here(text: str, line: str) -> str:
    """A script, one of whose lines is to be reported."""
    assert text.count(f"{line}\n") == 1, line
    return text.replace(f"{line}\n", f"{line}  # HERE\n")


WRONG = {
    "DDP-TWOBWD": [
        script(
            **TWO,
            forward=FORWARD,
            backward="accelerator.backward(loss, retain_graph=True)\naccelerator.backward(features.mean())  # HERE",
        ),
        script(
            "accelift",
            **TWO,
            forward=FORWARD,
            backward="loss.backward(retain_graph=True)\n(features * 2).mean().backward()  # HERE",
        ),
    ],
    "DDP-UNFREEZE": [
        script(
            prepare=f"{FREEZE}\n{ALL}",
            epoch="if epoch == 1:\n    accelerator.unwrap_model(model).layer.requires_grad_(True)  # HERE",
        ),
        script(
            prepare=f"{LOOP_FREEZE}\n{ALL}",
            before="for p in model.module.layer.parameters():  # HERE\n    p.requires_grad = True",
        ),
        script(
            **TWO,
            prepare=f"{LOOP_FREEZE}\nmodel.head.requires_grad_()\n{ALL}",
            before="for name, p in model.named_parameters():  # HERE\n    p.requires_grad_(True)",
        ),
    ],
    "DDP-GRADFN": [
        here(script(library, backward=GRADIENTS + UPDATE.format(update), step=""), f"    {GRADIENTS.splitlines()[1]}")
        for library in ("accelerate", "accelift")
        for update in ("p -= 0.1 * g", "p.data = p.data - 0.1 * g", "p.add_(g, alpha=-0.1)", "p.grad = g")
    ],
    "DDP-SUBMODULE": [
        script(
            **TWO,
            forward="optimizer.zero_grad()\nbare = accelerator.unwrap_model(model)\n"
            "loss = F.cross_entropy(accelerator.unwrap_model(model).head(x), y)  # HERE",
        ),
        script(
            model="encoder, decoder = nn.Linear(8, 8), nn.Linear(8, 3)\nmodel = nn.Sequential(encoder, decoder)",
            forward="optimizer.zero_grad()\nout = decoder(encoder(x))  # HERE\nloss = F.cross_entropy(out, y)",
        ),
    ],
    "PREP-FROZEN": [
        script(before=f"{TEACHER}\nteacher.eval()\nteacher = accelerator.prepare(teacher)  # HERE"),
        script(
            before="teacher = Net()\nfor p in teacher.parameters():\n    p.requires_grad_(False)\n"
            "teacher = accelerator.prepare_model(teacher)  # HERE"
        ),
    ],
    "PREP-TWICE": [
        script(library, before="model = accelerator.prepare(model)  # HERE") for library in ("accelerate", "accelift")
    ],
    "PREP-FLAG-COPY": [
        script(
            model="model = torch.load('model.pt', weights_only=False)",
            after="torch.save(accelerator.unwrap_model(model), 'model.pt')  # HERE",
        ),
    ],
    "CKPT-KEYS": [script(before="model.load_state_dict(torch.load('model.pt'))  # HERE")],
    "OPT-ATTR": [
        script(prepare=WITH_SCHEDULER, epoch_end="print(scheduler.last_epoch)  # HERE"),
        script(before="optimizer.register_step_post_hook(print)  # HERE"),
        script(
            definitions="class Own(torch.optim.SGD):\n    def swap(self):\n        pass\n",
            optimizer="optimizer = Own(model.parameters(), lr=0.1)",
            epoch_end="optimizer.swap()  # HERE",
        ),
    ],
    "OPT-WRAPPER": [
        script(
            forward="def closure():\n    optimizer.zero_grad()\n    loss = F.cross_entropy(model(x), y)\n"
            "    accelerator.backward(loss)\n    return loss\n",
            backward="",
            step="total = optimizer.step(closure)  # HERE",
        ),
        script(prepare=f"group = optimizer.param_groups[0]\n{ALL}", before='group["lr"] = 0.2  # HERE'),
        script(prepare=f"group = optimizer.param_groups[0]\n{ALL}", epoch_end='group["lr"] *= 0.5  # HERE'),
    ],
    "AMP-MULTIOPT": [
        script(
            device='accelerator = Accelerator(mixed_precision="fp16")',
            before="other = Net()\nsecond = torch.optim.SGD(other.parameters(), lr=0.1)\n"
            "other, second = accelerator.prepare(other, second)",
            step="optimizer.step()\nsecond.step()  # HERE",
        ),
    ],
    "DATA-SAMPLER-RNG": [
        here(
            script(
                imports=NUMPY,
                definitions=SAMPLER,
                loader="loader = DataLoader(data, batch_size=16, sampler=Shuffled(data))",
            ),
            "        return iter(np.random.permutation(len(self.data)).tolist())",
        ),
        *(
            script(
                library,
                imports=NUMPY,
                from_imports="from torch.utils.data import SubsetRandomSampler",
                setup="order = np.random.permutation(64)  # HERE",
                loader="loader = DataLoader(data, batch_size=16, sampler=SubsetRandomSampler(order[:48]))",
            )
            for library in ("accelerate", "accelift")
        ),
        script(
            from_imports="from torch.utils.data import Subset",
            setup="order = torch.randperm(64).tolist()  # HERE",
            loader="loader = DataLoader(Subset(data, order[:48]), batch_size=16, shuffle=True)",
        ),
    ],
    "DATA-TAIL": [
        script(loop="for x, y in loader:  # HERE"),
        script(**CONFIG, device=UNEVEN, loop="for x, y in loader:  # HERE"),
        script("accelift", device=UNEVEN, loop="for i, (x, y) in enumerate(loader):  # HERE"),
    ],
    "DATA-BUCKET": [
        here(
            script(definitions=BUCKETS, loader=BUCKETED),
            "                yield bucket[start : start + self.batch_size]",
        ),
    ],
    "RNG-LOOKAHEAD": [
        script(
            setup=SEED,
            definitions=NOISY,
            data="data = Noisy()",
            forward="optimizer.zero_grad()\nnoise = torch.rand_like(x)  # HERE\n"
            "loss = F.cross_entropy(model(x + noise), y)",
        ),
    ],
    "RNG-SAMENOISE": [
        here(script(library, setup=SEED, forward=NOISE), f"        {NOISE.splitlines()[1]}")
        for library in ("accelerate", "accelift")
    ]
    + [
        script(
            from_imports="from accelerate.utils import set_seed",
            setup="set_seed(3)",
            imports=NUMPY,
            forward="scale = np.random.rand()  # HERE\nloss = F.cross_entropy(model(x) * scale, y)",
        ),
    ],
    "METRIC-DIM0": [
        script(library, batch_end=f"print({number})  # HERE")
        for library in ("accelerate", "accelift")
        for number in (
            "accelerator.gather(loss).item()",
            "float(accelerator.gather(loss.detach()))",
            "accelerator.gather_for_metrics(model(x).mean()).item()",
        )
    ],
    "GATHER-SHAPE": [
        script(library, batch_end=f"chosen = {chosen}\nall_of_them = accelerator.gather(chosen)  # HERE")
        for library in ("accelerate", "accelift")
        for chosen in ("y[y != 2]", "torch.nonzero(y)", "y.unique()", "model(x)[y > 0].detach()")
    ]
    + [script(batch_end="keep = y != 0\nz = accelerator.gather_for_metrics((y[keep], model(x)[keep]))  # HERE")],
    "DEV-IMPORT-ORDER": [
        script(
            imports="from accelerate import PartialState",
            device="state = PartialState()\naccelerator = Accelerator(cpu=True)  # HERE",
        ),
        script(
            device='one = Accelerator(mixed_precision="no")\naccelerator = Accelerator(mixed_precision="bf16")  # HERE'
        ),
    ],
    "LOSS-MASKMEAN": [
        script(
            library,
            forward=f"optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y, {given})",
            backward="accelerator.backward(loss)  # HERE",
        )
        for library in ("accelerate", "accelift")
        for given in ("ignore_index=2", "weight=torch.tensor([1.0, 2.0, 3.0])")
    ]
    + [
        script(
            forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x)[y > 0], y[y > 0])",
            backward="accelerator.backward(loss)  # HERE",
        ),
        script(
            definitions="def collate(batch):\n    xs, ys = zip(*batch)\n    return torch.cat(xs), torch.cat(ys)",
            loader="loader = DataLoader(data, batch_size=16, collate_fn=collate)",
            backward="accelerator.backward(loss)  # HERE",
        ),
    ],
    "LOSS-INBATCH": [
        script(library, forward=f"optimizer.zero_grad()\n{SIAMESE}", backward="accelerator.backward(loss)  # HERE")
        for library in ("accelerate", "accelift")
    ],
}
RIGHT = {
    "DDP-TWOBWD": [
        script(),
        script(
            "accelift",
            **TWO,
            forward=FORWARD,
            backward="accelerator.backward(loss, retain_graph=True)\naccelerator.backward(features.mean())",
        ),
        script(**TWO, forward=FORWARD, backward="accelerator.backward(loss + features.mean())"),
        script(
            backward="accelerator.backward(loss, retain_graph=True)\n"
            "again = F.cross_entropy(model(x), y)\naccelerator.backward(again)"
        ),
        script(
            **TWO,
            forward=FORWARD,
            before="critic = accelerator.prepare(nn.Linear(8, 1))",
            backward="accelerator.backward(loss, retain_graph=True)\n"
            "accelerator.backward(critic(features.detach()).mean())",
        ),
        *(
            script(
                **TWO,
                forward=FORWARD,
                before="critic = accelerator.prepare(nn.Linear(8, 3))",
                backward=f"accelerator.backward(loss, retain_graph=True)\n{target}\n"
                "accelerator.backward(F.mse_loss(critic(x), target))",
            )
            for target in (
                "target = F.one_hot(features.argmax(1), 3).float()",
                "target = (logits > 0).float()",
                "with torch.no_grad():\n    target = logits * 2",
            )
        ),
        script(
            **TWO,
            forward=FORWARD,
            backward="if epoch:\n    accelerator.backward(loss, retain_graph=True)\n"
            "else:\n    accelerator.backward(features.mean())",
        ),
    ],
    "DDP-UNFREEZE": [
        script(),
        script("accelift", prepare=f"{FREEZE}\n{ALL}", before="model.layer.requires_grad_(True)"),
        script(prepare=f"{FREEZE}\nmodel.layer.requires_grad_(True)\n{ALL}", before="model.requires_grad_(True)"),
        script(
            **TWO, prepare=f"model.head.requires_grad_(False)\n{ALL}", before="model.module.encoder.requires_grad_()"
        ),
        script(prepare=f"if frozen():\n    {FREEZE}\n{ALL}", before="model.module.layer.requires_grad_()"),
        script(epoch="model.requires_grad_(False)", epoch_end="model.requires_grad_(True)"),
    ],
    "DDP-GRADFN": [
        script(),
        script(
            backward=f'{GRADIENTS}gradients = accelerator.reduce(gradients, reduction="mean")\n'
            + UPDATE.format("p -= 0.1 * g"),
            step="",
        ),
        script(
            backward=GRADIENTS
            + UPDATE.format("torch.distributed.all_reduce(g)\n        p -= 0.1 * g / accelerator.num_processes"),
            step="",
        ),
        script(batch_end=f"{GRADIENTS}norm = sum(g.norm() for g in gradients)\nprint(norm)"),
        script(
            forward="optimizer.zero_grad()\nx.requires_grad_()\nout = model(x).sum()\n"
            "slope = torch.autograd.grad(out, x, create_graph=True)[0]\nloss = slope.norm()"
        ),
    ],
    "DDP-SUBMODULE": [
        script(),
        script("accelift", **TWO, forward="optimizer.zero_grad()\nloss = F.cross_entropy(model.module.head(x), y)"),
        script(
            **TWO,
            forward="optimizer.zero_grad()\nwith torch.no_grad():\n    h = accelerator.unwrap_model(model).encoder(x)\n"
            "loss = F.cross_entropy(model(h)[0], y)",
        ),
        script(
            **TWO,
            forward="optimizer.zero_grad()\nout = model(x)[0] + accelerator.unwrap_model(model).head(x)\n"
            "loss = F.cross_entropy(out, y)",
        ),
        script(
            model="encoder, decoder = nn.Linear(8, 8), nn.Linear(8, 3)\nmodel = nn.Sequential(encoder, decoder)",
            prepare="encoder, decoder, loader = accelerator.prepare(encoder, decoder, loader)",
            forward="loss = F.cross_entropy(decoder(encoder(x)), y)",
        ),
    ],
    "PREP-FROZEN": [
        script(before=TEACHER),
        script("accelift", before=f"{TEACHER}\nteacher = accelerator.prepare(teacher)"),
        script(before=f"{TEACHER}\nteacher.layer = nn.Linear(8, 3)\nteacher = accelerator.prepare(teacher)"),
        script(before=f"{TEACHER}\nteacher.layer.requires_grad_(True)\nteacher = accelerator.prepare(teacher)"),
        script(before=f"{TEACHER}\nadd_adapters(teacher)\nteacher = accelerator.prepare(teacher)"),
        script(before=f"{TEACHER}\nteacher = accelerator.prepare_model(teacher, evaluation_mode=True)"),
        script(prepare=f"if frozen():\n    model.requires_grad_(False)\n{ALL}"),
    ],
    "PREP-TWICE": [
        script(),
        script(before="other = accelerator.prepare(Net())"),
        script(
            prepare="if torch.cuda.is_available():\n    model, loader = accelerator.prepare(model, loader)\n"
            "else:\n    model = accelerator.prepare(model)"
        ),
    ],
    "PREP-FLAG-COPY": [
        script(after="torch.save(accelerator.unwrap_model(model), 'model.pt')"),
        script(
            model="model = torch.load('model.pt', weights_only=False)",
            after="torch.save(accelerator.unwrap_model(model).state_dict(), 'model.pt')",
        ),
        script("accelift", model="model = torch.load('model.pt')", after="torch.save(model, 'model.pt')"),
    ],
    "CKPT-KEYS": [
        script(before="accelerator.unwrap_model(model).load_state_dict(torch.load('model.pt'))"),
        script(model="model = Net()\nmodel.load_state_dict(torch.load('model.pt'))"),
        script("accelift", before="model.load_state_dict(torch.load('model.pt'))"),
    ],
    "OPT-ATTR": [
        script(prepare=WITH_SCHEDULER, epoch_end="print(scheduler.get_last_lr(), optimizer.param_groups)"),
        script("accelift", prepare=WITH_SCHEDULER, epoch_end="print(scheduler.last_epoch)"),
        script(before=SCHEDULER, epoch_end="print(scheduler.last_epoch)"),
        script(prepare=WITH_SCHEDULER, epoch_end="print(scheduler.scheduler.last_epoch)"),
        script(before="if hasattr(optimizer, 'swap'):\n    optimizer.swap()"),
    ],
    "OPT-WRAPPER": [
        script(),
        script(step="optimizer.step(lambda: None)"),
        script("accelift", prepare=f"group = optimizer.param_groups[0]\n{ALL}", before='group["lr"] = 0.2'),
        script(prepare=f'group = optimizer.param_groups[0]\ngroup["lr"] = 0.2\n{ALL}'),
        script(before='group = optimizer.param_groups[0]\ngroup["lr"] = 0.2'),
    ],
    "AMP-MULTIOPT": [
        script(device='accelerator = Accelerator(mixed_precision="fp16")'),
        script(
            device='accelerator = Accelerator(mixed_precision="bf16")',
            before="second = accelerator.prepare(torch.optim.SGD(model.parameters(), lr=0.1))",
            step="optimizer.step()\nsecond.step()",
        ),
        script(
            device='accelerator = Accelerator(mixed_precision="fp16")',
            before="second = accelerator.prepare(torch.optim.SGD(model.parameters(), lr=0.1))",
            step="optimizer.step()\naccelerator.backward(model(x).mean())\nsecond.step()",
        ),
    ],
    "DATA-SAMPLER-RNG": [
        script(),
        script(
            imports=NUMPY,
            setup="np.random.seed(0)",
            definitions=SAMPLER,
            loader="loader = DataLoader(data, sampler=Shuffled(data))",
        ),
        script(
            "accelift", imports=NUMPY, definitions=SAMPLER, loader="loader = DataLoader(data, sampler=Shuffled(data))"
        ),
        script(
            imports=NUMPY,
            definitions=SAMPLER.replace("np.random.permutation", "np.random.default_rng(1).permutation"),
            loader="loader = DataLoader(data, sampler=Shuffled(data))",
        ),
        script(
            from_imports="from torch.utils.data import Subset",
            setup="order = torch.randperm(64, generator=torch.Generator()).tolist()",
            loader="loader = DataLoader(Subset(data, order[:48]), batch_size=16, shuffle=True)",
        ),
    ],
    "DATA-TAIL": [
        script("accelift"),
        script(loader="loader = DataLoader(data, batch_size=16, drop_last=True)"),
        script(loader="loader = DataLoader(data, **settings)"),
        script(
            **CONFIG,
            device=UNEVEN,
            loop="with accelerator.join_uneven_inputs([model]):\n    for x, y in loader:\n        pass\nfor i in []:",
        ),
    ],
    "DATA-BUCKET": [
        script(),
        script("accelift", definitions=BUCKETS, loader=BUCKETED),
        script(definitions=BUCKETS.replace("len(bucket),", "len(bucket) - self.batch_size + 1,"), loader=BUCKETED),
        script(definitions=BUCKETS.replace("self.batch_size", "self.size"), loader=BUCKETED),
        script(
            definitions=BUCKETS.replace(
                "                yield", "                if start + 1 < len(bucket):\n                    yield"
            ),
            loader=BUCKETED,
        ),
    ],
    "RNG-LOOKAHEAD": [
        script(setup=SEED, definitions=NOISY, data="data = Noisy()"),
        script(setup=SEED, forward=NOISE),
        script(definitions=NOISY, data="data = Noisy()", forward=NOISE),
        script("accelift", setup=SEED, definitions=NOISY, data="data = Noisy()", forward=NOISE),
        script(
            setup=SEED,
            definitions=NOISY,
            data="data = Noisy()",
            loader="loader = DataLoader(data, batch_size=16, num_workers=2)",
            forward=NOISE,
        ),
        script(
            setup=SEED,
            definitions=NOISY.replace("torch.randn(8)", "torch.randn(8, generator=torch.Generator())"),
            data="data = Noisy()",
            forward=NOISE,
        ),
    ],
    "RNG-SAMENOISE": [
        script(setup=SEED),
        script(forward=NOISE),
        script(
            from_imports="from accelerate.utils import set_seed",
            before="set_seed(0, device_specific=True)",
            setup=SEED,
            forward=NOISE,
        ),
        script(before="torch.manual_seed(accelerator.process_index)", forward=NOISE),
        script(imports=NUMPY, setup="np.random.seed(0)", forward=NOISE),
        script(setup=SEED, after="noise = torch.randn(8)"),
        script(setup=SEED, move="x = x.flip(1) if torch.rand(1) < 0.5 else x"),  # they have to decide alike
    ],
    "METRIC-DIM0": [
        script(batch_end="print(accelerator.gather(loss).mean().item())"),
        script(batch_end="print(accelerator.gather(y).item())"),
        script(batch_end="print(accelerator.reduce(loss).item())"),
        script(batch_end="losses = accelerator.gather(loss)\nprint(losses.sum().item())"),
        script(batch_end="if accelerator.num_processes == 1:\n    print(accelerator.gather(loss).item())"),
        script(batch_end="print(accelerator.gather(F.cross_entropy(model(x), y, reduction='none')).item())"),
    ],
    "GATHER-SHAPE": [
        script(batch_end="z = accelerator.gather(y)[accelerator.gather(y) != 2]"),
        script(batch_end="z = accelerator.gather(accelerator.pad_across_processes(y[y != 2]))"),
        script(batch_end="z = accelerator.gather(y[:4])"),
        script(batch_end="keep = torch.arange(8)\nz = accelerator.gather(y[keep])"),
        script(batch_end="z = accelerator.gather_for_metrics(y[y != 2], use_gather_object=True)"),
        script(before="z = accelerator.gather(torch.nonzero(torch.eye(3)))"),
    ],
    "DEV-IMPORT-ORDER": [
        script(imports="from accelerate import PartialState", before="state = PartialState()"),
        script(
            imports="from accelerate import PartialState", device="state = PartialState()\naccelerator = Accelerator()"
        ),
        script(
            imports="from accelerate import PartialState",
            device="state = PartialState(cpu=True)\naccelerator = Accelerator(cpu=True)",
        ),
        script(device="first = Accelerator()\naccelerator = Accelerator()"),
    ],
    "LOSS-MASKMEAN": [
        script(),
        script(
            "accelift",
            forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y, ignore_index=2)",
            backward="accelerator.backward(loss, weight=(y != 2).sum())",
        ),
        script(
            forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y, ignore_index=2, reduction='sum')\n"
            "total = accelerator.reduce((y != 2).sum(), reduction='sum')",
            backward="accelerator.backward(loss * accelerator.num_processes / total)",
        ),
        script(forward="optimizer.zero_grad()\nloss = (model(x) * (y > 0)[:, None]).mean()"),
        script(
            definitions="def collate(batch):\n    xs, ys = zip(*batch)\n    return torch.stack(xs), torch.stack(ys)",
            loader="loader = DataLoader(data, batch_size=16, collate_fn=collate)",
        ),
    ],
    "LOSS-INBATCH": [
        script(),
        script(
            forward="optimizer.zero_grad()\na, b = model(x), model(x * 2)\n"
            "b = torch.cat(torch.distributed.nn.functional.all_gather(b))\n"
            "loss = F.cross_entropy(a @ b.T, torch.arange(len(x)))"
        ),
        script(forward="optimizer.zero_grad()\nloss = (model(x) * model(x * 2)).sum(1).mean()"),
    ],
}


@pytest.mark.parametrize(("code", "text"), [(c, t) for c, ts in WRONG.items() for t in ts])
def test_what_is_wrong_is_found(code: str, text: str) -> None:
    assert [f.line for f in findings(text, code)] == marked(text)
    assert len(marked(text)) == 1


@pytest.mark.parametrize(("code", "text"), [(c, t) for c, ts in RIGHT.items() for t in ts])
def test_what_is_right_is_not(code: str, text: str) -> None:
    assert findings(text, code) == []


def test_both_lists_have_every_lint() -> None:
    assert WRONG.keys() == RIGHT.keys()
    assert all(len(RIGHT[code]) >= 3 for code in RIGHT)


def test_messages_name_objects_consequence_and_path() -> None:
    (found,) = findings(WRONG["DDP-UNFREEZE"][0], "DDP-UNFREEZE")
    assert found.message == (
        "`accelerator.unwrap_model(model).layer.requires_grad_(True)` unfreezes what was frozen when "
        "`accelerator.prepare` wrapped the model: its gradients are not averaged, and the processes drift apart"
    )
    assert [e.text for e in found.evidence] == [f"`{FREEZE}` freezes it", f"`{ALL.partition(' = ')[2]}`"]
    (found,) = findings(WRONG["GATHER-SHAPE"][0], "GATHER-SHAPE")
    assert found.message == (
        "`y[y != 2]` has another length on every process, and `accelerator.gather` joins equal shapes only: the job "
        "ends, or hangs"
    )


def test_a_wrapper_of_another_kind_is_not_reported() -> None:
    text = WRONG["PREP-FROZEN"][0].replace("Accelerator()", "Accelerator(fsdp_plugin=plugin())")
    assert findings(text, "PREP-FROZEN") == []
