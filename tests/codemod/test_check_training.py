"""`accelift check` finds training that computes something else on several processes, and right training right."""

from __future__ import annotations

import pytest

from tests.codemod.checks import findings, marked, script

K = "accelerator = Accelerator(gradient_accumulation_steps=4)"
OURS_K = "accelerator = Accelerator(gradient_accumulation_steps=4, dataloader_config=DataLoaderConfiguration())"
CLIPPED = "accelerator.clip_grad_norm_(model.parameters(), 1.0)"
SCHEDULER = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)"
PLATEAU = "scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)"
LINEAR = "scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters={})"
ALL = "model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)"
MODEL_AND_OPTIMIZER = "model, optimizer = accelerator.prepare(model, optimizer)"


def accumulating(
    before: str = "",
    loss: str = "F.cross_entropy(model(x), y)",
    after: str = "",
    library: str = "accelerate",
    **slots: str,
) -> str:
    """A script that accumulates; `before` and `after` stand before the forward pass and after backward."""
    inside = [
        before,
        f"loss = {loss}",
        "accelerator.backward(loss)",
        after,
        "optimizer.step()",
        "optimizer.zero_grad()",
    ]
    body = "\n".join(f"    {line}" for part in inside if part for line in part.split("\n"))
    made = OURS_K if library == "accelift" else K
    return script(
        library,
        **{
            "device": made,
            "forward": f"with accelerator.accumulate(model):\n{body}",
            "backward": "",
            "step": "",
            **slots,
        },
    )


SUBCLASS = "class Loader(DataLoader):\n    def __iter__(self):\n        return iter([])\n"
FREE = "scale = nn.Parameter(torch.ones(1))\noptimizer = torch.optim.SGD([*model.parameters(), scale], lr=0.1)"
FREE_HERE = FREE.replace("lr=0.1)", "lr=0.1)  # HERE")

BACKWARD_HERE = "accelerator.backward(loss)  # HERE"
SKLEARN = "from sklearn.model_selection import train_test_split"

SECOND = "second = Accelerator(gradient_accumulation_steps=1)"

WRONG = {
    "DATA-SPLIT-UNSEEDED": [
        script(
            from_imports="from torch.utils.data import random_split",
            before="train_set, test_set = random_split(data, [50, 14])  # HERE",
        ),
        script(
            "accelift",
            imports="import torch.utils.data as tud",
            before="parts = tud.random_split(data, (32, 32))  # HERE",
        ),
        script(from_imports=SKLEARN, before="a, b = train_test_split(range(64), test_size=0.2)  # HERE"),
        script(from_imports=SKLEARN, before="a, b = train_test_split(range(64), random_state=None)  # HERE"),
    ],
    "DATA-SUBCLASS": [
        script(
            definitions=SUBCLASS,
            loader="loader = Loader(data)",
            prepare="model, optimizer, loader = accelerator.prepare(model, optimizer, loader)  # HERE",
        ),
        script(
            definitions=SUBCLASS.replace("__iter__", "__len__"),
            before="other = accelerator.prepare(Loader(data))  # HERE",
        ),
    ],
    "DDP-FREEPARAM": [
        script(optimizer=FREE_HERE),
        script(
            optimizer="bias = torch.nn.parameter.Parameter(torch.zeros(3))\n"
            "groups = list(model.parameters()) + [bias]\noptimizer = torch.optim.Adam(groups)"
        ).replace("[bias]", "[bias]  # HERE"),
    ],
    "EVAL-REPLICATED": [
        script(after="for x, y in DataLoader(data):  # HERE\n    model(x)"),
        script("accelift", after="held = DataLoader(data)\nfor i, (x, y) in enumerate(held):  # HERE\n    model(x)"),
    ],
    "BATCH-SCALE": [
        script(loader="loader = DataLoader(data, batch_size=16, shuffle=True)  # HERE"),
        script("accelift", device="accelerator = Accelerator()", loader="loader = DataLoader(data)  # HERE"),
    ],
    "ACC-DIV": [
        accumulating(loss="F.cross_entropy(model(x), y) / 4  # HERE"),
        accumulating(loss="F.cross_entropy(model(x), y) / accelerator.gradient_accumulation_steps  # HERE"),
        accumulating(loss="F.cross_entropy(model(x), y)\nloss /= 4  # HERE"),
        accumulating(loss="F.cross_entropy(model(x), y) / 4  # HERE", library="accelift"),
        accumulating(
            setup="steps = 4",
            device="accelerator = Accelerator(gradient_accumulation_steps=steps)",
            loss="F.cross_entropy(model(x), y)\nloss = loss / steps  # HERE",
        ),
    ],
    "ACC-TWICE": [
        accumulating(batch_end="with accelerator.accumulate(model):  # HERE\n    pass"),
        accumulating(
            batch_end="with torch.no_grad(), accelerator.accumulate(model):  # HERE\n    pass", library="accelift"
        ),
        accumulating(batch_end="with accelerator.accumulate(model):  # HERE\n    pass", after=SECOND),
    ],
    "ACC-CLIP": [
        accumulating(after=f"{CLIPPED}  # HERE"),
        accumulating(after="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # HERE", library="accelift"),
    ],
    "ACC-NOSTEPS": [
        script(forward="with accelerator.accumulate(model):  # HERE\n    loss = F.cross_entropy(model(x), y)"),
        script("accelift", forward="with accelerator.accumulate(model):  # HERE\n    loss = model(x).mean()"),
    ],
    "ACC-NONE": [
        script(device=K, backward=BACKWARD_HERE),
        script("accelift", device=OURS_K, backward=BACKWARD_HERE),
        script(
            imports="import argparse",
            device="parser = argparse.ArgumentParser()\nparser.add_argument('--steps', type=int, default=1)\n"
            "args = parser.parse_args()\naccelerator = Accelerator(gradient_accumulation_steps=args.steps)",
            backward=BACKWARD_HERE,
            step="if clip:\n    accelerator.clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()",
        ),
        script(device=K, forward="with accelerator.autocast():\n    loss = model(x).mean()", backward=BACKWARD_HERE),
    ],
    "ACC-ZEROFIRST": [
        script(
            device=made,
            forward="with accelerator.accumulate(model):\n    optimizer.zero_grad()  # HERE\n"
            "    loss = F.cross_entropy(model(x), y)\n    accelerator.backward(loss)\n    optimizer.step()",
            backward="",
            step="",
            **more,
        )
        for made, more in ((K, {}), (OURS_K, {"library": "accelift"}))
    ]
    + [accumulating(before="optimizer.zero_grad()  # HERE")],
    "ACC-MODELZERO": [
        accumulating(before="model.zero_grad()  # HERE"),
        accumulating(after="optimizer.step()\nmodel.zero_grad()  # HERE", library="accelift"),
    ],
    "BWD-RAW": [
        script(backward="loss.backward()  # HERE"),
        script("accelift", backward="loss = loss * 2\n(loss + 1).backward()  # HERE"),
        script(
            definitions="def loss_of(net, x, y):\n    return F.cross_entropy(net(x), y)\n",
            forward="optimizer.zero_grad()\nloss = loss_of(model, x, y)",
            backward="loss.backward()  # HERE",
        ),
    ],
    "OPT-UNPREPARED": [
        script(prepare="model, loader = accelerator.prepare(model, loader)", step="optimizer.step()  # HERE"),
        script(
            "accelift",
            prepare="model = accelerator.prepare(model)\nloader = accelerator.prepare(loader)",
            step="optimizer.step()  # HERE",
        ),
    ],
    "MODEL-UNPREPARED": [
        script(
            prepare="optimizer, loader = accelerator.prepare(optimizer, loader)",
            forward="loss = F.cross_entropy(model(x), y)  # HERE",
        ),
        script(
            "accelift",
            prepare="loader = accelerator.prepare(loader)",
            forward="optimizer.zero_grad()\nout = model(x)  # HERE\nloss = F.cross_entropy(out, y)",
        ),
    ],
    "DDP-NOSYNC": [
        script(backward="with accelerator.no_sync(model):  # HERE\n    accelerator.backward(loss)"),
        script("accelift", backward="with accelerator.no_sync(model):  # HERE\n    accelerator.backward(loss)"),
    ],
    "DATA-UNSHARDED": [
        script(prepare=MODEL_AND_OPTIMIZER, loop="for x, y in loader:  # HERE"),
        script("accelift", prepare=MODEL_AND_OPTIMIZER, loop="for i, (x, y) in enumerate(loader):  # HERE"),
        script(
            prepare="draws = iter(loader)  # HERE\n"
            "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)",
            loop="for _ in range(4):",
            move="x, y = next(draws)",
        ),
        script(
            definitions="def train(accelerator, model, loader):\n    for x, y in loader:  # HERE\n"
            "        accelerator.backward(model(x).mean())\n",
            prepare=MODEL_AND_OPTIMIZER,
            loop="train(accelerator, model, loader)",
            move="",
            forward="",
            backward="",
            step="",
        ),
    ],
    "DATA-DOUBLESHARD": [
        script(
            from_imports="from torch.utils.data import DistributedSampler",
            loader="loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))",
            prepare="model, optimizer, loader = accelerator.prepare(model, optimizer, loader)  # HERE",
        ),
        script(
            from_imports="from torch.utils.data import DistributedSampler",
            before="train = accelerator.prepare(DataLoader(data, sampler=DistributedSampler(data)))  # HERE",
        ),
        script(
            "accelift",
            data="data = torch.arange(512.0)[accelerator.process_index :: accelerator.num_processes]",
            prepare="model, optimizer, loader = accelerator.prepare(model, optimizer, loader)  # HERE",
        ),
        script(
            from_imports="from torch.utils.data import Subset",
            before="loader = DataLoader(Subset(data, range(accelerator.process_index, 64, 2)), batch_size=4)\n"
            "loader = accelerator.prepare(loader)  # HERE",
        ),
    ],
    "LOSS-SUM": [
        script(
            forward="loss = F.cross_entropy(model(x), y, reduction='sum')",
            backward="accelerator.backward(loss)  # HERE",
        ),
        script(
            "accelift",
            before="criterion = nn.CrossEntropyLoss(reduction='sum')",
            backward="accelerator.backward(criterion(model(x), y))  # HERE",
        ),
    ],
    "SCHED-EPOCH": [
        script(prepare=f"{SCHEDULER}\n{ALL}", epoch_end="scheduler.step()  # HERE"),
        script(
            prepare=f"{SCHEDULER.replace('StepLR(optimizer, 1)', 'MultiplicativeLR(optimizer, abs)')}\n{ALL}",
            epoch_end="scheduler.step(epoch)  # HERE",
        ),
        script(
            definitions="def train(accelerator, model, loader):\n    for x, y in loader:\n"
            "        accelerator.backward(model(x).mean())\n",
            prepare=f"{SCHEDULER}\n{ALL}",
            loop="train(accelerator, model, loader)",
            move="",
            forward="",
            backward="",
            step="scheduler.step()  # HERE",
        ).replace("        scheduler.step()  # HERE", "    scheduler.step()  # HERE"),
    ],
    "SCHED-PLATEAU": [
        script(prepare=f"{PLATEAU}\n{ALL}", epoch_end="scheduler.step(loss.item())  # HERE"),
        script(prepare=f"{PLATEAU}\n{ALL}", epoch_end="if epoch:\n    scheduler.step(1)  # HERE"),
    ],
    "SCHED-LEN": [
        script(
            prepare="model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n"
            f"{LINEAR.format('len(loader) * 2')}  # HERE\nscheduler = accelerator.prepare(scheduler)",
            step="optimizer.step()\nscheduler.step()",
        ),
        script(
            prepare=f"total = 2 * len(loader)\n{LINEAR.format('total')}  # HERE\n"
            "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)",
            step="optimizer.step()\nscheduler.step()",
        ),
    ],
    "SCHED-UNPREPARED": [
        accumulating(
            before="scheduler.step()  # HERE",
            optimizer=f"optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n{SCHEDULER}",
        ),
        accumulating(
            after="scheduler.step()  # HERE",
            optimizer=f"optimizer = torch.optim.Adam(model.parameters())\n{SCHEDULER}",
            library="accelift",
        ),
    ],
}
RIGHT = {
    "DATA-SPLIT-UNSEEDED": [
        script(
            from_imports="from torch.utils.data import random_split",
            setup="torch.manual_seed(1)",
            before="train_set, test_set = random_split(data, [50, 14])",
        ),
        script(
            from_imports="from torch.utils.data import random_split",
            before="parts = random_split(data, [50, 14], torch.Generator())",
        ),
        script(from_imports=SKLEARN, before="a, b = train_test_split(range(64), random_state=3)"),
        script(from_imports=SKLEARN, before="a, b = train_test_split(range(64), shuffle=False)"),
        script(from_imports=SKLEARN, before="a, b = train_test_split(range(64), **{'random_state': 3})"),
        script(
            imports="import numpy as np",
            from_imports=SKLEARN,
            setup="np.random.seed(3)",
            before="train_test_split([1, 2])",
        ),
        script(
            from_imports="from torch.utils.data import random_split",
            imports="from project import set_all_seeds",
            before="set_all_seeds()\nparts = random_split(data, [50, 14])",
        ),
    ],
    "DATA-SUBCLASS": [
        script(),
        script("accelift", definitions=SUBCLASS, loader="loader = Loader(data)"),
        script(definitions="class Loader(DataLoader):\n    pass\n", loader="loader = Loader(data)"),
    ],
    "DDP-FREEPARAM": [
        script(),
        script("accelift", optimizer=FREE),
        script(before="scale = nn.Parameter(torch.ones(1))\nother = torch.optim.SGD([scale], lr=0.1)"),
    ],
    "EVAL-REPLICATED": [
        script(after="for x, y in loader:\n    model(x)"),
        script(after="if accelerator.is_main_process:\n    for x, y in DataLoader(data):\n        model(x)"),
        script(after="for x, y in DataLoader(data):\n    print(len(x))"),
    ],
    "BATCH-SCALE": [
        script("accelift"),
        script(before="rate = 0.1 * accelerator.num_processes"),
    ],
    "ACC-DIV": [
        accumulating(),
        accumulating(loss="F.cross_entropy(model(x), y) / 2"),
        accumulating(before="scale = 4", loss="F.cross_entropy(model(x) / 4, y)"),
        script(forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y) / 4"),
        accumulating(after="accelerator.print(loss / 4)"),
        accumulating(after="total = 0.0\ntotal += loss.item() / 4"),
    ],
    "ACC-TWICE": [
        accumulating(),
        accumulating(epoch_end="with accelerator.accumulate(model):\n    pass"),
        accumulating(
            batch_end="with second.accumulate(model):\n    pass\nwith second.accumulate(model):\n    pass", after=SECOND
        ),
        script(
            device=K,
            forward="if epoch:\n    with accelerator.accumulate(model):\n        loss = model(x).mean()\n"
            "else:\n    with accelerator.accumulate(model):\n        loss = model(x).sum()",
        ),
    ],
    "ACC-CLIP": [
        accumulating(after=f"if accelerator.sync_gradients:\n    {CLIPPED}"),
        script(backward=f"accelerator.backward(loss)\n{CLIPPED}"),
        accumulating(after=f"if step_is_due():\n    {CLIPPED}"),
    ],
    "ACC-NONE": [
        accumulating(),
        script(),
        script(device=K.replace("4", "1")),
        script(device=f"{K}\naccelerator.gradient_accumulation_steps = 1"),
        script(device=K, step="if step_is_due():\n    optimizer.step()"),
        script(device=K, backward="accelerator.backward(loss)\nif not step_is_due():\n    continue"),
        script(device=K, forward="loss = 4 * F.cross_entropy(model(x), y)"),
        script(device=K, backward="for part in loss:\n    accelerator.backward(part)"),
        script(device=K, backward="if step_is_due():\n    accelerator.backward(loss)\n    optimizer.step()", step=""),
        script(device=K, backward="with accelerator.no_sync(model):\n    accelerator.backward(loss)"),
        script(device="accelerator = Accelerator(gradient_accumulation_steps=4, deepspeed_plugin=plugin())"),
    ],
    "ACC-NOSTEPS": [
        accumulating(),
        script(),
        script(
            device="accelerator = Accelerator()\naccelerator.gradient_accumulation_steps = 4",
            forward="with accelerator.accumulate(model):\n    loss = F.cross_entropy(model(x), y)",
        ),
        script(
            device="settings = load()\naccelerator = Accelerator(**settings)",
            forward="with accelerator.accumulate(model):\n    loss = F.cross_entropy(model(x), y)",
        ),
    ],
    "ACC-ZEROFIRST": [accumulating(), script(), accumulating(loop="for x, y in loader:\n    optimizer.zero_grad()")],
    "ACC-MODELZERO": [
        accumulating(),
        script(step="optimizer.step()\nmodel.zero_grad()"),
        accumulating(after="if accelerator.sync_gradients:\n    model.zero_grad()"),
    ],
    "BWD-RAW": [
        script(),
        script("accelift"),
        script(definitions="def never_called(x):\n    model(x).sum().backward()\n"),
        script(after="other = nn.Linear(8, 3)\nother(torch.ones(1, 8)).sum().backward()"),
    ],
    "OPT-UNPREPARED": [
        script(),
        script("accelift", prepare="optimizer = accelerator.prepare(optimizer)\nmodel = accelerator.prepare(model)"),
        script(after="other = nn.Linear(8, 3)\nsgd = torch.optim.SGD(other.parameters(), lr=0.1)\nsgd.step()"),
        script(prepare="things = load()\nmodel, loader, optimizer = accelerator.prepare(model, loader, *things)"),
    ],
    "MODEL-UNPREPARED": [
        script(),
        script("accelift", prepare="optimizer, loader = accelerator.prepare(optimizer, loader)"),
        script(
            before="teacher = Net()",
            forward="with torch.no_grad():\n    soft = teacher(x)\noptimizer.zero_grad()\n"
            "loss = F.mse_loss(model(x), soft)",
        ),
    ],
    "DDP-NOSYNC": [
        script(),
        script(
            loop="for i, (x, y) in enumerate(loader):",
            backward="if i % 2:\n    with accelerator.no_sync(model):\n        accelerator.backward(loss)\n"
            "else:\n    accelerator.backward(loss)",
        ),
        script(
            loop="for i, (x, y) in enumerate(loader):",
            backward="with accelerator.no_sync(model):\n    accelerator.backward(loss)",
            step="if i == 3:\n    optimizer.step()",
        ),
    ],
    "DATA-UNSHARDED": [
        script(),
        script(
            prepare="model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\ndraws = iter(loader)",
            loop="for _ in range(4):",
            move="x, y = next(draws)",
        ),
        script(
            prepare="draws = iter(loader)\nfirst = next(draws)\n"
            "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\ndraws = iter(loader)",
            loop="for _ in range(4):",
            move="x, y = next(draws)",
        ),
        script(
            from_imports="from torch.utils.data import DistributedSampler",
            loader="loader = DataLoader(data, sampler=DistributedSampler(data))",
            prepare=MODEL_AND_OPTIMIZER,
        ),
        script(imports="from project import make", loader="loader = make(data)", prepare=MODEL_AND_OPTIMIZER),
        script(
            data="data = torch.arange(64.0)[accelerator.process_index :: 2]",
            prepare=MODEL_AND_OPTIMIZER,
        ),
    ],
    "DATA-DOUBLESHARD": [
        script(),
        script(
            "accelift",
            from_imports="from torch.utils.data import DistributedSampler",
            loader="loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))",
        ),
        script(
            from_imports="from torch.utils.data import DistributedSampler, RandomSampler",
            loader="several = torch.cuda.device_count() > 1\n"
            "sampler = DistributedSampler(data) if several else RandomSampler(data)\n"
            "loader = DataLoader(data, batch_size=16, sampler=sampler)",
        ),
        script(data="data = torch.arange(64.0)[3::2]"),
    ],
    "LOSS-SUM": [
        script(),
        script(
            forward="loss = F.cross_entropy(model(x), y, reduction='sum') / len(x)",
        ),
        script(
            "accelift",
            forward="loss = F.cross_entropy(model(x), y, reduction='sum')",
            backward="accelerator.backward(loss, reduction='sum')",
        ),
        script(
            forward="loss = F.cross_entropy(model(x), y, reduction='sum')",
            backward="accelerator.backward(loss * accelerator.num_processes)",
        ),
    ],
    "SCHED-EPOCH": [
        script(before=SCHEDULER, epoch_end="scheduler.step()"),
        script(prepare=f"{SCHEDULER}\n{ALL}", epoch_end="scheduler.step(epoch)"),
        script(prepare=f"{SCHEDULER}\n{ALL}", batch_end="scheduler.step()"),
        script("accelift", prepare=f"{SCHEDULER}\n{ALL}", epoch_end="scheduler.step()"),
        script(
            device="accelerator = Accelerator(step_scheduler_with_optimizer=False)",
            prepare=f"{SCHEDULER}\n{ALL}",
            epoch_end="scheduler.step()",
        ),
        script(
            prepare="scheduler = torch.optim.lr_scheduler.StepLR(optimizer, accelerator.num_processes)\n" + ALL,
            epoch_end="scheduler.step()",
        ),
    ],
    "SCHED-PLATEAU": [
        script(before=PLATEAU, epoch_end="scheduler.step(loss.item())"),
        script("accelift", prepare=f"{PLATEAU}\n{ALL}", epoch_end="scheduler.step(loss.item())"),
    ],
    "SCHED-LEN": [
        script(prepare=f"{LINEAR.format('len(loader) * 2')}\n{ALL}", step="optimizer.step()\nscheduler.step()"),
        script(
            before=LINEAR.format("len(loader) * 2"),
            step="optimizer.step()\nscheduler.step()",
        ),
        script(
            prepare="model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n"
            f"{LINEAR.format('len(loader) * accelerator.num_processes')}\nscheduler = accelerator.prepare(scheduler)",
            step="optimizer.step()\nscheduler.step()",
        ),
        script(
            "accelift",
            prepare=f"{LINEAR.format('len(loader)')}\n"
            "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)",
            step="optimizer.step()\nscheduler.step()",
        ),
    ],
    "SCHED-UNPREPARED": [
        accumulating(
            after="scheduler.step()",
            prepare=f"{SCHEDULER}\n{ALL}",
        ),
        accumulating(before=f"{SCHEDULER}\nif accelerator.sync_gradients:\n    scheduler.step()"),
    ],
}


@pytest.mark.parametrize(("code", "text"), [(c, t) for c, texts in WRONG.items() for t in texts])
def test_what_computes_something_else_is_reported(code: str, text: str) -> None:
    assert marked(text)
    assert [f.line for f in findings(text, code)] == marked(text)


@pytest.mark.parametrize(("code", "text"), [(c, t) for c, texts in RIGHT.items() for t in texts])
def test_what_computes_the_same_is_not_reported(code: str, text: str) -> None:
    assert findings(text, code) == []


def test_an_optimizer_that_is_not_prepared_matters_where_something_would_gate_it() -> None:
    plain = script(prepare="model, loader = accelerator.prepare(model, loader)")
    (found,) = findings(plain, "OPT-UNPREPARED")
    assert found.severity.value == "note"
    mixed = script(
        device="accelerator = Accelerator(mixed_precision='fp16')",
        prepare="model, loader = accelerator.prepare(model, loader)",
    )
    (found,) = findings(mixed, "OPT-UNPREPARED")
    assert found.severity.value == "warning"
