"""A decoder by its sizes: what the planner must know of a model, and what follows from it exactly.

Parameters are counted as papers and ``config.json`` files do: matrices, norms where they matter, the embedding and the
output, which may be one matrix. FLOPs are of matrices and attention: a multiplication and its addition are two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, at_most, divides
from course_lib.cost.single_device.architectures import TransformerSizes

__all__ = ["Decoder", "decoder_of_sizes"]

# Far above any model that was trained, and low enough for every layout to be gone through in a second or two.
_MOST = {
    "layers": 10_000, "experts": 1 << 16, "hidden": 1 << 20, "heads": 1 << 16, "kv_heads": 1 << 16, "head_dim": 1 << 16,
    "ffn": 1 << 24, "vocab": 1 << 28, "positions": 1 << 30,
}  # fmt: skip


@checked
@dataclass(frozen=True)
class Decoder:
    """Sizes of a decoder. ``ffn`` is the width inside an MLP, of each of the three matrices of a gated one.

    With ``experts`` above 1 each layer has that many MLPs, of which a token meets ``experts_per_token``.
    ``kv_heads=0``: as many as ``heads``; ``head_dim=0``: ``hidden / heads``; ``positions``: learned ones, 0 for none.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    ffn: int
    vocab: int
    kv_heads: int = 0
    head_dim: int = 0
    gated: bool = False
    tied: bool = False
    experts: int = 1
    experts_per_token: int = 1
    positions: int = 0
    norm_parameters: int = 2  # numbers a channel: 2 of LayerNorm, 1 of RMSNorm
    bias: bool = False
    extra_layer_parameters: int = 0  # that the sizes do not tell: biases of queries alone, norms of keys

    def __post_init__(self) -> None:
        at_least(1, layers=self.layers, hidden=self.hidden, heads=self.heads, ffn=self.ffn, vocab=self.vocab)
        at_least(1, experts=self.experts, experts_per_token=self.experts_per_token)
        at_least(0, kv_heads=self.kv_heads, head_dim=self.head_dim, positions=self.positions)
        at_least(0, extra_layer_parameters=self.extra_layer_parameters)
        for name, most in _MOST.items():
            at_most(most, **{name: getattr(self, name)})
        divides(self.heads, "heads", kv_heads=self.kv_heads or self.heads)
        if not self.head_dim:
            divides(self.hidden, "channels (hidden)", heads=self.heads)
        if self.experts_per_token > self.experts:
            raise ValueError(
                f"experts_per_token={self.experts_per_token} does not work: a token meets at most all "
                f"{self.experts} experts. The nearest that works is {self.experts}."
            )

    @cached_property
    def q_width(self) -> int:
        """Width of the queries of all heads."""
        return self.heads * (self.head_dim or self.hidden // self.heads)

    @cached_property
    def kv_width(self) -> int:
        """Width of the keys, and of the values."""
        return self.q_width * (self.kv_heads or self.heads) // self.heads

    @cached_property
    def attention_weights(self) -> int:
        """Numbers in the four matrices of an attention."""
        return 2 * self.hidden * (self.q_width + self.kv_width)

    @cached_property
    def mlp_weights(self) -> int:
        """Numbers in the matrices of one MLP, of one expert."""
        return (3 if self.gated else 2) * self.hidden * self.ffn

    @cached_property
    def small_weights(self) -> int:
        """Norms, biases and a router: what a layer has beside its matrices."""
        biases = self.q_width + 2 * self.kv_width + 2 * self.hidden + (2 if self.gated else 1) * self.ffn
        router = self.hidden * self.experts if self.experts > 1 else 0
        norms = 2 * self.norm_parameters * self.hidden
        return norms + (biases if self.bias else 0) + router + self.extra_layer_parameters

    @cached_property
    def layer_parameters(self) -> int:
        """All numbers of one layer, with every expert."""
        return self.attention_weights + self.experts * self.mlp_weights + self.small_weights

    @cached_property
    def active_layer_weights(self) -> int:
        """The numbers of a layer's matrices that a token meets."""
        return self.attention_weights + self.experts_per_token * self.mlp_weights

    @cached_property
    def embedding_parameters(self) -> int:
        """One table of the vocabulary; the output is another, unless tied."""
        return self.vocab * self.hidden

    @cached_property
    def parameters(self) -> int:
        """All parameters; tied ones count once."""
        tables = (1 if self.tied else 2) * self.embedding_parameters
        ends = (self.positions + self.norm_parameters) * self.hidden
        return self.layers * self.layer_parameters + tables + ends

    def attention_flops(self, seq: int, *, causal: bool = False) -> float:
        """FLOPs of scores and averages for one token, forward, in one layer; ``causal`` counts half of them."""
        return 4.0 * seq * self.q_width * (0.5 if causal else 1.0)

    def forward_flops(self, seq: int, *, causal: bool = False) -> float:
        """FLOPs of a forward pass for one token of a sequence of ``seq``."""
        layer = 2 * self.active_layer_weights + self.attention_flops(seq, causal=causal)
        return self.layers * layer + 2 * self.embedding_parameters

    def step_flops(self, seq: int, batch: int, *, recompute: str = "none") -> float:
        """FLOPs that a step executes on ``batch`` sequences: three passes' worth, and what is computed again.

        With full recomputation of all but the output this is equation 3 of Narayanan et al., 2021:
        96 B s l h^2 (1 + s/6h + V/16lh).
        """
        again = 0.0
        if recompute == "full":
            again = self.forward_flops(seq) - 2 * self.embedding_parameters
        elif recompute == "selective":
            again = self.layers * self.attention_flops(seq)
        return batch * seq * (3 * self.forward_flops(seq) + again)


@checked
def decoder_of_sizes(sizes: TransformerSizes, *, name: str = "transformer") -> Decoder:
    """The planner's view of a configuration of the course's own ``Transformer``."""
    return Decoder(
        name=name,
        layers=sizes.num_layers,
        hidden=sizes.width,
        heads=sizes.num_heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        ffn=sizes.mlp_hidden,
        vocab=sizes.vocab_size,
        tied=sizes.tied,
        positions=sizes.context_length,
        norm_parameters=1 + sizes.bias,
        bias=sizes.bias,
    )
