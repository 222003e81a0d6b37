"""Training a classifier: plainly, with gradient accumulation, in mixed precision, with clipped gradients."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.parity.data import EPOCHS, Loading, network, sgd, shuffled
from benchmarks.parity.library import Library, Parameters, parameters

ACCUMULATION, MAX_NORM = 4, 0.3


def plain(loading: Loading) -> Parameters:
    model, loader = network(), loading()
    optimizer = sgd(model)
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return parameters(model)


def plain_managed(loading: Loading, library: Library) -> Parameters:
    accelerator = library.accelerator()
    model, loader = network(), loading()
    model, optimizer, loader = accelerator.prepare(model, sgd(model), loader)
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            accelerator.backward(F.cross_entropy(model(x), y))
            optimizer.step()
    return parameters(accelerator.unwrap_model(model))


def accumulation() -> Parameters:
    model, loader = network(), shuffled(160)
    optimizer = sgd(model)
    for _ in range(EPOCHS):
        for index, (x, y) in enumerate(loader, 1):
            loss = F.cross_entropy(model(x), y) / ACCUMULATION
            loss.backward()  # type: ignore[no-untyped-call]
            if index % ACCUMULATION == 0 or index == len(loader):
                optimizer.step()
                optimizer.zero_grad()
    return parameters(model)


def accumulation_managed(library: Library) -> Parameters:
    accelerator = library.accelerator(gradient_accumulation_steps=ACCUMULATION)
    model = network()
    model, optimizer, loader = accelerator.prepare(model, sgd(model), shuffled(160))
    for _ in range(EPOCHS):
        for x, y in loader:
            with accelerator.accumulate(model):
                accelerator.backward(F.cross_entropy(model(x), y))
                optimizer.step()
                optimizer.zero_grad()
    return parameters(accelerator.unwrap_model(model))


def scaled() -> Parameters:
    model, loader = network(), shuffled()
    optimizer, scaler = sgd(model), torch.amp.GradScaler("cpu")
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            scaler.step(optimizer)
            scaler.update()
    return parameters(model)


def scaled_kept(library: Library) -> Parameters:
    accelerator = library.accelerator()
    model, scaler = network(), torch.amp.GradScaler("cpu")
    model, optimizer, loader = accelerator.prepare(model, sgd(model), shuffled())
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = F.cross_entropy(model(x), y)
            accelerator.backward(scaler.scale(loss))
            scaler.step(optimizer)
            scaler.update()
    return parameters(accelerator.unwrap_model(model))


def autocast() -> Parameters:
    model, loader = network(), shuffled()
    optimizer = sgd(model)
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = F.cross_entropy(model(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return parameters(model)


def mixed_managed(precision: str, library: Library) -> Parameters:
    accelerator = library.accelerator(mixed_precision=precision)
    model = network()
    model, optimizer, loader = accelerator.prepare(model, sgd(model), shuffled())
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            with accelerator.autocast():
                loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
    return parameters(accelerator.unwrap_model(model))


def clipping() -> Parameters:
    model, loader = network(), shuffled()
    optimizer = sgd(model)
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
            optimizer.step()
    return parameters(model)


def clipping_managed(library: Library) -> Parameters:
    accelerator = library.accelerator()
    model = network()
    model, optimizer, loader = accelerator.prepare(model, sgd(model), shuffled())
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            accelerator.backward(F.cross_entropy(model(x), y))
            accelerator.clip_grad_norm_(model.parameters(), MAX_NORM)
            optimizer.step()
    return parameters(accelerator.unwrap_model(model))
