"""11.step: seconds of a step from the work, the cut and the links.

The formula is defined in the lesson, so the judge compares numbers. The oracle below is written another way: it lets
the slots and the buckets of gradients go by, one after the other, and adds nothing up in closed form.
"""

from __future__ import annotations

import numbers
from typing import Any

from course_lib.cost.mesh.layout_step import Cut, NodeShape, StepCompute
from course_lib.layouts.link import Link
from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_11.step import wrong_answers
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.isolated_judge import by_cases_apart

__all__ = ["JOBS", "STEP", "by_the_clock"]

_SMALL = StepCompute(4, 0.02, 262_144, 800_000)
_LARGE = StepCompute(32, 0.9, 4e9, 3.2e10)
_PAIRS = NodeShape(2, Link(0.0, 100e6), Link(0.0, 4e6))
_SLOW_START = NodeShape(2, Link(0.0005, 50e6), Link(0.003, 5e6))
_EIGHTS = NodeShape(8, Link(5e-6, 450e9), Link(10e-6, 50e9))
_ALONE = NodeShape(1, Link(0.001, 100e6), Link(0.002, 10e6))

JOBS: tuple[tuple[str, StepCompute, Cut, NodeShape], ...] = (
    ("one rank", _SMALL, Cut(), _PAIRS),
    ("two ranks along dp within a node, all gradients in one bucket", _SMALL, Cut(dp=2), _PAIRS),
    ("four ranks along dp on two nodes", _SMALL, Cut(dp=4), _SLOW_START),
    ("four ranks along dp on two nodes, and five buckets", _SMALL, Cut(dp=4, buckets=5), _SLOW_START),
    ("buckets that all hide but the last", StepCompute(8, 0.2, 1e6, 4e5), Cut(dp=2, buckets=4), _SLOW_START),
    ("two ranks along tp", _SMALL, Cut(tp=2), _SLOW_START),
    ("four ranks along tp, on two nodes", _SMALL, Cut(tp=4), _SLOW_START),
    ("two stages within a node, and six micro-batches", _SMALL, Cut(pp=2, micro_batches=6), _SLOW_START),
    ("four stages on two nodes", _SMALL, Cut(pp=4, micro_batches=8), _SLOW_START),
    ("tp within a node, dp between nodes", _SMALL, Cut(dp=2, tp=2), _SLOW_START),
    ("dp within a node, pp between nodes", _SMALL, Cut(pp=2, dp=2, micro_batches=4), _SLOW_START),
    ("tp within a node, pp between nodes", _SMALL, Cut(pp=2, tp=2, micro_batches=3), _SLOW_START),
    ("one rank on a node, and gradients in two buckets", _SMALL, Cut(dp=3, buckets=2), _ALONE),
    ("all three axes, eight ranks a node", _LARGE, Cut(pp=4, dp=2, tp=4, micro_batches=16), _EIGHTS),
    (
        "all three axes, and dp across nodes in ten buckets",
        _LARGE,
        Cut(pp=2, dp=8, tp=4, micro_batches=8, buckets=10),
        _EIGHTS,
    ),
    ("eight stages", _LARGE, Cut(pp=8, micro_batches=8), _EIGHTS),
    ("a thousand ranks", _LARGE, Cut(pp=8, dp=16, tp=8, micro_batches=32, buckets=4), _EIGHTS),
    ("all three axes on one node", _LARGE, Cut(pp=2, dp=2, tp=2, micro_batches=4, buckets=2), _EIGHTS),
)


def by_the_clock(work: StepCompute, cut: Cut, nodes: NodeShape) -> float:
    """Seconds of a step, with each message, slot and bucket put after the one before."""
    sequences = 1 / (cut.dp * cut.micro_batches)  # of the batch, in a micro-batch of one pipeline
    activation_bytes = work.activation_bytes * sequences

    def all_reduce_s(link: Link, ranks: int, size_bytes: float) -> float:
        return sum(link.time_s(size_bytes / ranks) for _ in range(2 * (ranks - 1)))

    tp_link = nodes.within if cut.tp <= nodes.ranks_per_node else nodes.between
    dp_link = nodes.within if cut.tp * cut.dp <= nodes.ranks_per_node else nodes.between
    pp_link = nodes.within if cut.tp * cut.dp * cut.pp <= nodes.ranks_per_node else nodes.between

    pass_s = {}
    for name, times in (("forward", 1), ("backward", 2)):
        computed_s = times * work.forward_s * sequences / cut.tp
        pass_s[name] = (computed_s + 2 * all_reduce_s(tp_link, cut.tp, activation_bytes)) * work.layers / cut.pp

    now_s = 0.0
    for _ in range(cut.micro_batches + cut.pp - 1):
        now_s += pass_s["forward"] + pass_s["backward"]
        if cut.pp > 1:
            now_s += pp_link.time_s(activation_bytes) + pp_link.time_s(activation_bytes)
    if cut.dp == 1:
        return now_s

    began_s, free_s = now_s - pass_s["backward"], 0.0
    for bucket in range(1, cut.buckets + 1):
        made_s = began_s + pass_s["backward"] * bucket / cut.buckets
        size_bytes = work.gradient_bytes / (cut.pp * cut.tp * cut.buckets)
        free_s = max(free_s, made_s) + all_reduce_s(dp_link, cut.dp, size_bytes)
    return free_s


def _compare(expected: Any, got: Any) -> str:
    """Seconds to seven digits, where both are seconds."""
    said = close_to(1e-6, 1e-12)(expected, got)
    if said and isinstance(got, numbers.Real) and not isinstance(got, bool):
        return f"expected {expected:.7g} s, got {float(got):.7g} s"
    return said


STEP = Exercise(
    name="11.step",
    title="Seconds of a step",
    judge=by_cases_apart(
        [Case(label, (work, cut, nodes), by_the_clock) for label, work, cut, nodes in JOBS],
        compare=_compare,
    ),
    mistakes=wrong_answers.MISTAKES,
    hints=(
        "Begin with one layer and one micro-batch of one rank: which part of the batch is it, and how many ranks share "
        "the computing? Then all layers of a stage, then all slots, and the gradients last.",
        "A micro-batch has 1 / (dp * micro_batches) of the batch, and so of its activations. A slot is three times "
        "the layers of a stage: a layer's forward computing, and four all-reduces of `tp`. Add two messages where "
        "there are stages. How many slots pass until the last micro-batch is back? Gradients: the step waits at least "
        "for the last bucket, and longer if the link is behind by then.",
        "`slots = micro_batches + pp - 1`. With `reduce_s` for one bucket and `backward_s` for the backward of one "
        "micro-batch on a stage (its all-reduces too), the step waits for `max(reduce_s, buckets * reduce_s - "
        "(1 - 1 / buckets) * backward_s)` at the end.",
    ),
    forbidden=(
        "course_lib.cost.mesh.layout_step.layout_step_s",
        "course_lib.cost.mesh.layout_step.ring_s",
    ),
    passed="Computing, sums of `tp`, bubble, messages and gradients: each part has its bytes, its link and its turn.",
)
