"""A small decoder-only transformer: pre-norm blocks, learned positions, causal attention.

The outline is GPT-2's (Radford et al., 2019): a stem that looks tokens up, blocks of attention and MLP, a
head that gives every position a score for each token of the vocabulary. The heads that share keys and
values follow Ainslie et al., "GQA" (2023).

Shapes: B batch, T tokens of a sequence, D ``width``, H query heads, G key/value heads, K ``head_dim``, V
vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.base.checked import Int64, checked
from course_lib.base.checks import at_least, nearest_divisor, nearest_multiple

__all__ = ["Attention", "Mlp", "Transformer", "TransformerBlock", "TransformerConfig"]


@checked
@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The sizes of a transformer; sizes that do not fit together raise ``ValueError``."""

    vocab_size: Int64 = 256  # one token for each byte of a text
    context_length: Int64 = 128  # the longest sequence it can read, in tokens
    num_layers: Int64 = 4
    width: Int64 = 128
    num_heads: Int64 = 4
    num_kv_heads: Int64 | None = None  # None: one key/value head for each query head
    hidden: Int64 | None = None  # width inside the MLP; None: four times ``width``
    dropout: float = 0.0
    bias: bool = False  # biases in the linear layers and norms
    tied: bool = False  # one matrix for looking tokens up and for scoring them

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "context_length", "num_layers", "width", "num_heads")
        optional = [name for name in ("num_kv_heads", "hidden") if getattr(self, name) is not None]
        at_least(1, **{name: getattr(self, name) for name in (*sizes, *optional)})
        if self.width % self.num_heads:
            raise ValueError(
                f"width={self.width} is not a multiple of num_heads={self.num_heads}: every head takes an "
                f"equal share of it. The nearest width is {nearest_multiple(self.width, self.num_heads)}."
            )
        if self.num_heads % self.kv_heads:
            raise ValueError(
                f"num_kv_heads={self.kv_heads} does not divide num_heads={self.num_heads}: each key/value "
                "head serves the same number of query heads. The nearest that works is "
                f"{nearest_divisor(self.kv_heads, self.num_heads)}."
            )
        if not 0.0 <= self.dropout < 1.0:
            nearest = 0.0 if self.dropout < 0.0 else 0.9
            raise ValueError(f"dropout={self.dropout} is not a share from 0 up to, and without, 1. Try {nearest}.")

    @property
    def kv_heads(self) -> int:
        """G: the number of key/value heads, with the default filled in."""
        return self.num_heads if self.num_kv_heads is None else self.num_kv_heads

    @property
    def head_dim(self) -> int:
        """K: the width of one head."""
        return self.width // self.num_heads

    @property
    def mlp_hidden(self) -> int:
        """The width inside the MLP, with the default filled in."""
        return 4 * self.width if self.hidden is None else self.hidden


class Transformer(nn.Module):
    """Token numbers in, a score for every possible next token out: (B, T) int64 -> (B, T, V)."""

    def __init__(self, config: TransformerConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or TransformerConfig()
        self.stem = Embedding(config)  # (B, T) -> (B, T, D)
        self.blocks = nn.ModuleList(TransformerBlock(config) for _ in range(config.num_layers))
        self.head = Unembedding(config)  # (B, T, D) -> (B, T, V)
        if config.tied:
            self.head.w_vocab.weight = self.stem.tokens.weight
        self.init_weights()

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) tokens -> (B, T, V) logits; position t has seen tokens 0 to t and none after."""
        x = self.stem(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def init_weights(self) -> None:
        """Draw all weights anew as GPT-2 does: normal, 0.02 wide, narrower where blocks add to the stream."""
        for name, module in self.named_modules():
            if isinstance(module, nn.LayerNorm):
                module.reset_parameters()
            elif isinstance(module, nn.Linear | nn.Embedding):
                adds = name.endswith(("w_out", "w_down"))  # 2 additions a layer: keep their sum's size steady
                std = 0.02 / math.sqrt(2 * self.config.num_layers) if adds else 0.02
                nn.init.normal_(module.weight, std=std)
                if isinstance(module, nn.Linear) and module.bias is not None:
                    nn.init.zeros_(module.bias)


class Embedding(nn.Module):
    """A vector for each token plus a vector for its position: (B, T) -> (B, T, D)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.context_length = config.context_length
        self.tokens = nn.Embedding(config.vocab_size, config.width)
        self.positions = nn.Embedding(config.context_length, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) -> (B, T, D)."""
        return self.dropout(self.tokens(tokens) + self.positions(position_numbers(tokens, self.context_length)))


def position_numbers(tokens: Tensor, context_length: int) -> Tensor:
    """0, 1, ... for each position: (B, T) -> (T,). Raises ValueError for more of them than the model has."""
    num_tokens = tokens.size(1)
    if num_tokens > context_length:
        raise ValueError(
            f"A sequence of {num_tokens} tokens is longer than context_length={context_length}. "
            f"Cut it to {context_length} tokens, or build the model with a longer context."
        )
    return torch.arange(num_tokens, device=tokens.device)


class Unembedding(nn.Module):
    """A last norm, then a score for each token of the vocabulary: (B, T, D) -> (B, T, V)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width, bias=config.bias)
        self.w_vocab = nn.Linear(config.width, config.vocab_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, V)."""
        return self.w_vocab(self.norm(x))


class TransformerBlock(nn.Module):
    """Attention, then an MLP; each reads a normed copy of the stream and adds to it. (B, T, D) -> same."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width, bias=config.bias)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width, bias=config.bias)
        self.mlp = Mlp(config)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Attention(nn.Module):
    """Every position looks at itself and at earlier ones: (B, T, D) -> (B, T, D).

    The weights of the heads stand one after the other: head h owns rows h*K to (h+1)*K of ``w_q`` and the
    same columns of ``w_out``. The number of heads is read off the tensors, so the class also works on a
    share of the heads.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        self.w_q = nn.Linear(config.width, config.num_heads * config.head_dim, bias=config.bias)
        self.w_k = nn.Linear(config.width, config.kv_heads * config.head_dim, bias=config.bias)
        self.w_v = nn.Linear(config.width, config.kv_heads * config.head_dim, bias=config.bias)
        self.w_out = nn.Linear(config.num_heads * config.head_dim, config.width, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        q = self.w_q(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (B, H, T, K)
        k = self.w_k(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (B, G, T, K)
        v = self.w_v(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (B, G, T, K)
        y = F.scaled_dot_product_attention(
            q,
            k,
            v,
            dropout_p=self.dropout.p if self.training else 0.0,
            is_causal=True,
            enable_gqa=q.size(1) != k.size(1),  # H / G query heads in a row share one key/value head
        )
        y = y.transpose(1, 2).flatten(2)  # (B, T, H*K)
        return self.dropout(self.w_out(y))


class Mlp(nn.Module):
    """Widen, bend, narrow, for each position on its own: (B, T, D) -> (B, T, D)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.w_up = nn.Linear(config.width, config.mlp_hidden, bias=config.bias)
        self.w_down = nn.Linear(config.mlp_hidden, config.width, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        x = F.gelu(self.w_up(x))  # (B, T, hidden)
        return self.dropout(self.w_down(x))
