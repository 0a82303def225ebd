"""The quiz of lesson 12, over all its parts; right answers are computed."""

from __future__ import annotations

from course_lib.cost.mesh.all_reduce_at_scale import hierarchical_sent_bytes
from course_lib.cost.reliability.checkpoints import young_interval_s
from course_lib.learn.catalogue.quiz_spec import Question

__all__ = ["QUIZ"]

_TIMES = {0.25: "a quarter as long", 0.5: "half as long", 1.0: "as long as before", 2.0: "twice as long"}
_NODES, _RANKS = 2, 8


def _place() -> tuple[int, int]:
    """Node and local rank of global rank 13, on nodes of 4 ranks."""
    node, local_rank = divmod(13, 4)
    return node, local_rank


def _crossing_mb() -> int:
    """MB that leave a node in a hierarchical all-reduce of 800 MB, on 2 nodes of 8 ranks."""
    of_ranks = hierarchical_sent_bytes(200_000_000, 4, _NODES, _RANKS)  # float32
    return round(sum(sent.between_bytes for sent in of_ranks[:_RANKS]) / 1e6)


def _after_a_death() -> int:
    """Ranks of a job with --nnodes 2:4 and 8 ranks a node after one of 4 nodes has died."""
    fewest, nodes, dead = 2, 4, 1
    left = nodes - dead
    return 8 * left if left >= fewest else 0


def _interval() -> float:
    """The best interval on four times as many GPUs, in that of before."""
    return young_interval_s(60.0, 3600.0 / 4) / young_interval_s(60.0, 3600.0)


def _share() -> int:
    """Per cent of the data sheet: 11 GB/s on cards of 200 Gbit/s."""
    return round(100 * 11 / (200 / 8))


QUIZ = (
    Question(
        name="place",
        text="Nodes of 4 ranks, numbered from 0. Which node, and which local rank, has global rank 13?",
        choices=((3, 1), (1, 3), (4, 1), (3, 3)),
        answer=_place,
        show=lambda place: f"node {place[0]}, local rank {place[1]}",
        misconceptions={
            (1, 3): "That is the remainder in place of the quotient, and the other way round.",
            (4, 1): "Three nodes are full with ranks 0 to 11; counting begins at 0.",
            (3, 3): "Rank 12 is the first one of node 3.",
        },
        because="13 = 3 times 4 and 1: three full nodes before it, and one rank before it on its own.",
    ),
    Question(
        name="crossing",
        text="2 nodes of 8 ranks. A hierarchical all-reduce of 800 MB: how many MB leave each node?",
        choices=(100, 800, 1500, 12_800),
        answer=_crossing_mb,
        show=lambda megabytes: f"{megabytes} MB",
        misconceptions={
            100: "That is what each rank sends across, its eighth. All 8 ranks of a node do so.",
            1500: "That is a flat ring through 16 ranks: 2 times 15/16 of the message cross each of its links.",
            12_800: "No rank sends the whole message across; each has an eighth of the sum to exchange.",
        },
        because="After the reduce-scatter each of 8 ranks has 100 MB of its node's sum, and exchanges it with its "
        "partner. Together that is the message once.",
    ),
    Question(
        name="dead",
        text="`torchrun --nnodes 2:4 --nproc-per-node 8 --max-restarts 3` on 4 nodes. A node loses power and does "
        "not come back; the store of the rendezvous is on another. How many ranks has the job then?",
        choices=(0, 8, 24, 31),
        answer=_after_a_death,
        show=lambda ranks: f"{ranks} ranks" if ranks else "none: it is over",
        misconceptions={
            0: "So it would be with --nnodes 4, or without the store. With 2:4 as few as two nodes are enough.",
            8: "All agents that are left meet again, not the first one alone.",
            31: "A node takes all its ranks with it; and what starts anew is the whole group.",
        },
        because="Three agents are left, and two are enough. They meet again, every rank starts anew, from the last "
        "checkpoint, with a new number and a new world size.",
    ),
    Question(
        name="interval",
        text="The job moves from 4,096 to 16,384 GPUs; a checkpoint takes as long as before. How long is the best "
        "interval between checkpoints now?",
        choices=tuple(_TIMES),
        answer=_interval,
        show=lambda times: _TIMES[times],
        misconceptions={
            0.25: "Failures come four times as often, yes. But writing is half of the loss, too.",
            1.0: "Then four times as much work would be done again.",
            2.0: "Seldom is good where failures are seldom. Here they come more often.",
        },
        because="Young: the square root of twice the write time times the mean time between failures. A quarter "
        "under the root is a half.",
    ),
    Question(
        name="share",
        text="Cards of 200 Gbit/s, one for each GPU. A pre-flight says: all-reduce between nodes, bus bandwidth "
        "11 GB/s. How much of the data sheet is that?",
        choices=(6, 22, 44, 88),
        answer=_share,
        show=lambda percent: f"{percent} %",
        misconceptions={
            6: "GB/s in Gbit/s: a byte has 8 bits.",
            22: "A card is sold by what it does in each direction, and bus bandwidth counts one.",
            88: "200 Gbit/s are 25 GB/s, not 12.5.",
        },
        because="200 Gbit/s are 25 GB/s. With 44 % somebody should look: at the cards in use, at GPU Direct RDMA, "
        "at a variable that was left in a script.",
    ),
)
