import torch
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)
inputs, targets = load_diabetes(return_X_y=True)
inputs = torch.tensor(inputs * 20, dtype=torch.float64)
targets = torch.tensor((targets - 150) / 80, dtype=torch.float64)[:, None]
loader = DataLoader(TensorDataset(inputs, targets), batch_size=len(inputs))
model = nn.Sequential(nn.Linear(10, 5), nn.Tanh(), nn.Linear(5, 1)).double()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5)
for epoch in range(5):
    for x, y in loader:

        def closure():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
with torch.no_grad():
    print("error", nn.functional.mse_loss(model(inputs), targets).item())
