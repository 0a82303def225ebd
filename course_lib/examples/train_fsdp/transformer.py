"""The model: a transformer that reads bytes of text and says which byte comes next. It knows nothing of ranks.

After Radford et al., "Language Models are Unsupervised Multitask Learners" (GPT-2, 2019), with RMSNorm (Zhang and
Sennrich, 2019) in the place of LayerNorm, and without biases. It has no dropout and no buffers: what chance has done
to it is done before the first step, and all that it is stands in its parameters.

Shapes: B sequences, T bytes of each, C channels, H heads, V = 256 values of a byte.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

__all__ = ["NUM_BYTE_VALUES", "Block", "Transformer"]

NUM_BYTE_VALUES = 256


class Block(nn.Module):
    """Look at the bytes before, then think about each: (B, T, C) to (B, T, C)."""

    def __init__(self, width: int, heads: int, *, recompute: bool) -> None:
        super().__init__()
        self.heads, self.recompute = heads, recompute
        self.attention_norm = nn.RMSNorm(width, eps=1e-6)
        self.qkv = nn.Linear(width, 3 * width, bias=False)  # queries, keys and values in one product
        self.attention_out = nn.Linear(width, width, bias=False)
        self.mlp_norm = nn.RMSNorm(width, eps=1e-6)
        self.mlp_in = nn.Linear(width, 4 * width, bias=False)
        self.mlp_out = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """With ``recompute`` no activation within the block is kept: backward computes them again from ``x``.

        The checkpoint lies *inside* the module that FSDP gathers: weights are gathered once for both.
        """
        if self.recompute and torch.is_grad_enabled():
            return checkpoint(self._compute, x, use_reentrant=False, preserve_rng_state=False)  # no dropout
        return self._compute(x)

    def _compute(self, x: Tensor) -> Tensor:
        x = x + self.attention_out(self._attend(self.attention_norm(x)))
        return x + self.mlp_out(F.gelu(self.mlp_in(self.mlp_norm(x))))

    def _attend(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, T, C / H)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


class Transformer(nn.Module):
    """Bytes (B, T), each 0 to 255, to logits (B, T, V) of the byte after each."""

    def __init__(self, layers: int, width: int, heads: int, context: int, *, recompute: bool = False) -> None:
        super().__init__()
        self.layers = layers
        self.embedding = nn.Embedding(NUM_BYTE_VALUES, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, recompute=recompute) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-6)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        # The embedding is the output layer too. Used twice, it stays one parameter; under two names, to_empty() and
        # fully_shard() would have to keep the two tied.
        return F.linear(self.norm(x), self.embedding.weight)

    def first_std(self, name: str) -> float | None:
        """How far the first values of a parameter spread around 0; ``None`` for norms, which begin as ones.

        Layers that add to the stream begin smaller, or the stream would grow with the depth (GPT-2, section 2.3).
        """
        if "norm" in name:
            return None
        return 0.02 / (2 * self.layers) ** 0.5 if name.endswith("_out.weight") else 0.02
