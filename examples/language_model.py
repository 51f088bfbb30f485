"""A small language model as a worker of a run: tied head, no decay for biases and norms, two parameter groups.

It learns the texts of Python's own help, letter by letter.

Start several copies, and they train together: python language_model.py [ADDRESS]
"""

import sys
from pydoc_data.topics import topics

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import driftline

LETTERS, WIDTH, LENGTH, BATCH, STEPS = 128, 48, 48, 16, 60


class Letters(nn.Module):
    """A transformer of two layers that predicts the next letter."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(LETTERS, WIDTH)
        self.position = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, LETTERS)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.head.weight = self.embedding.weight  # tied: one tensor under two names
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False)

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        """Return the scores of the next letter, for each letter."""
        inner = self.layers(self.embedding(letters) + self.position, mask=self.mask, is_causal=True)
        return self.head(inner)


text = "".join(topics.values()).encode("ascii", "replace")
letters = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()

model = Letters()
groups = [
    {"params": [one for one in model.parameters() if one.ndim > 1], "weight_decay": 0.1},
    {"params": [one for one in model.parameters() if one.ndim <= 1], "weight_decay": 0.0},
]
address = sys.argv[1] if len(sys.argv) > 1 else "kafka:///letters"
inner = torch.optim.AdamW(groups, lr=3e-3)

with driftline.Optimizer(inner, model, address, steps=STEPS, warmup=10, decay="cosine", final_rate=0.1) as opt:
    while not opt.done:
        starts = torch.randint(len(letters) - LENGTH, (BATCH,))
        batch = torch.stack([letters[start : start + LENGTH + 1] for start in starts])
        loss = cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step(weight=len(batch), loss=loss)
        if opt.version % 20 == 0:
            print(f"version {opt.version}: loss {loss.item():.2f}, rate {opt.param_groups[0]['lr']:.4f}")

print(f"loss {loss.item():.2f}")
