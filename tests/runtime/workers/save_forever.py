"""Saves bigger and bigger objects to one file until it is killed."""

import sys

import torch
from accelift import Accelerator

acc = Accelerator(cpu=True)
print("ready", flush=True)
count = 0
while True:
    count += 1
    acc.save({"count": count, "values": torch.full((count % 50 * 20_000,), float(count))}, sys.argv[1])
