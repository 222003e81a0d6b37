"""Whole training scripts, from a seed."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from tests.generated.chance import Chance, Stage, block
from tests.generated.files import ENTRY, STYLES, Files, split
from tests.generated.pieces import data, devices, evaluation, extras, models, passes, settings, several, training
from tests.generated.shapes import Arrangement, Parts

# What an import binds, and the import; only those that are used are written.
_IMPORTS = {
    "argparse": "import argparse",
    "copy": "import copy",
    "os": "import os",
    "random": "import random",
    "deque": "from collections import deque",
    "dataclass": "from dataclasses import dataclass",
    "partial": "from functools import partial",
    "defaultdict": "from collections import defaultdict",
    "math": "import math",
    "chain": "from itertools import chain",
    "islice": "from itertools import islice",
    "SimpleNamespace": "from types import SimpleNamespace",
    "np": "import numpy as np",
    "torch": "import torch",
    "nn": "import torch.nn as nn",
    "F": "import torch.nn.functional as F",
    "optim": "import torch.optim as optim",
    "accuracy_score": "from sklearn.metrics import accuracy_score",
    "confusion_matrix": "from sklearn.metrics import confusion_matrix",
    "f1_score": "from sklearn.metrics import f1_score",
    "mean_squared_error": "from sklearn.metrics import mean_squared_error",
    "precision_recall_fscore_support": "from sklearn.metrics import precision_recall_fscore_support",
    "r2_score": "from sklearn.metrics import r2_score",
    "roc_auc_score": "from sklearn.metrics import roc_auc_score",
    "StepLR": "from torch.optim.lr_scheduler import StepLR",
    "tqdm": "from tqdm import tqdm",
}
_DATA = (
    "BatchSampler",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "RandomSampler",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "random_split",
)
_OUTPUTS = {"classes": 4, "numbers": 1, "binary": 1, "ids": 7}


_KINDS = {"usual": 10, "phases": 2, "run-epoch": 2, "gan": 1, "wasserstein": 1, "encoder": 2}


@dataclass(frozen=True)
class Script:
    """A generated script, with the files that it imports, and what it has."""

    seed: int
    files: Files
    traits: tuple[str, ...]
    by_hand: bool = False  # it makes its batches without a loader

    @property
    def text(self) -> str:
        """The script itself."""
        return self.files[ENTRY]

    @property
    def coarse(self) -> bool:
        """It computes in a dtype of few digits, where sums in another order are others, or carries an average from
        batch to batch: of a smaller last one the processes' shares are not of one size.
        """
        return bool({"precision=bfloat16", "step=balance"} & set(self.traits))


def generate(seed: int) -> Script:
    """The script of a seed: always the same one."""
    chance = Chance(seed)
    make = {
        "usual": _usual,
        "phases": _phases,
        "run-epoch": _run_epoch,
        "gan": _gan,
        "wasserstein": _wasserstein,
        "encoder": _encoder,
    }
    kind = chance.named("kind", make, _KINDS)
    text = with_imports(Arrangement(chance, kind(chance)).text())
    files = {ENTRY: text}
    if chance.maybe(0.2):
        style, count = chance.of(*STYLES), chance.of(2, 2, 3)
        files = split(text, Random(seed), style, count) or files
        chance.traits.append(f"files={len(files)} {style}")
    return Script(seed, files, tuple(chance.traits))


def with_imports(body: str) -> str:
    """A script with the imports that it needs."""
    used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    lines = [line for name, line in _IMPORTS.items() if name in used]
    if classes := [name for name in _DATA if name in used]:
        lines.append(f"from torch.utils.data import {', '.join(classes)}")
    return "\n".join(lines) + "\n\n\n" + body


@dataclass(frozen=True)
class _Begin:
    """What all scripts with labelled data begin with."""

    labels: str
    device: devices.Device
    samples: data.Data
    definitions: list[str]
    setup: list[Stage]


def _begin(chance: Chance, streams: bool = False) -> _Begin:
    labels = chance.named("labels", {name: name for name in _OUTPUTS}, {"classes": 6, "numbers": 2})
    device = devices.device(chance)
    config, configure, size = settings.settings(chance, device)
    samples = data.data(chance, labels, size, streams)
    setup = [configure, devices.stage(device), samples.stage]
    return _Begin(labels, device, samples, [config, samples.definitions], setup)


def _usual(chance: Chance) -> Parts:
    """One network, one optimizer, labelled data."""
    start = _begin(chance, streams=True)
    labels, device, samples = start.labels, start.device, start.samples
    model = models.model(chance, device, labels, _OUTPUTS[labels])
    optimizer = models.optimizer(chance, model)
    scheduler, schedule = models.schedule(chance, samples.sized)
    extra = extras.extra(chance, device, model, labels)
    train = training.training(chance, device, samples, model, schedule, labels, extra)
    evaluate = evaluation.evaluation(chance, device, samples, model.forward, labels, f"({train.loss})")
    before, finish = evaluation.epoch_end(chance, schedule)
    final = evaluation.final(chance, model, labels)
    final = Stage(final.name, block(final.code, extra.end))
    definitions = [*start.definitions, model.definitions, train.definitions, extra.definitions]
    definitions += _helpers(evaluate.code + before, train.loop.code)
    made = Stage("prepare_model", extra.made, extra.binds, ("model",) if "$model = " in extra.made else ())
    ready = Stage("load", extra.ready)
    setup = [*start.setup, model.stage, made, optimizer, scheduler, ready, train.made]
    needs_metric = "$metric" in finish.code
    epoch = [train.loop, evaluate, finish] if needs_metric or chance.maybe(0.6) else [train.loop, finish]
    return Parts(setup, before, epoch, final, _kept(before), definitions)


def _phases(chance: Chance) -> Parts:
    """Loops over phases, that train in one of them."""
    start = _begin(chance)
    model = models.model(chance, start.device, start.labels, _OUTPUTS[start.labels])
    optimizer = models.optimizer(chance, model)
    scheduler, schedule = models.schedule(chance, sized=True, every="epoch", metric=False)
    loss = chance.named("loss", training.LOSSES[start.labels])
    made, before, loop = passes.phases(chance, start.device, start.samples, model, schedule, start.labels, loss.value)
    binds = tuple(name for name in ("loaders",) if f"${name}" in made)
    criterion = Stage("make_loss", training.on_device(chance, start.device, loss.made), _criterion(loss))
    setup = [*start.setup, model.stage, optimizer, scheduler, criterion, Stage("make_loaders", made, binds)]
    loop = replace(loop, updates=tuple(name for name in _kept(before) if name != "history"))
    final = evaluation.final(chance, model, start.labels)
    return Parts(setup, before, [loop], final, _kept(before), [*start.definitions, model.definitions])


def _run_epoch(chance: Chance) -> Parts:
    """One function that trains and evaluates."""
    start = _begin(chance)
    model = models.model(chance, start.device, start.labels, _OUTPUTS[start.labels])
    optimizer = models.optimizer(chance, model)
    scheduler, schedule = models.schedule(chance, sized=True, every="epoch")
    loss = chance.named("loss", training.LOSSES[start.labels])
    function, loop = passes.run_epoch(chance, start.device, start.samples, model, schedule, start.labels, loss.value)
    before, finish = evaluation.epoch_end(chance, schedule)
    criterion = Stage("make_loss", training.on_device(chance, start.device, loss.made), _criterion(loss))
    setup = [*start.setup, model.stage, optimizer, scheduler, criterion]
    final = evaluation.final(chance, model, start.labels)
    definitions = [*start.definitions, model.definitions, function, *_helpers(before)]
    return Parts(setup, before, [loop, finish], final, _kept(before), definitions)


def _kept(before: str) -> tuple[str, ...]:
    """The variables that are bound before the epochs."""
    mentioned = Stage("", before).mentioned
    return tuple(n for n in ("best", "kept", "bad", "history", "epoch_of_best", "stopper") if n in mentioned)


def _helpers(code: str, other: str = "") -> list[str]:
    """The definitions that code needs, if other code does not have them already."""
    known = {"AverageMeter": training.METER, "hit_rate": evaluation.HIT_RATE, "EarlyStopping": evaluation.STOPPER}
    return [text for name, text in known.items() if name in code and name not in other]


def _criterion(loss: training.Loss) -> tuple[str, ...]:
    return ("criterion",) if "$criterion =" in loss.made else ()


def _encoder(chance: Chance) -> Parts:
    """An encoder and a decoder, labelled data."""
    start = _begin(chance)
    labels = "numbers" if start.labels == "ids" else start.labels
    if labels != start.labels:
        return _encoder(chance)
    loss = chance.named("loss", training.LOSSES[labels])
    networks = several.encoder(chance, start.device, start.samples, _OUTPUTS[labels], loss.value)
    evaluate = evaluation.evaluation(
        chance, start.device, start.samples, networks.forward, labels, f"({loss.value})", networks.mode
    )
    show = Stage("finish", 'print("epoch", $epoch, $metric)')
    criterion = Stage("make_loss", training.on_device(chance, start.device, loss.made), _criterion(loss))
    definitions = [*start.definitions, networks.definitions, *_helpers(evaluate.code)]
    setup = [*start.setup, *networks.made, criterion]
    return Parts(setup, "", [networks.loop, evaluate, show], Stage("conclude", networks.end), definitions=definitions)


def _wasserstein(chance: Chance) -> Parts:
    """A generator and a critic."""
    return _adversaries(chance, several.wasserstein)


def _gan(chance: Chance) -> Parts:
    """Two networks, two optimizers, data without labels."""
    return _adversaries(chance, extras.gan)


def _adversaries(chance: Chance, make: Callable[[Chance, devices.Device], several.Several | extras.Gan]) -> Parts:
    device = devices.device(chance)
    config, configure, size = settings.settings(chance, device)
    samples = data.single(chance, size)
    networks = make(chance, device)
    setup = [configure, devices.stage(device), samples.stage, *networks.made]
    final = networks.end if isinstance(networks.end, Stage) else Stage("conclude", networks.end)
    return Parts(setup, "", [networks.loop], final, definitions=[config, networks.definitions])
