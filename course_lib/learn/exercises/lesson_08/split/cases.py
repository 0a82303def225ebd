"""08.split: models and batches on which a split transformer is tried, and what one process gives for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from course_lib.layouts.row_partition import split_sizes
from course_lib.models.loss import next_token_loss
from course_lib.models.transformer import Transformer, TransformerConfig

__all__ = [
    "AWKWARD",
    "DROPOUT",
    "PLAIN",
    "REFUSED",
    "SEQUENCE",
    "SITUATIONS",
    "STEPS",
    "VOCABULARY",
    "WEIGHED",
    "SplitSituation",
    "UnsplitRun",
    "batch_of",
    "dim_of",
    "loss_with_more_bias",
    "oracle",
    "part_of",
]

STEPS = 2
_SIZES: dict[str, Any] = {"vocab_size": 120, "context_length": 15, "num_layers": 2, "width": 24}
_SIZES |= {"num_heads": 6, "hidden": 48}
_DIMS = {**dict.fromkeys(("tokens", "w_vocab", "w_q", "w_k", "w_v", "w_up"), 0), "w_out": 1, "w_down": 1}
Groups = Callable[[int], tuple[tuple[int, ...], ...]]


def _everybody(num_ranks: int) -> tuple[tuple[int, ...], ...]:
    return (tuple(range(num_ranks)),)


def _two_groups(num_ranks: int) -> tuple[tuple[int, ...], ...]:
    """The first rank and the last, and those between."""
    outer = tuple(sorted({0, num_ranks - 1}))
    return (outer, *([tuple(range(1, num_ranks - 1))] if num_ranks > 2 else []))


@dataclass(frozen=True)
class SplitSituation:
    """A transformer, a batch, and a way to cut; ``changes`` makes of a model what is to be seen on it."""

    sizes: Mapping[str, Any] = field(default_factory=dict)
    sequence: bool = False
    rows: int = 4
    length: int = 12
    dtype: torch.dtype = torch.float64
    rate: float = 0.3  # of learning
    frozen: tuple[str, ...] = ()  # how names of parameters begin that do not learn
    changes: Callable[[Transformer], None] | None = None
    is_alike: bool = False  # all tokens are one, and all targets
    is_weighed: bool = False
    is_counted: bool = True  # what is sent
    clears: bool = True  # gradients, before each step
    groups: Groups = _everybody
    num_models: int = 1
    refuses: Callable[[int], tuple[str, ...]] = lambda num_ranks: ()  # what an error has to say
    looks_at: str = ""  # of dropout: "ranks", "heads", "places" or "a step"

    @property
    def config(self) -> TransformerConfig:
        """The sizes of the model."""
        return TransformerConfig(**(_SIZES | dict(self.sizes)))

    def model(self, number: int = 0) -> Transformer:
        """The whole model, the same wherever it is made; its norms and biases are not as they begin."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(40 + number)
            model = Transformer(self.config).to(self.dtype)
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    is_bias = name.endswith("bias")
                    if parameter.dim() > 1:
                        parameter.mul_(6.0)
                    elif is_bias or "norm" in name:
                        parameter.add_(0.3 * torch.randn(parameter.shape))
        if self.changes is not None:
            with torch.no_grad():
                self.changes(model)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(not (self.frozen and name.startswith(self.frozen)))
        return model

    def members(self, rank: int, num_ranks: int) -> tuple[int, ...]:
        """The ranks that share this rank's model."""
        return next(ranks for ranks in self.groups(num_ranks) if rank in ranks)


# -- what is seen on them ----------------------------------------------------------------------------------------------


def _scores(model: Transformer) -> None:
    """Logits so large that their exponentials overflow."""
    model.head.w_vocab.weight.mul_(800.0)


def _heads_alike(model: Transformer) -> None:
    """All heads compute the same, so that only masks tell them apart."""
    for block in model.blocks:
        attention: Any = block.attention
        size = attention.head_dim
        for layer in (attention.w_q, attention.w_k, attention.w_v):
            layer.weight.copy_(layer.weight[:size].repeat(layer.weight.size(0) // size, 1))
        columns = attention.w_out.weight[:, :size]
        attention.w_out.weight.copy_(columns.repeat(1, attention.w_out.weight.size(1) // size))


def _places_alike(model: Transformer, kept: str) -> None:
    """All positions are the same but for masks: those of the stem, and after the layer that is ``kept``."""
    stem: Any = model.stem
    stem.positions.weight.copy_(stem.positions.weight[:1].expand_as(stem.positions.weight))
    if kept != "stem":
        for layer in (stem.positions, stem.tokens):
            layer.weight.zero_()
    for name, parameter in model.named_parameters():
        if (
            name.endswith(("w_out.weight", "w_down.weight", "bias")) and "norm" not in name and kept not in name
        ) or name.endswith(f"{kept}.weight"):
            parameter.zero_()


def _biases_alone(model: Transformer) -> None:
    """Row cuts give their biases alone, which do not depend on anything."""
    for block in model.blocks:
        attention, mlp = cast(Any, block.attention), cast(Any, block.mlp)
        attention.w_out.weight.zero_()
        mlp.w_down.weight.zero_()


def _evaluating(model: Transformer) -> None:
    model.eval()


def _of_heads(num_ranks: int) -> tuple[str, ...]:
    return ("4", str(num_ranks)) if 4 % num_ranks else ()


def _of_positions(num_ranks: int) -> tuple[str, ...]:
    return ("8", str(num_ranks)) if 8 % num_ranks else ()


_DEEP = {"num_layers": 5, "width": 48, "hidden": 48, "vocab_size": 24, "context_length": 48}
_BIASES, _DROPS = {"bias": True}, {"dropout": 0.25, "num_layers": 1}
_DROPS_BIASES = _DROPS | _BIASES
_DROPS_ALL = _DROPS_BIASES | {"dropout": 1 - 1e-9}


def _alike(kept: str) -> SplitSituation:
    changes = partial(_places_alike, kept=kept)
    return SplitSituation(_DROPS_BIASES, sequence=True, rows=1, changes=changes, is_alike=True, looks_at="places")


SITUATIONS = {
    "a small model": SplitSituation(),
    "biases": SplitSituation(_BIASES | {"num_layers": 1}),
    "logits of a thousand": SplitSituation(changes=_scores, rate=1e-7),
    "a model that is weighed": SplitSituation(_DEEP, rows=1, length=48, is_weighed=True),
    "positions shared out": SplitSituation(sequence=True),
    "positions shared out and biases": SplitSituation(_BIASES, sequence=True),
    "positions shared out, weighed": SplitSituation(_DEEP, sequence=True, rows=1, length=48, is_weighed=True),
    "dropout": SplitSituation(_DROPS_BIASES | {"num_layers": 2}, looks_at="ranks"),
    "dropout, with heads that are alike": SplitSituation(_DROPS, changes=_heads_alike, looks_at="heads"),
    "dropout, positions shared out, heads alike": SplitSituation(
        _DROPS, changes=_heads_alike, sequence=True, looks_at="heads"
    ),
    "dropout of the stem, positions shared out": _alike("stem"),
    "dropout after attention, positions shared out": _alike("w_out"),
    "dropout after the MLP, positions shared out": _alike("w_down"),
    "dropout, place after place": SplitSituation(_DROPS_BIASES, changes=_biases_alone, looks_at="a step"),
    "dropout, place after place, positions shared out": SplitSituation(
        _DROPS_BIASES, changes=_biases_alone, sequence=True, looks_at="a step"
    ),
    "dropout of nearly all": SplitSituation(_DROPS_ALL),
    "dropout of nearly all, positions shared out": SplitSituation(_DROPS_ALL, sequence=True),
    "dropout in eval mode": SplitSituation(_DROPS_BIASES, changes=_evaluating),
    "one matrix for tokens and scores": SplitSituation({"tied": True}),
    "frozen parts": SplitSituation(_BIASES, frozen=("stem", "blocks.0", "head.norm"), is_counted=False),
    "frozen parts, positions shared out": SplitSituation(
        _BIASES, sequence=True, frozen=("stem", "blocks.0.attention", "head.norm"), is_counted=False
    ),
    "two batches before a step": SplitSituation({"tied": True}, clears=False),
    "sizes that do not divide": SplitSituation(_BIASES | {"vocab_size": 121, "hidden": 50}),
    "shared heads of keys": SplitSituation({"num_kv_heads": 3}),
    "a short batch of one row, in float32": SplitSituation(_BIASES, rows=1, length=6, dtype=torch.float32),
    "a group that is not all ranks": SplitSituation(_BIASES, groups=_two_groups),
    "a group, positions shared out": SplitSituation(_BIASES, groups=_two_groups, sequence=True),
    "two models at the same time": SplitSituation(num_models=2),
    "heads that do not divide": SplitSituation({"num_heads": 4}, refuses=_of_heads),
    "positions that do not divide": SplitSituation(sequence=True, length=8, refuses=_of_positions),
}
_NAMES = tuple(SITUATIONS)
PLAIN, VOCABULARY, WEIGHED, SEQUENCE = _NAMES[:2], _NAMES[2:3], _NAMES[3:4], _NAMES[4:7]
DROPOUT, AWKWARD = _NAMES[7:18], _NAMES[18:]
REFUSED = AWKWARD[-2:]


# -- one process -------------------------------------------------------------------------------------------------------


def batch_of(label: str, step: int, number: int = 0) -> tuple[Tensor, Tensor]:
    """Tokens and targets, (B, T) each, the same on all ranks."""
    situation = SITUATIONS[label]
    if situation.is_alike:
        shape = situation.rows, situation.length
        return torch.full(shape, 7), torch.full(shape, 50)
    draw = torch.Generator().manual_seed(8 + 100 * step + 10 * number)
    shape = situation.rows, situation.length + 1
    tokens = torch.randint(situation.config.vocab_size, shape, generator=draw)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def dim_of(name: str) -> int | None:
    """Along which dim a parameter of this name is cut; None where it is whole on every rank."""
    layer, kind = name.split(".")[-2:]
    dim = _DIMS.get(layer)
    return None if kind == "bias" and dim == 1 else dim


def part_of(name: str, whole: Tensor, place: int, count: int) -> Tensor:
    """What rank ``place`` of ``count`` holds of it; the first ones hold one row more where it does not divide."""
    dim = dim_of(name)
    return whole if dim is None else whole.split(split_sizes(whole.size(dim), count), dim)[place].contiguous()


@lru_cache(maxsize=64)
def loss_with_more_bias(label: str, count: int) -> float:
    """The first loss of a model whose row cuts add their biases ``count`` times."""
    model = SITUATIONS[label].model()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("w_out.bias", "w_down.bias")):
                parameter.mul_(count)
        tokens, targets = batch_of(label, 0)
        return next_token_loss(model(tokens), targets).item()


@dataclass(frozen=True)
class UnsplitRun:
    """What the whole model had at the beginning, by name, and each step's loss and gradients."""

    begin: dict[str, Tensor]
    losses: list[float]
    gradients: list[dict[str, Tensor]]


@lru_cache(maxsize=64)
def oracle(label: str, number: int = 0) -> UnsplitRun:
    """The steps of this situation by the uncut model."""
    situation = SITUATIONS[label]
    model = situation.model(number)
    named: list[tuple[str, nn.Parameter]] = list(model.named_parameters(remove_duplicate=False))
    begin = {name: parameter.detach().clone() for name, parameter in named}
    losses, gradients = [], []
    for step in range(STEPS):
        if situation.clears:
            model.zero_grad()
        tokens, targets = batch_of(label, step, number)
        loss = next_token_loss(model(tokens), targets)
        loss.backward()
        losses.append(loss.item())
        gradients.append({name: p.grad.clone() for name, p in named if p.grad is not None})
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.sub_(situation.rate * parameter.grad)
    return UnsplitRun(begin, losses, gradients)
