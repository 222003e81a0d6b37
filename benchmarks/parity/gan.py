"""Two models that are trained against each other, with an optimizer each."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.parity.data import BATCH, EPOCHS
from benchmarks.parity.library import Library, Parameters, parameters


def pictures() -> DataLoader[Any]:
    """What a GAN is trained on, and the noise that it starts from."""
    generator = torch.Generator().manual_seed(7)
    real, noise = torch.rand(96, 8, generator=generator), torch.randn(96, 4, generator=generator)
    return DataLoader(TensorDataset(real, noise), BATCH, shuffle=True, generator=generator)


def networks() -> tuple[nn.Module, nn.Module]:
    """A generator and a discriminator."""
    torch.manual_seed(0)
    maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8), nn.Sigmoid())
    return maker, nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))


def betas(model: nn.Module) -> Adam:
    """The optimizer of either; its eps keeps rounding from being divided by nothing."""
    return Adam(model.parameters(), lr=2e-3, betas=(0.5, 0.999), eps=1e-4)


def judged(logits: Tensor, real: bool) -> Tensor:
    """The loss of the discriminator."""
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, float(real)))


def gan() -> Parameters:
    maker, judge = networks()
    maker_optimizer, judge_optimizer, loader = betas(maker), betas(judge), pictures()
    for _ in range(EPOCHS):
        for real, noise in loader:
            judge_optimizer.zero_grad()
            fake = maker(noise)
            loss = judged(judge(real), True) + judged(judge(fake.detach()), False)
            loss.backward()  # type: ignore[no-untyped-call]
            judge_optimizer.step()
            maker_optimizer.zero_grad()
            judged(judge(fake), True).backward()  # type: ignore[no-untyped-call]
            maker_optimizer.step()
    return parameters(maker, judge)


def gan_managed(library: Library) -> Parameters:
    accelerator = library.accelerator()
    maker, judge = networks()
    maker, judge, maker_optimizer, judge_optimizer, loader = accelerator.prepare(
        maker, judge, betas(maker), betas(judge), pictures()
    )
    for _ in range(EPOCHS):
        for real, noise in loader:
            judge_optimizer.zero_grad()
            fake = maker(noise)
            loss = judged(judge(real), True) + judged(judge(fake.detach()), False)
            accelerator.backward(loss)
            judge_optimizer.step()
            maker_optimizer.zero_grad()
            accelerator.backward(judged(judge(fake), True))
            maker_optimizer.step()
    return parameters(*map(accelerator.unwrap_model, (maker, judge)))
