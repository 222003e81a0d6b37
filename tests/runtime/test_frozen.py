"""`accelift verify` with chance frozen: what a step draws is the same for every sample, however many there are."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import numpy
import torch
from accelift.recorder.frozen import Frozen

frozen = Frozen(lambda: True)
frozen.install()
DRAWS = {
    "randn": lambda n: torch.randn(n, 3),
    "hidden states": lambda n: torch.randn(2, n, 3).transpose(0, 1),
    "rand_like": lambda n: torch.rand_like(torch.ones(n, 3)),
    "randint": lambda n: torch.randint(2, 100, (n, 3)),
    "randint_like": lambda n: torch.randint_like(torch.ones(n, 3), 2, 100),
    "randint_like, named": lambda n: torch.randint_like(torch.ones(n, 3), low=0, high=100),
    "random_": lambda n: torch.empty(n, 3).random_(100),
    "random_ of numbers": lambda n: torch.empty(n, dtype=torch.long).random_(2, 100),
    "normal_": lambda n: torch.empty(n, 3).normal_(1.0, 2.0),
    "uniform_": lambda n: torch.empty(n, 3).uniform_(-1, 1),
    "exponential_": lambda n: torch.empty(n, 3).exponential_(),
    "log_normal_": lambda n: torch.empty(n, 3).log_normal_(),
    "cauchy_": lambda n: torch.empty(n, 3).cauchy_(),
    "geometric_": lambda n: torch.empty(n, 3).geometric_(0.1),
    "bernoulli_": lambda n: torch.empty(n, 30).bernoulli_(0.5),
    "normal": lambda n: torch.normal(torch.zeros(n, 3), 1.0),
    "bernoulli": lambda n: torch.bernoulli(torch.full((n, 30), 0.5)),
    "sequences": lambda n: torch.empty(n, 2, 3).normal_(),
    "numpy": lambda n: torch.tensor(numpy.random.normal(0, 1, (n, 3))),
}
for name, draw in DRAWS.items():
    frozen.begin()
    many, again = draw(6), draw(6)
    frozen.begin()
    few = draw(2)
    assert (many == many[:1]).all() and (many[:2] == few).all() and many.dtype == few.dtype, name
    assert not (many == again).all(), name  # another draw of the step is another number
print("alike")
"""


def test_draws_go_with_the_samples() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "alike\n"
