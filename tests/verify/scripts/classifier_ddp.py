import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, TensorDataset

rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
if world > 1:
    dist.init_process_group("gloo")


class Parts(BatchSampler):
    def __iter__(self):
        for batch in super().__iter__():
            yield batch[rank::world]


torch.manual_seed(3)
digits = load_digits()
images = torch.tensor(digits.data[:300] / 16, dtype=torch.float32)
labels = torch.tensor(digits.target[:300])
train_set = TensorDataset(images[:230], labels[:230])
test_set = TensorDataset(images[230:], labels[230:])
train_loader = DataLoader(train_set, batch_sampler=Parts(RandomSampler(train_set), 16, False))
test_loader = DataLoader(test_set, batch_sampler=Parts(SequentialSampler(test_set), 32, False))

model = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
parallel = DistributedDataParallel(model) if world > 1 else model

for epoch in range(2):
    model.train()
    for inputs, targets in train_loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(parallel(inputs), targets)
        loss.backward()
        optimizer.step()
    scheduler.step()
    model.eval()
    correct, summed = 0, 0.0
    with torch.no_grad():
        for inputs, targets in test_loader:
            outputs = model(inputs)
            summed += F.cross_entropy(outputs, targets, reduction="sum").item()
            correct += (outputs.argmax(1) == targets).sum().item()
    if world > 1:
        sums = torch.tensor([correct, summed], dtype=torch.float64)
        dist.all_reduce(sums)
        correct, summed = int(sums[0]), sums[1].item()
    if rank == 0:
        print(f"epoch {epoch}: loss {summed / len(test_set):.4f}, accuracy {correct / len(test_set):.4f}")
        torch.save({"model": model.state_dict(), "epoch": epoch}, "digits.pt")
        with open("history.csv", "a") as history:
            history.write(f"{epoch},{correct}\n")

if world > 1:
    dist.destroy_process_group()
