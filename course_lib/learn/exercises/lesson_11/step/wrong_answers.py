"""Usual wrong answers to 11.step, each with what it mixes up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from course_lib.cost.mesh.layout_step import Cut, NodeShape, StepCompute
from course_lib.layouts.link import Link
from course_lib.learn.catalogue.exercise import Mistake

__all__ = ["MISTAKES"]

Answer = Callable[[StepCompute, Cut, NodeShape], float]


def _step(
    work: StepCompute,
    cut: Cut,
    nodes: NodeShape,
    *,
    compute: float = 3.0,  # of a layer's forward, in a slot
    shares: bool = True,  # tp shares the computing
    part: Callable[[Cut], float] = lambda cut: cut.dp * cut.micro_batches,
    sums: float = 4.0,
    slots: Callable[[Cut], float] = lambda cut: cut.micro_batches + cut.pp - 1,
    hops: float = 2.0,
    hop_parts: Callable[[Cut], int] = lambda cut: 1,  # in how many parts a message goes
    always_hops: bool = False,
    bucket: Callable[[Cut], int] = lambda cut: cut.buckets,  # in how many parts the gradients go
    gradients: Callable[[Cut], float] = lambda cut: cut.pp * cut.tp,
    ring: Callable[[int, Link, float], float] = lambda n, link, size: 2 * (n - 1) * link.time_s(size / n),
    exposed: Callable[[float, int, float], float] = lambda one, k, back: max(one, k * one - (1 - 1 / k) * back),
    times: Callable[[Cut], float] = lambda cut: 1,  # that gradients are waited for
    strides: Callable[[Cut], tuple[int, int, int]] = lambda cut: (1, cut.tp, cut.tp * cut.dp),
    layers: Callable[[StepCompute, Cut], float] = lambda work, cut: work.layers / cut.pp,
    window: Callable[[float, float, int], float] = lambda back, slot, count: back,
    window_sums: float = 2.0,
) -> float:
    """The right answer, where nothing is exchanged."""
    tp_stride, dp_stride, pp_stride = strides(cut)
    share = part(cut)
    part_bytes = work.activation_bytes / share
    forward_s = work.forward_s / share / (cut.tp if shares else 1)
    sum_s = ring(cut.tp, nodes.link(cut.tp, tp_stride), part_bytes) if cut.tp > 1 else 0.0
    leaves = cut.pp > 1 or always_hops
    hop_s = nodes.link(cut.pp, pp_stride).time_s(part_bytes / hop_parts(cut)) if leaves else 0.0
    count = layers(work, cut)
    slot_s = count * (compute * forward_s + sums * sum_s) + hops * hop_s
    back_s = count * (2 * forward_s + window_sums * sum_s)
    one_s = 0.0
    if cut.dp > 1:
        size_bytes = work.gradient_bytes / gradients(cut) / bucket(cut)
        one_s = ring(cut.dp, nodes.link(cut.dp, dp_stride), size_bytes)
    shown_s = exposed(one_s, cut.buckets, window(back_s, slot_s, cut.micro_batches)) if cut.dp > 1 else 0.0
    return slots(cut) * slot_s + times(cut) * shown_s


def _with(**options: Any) -> Answer:
    def answer(work: StepCompute, cut: Cut, nodes: NodeShape) -> float:
        return _step(work, cut, nodes, **options)

    return answer


def _tree_rounds(size: int, link: Link, size_bytes: float) -> float:
    return 2 * (size - 1) / size * link.time_s(size_bytes)


def _one_way(size: int, link: Link, size_bytes: float) -> float:
    return (size - 1) * link.time_s(size_bytes / size)


def _whole_each_round(size: int, link: Link, size_bytes: float) -> float:
    return 2 * (size - 1) * link.time_s(size_bytes)


def _no_start(size: int, link: Link, size_bytes: float) -> float:
    return 2 * (size - 1) / size * size_bytes / link.bandwidth_bytes_per_s


def _largest_part(work: StepCompute, cut: Cut, nodes: NodeShape) -> float:
    """Everything hides behind the longest part."""
    quiet = replace(work, activation_bytes=0.0, gradient_bytes=0.0)
    free = NodeShape(nodes.ranks_per_node, Link(), Link())
    computing_s = _step(quiet, cut, free)
    return max(computing_s, _step(work, cut, nodes) - computing_s)


MISTAKES = (
    Mistake(
        "no-bubble",
        "You count a slot for each micro-batch. The last stage begins when the first micro-batch has come through all "
        "others: `pp - 1` slots more pass until the last one is back.",
        _with(slots=lambda cut: cut.micro_batches),
    ),
    Mistake(
        "bubble-of-stages",
        "You count `micro_batches + pp` slots, one too many: a pipeline of one stage has no bubble.",
        _with(slots=lambda cut: cut.micro_batches + cut.pp),
    ),
    Mistake(
        "bubble-share",
        "You take (pp - 1) / (micro_batches + pp - 1), which is the idle *share* of the step, as what it adds to the "
        "working time. `pp - 1` slots are added to `micro_batches` slots.",
        _with(slots=lambda cut: cut.micro_batches * (1 + (cut.pp - 1) / (cut.micro_batches + cut.pp - 1))),
    ),
    Mistake(
        "forward-only",
        "You count the computing of the forward pass alone. Backward computes twice as much again.",
        _with(compute=1.0),
    ),
    Mistake(
        "backward-as-forward",
        "You let backward compute as long as forward. It has two products where forward has one: twice as long.",
        _with(compute=2.0),
    ),
    Mistake(
        "two-sums",
        "You count two all-reduces of `tp` for a layer and micro-batch. Attention and MLP have one each, in forward as "
        "in backward: four.",
        _with(sums=2.0),
    ),
    Mistake(
        "tp-computes-all",
        "You let every rank of `tp` compute a whole layer. Each has a slice of it, and a `tp`-th of the computing.",
        _with(shares=False),
    ),
    Mistake(
        "whole-batch",
        "You send the activations of the whole batch in every slot, or compute on them. A micro-batch of one pipeline "
        "has 1 / (dp * micro_batches) of it.",
        _with(part=lambda cut: 1),
    ),
    Mistake(
        "dp-forgotten",
        "You divide the batch among micro-batches, and not among the parts of `dp`, which are given different "
        "sequences.",
        _with(part=lambda cut: cut.micro_batches),
    ),
    Mistake(
        "micro-batches-forgotten",
        "You divide the batch by `dp` and not by the micro-batches: a slot is *one* micro-batch.",
        _with(part=lambda cut: cut.dp),
    ),
    Mistake(
        "all-layers",
        "You let every stage have all layers. It has `layers / pp` of them.",
        _with(layers=lambda work, cut: work.layers),
    ),
    Mistake(
        "one-hop",
        "You count the message to the next stage, and not the gradient that comes back from it.",
        _with(hops=1.0),
    ),
    Mistake(
        "no-hop",
        "You count no messages between stages. Each slot has one there and one back.",
        _with(hops=0.0),
    ),
    Mistake(
        "hops-without-stages",
        "You send messages to a next stage where there is none: with `pp` of 1 nothing leaves.",
        _with(always_hops=True),
    ),
    Mistake(
        "hop-by-tp",
        "You divide a message between stages among the ranks of `tp`. Each of them sends these activations whole.",
        _with(hop_parts=lambda cut: cut.tp),
    ),
    Mistake(
        "gradients-of-all",
        "You average the gradients of the whole model on every rank. A rank has those of its slice of its stage: "
        "1 / (pp * tp) of them.",
        _with(gradients=lambda cut: 1),
    ),
    Mistake(
        "gradients-of-stage",
        "You divide the gradients by the stages, and not by `tp`: a rank has a slice of its stage.",
        _with(gradients=lambda cut: cut.pp),
    ),
    Mistake(
        "gradients-of-slice",
        "You divide the gradients by `tp`, and not by the stages: a rank has one of `pp` stages.",
        _with(gradients=lambda cut: cut.tp),
    ),
    Mistake(
        "gradients-by-dp",
        "You divide the gradients among the ranks of `dp`, too. Each of these has all of its slice, from its own "
        "part of the batch: that is why they are averaged.",
        _with(gradients=lambda cut: cut.pp * cut.tp * cut.dp),
    ),
    Mistake(
        "whole-buckets",
        "You put all gradients in every bucket. A bucket has a `buckets`-th of them.",
        _with(bucket=lambda cut: 1),
    ),
    Mistake(
        "one-bucket",
        "You send all gradients in one bucket, when the backward has ended. They are sent in `buckets` equal ones.",
        _with(bucket=lambda cut: 1, exposed=lambda one, k, back: one),
    ),
    Mistake(
        "gradients-in-every-slot",
        "You wait for the gradients in every slot. They are added up over the micro-batches, and averaged once a step.",
        _with(times=lambda cut: cut.micro_batches + cut.pp - 1),
    ),
    Mistake(
        "no-start",
        "You divide bytes by the bandwidth, and leave out what each message takes to start: `link.time_s` has both.",
        _with(ring=_no_start),
    ),
    Mistake(
        "start-once",
        "You pay the start of a message less often than there are messages. A ring has 2(n - 1) of them, one after the "
        "other, each with an n-th of the bytes: `link.time_s` of that size, so many times.",
        _with(ring=_tree_rounds),
    ),
    Mistake(
        "half-a-ring",
        "Your all-reduce goes round once, n - 1 messages. It needs two rounds: one to sum up, one to give all ranks "
        "the sums.",
        _with(ring=_one_way),
    ),
    Mistake(
        "whole-each-round",
        "You send all bytes in each message of the ring. Each carries an n-th of them.",
        _with(ring=_whole_each_round),
    ),
    Mistake(
        "nothing-hides",
        "You add all of the gradients' time. Buckets that are full before the backward ends are sent during it. The "
        "step waits only for what the link is behind at its end.",
        _with(exposed=lambda one, k, back: k * one),
    ),
    Mistake(
        "all-hides",
        "You send all buckets during the backward pass. The last one is full when the backward ends, and has nothing "
        "left to hide behind.",
        _with(exposed=lambda one, k, back: max(0.0, k * one - back)),
    ),
    Mistake(
        "last-bucket-only",
        "You wait for the last bucket alone. Where the link is slower than backward, earlier buckets still have to be "
        "sent before it.",
        _with(exposed=lambda one, k, back: one),
    ),
    Mistake(
        "whole-window",
        "You let the buckets hide behind the whole backward pass. The first of them is full after a `buckets`-th of "
        "it; until then the link has nothing to send.",
        _with(exposed=lambda one, k, back: max(one, k * one - back)),
    ),
    Mistake(
        "hides-in-every-backward",
        "You let the gradients hide behind the backwards of all micro-batches. They are sums over all of these, and "
        "complete in the last one.",
        _with(window=lambda back, slot, count: back * count),
    ),
    Mistake(
        "hides-in-a-slot",
        "You let the gradients hide behind a whole slot. There are none before its backward begins.",
        _with(window=lambda back, slot, count: slot),
    ),
    Mistake(
        "hides-in-computing",
        "The backward that hides gradients lasts longer than its computing: the all-reduces of `tp` are part of it.",
        _with(window_sums=0.0),
    ),
    Mistake(
        "links-by-size",
        "You choose an axis' link by its size alone. Two ranks along `dp` with `tp=2` between them are ranks 0 and 2: "
        "`nodes.link(size, stride)`, with how many ranks lie from one to the next.",
        _with(strides=lambda cut: (1, 1, 1)),
    ),
    Mistake(
        "other-order",
        "You put `pp` innermost and `tp` outermost. Neighbours in number are those along `tp`.",
        _with(strides=lambda cut: (cut.pp * cut.dp, cut.pp, 1)),
    ),
    Mistake(
        "pp-before-dp",
        "You put the stages beside each other and `dp` outermost. Here `pp` is the outermost axis: from stage to stage "
        "lie `tp * dp` ranks, and along `dp` only `tp`.",
        _with(strides=lambda cut: (1, cut.tp * cut.pp, cut.tp)),
    ),
    Mistake(
        "largest-part",
        "You take the longer of computing and communicating, as if each hid behind the other. The next layer waits "
        "for the sums of `tp`, and a stage for its message: add these times.",
        _largest_part,
    ),
)
