"""The quiz of lesson 09; right answers come from ``Mesh``, from the library's rules, and from the cost model."""

from __future__ import annotations

from course_lib.cost.data_parallel.sharded import sharded_sent_bytes
from course_lib.layouts.mesh import Mesh
from course_lib.learn.catalogue.quiz_spec import Question

__all__ = ["QUIZ"]

_LARGE = Mesh.of(pp=2, dp_shard=4, tp=8, ranks_per_node=8)
_SMALL = Mesh.of(pp=2, dp_shard=2, tp=2)
_MICRO_BATCHES = 16
_STAGE = [(1024, 1024)] * 4  # no padding on 4 ranks


def _next_stage(rank: int) -> int:
    here = _LARGE.coordinates(rank)
    return _LARGE.rank_at(**here | {"pp": here["pp"] + 1})


def _num_shares(mesh: Mesh) -> int:
    from course_lib.parallel.mesh import DataShare

    return len({DataShare.of(mesh, rank).dp_rank for rank in range(mesh.num_ranks)})


def _num_seeds() -> int:
    from course_lib.parallel.mesh import seed_of

    return len({seed_of(_SMALL, rank, 0) for rank in range(_SMALL.num_ranks)})


def _leaving() -> str:
    """Which axes of the large mesh have messages that leave a node."""
    return " and ".join(axis for axis in _LARGE.axes if not _LARGE.stays_within_a_node(axis))


def _times_without_stages() -> float:
    """What a sharded stage sends along dp_shard in a batch of micro-batches, over what it would send in one pass.

    The weights are gathered twice for each micro-batch, the gradients reduced once.
    """
    once = sharded_sent_bytes(_STAGE, stage=3, num_ranks=4)
    third = once / 3  # two all-gathers and a reduce-scatter, of equal size
    return (2 * _MICRO_BATCHES + 1) * third / once


QUIZ = (
    Question(
        name="neighbour",
        text="pp=2, dp_shard=4, tp=8, in this order. Rank 3 is in the first stage. Which rank gets its activations?",
        choices=(4, 7, 11, 35),
        answer=lambda: _next_stage(3),
        show=lambda rank: f"rank {rank}",
        misconceptions={
            4: "The next number is the next rank along the *last* axis, tp.",
            7: "Rank 7 is half a tensor group away: no axis has that step.",
            11: "Eight ranks further is the next rank along dp_shard.",
        },
        because="Along the outermost axis one step is as many ranks as all others have together, 4 x 8.",
    ),
    Question(
        name="nodes",
        text="The same mesh on nodes of 8 ranks. Along which axes do messages leave a node?",
        choices=("pp", "dp_shard", "pp and dp_shard", "pp and dp_shard and tp"),
        answer=_leaving,
        misconceptions={
            "pp": "Four shards times eight slices are 32 ranks: more than a node has.",
            "dp_shard": "The other stage, too, is on other nodes.",
            "pp and dp_shard and tp": "A node holds one tensor group, all of it.",
        },
        because="The last axis fills a node by itself, so all axes before it go between nodes.",
    ),
    Question(
        name="shares",
        text="The same mesh. Into how many shares is a batch dealt?",
        choices=(4, 8, 32, 64),
        answer=lambda: _num_shares(_LARGE),
        misconceptions={
            8: "That is the number of slices of a layer, which all work on the same samples.",
            32: "One stage has 32 ranks; but eight at a time share a layer, and its input.",
            64: "That would be data parallelism alone.",
        },
        because="Only the data axes deal samples out, and the only data axis of this mesh is dp_shard.",
    ),
    Question(
        name="seeds",
        text="pp=2, dp_shard=2, tp=2, dropout between the split regions. How many different seeds are right?",
        choices=(1, 2, 4, 8),
        answer=_num_seeds,
        misconceptions={
            1: "Then every stage and every share of the batch would drop the same places.",
            2: "Ranks of different stages need different seeds, and so do ranks with different samples: both count.",
            8: "Two ranks of a tensor group hold the same activations there, so both have to drop the same places.",
        },
        because="There is one seed for each place along the axes other than tp.",
    ),
    Question(
        name="gathers",
        text=f"A sharded stage (ZeRO-3) with {_MICRO_BATCHES} micro-batches. How many times the bytes along dp_shard "
        "does it send, compared with one pass over the same batch?",
        choices=(1.0, 2.0, 11.0, 16.0),
        answer=_times_without_stages,
        show=lambda times: f"{times:.0f} times",
        misconceptions={
            1.0: "The samples are the same. Along dp_shard weights travel, with every micro-batch.",
            2.0: "Forward and backward need two gathers for each micro-batch.",
            16.0: "The all-gathers are 16 times as many; the gradients are reduced once, as before.",
        },
        because=f"The stage makes {2 * _MICRO_BATCHES} all-gathers and one reduce-scatter. In one pass it would make "
        "two all-gathers and one reduce-scatter.",
    ),
)
