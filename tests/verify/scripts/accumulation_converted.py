import torch
import torch.nn.functional as F
from accelift import Accelerator, DataLoaderConfiguration
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


def evaluate(accelerator, model, loader):
    model.eval()
    correct = count = 0
    with torch.no_grad():
        for images, labels in loader:
            guesses, labels = accelerator.gather_for_metrics((model(images).argmax(1), labels))
            correct += (guesses == labels).sum().item()
            count += len(labels)
    return correct / count


def main():
    accelerator = Accelerator(
        gradient_accumulation_steps=STEPS, dataloader_config=DataLoaderConfiguration(split_batches=True)
    )
    torch.manual_seed(1)
    train_loader, test_loader = loaders()
    model = Net()
    vectors = [parameter for parameter in model.parameters() if parameter.dim() == 1]
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], lr=4e-3
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    model, optimizer, scheduler, train_loader, test_loader = accelerator.prepare(
        model, optimizer, scheduler, train_loader, test_loader
    )
    best = 0.0
    for epoch in range(3):
        model.train()
        for images, labels in train_loader:
            with accelerator.accumulate(model):
                loss = F.cross_entropy(model(images), labels)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        accuracy = evaluate(accelerator, model, test_loader)
        accelerator.print(f"epoch {epoch} accuracy {accuracy:.4f}")
        if accuracy > best:
            best = accuracy
            accelerator.save(accelerator.unwrap_model(model).state_dict(), "best.pt")


if __name__ == "__main__":
    main()
