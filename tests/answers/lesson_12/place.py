"""12.place: node and local rank."""

from __future__ import annotations

from answer_table import Row


class Plain:
    def __init__(self, sizes):
        self.sizes = sizes
        self.table = [(node, local) for node, size in enumerate(sizes) for local in range(size)]

    def place_of(self, rank):
        return self.table[rank]

    def rank_of(self, node, local_rank):
        return self.table.index((node, local_rank))


class ATableOf64(Plain):
    def __init__(self, sizes):
        self.sizes = sizes
        self.table = [(node, local) for node, size in enumerate(sizes) for local in range(size)][:64]


class NoNodeWithoutRanks:
    def __init__(self, sizes):
        self.sizes = sizes

    def place_of(self, rank):
        node = 0
        while rank > 0 and rank >= self.sizes[node]:
            rank -= self.sizes[node]
            node += 1
        return node, rank

    def rank_of(self, node, local_rank):
        return sum(self.sizes[:node]) + local_rank


ROWS = [
    Row(answer=Plain, verdict="passed", why="a table of all places"),
    Row(answer=ATableOf64, verdict="raised", why="a job may have more than 64 ranks", words=("[64, 24, 8]",)),
    Row(
        answer=NoNodeWithoutRanks,
        verdict="passed",
        why="on [2, 0, 3] it puts rank 2 on node 1; but torchrun has no node without ranks, and no line asks for one",
        words=("of one rank and of many",),
        unsaid=("of any sizes",),
    ),
]
