"""The build 02.all_reduce: an all-reduce of any size on any group of ranks, judged in five steps."""

from __future__ import annotations

from functools import partial

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_02.ring import RING
from course_lib.learn.exercises.lesson_02.sums.cases import GROUP_KINDS, TENSOR_KINDS, Demand
from course_lib.learn.exercises.lesson_02.sums.mistakes import mistakes_up_to
from course_lib.learn.exercises.lesson_02.sums.trial import right, trial
from course_lib.learn.judging.judge import RankJudge, by_trial
from course_lib.learn.judging.report import compare

__all__ = ["STEPS"]

_MORE = ("all_gather_object", "gather_object", "scatter_object_list", "broadcast_object_list", "all_to_all_single")
_FORBIDDEN = (
    *RING.forbidden,
    *(f"torch.distributed.{name}" for name in _MORE if f"torch.distributed.{name}" not in RING.forbidden),
    "torch.distributed.barrier",
    "course_lib.parallel.collectives.hierarchical_all_reduce",
)


def _judge(demand: Demand, world_sizes: tuple[int, ...]) -> RankJudge:
    kinds = TENSOR_KINDS if demand < Demand.GROUPS else (*TENSOR_KINDS[:-1], *GROUP_KINDS, TENSOR_KINDS[-1])
    return by_trial(
        world_sizes,
        tuple(Case(kind, (kind, demand), right(kind)) for kind in kinds),
        trial,
        compare=compare,
        timeout_s=5.0,
        makes_groups=demand == Demand.GROUPS,
    )


_step = partial(Exercise, forbidden=_FORBIDDEN)

STEPS = (
    _step(
        name="02.sum_values",
        title="the sum, of any tensor",
        judge=_judge(Demand.VALUES, (4, 3, 1)),
        mistakes=mistakes_up_to(Demand.VALUES),
        hints=(
            "Any way will do. The plainest: everybody sends its tensor to everybody, and each rank adds up what comes.",
            "Make a row of the tensor, `row = tensor.contiguous().view(-1)`, and work on that. Keep what you send as "
            "it is until it is sent: add up only when all has arrived.",
            "`rooms = {r: torch.empty_like(row) for r in others}`, then one `dist.batch_isend_irecv([...])` with a "
            "`dist.P2POp(dist.isend, row, r)` and a `dist.P2POp(dist.irecv, rooms[r], r)` for each; wait for all; add "
            "the rooms to `row`; `tensor.copy_(row.view(tensor.shape))`; return `tensor`.",
        ),
        passed="The sum is right on 4, 3 and 1 ranks, in the tensor's own memory. It was tried with fractions, whole "
        "numbers, bfloat16 and complex numbers. It was also tried with a tensor without any number, with one "
        "without dims, and with gaps between the numbers.",
    ),
    _step(
        name="02.sum_bytes",
        title="no more bytes than needed",
        judge=_judge(Demand.BYTES, (4, 3, 1)),
        mistakes=mistakes_up_to(Demand.BYTES),
        hints=(
            "Deal the adding out: each rank adds up one part of the tensor, n parts in all. How much has a rank to "
            "send so that every part's owner has all of it?",
            "`parts = row.tensor_split(n)`. A ring does it in two laps. In the first, sums of parts go around; in the "
            "second, the complete parts. Tensors of 1 KiB and less may go as before.",
            "First lap, step s: send `parts[(at - s) % n]` to the next rank, receive from the one before, and add that "
            "to `parts[(at - s - 1) % n]`. Second lap, step s: send `parts[(at + 1 - s) % n]`, receive into "
            "`parts[(at - s) % n]`.",
        ),
        passed="The sum is right, and of a large tensor no rank sends more than 2 (n - 1) parts. That is 2 (n - 1)/n "
        "of the tensor. No all-reduce made of messages can send less.",
    ),
    _step(
        name="02.sum_memory",
        title="no more memory and messages than needed",
        judge=_judge(Demand.MEMORY, (4, 3, 1)),
        mistakes=mistakes_up_to(Demand.MEMORY),
        hints=(
            "What do you hold beside the tensor, and for how long? Count the buffers that live at the same time.",
            "In the first lap a part must arrive beside the one that it is added to. In the second it can arrive where "
            "it is to stay.",
            "`room = torch.empty_like(parts[0])` before the loops, the largest part, and "
            "`arrived = room[: mine.numel()]` in each step.",
        ),
        passed="The sum is right, with the bytes and the messages of a ring. Beside a large tensor no rank held more "
        "than one of its parts.",
    ),
    _step(
        name="02.sum_latency",
        title="few rounds for small tensors",
        judge=_judge(Demand.LATENCY, (4, 5, 1)),
        mistakes=mistakes_up_to(Demand.LATENCY),
        hints=(
            "A message of a few bytes costs its latency, so count messages that wait for one another. With 8 ranks, "
            "after how many rounds can each have heard of all, if everybody may pass on what it has heard?",
            "Round k: exchange the whole row with the rank whose position differs in bit k (`at ^ 2**k`), and add. "
            "Where n is no power of two, let the ranks beyond it hand their row to a partner first. They get the sum "
            "from it last.",
            "`even = 1 << (n.bit_length() - 1)`. A rank with `at >= even` sends to `at - even` and then receives the "
            "sum. Those with `at < n - even` receive and add before the rounds, and send the sum after them.",
        ),
        passed="The sum is right, and tensors of up to 1 KiB take no more than log2 n messages a rank, rounded up. "
        "Large ones still go around with the fewest bytes.",
    ),
    _step(
        name="02.sum_groups",
        title="on any group of ranks",
        judge=_judge(Demand.GROUPS, (4, 5, 1)),
        mistakes=mistakes_up_to(Demand.GROUPS),
        hints=(
            "Write down for a group of ranks 2 and 3: who is next to rank 3, and at which position stands rank 2?",
            "`ranks = dist.get_process_group_ranks(group)` lists the members in the order of the group. n, positions "
            "and neighbours all come from that list.",
            "`at = ranks.index(me.rank)`; the next rank is `ranks[(at + 1) % n]`; each message gets `group=group`. For "
            "one rank return the tensor as it is.",
        ),
        passed="The sum is right among all ranks and among two of them, in turned order too. It is right in two groups "
        "at the same time, and in a group of one. No message went to a rank outside of the group, and each group needs "
        "no more than its own size allows.",
    ),
)
