"""What lesson 02 asks before a run, and tells after it.

Its clinics are in ``predictions_clinic``, what it asks of groups in ``predictions_groups``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from course_lib.cost.collectives.collective_cost import CollectiveCost, collective_cost
from course_lib.layouts.link import Link
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.learn.exercises.lesson_02.predictions.clinic import CLINICS
from course_lib.learn.exercises.lesson_02.predictions.groups import GROUPS

if TYPE_CHECKING:
    from course_lib.meter import Communication
    from course_lib.parallel.collectives.recording import Recording

__all__ = ["PREDICTIONS"]

_RANKS = 4
_MIB = 2**20
_LINK = Link(latency_s=50e-6, bandwidth_bytes_per_s=2e9)  # neither bytes nor messages depend on it

# Rank by rank and place by place: (source, piece) that are in it.
Held = Sequence[Sequence[Collection[tuple[int, int]]]]


def _cost(algorithm: str, size_bytes: int = _MIB) -> CollectiveCost:
    return collective_cost("all_reduce", size_bytes, _LINK, num_ranks=_RANKS, algorithm=algorithm)


# -- bytes -----------------------------------------------------------------------------------------------------------

_COLLECTIVES = ("broadcast", "all_gather", "reduce", "reduce_scatter", "all_reduce, ring", "all_to_all")


def _brings_a_quarter(held: Held) -> bool:
    """Whether each rank ends with its own part of the sum alone."""
    return all(
        set(pieces) == ({(source, rank) for source in range(len(held))} if place == rank else set())
        for rank, places in enumerate(held)
        for place, pieces in enumerate(places)
    )


def _which(held_at_the_end: Mapping[str, Held]) -> Explanation:
    found = [name for name in _COLLECTIVES if _brings_a_quarter(held_at_the_end[name])]
    return Explanation(
        measured=" and ".join(found) or "none of them",
        because="A reduce-scatter sums, and leaves each part of the sum with one rank.",
        misreadings={
            "all_reduce, ring": "It brings the quarter, and the three others too, at twice the bytes, as you will see.",
            "reduce": "One rank has everything then, and the others nothing.",
            "all_to_all": "It brings every rank the parts that it needs, unsummed: each could add them up itself.",
            "broadcast": "It adds nothing: everybody gets what one rank had.",
            "all_gather": "It adds nothing: everybody gets a part of everybody.",
        },
    )


def _naive(sent: Communication) -> Explanation:
    model = _cost("naive")
    return Explanation(
        measured=(sent.sent_bytes(0) + sent.received_bytes(0)) / _MIB,
        model=(model.bytes_sent[0] + model.bytes_received[0]) / _MIB,
        because="Three tensors come in and three go out, while three ranks wait. With n ranks it is n - 1 tensors each "
        "way.",
        misreadings={
            4: "Four tensors exist, and one of them is rank 0's own, which need not travel. The others travel twice: "
            "as numbers to rank 0, and as the sum from it.",
            3: "That is what comes in. The sum goes out again, to three ranks.",
            2: "That is what one of the other ranks sends and receives.",
        },
        apart="Bytes are counted, not timed, so nothing on this machine disturbs them. Look for the row or the column "
        "of the table that is not what you expect.",
    )


def _ring_bytes(sent: Communication) -> Explanation:
    return Explanation(
        measured=sent.busiest_bytes / _MIB,
        model=_cost("ring").busiest_port_bytes / _MIB,
        because="2 (n - 1) messages of 1/n of the tensor: three in the first lap, three in the second.",
        misreadings={
            3: "That would be the whole tensor in each of three steps. Only a quarter travels in a step.",
            6: "That is the port of rank 0 in the naive way. Here a quarter of the tensor travels in each of six "
            "steps.",
            0.75: "That is the first lap. The complete parts have to go round as well.",
            1: "Close. Three quarters in the first lap, and three quarters in the second.",
            2: "Close: with very many ranks it comes to that.",
        },
        apart="Bytes are counted, not timed, so nothing on this machine disturbs them. Ask which lap sent more or less "
        "than a quarter in a step: the recording below shows the first.",
    )


def _reduce_scatter(theirs: Communication, ours: Communication) -> Explanation:
    times = theirs.sent_bytes(0) / ours.sent_bytes(0)
    gloo = (
        "PyTorch's back end for gloo, which carries messages between CPU ranks, answers this call with all-reduces, "
        "one for each rank's part. Each rank keeps its own, so the second lap of every one of them is for nothing."
    )
    nccl = "These ranks use NCCL, which stops after the first lap. PyTorch's back end for gloo goes round twice."
    return Explanation(
        measured=times,
        label="the meter counts",
        because=gloo if times > 1.5 else nccl,
        misreadings={
            1: "That would be natural, and with NCCL, the library for GPUs, it is so. On CPU ranks it is not.",
            lambda factor: factor < 1: "Ours sends three quarters of the tensor, and less does not suffice: each part "
            "must meet all four ranks.",
        },
    )


# -- time ------------------------------------------------------------------------------------------------------------

_SIZE = 64  # bytes: 16 numbers
_NEAR = 1.1  # two times within this factor are the same
_APART = 1.25  # beyond this factor the model has left something out


def _quicker(ring_s: float, tree_s: float) -> str:
    if 1 / _NEAR <= ring_s / tree_s <= _NEAR:
        return "the same"
    return "ring" if ring_s < tree_s else "tree"


def _small(times_s: Mapping[str, Sequence[float]]) -> Explanation:
    """``times_s``: for the ring and for the tree a time for every size, the smallest size first."""
    ring, tree = _cost("ring", _SIZE), _cost("tree", _SIZE)
    in_a_row = {one.algorithm: round(one.time_s / _LINK.latency_s) for one in (ring, tree)}
    by_model, here = ring.time_s / tree.time_s, times_s["ring"][0] / times_s["tree"][0]
    because = (
        "The time of so small a message is nearly all latency. By the model, messages in a row count: "
        f"{in_a_row['ring']} around the ring, {in_a_row['tree']} along the tree. The ring should take {by_model:.1f} "
        f"times as long. In this run it took {here:.1f} times as long."
    )
    left_out = (
        " Messages in a row do not account for that. The model leaves out what a message costs the ranks at its two "
        f"ends, such as the Python of each call. In all, the ring sends {sum(ring.messages_sent)} messages and the "
        f"tree {sum(tree.messages_sent)}: where ranks share cores, that work queues. The next cell looks into it."
    )
    return Explanation(
        measured=_quicker(times_s["ring"][0], times_s["tree"][0]),
        model=_quicker(ring.time_s, tree.time_s),
        because=because + (left_out if here > _APART * by_model else ""),
        misreadings={
            "ring": "The ring sends the fewest bytes, but 16 numbers have few bytes anyway. It has six messages in a "
            "row.",
            "the same": "They send nearly the same bytes; but the ring has six messages in a row, and the tree four.",
        },
        apart="A machine that does something else at the same time can turn the order round. Run the cells again: if "
        "the order turns back, other work was the reason. If it stays, see what the next cell says.",
    )


def _algbw(found: CollectiveCost) -> Explanation:
    link = found.bus_bandwidth_bytes_per_s / 1e9
    return Explanation(
        measured=found.algorithm_bandwidth_bytes_per_s / 1e9,
        label="the cost model says",
        because=f"Each rank sends nearly twice the tensor, {found.bytes_sent[0] / found.size_bytes:.2f} times its "
        f"size. So the links carry {link:.0f} GB/s all the time, and the tensor's size divided by the time is "
        "about half of that.",
        misreadings={
            50: "That is what goes through a link. But each rank has to send nearly two tensors.",
            100: "Both directions at once: a rank sends while it receives, but what it sends is nearly two tensors.",
            lambda rate: rate < 2: "A ring does not share one link among its ranks: all links work at the same time.",
        },
    )


# -- the explorer ----------------------------------------------------------------------------------------------------


def _halving(recordings: Sequence[Recording]) -> Explanation:
    found = {recording.name.partition(", ")[2] or recording.name: recording for recording in recordings}
    halving, ring = found["halving-doubling"], found["ring"]
    sent = [halving.sent_bytes(rank) / ring.sent_bytes(rank) for rank in range(_RANKS)]
    bytes_too = "as many bytes as in the ring" if set(sent) == {1.0} else f"{max(sent):.2f} times the ring's bytes"
    return Explanation(
        measured=halving.num_steps,
        model=round(_cost("halving-doubling", 0).time_s / _LINK.latency_s),
        because=f"Half of the tensor, then a quarter, and the same way back; each rank sends {bytes_too}. So it takes "
        "the ring's bytes and the tree's steps. It has a price: partners are far apart, so that on a real network its "
        "messages share links. And a number of ranks that is no power of two needs extra steps.",
        misreadings={
            6: "That is the ring. Here a partner stands for a whole half of the ranks, not for one of them.",
            2: "That is the way to one complete part. The way back is as long.",
            3: "In three steps a rank could meet all others. Here it has two partners, and meets each of them twice.",
        },
    )


PREDICTIONS = (
    Asked(
        name="02.which",
        question="Which collective brings each rank its quarter of the sum?",
        choices=_COLLECTIVES,
        tell=_which,
    ),
    Asked(
        name="02.naive",
        question="How many MiB go through rank 0's port, in and out together?",
        unit="MiB",
        tell=_naive,
    ),
    Asked(
        name="02.ring_bytes",
        question="A ring of 4 ranks, 1 MiB: how much does each rank send?",
        unit="MiB",
        tell=_ring_bytes,
    ),
    Asked(
        name="02.small",
        question="Four ranks, 16 numbers: which is faster?",
        choices=("ring", "tree", "the same"),
        tell=_small,
    ),
    Asked(
        name="02.reduce_scatter",
        question="How many times as much does PyTorch's reduce-scatter send as the course's?",
        unit="times",
        tell=_reduce_scatter,
    ),
    Asked(
        name="02.halving",
        question="Halving-doubling on 4 ranks: how many steps?",
        unit="steps",
        tell=_halving,
    ),
    Asked(
        name="02.algbw",
        question="64 ranks, a ring over links of 50 GB/s: how many GB/s is the size divided by the time?",
        unit="GB/s",
        tell=_algbw,
    ),
    *GROUPS,
    *CLINICS,
)
