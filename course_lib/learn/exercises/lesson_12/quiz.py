"""The quizzes of lesson 12, over parts a to d and of part e; right answers are computed."""

from __future__ import annotations

from collections import Counter

import torch

from course_lib.cost.collectives.machines import machine_spec
from course_lib.cost.mesh.all_reduce_at_scale import hierarchical_sent_bytes
from course_lib.cost.reliability.checkpoints import young_interval_s
from course_lib.layouts.mesh import Mesh
from course_lib.learn.catalogue.quiz_spec import Question
from course_lib.learn.sick import bit_flips
from course_lib.parallel.collectives import hash_of_bits

__all__ = ["QUIZ"]

_TIMES = {0.25: "a quarter as long", 0.5: "half as long", 1.0: "as long as before", 2.0: "twice as long"}
_NODES, _RANKS = 2, 8
_SUSPECTS = {
    1: "rank 5 is wrong",
    2: "one of two ranks is wrong, and nobody knows which",
    8: "one of the eight ranks of a replica is wrong, and nobody knows which",
    0: "nothing: no two ranks hold the same bits",
}


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


def _suspects(mesh: Mesh, wrong: int) -> int:
    """Among how many ranks a vote finds the wrong one; 0 where no other rank holds a copy of its shard."""
    copies = mesh.group(wrong, "dp_replicate")
    held = {rank: torch.arange(4.0) + mesh.coordinates(rank)["dp_shard"] for rank in copies}
    bit_flips.flip_bit(held[wrong], bit=22)
    votes = Counter(hash_of_bits([shard]) for shard in held.values())
    most = max(votes.values())
    if len(copies) == 1:
        return 0
    return len(copies) - most if 2 * most > len(copies) else len(copies)


def _times_in_two_racks(apart: int, num_ranks: int = 16) -> float:
    """An all-to-all of 1 GB a rank with this many ranks in another rack, in that of one rack: the last one ends it."""
    machine, piece = machine_spec("72x GB200"), 1e9 / num_ranks

    def ends_s(here: int) -> float:
        near, far = (here - 1) * piece, (num_ranks - here) * piece
        return max(machine.intra.time_s(near), machine.inter.time_s(far) if far else 0.0)

    return round(max(ends_s(apart), ends_s(num_ranks - apart)) / ends_s(num_ranks), 1)


QUIZ = (
    Question(
        name="place",
        text="Nodes of 4 ranks, numbered from 0. On which node is global rank 13, and what is its local rank?",
        choices=((3, 1), (1, 3), (4, 1), (3, 3)),
        answer=_place,
        show=lambda place: f"node {place[0]}, local rank {place[1]}",
        misconceptions={
            (1, 3): "You exchanged the quotient and the remainder.",
            (4, 1): "Three nodes are full with ranks 0 to 11; counting begins at 0.",
            (3, 3): "Rank 12 is the first one of node 3.",
        },
        because="13 is 3 times 4, and 1: three full nodes come before rank 13, and one rank of its own node.",
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
        "not come back; the store of the rendezvous is on another node. How many ranks does the job have then?",
        choices=(0, 8, 24, 31),
        answer=_after_a_death,
        show=lambda ranks: f"{ranks} ranks" if ranks else "none: it is over",
        misconceptions={
            0: "That would be so with --nnodes 4, or without the store. With 2:4 as few as two nodes are enough.",
            8: "All agents that are left meet again, not the first one alone.",
            31: "With a node all of its ranks are lost, and then the whole group starts anew.",
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
            2.0: "Writing seldom is good if failures are rare. Here they come more often.",
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
            6: "You divided GB/s by Gbit/s: a byte has 8 bits.",
            22: "The data sheet gives the speed in each direction, and bus bandwidth counts one direction.",
            88: "200 Gbit/s are 25 GB/s, not 12.5.",
        },
        because="200 Gbit/s are 25 GB/s. With 44 % somebody should look: at the cards in use, at GPU Direct RDMA, "
        "at a variable that was left in a script.",
    ),
    Question(
        name="copies",
        part="e",
        text="Hybrid sharding, dp_replicate=2 × dp_shard=8. On rank 5 a bit of a weight flips. Then the "
        "ranks that should hold the same bits vote. What does the vote say?",
        choices=tuple(_SUSPECTS),
        answer=lambda: _suspects(Mesh.of(dp_replicate=2, dp_shard=8), wrong=5),
        show=lambda ranks: _SUSPECTS[ranks],
        misconceptions={
            1: "That takes a majority against rank 5. How many ranks hold what it should hold?",
            8: "Within a replica each rank has another shard. Which ranks have the same one as rank 5?",
            0: "That is so with ZeRO-3 over all ranks. Here the shards of one replica are also held by the other.",
        },
        because="Each shard is held twice, this one by ranks 5 and 13, and one vote stands against the other. The job "
        "goes back to where they last agreed. With three replicas the vote would name rank 5.",
    ),
    Question(
        name="one-node",
        part="e",
        text="An all-to-all among 16 ranks, on four nodes of a 72x GB200: 1 GB a rank, a sixteenth for each. A GPU "
        "sends 900 GB/s over NVLink and, at the same time, 50 GB/s over the network. One of the four nodes stands in "
        "another rack. How many times as long does the all-to-all take as in one rack?",
        choices=(4.8, 9.6, 14.3, 18.0),
        answer=lambda: _times_in_two_racks(apart=4),
        show=lambda times: f"{times:g} times",
        misconceptions={
            4.8: "After that time the ranks of three nodes have sent everything. Which rank do they wait for?",
            9.6: "That is so with two nodes in each rack. What does a rank of the lone node send to the other rack?",
            18.0: "That would be so if nothing stayed within a rack. A node has four ranks.",
        },
        because="A rank of the lone node sends 12 of 16 parts over the network, where with two nodes in each rack it "
        "sends 8. The other twelve ranks send 4 and wait. So one node in another rack costs more than two.",
    ),
)
