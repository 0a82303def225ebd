"""Right answers to 10.stem in other styles than the lesson's: no learner sees them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.layouts.sequence_cut import SequenceCut
from course_lib.models.transformer import Embedding
from course_lib.parallel.context import own_positions

__all__ = ["ANSWERS", "SAME"]


class _Stem(nn.Module):
    """As the page has it, but for the numbers of positions."""

    def __init__(self, me: Rank, embedding: Embedding, cut: SequenceCut) -> None:
        super().__init__()
        self.cut, self.group_rank = cut, me.rank
        self.tokens, self.positions = embedding.tokens, embedding.positions

    def forward(self, tokens: Tensor) -> Tensor:
        own = own_positions(self.cut, self.group_rank, tokens)
        return self.tokens(own) + self.positions(self.numbers(tokens))

    def numbers(self, tokens: Tensor) -> Tensor:
        raise NotImplementedError


class ByRuns(_Stem):
    def numbers(self, tokens: Tensor) -> Tensor:
        runs = self.cut.runs(self.group_rank)
        return torch.cat([torch.arange(run.start, run.stop, device=tokens.device) for run in runs])


class CutAsTokensAre(_Stem):
    """The numbers of all positions, cut like the tokens."""

    def numbers(self, tokens: Tensor) -> Tensor:
        everywhere = torch.arange(tokens.size(1), device=tokens.device).expand_as(tokens)
        return own_positions(self.cut, self.group_rank, everywhere)


class ByAMask(_Stem):
    def numbers(self, tokens: Tensor) -> Tensor:
        is_mine = torch.zeros(tokens.size(1), dtype=torch.bool)
        is_mine[self.cut.positions(self.group_rank)] = True
        return is_mine.nonzero().squeeze(1)


class VectorsCut(_Stem):
    """The vectors of all positions, of which this rank takes its own."""

    def forward(self, tokens: Tensor) -> Tensor:
        every = self.tokens(tokens) + self.positions.weight[: tokens.size(1)]
        return own_positions(self.cut, self.group_rank, every)


class NumbersKept(_Stem):
    """Made once, when the stem is."""

    def __init__(self, me: Rank, embedding: Embedding, cut: SequenceCut) -> None:
        super().__init__(me, embedding, cut)
        self.register_buffer("own", torch.tensor(cut.positions(me.rank)), persistent=False)

    def numbers(self, tokens: Tensor) -> Tensor:
        return self.get_buffer("own")


ANSWERS = (ByRuns, CutAsTokensAre, ByAMask, VectorsCut, NumbersKept)
SAME: dict[str, str] = {}
