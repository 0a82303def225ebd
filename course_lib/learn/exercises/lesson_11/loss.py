"""11.loss: the loss of a few positions at a time, whose scores nobody keeps."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.judging.compare import Difference, close_to, short
from course_lib.learn.judging.judge import by_cases
from course_lib.meter import MemoryLedger
from course_lib.models import Transformer, TransformerConfig, next_token_loss

__all__ = ["LOSS"]

_NO_GRAPH, _HELD = "no-graph", "held-too-much"  # kinds of differences
_VOCABULARY = 2048  # scores of a position are many times what a layer keeps of it
_SLACK = 0.4  # of the positions: a right answer may hold the gradient of the vocabulary's matrix a moment longer
_close = close_to(1e-9, 1e-12)
Answer = Callable[[Transformer, Tensor, int], Any]


@dataclass(frozen=True)
class _Batch:
    num_sequences: int
    num_tokens: int
    length: int

    def begin(self) -> tuple[Transformer, Tensor]:
        """A model in float64, and token numbers (B, T)."""
        sizes = {"vocab_size": _VOCABULARY, "context_length": self.num_tokens, "width": 8, "num_heads": 2}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.num_tokens)
            model = Transformer(TransformerConfig(num_layers=1, **sizes)).double()
        numbers = torch.arange(self.num_sequences * self.num_tokens).square() * 7 % _VOCABULARY
        return model, numbers.view(self.num_sequences, self.num_tokens)


@dataclass(frozen=True)
class _Seen:
    loss: float = 0.0
    gradients: Tensor | None = None  # of all parameters, in a row
    before: float = 0.0  # beside the weights, before backward, in positions: what the scores of one take
    peak: float = 0.0  # beside weights and gradients, at the fullest moment
    problem: str = ""


def _step(answer: Answer, batch: _Batch) -> Any:
    model, tokens = batch.begin()
    untouched = [parameter.tolist() for parameter in model.parameters()]  # no tensors: the ledger would see them
    gc.collect()
    with MemoryLedger(model, inputs=tokens) as ledger:
        loss = answer(model, tokens, batch.length)
        if loss is ...:
            return ...
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            return _Seen(problem=f"a tensor with one number is to come, and what came is {short(loss)}")
        if not loss.requires_grad:
            return _Seen(
                loss.item(), problem=Difference("backward cannot begin there: what came has no graph", _NO_GRAPH)
            )
        if any(parameter.grad is not None for parameter in model.parameters()):
            return _Seen(problem="a backward has run already when the loss comes back")
        if untouched != [parameter.tolist() for parameter in model.parameters()]:
            return _Seen(problem="the weights of the model were changed")
        before_bytes = ledger.mark("before backward").total_bytes
        loss.backward()
    weight_bytes = sum(parameter.nbytes for parameter in model.parameters())
    of_position = batch.num_sequences * _VOCABULARY * tokens.element_size()  # float64 has as many bytes
    gradients = [(p.new_zeros(p.shape) if p.grad is None else p.grad).flatten() for p in model.parameters()]
    return _Seen(
        loss.item(),
        torch.cat(gradients),
        (before_bytes - weight_bytes) / of_position,
        (ledger.peak().total_bytes - 2 * weight_bytes) / of_position,
    )


def _compare(right: Any, got: Any) -> str:
    """The value, the gradients, and then what was held."""
    if not isinstance(got, _Seen) or got.problem:
        return got.problem if isinstance(got, _Seen) else f"a tensor is to come, and what came is {short(got)}"
    if found := _close(right.loss, got.loss):
        return f"the loss: {found}"
    if found := _close(right.gradients, got.gradients):
        return f"the loss is right; its gradients: {found}"
    for when, most, held in (("before backward", right.before, got.before), ("at the fullest", right.peak, got.peak)):
        if held > most:
            words = (
                f"the loss and its gradients are right; {when} your code held, beside weights and gradients, as many "
                f"bytes as the scores of {held:.0f} positions take, and {most:.0f} are enough"
            )
            return Difference(words, _HELD)
    return ""


# -- the oracle, and usual wrong answers ------------------------------------------------------------------------------


def _whole(model: Transformer, tokens: Tensor, length: int) -> Tensor:
    return next_token_loss(model(tokens), tokens)


def _sums(model: Transformer, tokens: Tensor, length: int, *, again: bool = True, mean: bool = False) -> list[Tensor]:
    """Of each piece the sum over its positions, or the mean."""
    x = model.stem(tokens)
    for block in model.blocks:
        x = block(x)

    def of_piece(x: Tensor, targets: Tensor) -> Tensor:
        return next_token_loss(model.head(x), targets, reduction="mean" if mean else "sum")

    pieces = zip(x.split(length, dim=1), tokens.split(length, dim=1), strict=True)
    return [checkpoint(of_piece, *one, use_reentrant=False) if again else of_piece(*one) for one in pieces]


def _in_pieces(model: Transformer, tokens: Tensor, length: int) -> Tensor:
    return torch.stack(_sums(model, tokens, length)).sum() / tokens.numel()


@lru_cache(maxsize=8)
def _right(batch: _Batch) -> _Seen:
    """The numbers of the whole loss; of memory what pieces need, and some."""
    numbers, memory = _step(_whole, batch), _step(_in_pieces, batch)
    slack = _SLACK * batch.num_tokens
    return _Seen(numbers.loss, numbers.gradients, memory.before + slack, memory.peak + slack)


def _mean_of_means(model: Transformer, tokens: Tensor, length: int) -> Tensor:
    return torch.stack(_sums(model, tokens, length, mean=True)).mean()


def _mean_of_sums(model: Transformer, tokens: Tensor, length: int) -> Tensor:
    return torch.stack(_sums(model, tokens, length)).mean()


def _one_sequence(model: Transformer, tokens: Tensor, length: int) -> Tensor:
    return torch.stack(_sums(model, tokens, length)).sum() / tokens.size(1)


def _held(check: Callable[[Any, Any], bool]) -> Callable[[Evidence], bool]:
    """The numbers are right everywhere, and ``check(got, right)`` is so of what the first case held."""

    def recognise(evidence: Evidence) -> bool:
        first, *_ = evidence.outcomes
        too_much = evidence.error is None and all(one.kind_of_difference == _HELD for one in evidence.wrong)
        return too_much and bool(first.difference) and check(first.got, first.expected)

    return recognise


def _held_before(got: _Seen, right: _Seen) -> bool:
    return got.before > right.before


LOSS = Exercise(
    name="11.loss",
    title="The loss of a few positions at a time",
    judge=by_cases(
        [
            Case("32 tokens, 4 at a time", (_Batch(1, 32, 4),), _right),
            Case("2 sequences of 30 tokens, 4 at a time, and 2 in the last piece", (_Batch(2, 30, 4),), _right),
            Case("24 tokens, all in one piece", (_Batch(1, 24, 32),), _right),
        ],
        call=_step,
        compare=_compare,
    ),
    mistakes=(
        Mistake(
            "as-it-was",
            "The loss is right, but the scores of all positions are there at the same time: your loss holds as much "
            "as the colleague's.",
            recognise=_held(lambda got, right: _held_before(got, right) and got.peak > 2 * right.peak),
        ),
        Mistake(
            "pieces-kept",
            "The loss is right and made of pieces, but before backward what belongs to all of them is still there. "
            "Each piece's scores were kept for backward. They are made a few at a time, but in the end all of them "
            "are there.",
            recognise=_held(lambda got, right: _held_before(got, right) and got.peak <= 2 * right.peak),
        ),
        Mistake(
            "all-again-at-once",
            "Before backward nothing is kept, but in backward all scores are there at once: you compute them again in "
            "one piece.",
            recognise=_held(lambda got, right: not _held_before(got, right)),
        ),
        Mistake(
            "mean-of-means",
            "The loss is right where all pieces have one size. A shorter last piece weighs as much as the others, so "
            "each of its tokens weighs more.",
            _mean_of_means,
        ),
        Mistake(
            "mean-of-sums",
            "You take the mean over the pieces, and each of them has the sum over its positions. Add up the sums, and "
            "divide once, by the number of tokens.",
            _mean_of_sums,
        ),
        Mistake(
            "length-of-one-sequence",
            "With one sequence the loss is right. With two it is twice as large as it should be: take the mean over "
            "all tokens of the batch.",
            _one_sequence,
        ),
        Mistake(
            "no-graph",
            "The number may be right, but backward cannot begin at it: an `item()`, a `detach()` or a new tensor has "
            "no graph.",
            recognise=lambda evidence: all(o.kind_of_difference == _NO_GRAPH for o in evidence.outcomes),
        ),
    ),
    hints=(
        "Two things are needed: never the scores of more than `length` positions at once, and no scores kept for "
        "backward. Which of the two do you get by calling `of_piece` for one piece after the other?",
        "`of_piece` gives the sum over a piece. Make each call one that keeps its inputs alone. Then a sum over the "
        "pieces and one division are left.",
        "`checkpoint(of_piece, *piece, use_reentrant=False)` for each of `pieces`; `torch.stack` of them, `.sum()`, "
        "and divided by `tokens.numel()`.",
    ),
    passed="The loss and its gradients are those of the whole, and the scores of many positions were never there at "
    "once.",
)
