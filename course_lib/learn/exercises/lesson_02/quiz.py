"""The quiz of lesson 02; right answers come from the cost model, or from following messages."""

from __future__ import annotations

from course_lib.cost.collectives.collective_cost import collective_cost
from course_lib.layouts.link import Link
from course_lib.learn.catalogue.quiz_spec import Question

__all__ = ["QUIZ"]

_LINK = Link(latency_s=10e-6, bandwidth_bytes_per_s=10e9)
_GB = 10**9


def _ring_share(num_ranks: int) -> float:
    return collective_cost("all_reduce", _GB, _LINK, num_ranks=num_ranks).bytes_sent[0] / _GB


def _fastest(size_bytes: int, num_ranks: int) -> str:
    names = ("ring", "tree", "naive")
    times_s = {
        name: collective_cost("all_reduce", size_bytes, _LINK, num_ranks=num_ranks, algorithm=name).time_s
        for name in names
    }
    return min(names, key=lambda name: times_s[name])


def _rounds(num_ranks: int) -> int:
    """How often the ranks that have the tensor must double."""
    have, rounds = 1, 0
    while have < num_ranks:
        have, rounds = 2 * have, rounds + 1
    return rounds


_WAYS = {  # to get every part of the sum to one rank, and then everything to every rank
    "reduce_scatter, then all_gather": ("reduce_scatter", "all_gather"),
    "all_reduce, then all_gather": ("all_reduce", "all_gather"),
    "reduce, then broadcast": ("reduce", "broadcast"),
}


def _fewest_bytes(num_ranks: int) -> str:
    """The way in which the busiest rank has least to send and to receive."""

    def busiest_bytes(way: str) -> float:
        costs = [collective_cost(name, _GB, _LINK, num_ranks=num_ranks) for name in _WAYS[way]]
        return sum(cost.busiest_port_bytes for cost in costs)

    return min(_WAYS, key=busiest_bytes)


_STEP = (4096, 1024)  # what each step of the loop sends, in this order
_COMPLETED = 4096  # numbers in call 116, on every rank
_WAITING_IN = {0: 1024, 1: 1024, 2: 4096, 3: 1024}  # numbers in each rank's call 117


def _diagnosis() -> str:
    """Whose call 117 is not the one that is due after 116."""
    due = _STEP[(_STEP.index(_COMPLETED) + 1) % len(_STEP)]
    [apart] = [rank for rank, size in _WAITING_IN.items() if size != due]
    return f"rank {apart} has left out a call"


def _clocked(time_s: float) -> str:
    model_s = collective_cost("all_reduce", 256 * 2**20, Link(5e-6, 450e9), num_ranks=8).time_s
    return "that the call was queued" if time_s < model_s / 10 else "the all-reduce"


QUIZ = (
    Question(
        name="bytes",
        text="A ring all-reduce of 1 GB among 64 ranks. How much does each rank send?",
        choices=(1 / 32, 1.0, round(_ring_share(64), 3), 63.0, 126.0),
        answer=lambda: round(_ring_share(64), 3),
        misconceptions={
            1 / 32: "That is one message out and one back. Each rank sends 2 (n - 1) of such parts.",
            1.0: "That is what 2 ranks send; with more, it grows towards twice the tensor.",
            63.0: "That is what the one busy rank of the naive way sends, and receives.",
            126.0: "That counts 2 (n - 1) messages of the whole tensor. Each message is 1/n of it.",
        },
        because="2 (n - 1)/n of the tensor: nearly twice its size, however many ranks there are.",
        show=lambda size: f"{size:.3g} GB",
    ),
    Question(
        name="own_part",
        text="Four ranks hold gradients. Each rank updates one quarter of the weights, then all need all weights. "
        "Which two collectives do that, with the fewest bytes?",
        choices=(*_WAYS, "all_to_all, then all_reduce"),
        answer=lambda: _fewest_bytes(4),
        misconceptions={
            "all_reduce, then all_gather": "The all-reduce gives everybody all sums, of which each uses a quarter: its "
            "second half is wasted.",
            "reduce, then broadcast": "Then one rank has all the sums and does all the work.",
            "all_to_all, then all_reduce": "An all-to-all adds nothing, and the all-reduce adds weights.",
        },
        because="Together they cost what one all-reduce costs, which is made of the same two halves. Lesson 05 is "
        "built on this.",
    ),
    Question(
        name="rounds",
        text="A broadcast along a tree among 64 ranks. After how many rounds has the last rank the tensor?",
        choices=(2, 6, 32, 63),
        answer=lambda: _rounds(64),
        misconceptions={
            2: "In two rounds four ranks can have it.",
            32: "The number of ranks that have it doubles in every round; it is not one pair after another.",
            63: "That is a chain, or a root that sends to everybody itself.",
        },
        because="1, 2, 4, 8, 16, 32, 64: six doublings.",
    ),
    Question(
        name="small",
        text="64 ranks all-reduce one number of 8 bytes over links of 10 µs and 10 GB/s. Which is fastest?",
        choices=("ring", "tree", "naive"),
        answer=lambda: _fastest(8, 64),
        misconceptions={
            "ring": "A ring sends the fewest bytes, but in 126 messages, one after the other: 126 latencies.",
            "naive": "63 messages wait at the port of one rank on the way in, and 63 more on the way out.",
        },
        because="Small tensors cost latency: the fewest rounds win. For large ones bytes count, and the ring wins.",
    ),
    Question(
        name="evidence",
        text="Each step of a loop all-reduces 4096 numbers, then 1024. The job hangs. All ranks have completed #116, "
        "one of 4096. Their recorders: ranks 0, 1 and 3 wait in #117, all_reduce, 1024 numbers; rank 2 waits in #117, "
        "all_reduce, 4096 numbers. What is wrong?",
        choices=("rank 2 has left out a call", "rank 2 is slow", "ranks 0, 1 and 3 have left out a call"),
        answer=_diagnosis,
        misconceptions={
            "rank 2 is slow": "A slow rank is behind: it would not have enqueued #117 yet.",
            "ranks 0, 1 and 3 have left out a call": "After one of 4096 comes one of 1024, and that is what they wait "
            "in.",
        },
        because="Rank 2 is at the next step's first call, so it never made the second of this step. Equal numbers do "
        "not prove equal calls: compare operations and sizes too.",
    ),
    Question(
        name="clock",
        text="On eight GPUs you read the clock, call dist.all_reduce on 256 MiB, and read the clock again: 40 µs. The "
        "links carry 450 GB/s each way. What have you measured?",
        choices=("the all-reduce", "that the call was queued", "the latency of the links"),
        answer=lambda: _clocked(40e-6),
        misconceptions={
            "the all-reduce": "By the model its bytes alone need about a millisecond.",
            "the latency of the links": "Nothing has waited for a message when the call returns.",
        },
        because="On a GPU a collective returns when it is in the queue. Call torch.cuda.synchronize() before you read "
        "the clock.",
    ),
)
