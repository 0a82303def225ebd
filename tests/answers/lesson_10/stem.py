"""10.stem: the vector of a token's position in the whole sequence."""

from __future__ import annotations

import torch
from answer_table import Row
from torch import nn


class Stem(nn.Module):
    def __init__(self, me, embedding, cut):
        super().__init__()
        self.cut, self.group_rank = cut, me.rank
        self.tokens, self.positions = embedding.tokens, embedding.positions

    def forward(self, tokens):
        own = tokens[:, self.cut.positions(self.group_rank)]
        return self.tokens(own) + self.positions(self.numbers(own))


class Right(Stem):
    def numbers(self, own):
        return torch.tensor(self.cut.positions(self.group_rank))


class OfThePage(Stem):
    """Right for 64 tokens on 4 ranks, where each has two runs of 8."""

    def numbers(self, own):
        front, back = 8 * self.group_rank, 64 - 8 * (self.group_rank + 1)
        return torch.cat([torch.arange(front, front + 8), torch.arange(back, back + 8)])[: own.size(1)]


class BackFirst(Stem):
    def numbers(self, own):
        return torch.cat([torch.arange(run.start, run.stop) for run in reversed(self.cut.runs(self.group_rank))])


class Constant(Stem):
    """The right vectors, of which the model learns nothing."""

    def forward(self, tokens):
        mine = self.cut.positions(self.group_rank)
        return self.tokens(tokens[:, mine]) + self.positions.weight.detach()[mine]


ROWS = [
    Row(answer=Right, verdict="passed", why="the definition"),
    Row(answer=OfThePage, verdict="not yet", mistake="", why="other lengths, other runs"),
    Row(answer=BackFirst, verdict="not yet", mistake="", why="a rank's tokens stand in rising order"),
    Row(answer=Constant, verdict="not yet", mistake="", why="no gradient", words=("gradient of the vectors",)),
]
