"""An optimizer that is given a closure."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import LBFGS
from torch.utils.data import DataLoader

from benchmarks.parity.data import EPOCHS, samples
from benchmarks.parity.library import Library, Parameters, parameters


def regression() -> nn.Module:
    """A linear model: on any other, LBFGS makes much of every rounding, also of torch's own."""
    torch.manual_seed(0)
    return nn.Linear(12, 4)


def searching(model: nn.Module) -> LBFGS:
    """An optimizer that computes the loss as often as it wants."""
    return LBFGS(model.parameters(), max_iter=4, line_search_fn="strong_wolfe")


def distance(predicted: Tensor, y: Tensor) -> Tensor:
    """The loss of the linear model."""
    return F.mse_loss(predicted, F.one_hot(y, 4).float())


def lbfgs() -> Parameters:
    model, loader = regression(), DataLoader(samples(96), 96)
    optimizer = searching(model)
    for _ in range(EPOCHS):
        for x, y in loader:

            def closure(x: Tensor = x, y: Tensor = y) -> float:
                optimizer.zero_grad()
                loss = distance(model(x), y)
                loss.backward()  # type: ignore[no-untyped-call]
                return loss.item()

            optimizer.step(closure)  # type: ignore[no-untyped-call]
    return parameters(model)


def lbfgs_managed(library: Library) -> Parameters:
    accelerator = library.accelerator()
    model = regression()
    model, optimizer, loader = accelerator.prepare(model, searching(model), DataLoader(samples(96), 96))
    for _ in range(EPOCHS):
        for x, y in loader:

            def closure(x: Tensor = x, y: Tensor = y) -> float:
                optimizer.zero_grad()
                loss = distance(model(x), y)
                accelerator.backward(loss)
                return float(accelerator.reduce(loss.detach(), "mean").item())

            optimizer.step(closure)
    return parameters(accelerator.unwrap_model(model))
