"""The model, or the blocks of it from one to another: bytes of text in, which byte comes next out. It knows no ranks.

After Radford et al., "Language Models are Unsupervised Multitask Learners" (GPT-2, 2019), with RMSNorm (Zhang and
Sennrich, 2019) in the place of LayerNorm, and without biases. Three things are as they are so that it can be cut:
queries, keys and values have a matrix each, so that a part of its rows is some of the heads; the output layer is not
the embedding again, which stands at the other end of a pipeline; and blocks are kept by name, so that block 3 is
``blocks.3`` in whichever stage it stands. It has no dropout and no buffers.

Shapes: B sequences, T bytes of each, C channels, H heads, V = 256 values of a byte.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

__all__ = ["NUM_BYTE_VALUES", "Block", "Transformer"]

NUM_BYTE_VALUES = 256


class Attention(nn.Module):
    """Look at the bytes before: (B, T, C) to (B, T, C)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.head_width = width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        # A rank may have some of the heads: their number follows from what the products give.
        q, k, v = (
            product(x).unflatten(-1, (-1, self.head_width)).transpose(1, 2)  # (B, H, T, C / H)
            for product in (self.query, self.key, self.value)
        )
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class MLP(nn.Module):
    """Think about each byte: (B, T, C) to (B, T, C)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wide = nn.Linear(width, 4 * width, bias=False)
        self.out = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.gelu(self.wide(x)))


class Block(nn.Module):
    """Both, each added to the stream: (B, T, C) to (B, T, C)."""

    def __init__(self, width: int, heads: int, *, recompute: bool) -> None:
        super().__init__()
        self.recompute = recompute
        self.attention_norm = nn.RMSNorm(width, eps=1e-6)
        self.attention = Attention(width, heads)
        self.mlp_norm = nn.RMSNorm(width, eps=1e-6)
        self.mlp = MLP(width)

    def forward(self, x: Tensor) -> Tensor:
        """With ``recompute`` no activation within the block is kept: backward computes them again from ``x``.

        The checkpoint lies *inside* the module that FSDP gathers: weights are gathered once for both.
        """
        if self.recompute and torch.is_grad_enabled():
            return checkpoint(self._compute, x, use_reentrant=False, preserve_rng_state=False)  # no dropout
        return self._compute(x)

    def _compute(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class Transformer(nn.Module):
    """Bytes (B, T), each 0 to 255, to logits (B, T, V) of the byte after each.

    With ``blocks``, only those: without the first block it takes the stream (B, T, C) that the blocks before have
    made, and without the last it returns the stream.
    """

    def __init__(
        self, layers: int, width: int, heads: int, context: int, *, blocks: range | None = None,
        recompute: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.layers = layers
        here = range(layers) if blocks is None else blocks
        self.is_first, self.is_last = here.start == 0, here.stop == layers
        if self.is_first:
            self.embedding = nn.Embedding(NUM_BYTE_VALUES, width)
            self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleDict({str(i): Block(width, heads, recompute=recompute) for i in here})
        if self.is_last:
            self.norm = nn.RMSNorm(width, eps=1e-6)
            self.head = nn.Linear(width, NUM_BYTE_VALUES, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.is_first:
            places = torch.arange(x.shape[1], device=x.device)[None]  # (1, T)
            x = self.embedding(x) + self.positions(places)
        for block in self.blocks.values():
            x = block(x)
        return self.head(self.norm(x)) if self.is_last else x

    def first_std(self, name: str) -> float | None:
        """How far the first values of a parameter spread around 0; ``None`` for norms, which begin as ones.

        Layers that add to the stream begin smaller, or the stream would grow with the depth (GPT-2, section 2.3).
        """
        if "norm" in name:
            return None
        return 0.02 / (2 * self.layers) ** 0.5 if name.endswith(".out.weight") else 0.02
