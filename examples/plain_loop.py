"""Handwritten digits: plain_loop_alone.py is plain PyTorch, plain_loop.py the same script as a worker of a run."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import driftline

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)
held_out = torch.arange(len(labels)) % 5 == 0
loader = DataLoader(TensorDataset(images[~held_out], labels[~held_out]), batch_size=32, shuffle=True)

model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
opt = driftline.Optimizer(torch.optim.AdamW(model.parameters(), lr=3e-3), model, "kafka:///plain-loop", workers=2)

for epoch in range(3):
    for inputs, targets in loader:
        loss = nn.functional.cross_entropy(model(inputs), targets)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch + 1}: loss {loss.item():.3f}")

with torch.no_grad():
    right = (model(images[held_out]).argmax(dim=1) == labels[held_out]).float().mean().item()
print(f"accuracy {right:.3f}")
