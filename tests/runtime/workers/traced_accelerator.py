"""A script with an Accelerator, to be traced on several processes."""

import torch
import torch.nn.functional as F
from accelift import Accelerator, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(1)
acc = Accelerator(cpu=True, split_batches=True)
data = TensorDataset(torch.randn(22, 3), torch.randn(22, 1))
model, loader = nn.Linear(3, 1), DataLoader(data, batch_size=8, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = acc.prepare(model, optimizer, loader)
for x, y in loader:
    optimizer.zero_grad()
    acc.backward(F.mse_loss(model(x), y))
    optimizer.step()
