"""Whole training scripts, from a seed."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tests.generated.chance import Chance, Stage, block
from tests.generated.pieces import data, devices, evaluation, extras, models, settings, training
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
    "islice": "from itertools import islice",
    "SimpleNamespace": "from types import SimpleNamespace",
    "np": "import numpy as np",
    "torch": "import torch",
    "nn": "import torch.nn as nn",
    "F": "import torch.nn.functional as F",
    "optim": "import torch.optim as optim",
    "accuracy_score": "from sklearn.metrics import accuracy_score",
    "f1_score": "from sklearn.metrics import f1_score",
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


@dataclass(frozen=True)
class Script:
    """A generated script, and what it has."""

    seed: int
    text: str
    traits: tuple[str, ...]


def generate(seed: int) -> Script:
    """The script of a seed: always the same one."""
    chance = Chance(seed)
    kind = chance.named("kind", {"usual": _usual, "gan": _gan}, {"usual": 12})
    body = Arrangement(chance, kind(chance)).text()
    return Script(seed, with_imports(body), tuple(chance.traits))


def with_imports(body: str) -> str:
    """A script with the imports that it needs."""
    used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    lines = [line for name, line in _IMPORTS.items() if name in used]
    if classes := [name for name in _DATA if name in used]:
        lines.append(f"from torch.utils.data import {', '.join(classes)}")
    return "\n".join(lines) + "\n\n\n" + body


def _usual(chance: Chance) -> Parts:
    """One network, one optimizer, labelled data."""
    labels = chance.named("labels", {name: name for name in _OUTPUTS}, {"classes": 6, "numbers": 2})
    device = devices.device(chance)
    config, configure, size = settings.settings(chance, device)
    samples = data.data(chance, labels, size)
    model = models.model(chance, device, labels, _OUTPUTS[labels])
    optimizer = models.optimizer(chance, model)
    scheduler, schedule = models.schedule(chance, samples.sized)
    extra = extras.extra(chance, device, model, labels)
    train = training.training(chance, device, samples, model, schedule, labels, extra)
    evaluate = evaluation.evaluation(chance, device, samples, model, labels, f"({train.loss})")
    before, finish = evaluation.epoch_end(chance, schedule)
    kept = tuple(name for name in ("best", "kept", "bad", "history") if f"${name}" in before)
    final = evaluation.final(chance, model, labels)
    final = Stage(final.name, block(final.code, extra.end))
    definitions = [config, samples.definitions, model.definitions, train.definitions, extra.definitions]
    if "AverageMeter" in evaluate.code and not train.definitions:
        definitions.append(training.METER)
    made = Stage("prepare_model", extra.made, extra.binds, ("model",) if "$model = " in extra.made else ())
    ready = Stage("load", extra.ready)
    setup = [
        configure,
        devices.stage(device),
        samples.stage,
        model.stage,
        made,
        optimizer,
        scheduler,
        ready,
        train.made,
    ]
    needs_metric = "$metric" in finish.code
    epoch = [train.loop, evaluate, finish] if needs_metric or chance.maybe(0.6) else [train.loop, finish]
    return Parts(setup, before, epoch, final, kept, definitions)


def _gan(chance: Chance) -> Parts:
    """Two networks, two optimizers, data without labels."""
    device = devices.device(chance)
    config, configure, size = settings.settings(chance, device)
    samples = data.single(chance, size)
    networks = extras.gan(chance, device)
    setup = [configure, devices.stage(device), samples.stage, *networks.made]
    return Parts(setup, "", [networks.loop], networks.end, definitions=[config, networks.definitions])
