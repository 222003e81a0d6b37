"""A plain script, to be traced."""

import sys
from pathlib import Path

import torch
from torch import nn

assert __name__ == "__main__" and sys.path[0] == str(Path(__file__).resolve().parent)
model = nn.Linear(2, 1)
optimizers = [
    torch.optim.SGD(model.parameters(), lr=0.5),
    torch.optim.Adam([{"params": [model.weight], "lr": 0.1}, {"params": [model.bias], "lr": 0.2}]),
]
for step in range(4):
    model(torch.randn(3, 2)).sum().backward()
    optimizers[step % 2].step()
print("arguments", sys.argv[1:], "end")
if "--fail" in sys.argv:
    raise KeyError("on purpose")
if "--exit" in sys.argv:
    sys.exit(7)
