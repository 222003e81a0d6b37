import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, IterableDataset


class Words(IterableDataset):
    def __init__(self, count, seed):
        self.count, self.seed = count, seed

    def __iter__(self):
        draw = random.Random(self.seed)
        for _ in range(self.count):
            word = [draw.randrange(1, 20) for _ in range(draw.randrange(3, 12))]
            yield torch.tensor(word), sum(word) % 2


def collate(samples):
    words, labels = zip(*samples)
    return pad_sequence(words, batch_first=True), torch.tensor(labels)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 16, padding_idx=0)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)  # whose key bias has no gradient but rounding
        self.head = nn.Linear(16, 2)
        self.unused = nn.Linear(16, 3)

    def forward(self, words):
        pad = words == 0
        embedded = self.embedding(words)
        mixed, _ = self.attention(embedded, embedded, embedded, key_padding_mask=pad)
        mixed = mixed.masked_fill(pad[:, :, None], 0.0)
        return self.head(mixed.sum(1) / (~pad).sum(1, keepdim=True))


torch.manual_seed(8)
model = Tagger()
train_loader = DataLoader(Words(150, 1), batch_size=10, collate_fn=collate)
test_loader = DataLoader(Words(44, 2), batch_size=16, collate_fn=collate)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
losses = []
for epoch in range(2):
    for words, labels in train_loader:
        loss = criterion(model(words), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    total = count = 0
    model.eval()
    with torch.no_grad():
        for words, labels in test_loader:
            total += criterion(model(words), labels).item() * len(labels)
            count += len(labels)
    model.train()
    losses.append(total / count)
    scheduler.step(losses[-1])
    print(f"Epoch: {epoch}\tval_loss: {losses[-1]:.5f}")
torch.save({"state": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}, "tagger.pt")
