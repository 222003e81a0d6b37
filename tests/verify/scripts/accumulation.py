import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.InstanceNorm2d(4, affine=True)  # so the bias before it has no gradient but rounding
        self.head = nn.Linear(144, 10)

    def forward(self, images):
        return self.head(F.gelu(self.norm(self.conv(images))).flatten(1))


def loaders():
    digits = load_digits()
    images = torch.tensor(digits.images[:270] / 16, dtype=torch.float32)[:, None]
    labels = torch.tensor(digits.target[:270])
    train = DataLoader(TensorDataset(images[:210], labels[:210]), batch_size=20, shuffle=True)
    return train, DataLoader(TensorDataset(images[210:], labels[210:]), batch_size=25)


def evaluate(model, loader):
    model.eval()
    correct = count = 0
    with torch.no_grad():
        for images, labels in loader:
            guesses = model(images).argmax(1)
            correct += (guesses == labels).sum().item()
            count += len(labels)
    return correct / count


def main():
    torch.manual_seed(1)
    train_loader, test_loader = loaders()
    model = Net()
    vectors = [parameter for parameter in model.parameters() if parameter.dim() == 1]
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], lr=4e-3
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    best = 0.0
    for epoch in range(3):
        model.train()
        for index, (images, labels) in enumerate(train_loader):
            loss = F.cross_entropy(model(images), labels) / STEPS
            loss.backward()
            if (index + 1) % STEPS == 0 or index + 1 == len(train_loader):
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        accuracy = evaluate(model, test_loader)
        print(f"epoch {epoch} accuracy {accuracy:.4f}")
        if accuracy > best:
            best = accuracy
            torch.save(model.state_dict(), "best.pt")


if __name__ == "__main__":
    main()
