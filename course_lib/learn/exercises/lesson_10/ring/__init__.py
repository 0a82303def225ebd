"""10.ring: ring attention of one's own, in seven steps; each demands what those before it demand, and more.

``cases.py`` has the sequences and what one process gives, ``watch.py`` what is seen while a ring runs, ``trial.py`` a
few calls on a rank, ``reports.py`` what is looked at, ``right.py`` what is expected; ``signs.py``,
``gradient_signs.py`` and ``mistakes.py`` are about wrong answers.
"""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_10.ring import mistakes
from course_lib.learn.exercises.lesson_10.ring.cases import AWKWARD, BACKWARD, CAUSAL, HIDDEN, MESSAGES, VALUES
from course_lib.learn.exercises.lesson_10.ring.reports import (
    RingBackwardReport,
    RingCausalReport,
    RingHiddenReport,
    RingMemoryReport,
    RingMessagesReport,
    RingValuesReport,
)
from course_lib.learn.exercises.lesson_10.ring.right import right
from course_lib.learn.exercises.lesson_10.ring.trial import trial
from course_lib.learn.judging.judge import RankJudge, by_trial
from course_lib.learn.judging.report import compare

__all__ = ["RING_STEPS"]

_FORBIDDEN = (
    "course_lib.parallel.context.ring_attention",
    "course_lib.parallel.context.all_to_all_attention",
    "course_lib.parallel.context.RunningAttention",
    "course_lib.parallel.context.blocks_around",
    "course_lib.parallel.context.attend_backward",
)
_CAUSAL = (*BACKWARD, *CAUSAL)  # which ask for what VALUES do
_MESSAGES = (*_CAUSAL, *MESSAGES)
_HIDDEN = (*_MESSAGES, *HIDDEN)


def _judge(labels: tuple[str, ...], report: type[RingValuesReport], sizes: tuple[int, ...] = (4,)) -> RankJudge:
    looks = 2 if issubclass(report, RingMemoryReport) else int(issubclass(report, RingCausalReport))
    cases = tuple(Case(label, (label, looks), right(label, report)) for label in labels)
    return by_trial(sizes, cases, trial, compare=compare, timeout_s=8.0, makes_groups=1 in sizes)


RING_STEPS = (
    Exercise(
        name="10.ring_values",
        title="Your ring, 1: the values",
        judge=_judge(VALUES, RingValuesReport, (4, 2)),
        mistakes=mistakes.OF_VALUES,
        hints=(
            "What must a query keep from the keys that it has met, so that it can go on with the next ones?",
            "For each query keep three things: the largest score so far, the sum of exp(score - largest), and the "
            "values added up with those weights. When a block brings a larger score, scale the sum and the values.",
            "For each block: `now = torch.maximum(largest, scores.amax(-1))`, `old = (largest - now).exp()`, "
            "`weights = (scores - now[..., None]).exp()`, `total = total * old + weights.sum(-1)`, `sums = sums * "
            "old[..., None] + weights @ v`. In the end `sums / total[..., None]`.",
        ),
        forbidden=_FORBIDDEN,
        passed="The outputs of one process, in each of two calls, also where scores are 1000.",
    ),
    Exercise(
        name="10.ring_backward",
        title="Your ring, 2: the way back",
        judge=_judge((*VALUES, *BACKWARD), RingBackwardReport, (4, 2)),
        mistakes=mistakes.OF_BACKWARD,
        hints=(
            "Which rank can compute what a block of keys did for the queries of rank 2? And which rank needs the "
            "result?",
            "Keep q, k, v, the output and the log-sum-exp of all keys. Backward, send the keys round again, compute "
            "the weights anew, and send the gradients of a block after it. Each rank adds its part.",
            "`weights = (scores - lse[..., None]).exp()`, `dv = weights.mT @ grad`, `ds = weights * (grad @ v.mT - "
            "(grad * out).sum(-1, keepdim=True)) / root`, `dq += ds @ k`, `dk = ds.mT @ q`. The sum for a block is "
            "complete when its owner adds its own part.",
        ),
        forbidden=_FORBIDDEN,
        passed="Outputs and gradients are those of one process, and each rank has the gradients of its own keys and "
        "values.",
    ),
    Exercise(
        name="10.ring_causal",
        title="Your ring, 3: a causal mask",
        judge=_judge(_CAUSAL, RingCausalReport),
        mistakes=mistakes.OF_CAUSAL,
        hints=(
            "Two stretches of positions, each without a gap, one of queries and one of keys. In which ways can they "
            "lie to each other?",
            "Cut `positions` of each rank into stretches. In a pair of them all keys are before all queries, or all "
            "after, or both are the same positions. So there are three things that you compute: all, nothing, or a "
            "triangle.",
            "For each stretch of yours and each of the owner's: `if keys_begin > queries_begin: continue`. Compute "
            "with the rows of these stretches alone, and mask with `triu(1)` where both begin at the same position.",
        ),
        forbidden=_FORBIDDEN,
        passed="Outputs and gradients are right under a causal mask in both orders, and nothing was computed that the "
        "mask hides.",
    ),
    Exercise(
        name="10.ring_messages",
        title="Your ring, 4: messages",
        judge=_judge(_MESSAGES, RingMessagesReport),
        mistakes=mistakes.OF_MESSAGES,
        hints=(
            "Which blocks must leave your rank, and which of them never need to? How many heads do keys have?",
            "Send what you have to one neighbour and receive from the other, p - 1 times. Send k and v as they came, "
            "with G heads; M = H/G heads of queries share one where you compute.",
            "`q.unflatten(1, (G, -1))` is (B, G, M, T, K), and `k.unsqueeze(2)` fits it. For gradients of k and v, "
            "`.sum(2)`. A strided k: `torch.stack([k, v])` makes one message of both, without gaps.",
        ),
        forbidden=_FORBIDDEN,
        passed="The ring takes p - 1 steps forward and backward, sends no head twice, and makes no other call.",
    ),
    Exercise(
        name="10.ring_memory",
        title="Your ring, 5: memory",
        judge=_judge(_MESSAGES, RingMemoryReport),
        mistakes=mistakes.OF_MEMORY,
        hints=(
            "While a block is computed, which blocks have to be in memory? Which variable still refers to the others?",
            "Two are enough: the one that is computed with, and the one that is arriving. Keep for backward what has "
            "the size of your own part, through `ctx.save_for_backward`.",
            "`block = arriving` lets the old one go, if no loop variable and no list holds it. For backward: "
            "`ctx.save_for_backward(q, k, v, out, lse)`, and nothing in `self`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Two blocks at a time, no scores of more than one, and nothing left behind.",
    ),
    Exercise(
        name="10.ring_hidden",
        title="Your ring, 6: time hidden",
        judge=_judge(_HIDDEN, RingHiddenReport),
        mistakes=mistakes.OF_HIDDEN,
        hints=(
            "What do you need before you can send a block on?",
            "A block can be sent on while you compute with it: it does not change. Start both halves, compute, wait. "
            "In backward you can send a sum of gradients once your part is in it, and it has to arrive one block "
            "later.",
            "`wait = start([send(block, after), recv(arriving, before)])`, compute, `wait()`. Backward: after your "
            "part of a block is computed, wait for the sum that came for it, add, and `start` it on its way.",
        ),
        forbidden=_FORBIDDEN,
        passed="While a block is computed the next one is on its way, and in backward a sum of gradients as well.",
    ),
    Exercise(
        name="10.ring_awkward",
        title="Your ring, 7: awkward sequences",
        judge=_judge((*_HIDDEN, *AWKWARD), RingHiddenReport, (4, 1)),
        mistakes=mistakes.OF_AWKWARD,
        hints=(
            "Whose positions decide the size of what arrives? In which dtype do you add up?",
            "`len(positions[owner])` is the size of a block, and may be 0: then there is no message. Widen q, k and v "
            "to float32 where you compute, and narrow what you return. Neighbours are places in the group.",
            "`x.to(torch.promote_types(x.dtype, torch.float32))`; `ranks = dist.get_process_group_ranks(group)`, "
            "`at = ranks.index(me.rank)`, and `start(messages, group=group)` with the ranks' numbers in the job.",
        ),
        forbidden=_FORBIDDEN,
        passed="Right with uneven parts, empty ones, single positions, bfloat16, two rings, groups, and one rank "
        "alone.",
    ),
)
