"""A script to be recorded: prints the median time of a training step, of a small model and of one with real work.

python benchmarks/recorded.py small|large
"""

from __future__ import annotations

import sys
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

STEPS = 200

torch.manual_seed(0)
torch.set_num_threads(1)
if sys.argv[1] == "small":
    model: nn.Module = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
    inputs = torch.randn(8 * STEPS, 32)
else:
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(36864, 32),
        nn.Linear(32, 10),
    )
    inputs = torch.randn(8 * STEPS, 1, 28, 28)
data = TensorDataset(inputs, torch.randint(10, (8 * STEPS,)))
optimizer = torch.optim.Adam(model.parameters())
times = []
begun = time.perf_counter()
for x, y in DataLoader(data, 8, shuffle=True):
    optimizer.zero_grad()
    cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    now = time.perf_counter()
    times.append(now - begun)
    begun = now
print("median step", sorted(times)[len(times) // 2])
