from torch.utils.data import DataLoader
from torchvision import datasets

loader = DataLoader(datasets.MNIST("data", download=True), batch_size=4)
