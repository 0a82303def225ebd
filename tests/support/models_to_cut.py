"""Tiny models that are cut in the tests, the batches they learn from, and what is read off them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.models import SmallCNN, Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.model import pieces_of

TEXT = TransformerConfig(vocab_size=11, context_length=6, num_layers=2, width=8, num_heads=2)


class Turn(nn.Module):
    """Gives a tensor that does not lie in memory row by row, and takes such a gradient."""

    def forward(self, x):
        return x.T


def make(kind):
    torch.manual_seed(0)
    if kind == "cnn":
        model = SmallCNN(width=4, num_classes=3)
    elif kind == "linear":
        model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4), nn.Linear(4, 3))
    elif kind == "shared":  # three layers with one weight
        model = nn.Sequential(nn.Linear(6, 6), Turn(), nn.Linear(6, 6), nn.Linear(6, 6))
        model[2].weight = model[3].weight = model[0].weight
    else:
        model = Transformer(TransformerConfig(**{**vars(TEXT), "tied": "tied" in kind}))
    if "frozen" in kind:
        next(iter(pieces_of(model).values())).requires_grad_(False)
    return model.double()


def batches(kind, count=5):
    made = torch.Generator().manual_seed(1)
    for _ in range(count):
        if kind == "cnn":
            x = torch.randn(6, 1, 8, 8, generator=made, dtype=torch.float64)
        elif kind in ("linear", "shared"):
            x = torch.randn(6, 6, generator=made, dtype=torch.float64)
        else:
            tokens = torch.randint(11, (3, 7), generator=made)
            yield tokens[:, :-1], tokens[:, 1:]
            continue
        yield x, torch.randint(3, (6,), generator=made)


def loss_of_kind(kind):
    return F.cross_entropy if kind in ("cnn", "linear", "shared") else next_token_loss


def gradients_of(model):
    named = model.named_parameters(remove_duplicate=False)
    return {name: p.grad.clone() for name, p in named if p.grad is not None}
