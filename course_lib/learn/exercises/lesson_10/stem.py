"""10.stem: a token of a cut sequence gets the vector of its position in the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.layouts.sequence_cut import SequenceCut
from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.exercises.lesson_08.tries import weighted_sum
from course_lib.learn.judging.compare import close_to, short
from course_lib.learn.judging.judge import by_cases
from course_lib.learn.judging.kept_references import Traces
from course_lib.models import TransformerConfig
from course_lib.models.transformer import Embedding

__all__ = ["STEM"]

_CUTS = (
    SequenceCut(16, 2),
    SequenceCut(16, 4),
    SequenceCut(13, 3),
    SequenceCut(16, 4, "contiguous"),
    SequenceCut(6, 1),
)
_close = close_to(1e-12, 1e-12)


@dataclass(frozen=True)
class _Seen:
    """Of each rank its output, and the gradient that it leaves at the vectors of positions."""

    outputs: list[Tensor]
    gradients: list[Tensor]
    problem: str = ""


def _embedding() -> Embedding:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = TransformerConfig(vocab_size=20, context_length=18, width=6, num_heads=2)  # longer than any sequence
        return Embedding(config).double()


def _tokens(cut: SequenceCut) -> Tensor:
    return (torch.arange(2 * cut.num_tokens) ** 2 * 7 % 20).view(2, -1)


def _seen(answer: Any, cut: SequenceCut) -> Any:
    seen, traces = _Seen([], []), Traces()
    for rank in range(cut.num_ranks):
        embedding, tokens = _embedding(), _tokens(cut)
        stem = answer(Rank(rank, cut.num_ranks, torch.device("cpu"), "gloo"), embedding, cut)
        if not isinstance(stem, nn.Module):
            return _Seen([], [], f"a class of modules is to come, and what it makes is {short(stem)}")
        output = stem(tokens)
        if output is ...:
            return ...
        if not isinstance(output, Tensor):
            return _Seen([], [], f"rank {rank}: a tensor is to come, and what came is {short(output)}")
        if output.requires_grad:
            weighted_sum(output).backward()
        table = embedding.positions.weight
        seen.outputs.append(output.detach())
        seen.gradients.append(torch.zeros_like(table) if table.grad is None else table.grad)
    if seeded := traces.found(None):
        return _Seen([], [], f"your code {seeded}")
    return seen


def _right(cut: SequenceCut) -> _Seen:
    """By one device: the stem of the whole sequence, of which each rank has some positions."""
    seen = _Seen([], [])
    for rank in range(cut.num_ranks):
        embedding = _embedding()
        output = embedding(_tokens(cut))[:, cut.positions(rank)]
        weighted_sum(output).backward()
        assert embedding.positions.weight.grad is not None  # every rank has a position
        seen.outputs.append(output.detach())
        seen.gradients.append(embedding.positions.weight.grad)
    return seen


def _compare(right: Any, got: Any) -> str:
    if not isinstance(got, _Seen) or got.problem:
        return got.problem if isinstance(got, _Seen) else f"a module is to come, and what came is {short(got)}"
    for rank, (want, have) in enumerate(zip(right.outputs, got.outputs, strict=True)):
        if found := _close(want, have):
            return f"the output of rank {rank}: {found}"
    for rank, (want, have) in enumerate(zip(right.gradients, got.gradients, strict=True)):
        if found := _close(want, have):
            return f"outputs are right; the gradient of the vectors of positions on rank {rank}: {found}"
    return ""


# -- usual wrong answers ----------------------------------------------------------------------------------------------


class _Stem(nn.Module):
    def __init__(self, me: Rank, embedding: Embedding, cut: SequenceCut) -> None:
        super().__init__()
        self.cut, self.group_rank = cut, me.rank
        self.tokens, self.positions = embedding.tokens, embedding.positions

    def forward(self, tokens: Tensor) -> Tensor:
        own = tokens[:, self.cut.positions(self.group_rank)]
        return self.vectors(own)

    def vectors(self, own: Tensor) -> Tensor:
        return self.tokens(own) + self.positions(self.numbers(own.size(1)))

    def numbers(self, count: int) -> Tensor:
        """As the team has it."""
        return torch.arange(count)


class _EqualParts(_Stem):
    def numbers(self, count: int) -> Tensor:
        return torch.arange(count) + self.group_rank * count


class _OnFromTheFirst(_Stem):
    def numbers(self, count: int) -> Tensor:
        return torch.arange(count) + self.cut.positions(self.group_rank)[0]


class _EveryNth(_Stem):
    def numbers(self, count: int) -> Tensor:
        return torch.arange(count) * self.cut.num_ranks + self.group_rank


class _TokensAlone(_Stem):
    def vectors(self, own: Tensor) -> Tensor:
        return self.tokens(own)


STEM = Exercise(
    name="10.stem",
    title="Positions travel with their tokens",
    judge=by_cases([Case(f"a sequence cut by {cut}", (cut,), _right) for cut in _CUTS], call=_seen, compare=_compare),
    mistakes=(
        Mistake(
            "as-it-was",
            "Every rank counts its tokens from 0. The first token of each rank gets the vector of position 0, wherever "
            "it stands in the sequence.",
            _Stem,
        ),
        Mistake(
            "equal-parts",
            "Rank r counts from r times the number of its tokens. That fits where each rank has one part of the "
            "sequence, all of one size. Dealt out, a rank has two.",
            _EqualParts,
        ),
        Mistake(
            "on-from-the-first",
            "The first token of each rank has its position, and the others are counted on from there. A rank's tokens "
            "may stand in two places of the sequence, with a gap between them.",
            _OnFromTheFirst,
        ),
        Mistake(
            "every-nth",
            "You number tokens as if ranks took turns, one token each. The cut deals out runs of neighbours.",
            _EveryNth,
        ),
        Mistake(
            "tokens-alone",
            "The vectors of positions are missing: the output has those of the tokens alone.",
            _TokensAlone,
        ),
    ),
    hints=(
        "Take four ranks and sixteen tokens, dealt out. Which tokens does rank 1 have, and at which positions do they "
        "stand?",
        "A tensor of the positions, in the order of the tokens in `own`. `self.cut` knows which rank has which "
        "positions; ask it about `self.group_rank`.",
        "`torch.tensor(self.cut.positions(self.group_rank), device=own.device)`.",
    ),
    passed="Every token gets the vector of its position in the whole sequence, however it is cut.",
)
