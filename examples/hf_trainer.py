"""The Trainer of transformers as a worker of a run: only the optimizer that it gets is different.

A small BERT, which is not downloaded, learns which of two tokens a line has more of. The Trainer shuffles by a seed, so
give each copy another one: python hf_trainer.py [ADDRESS] [SEED]
"""

import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import driftline

LINES, LENGTH = 512, 12


class Lines(Dataset):
    """Lines of tokens 5 and 6; the label says which is more frequent."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(5, 7, (LINES, LENGTH - 1), generator=generator)

    def __len__(self) -> int:
        return LINES

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        line = self.tokens[index]
        return {
            "input_ids": torch.cat([torch.tensor([1]), line]),
            "attention_mask": torch.ones(LENGTH, dtype=torch.long),
            "labels": (line == 6).float().mean().gt(0.5).long(),
        }


address = sys.argv[1] if len(sys.argv) > 1 else "kafka:///hf-trainer"
seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
config = BertConfig(vocab_size=8, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
model = BertForSequenceClassification(config)
opt = driftline.Optimizer(torch.optim.AdamW(model.parameters(), lr=3e-3), model, address)

with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        num_train_epochs=4,
        per_device_train_batch_size=32,
        lr_scheduler_type="constant",  # the run's own schedule is a setting of the Optimizer
        max_grad_norm=1.0,
        seed=seed,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(model, arguments, train_dataset=Lines(seed), optimizers=(opt, None))
    trainer.train()
    found = trainer.predict(Lines(seed=1000))
opt.close()
print(f"accuracy {(found.predictions.argmax(axis=1) == found.label_ids).mean():.3f}")
