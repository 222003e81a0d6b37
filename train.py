import torch
from torch.utils.data import DataLoader, TensorDataset

from net import Net
from engine import train

torch.manual_seed(0)
from data import loader

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, loader, optimizer)
