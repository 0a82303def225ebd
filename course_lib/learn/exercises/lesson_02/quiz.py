"""The quiz of lesson 02; right answers come from the cost model, or from following messages."""

from __future__ import annotations

from course_lib.cost import collective_cost
from course_lib.learn.questions import Question
from course_lib.link import Link

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


_POSITIONS = {0: "exchange([send])", 1: "exchange([send])", 2: "exchange([send])", 3: "exchange([send])"}


def _diagnosis(positions: dict[int, str]) -> str:
    if set(positions.values()) == {"exchange([send])"}:
        return "all send, nobody receives"
    return "a rank never came" if "returned" in positions.values() else "two different collectives"


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
        because="Together they cost what one all-reduce costs, which is made of the same two halves. Lesson 05 lives "
        "on this.",
    ),
    Question(
        name="rounds",
        text="A broadcast along a tree among 64 ranks. How many rounds until the last one has it?",
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
            "naive": "63 messages wait at the door of one rank, and 63 more on the way out.",
        },
        because="Small tensors cost latency: the fewest rounds win. For large ones bytes count, and the ring wins.",
    ),
    Question(
        name="evidence",
        text="A job hangs. All four ranks stand at the same line, `exchange([send(mine, after)])`. "
        "What is the matter?",
        choices=("all send, nobody receives", "a rank never came", "two different collectives"),
        answer=lambda: _diagnosis(_POSITIONS),
        misconceptions={
            "a rank never came": "Then one of the ranks would stand elsewhere, or have returned.",
            "two different collectives": "Then the table would name two operations; and a send is no collective.",
        },
        because="Each waits until its message is taken, and the line that would take it comes next. Put both halves in "
        "one list.",
    ),
)
