"""Usual wrong answers to 11.data, each with what it mixes up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.plan.estimate.data_sizes import DataSizes
from course_lib.plan.estimate.links import Group

__all__ = ["MISTAKES"]

Answer = Callable[[DataSizes, float], float]
_BACKWARD = 2 / 3


def _term(
    sizes: DataSizes,
    hidden: float,
    *,
    weight_bytes: Callable[[DataSizes], float] = lambda one: 2,
    gradient_bytes: Callable[[DataSizes], float] = lambda one: one.gradient_bytes,
    gathers: Callable[[DataSizes], float] = lambda one: one.gathers,
    scatters: float = 1,  # of gradients, with sharding 3
    calls: Callable[[DataSizes], float] = lambda one: one.calls,
    in_a_call: Callable[[DataSizes], float] = lambda one: one.calls,  # in how many parts the numbers go
    buckets: Callable[[DataSizes], float] = lambda one: one.buckets,
    in_a_bucket: Callable[[DataSizes], float] = lambda one: one.buckets,
    times_3: Callable[[DataSizes], float] = lambda one: one.micro_batches,
    times_01: Callable[[DataSizes], float] = lambda one: 1,
    of_copies: Callable[[Group, float], float] = lambda group, size_bytes: group.all_reduce_s(size_bytes),
    of_shards: Callable[[Group, float], float] = lambda group, size_bytes: group.all_gather_s(size_bytes),
    gathers_1: float = 1,
    ahead: Callable[[DataSizes], bool] = lambda one: one.ahead,
    window_3: Callable[[DataSizes], float] = lambda one: one.micro_batches * one.computing_s,
    window_01: Callable[[DataSizes], float] = lambda one: _BACKWARD * one.computing_s,
    hides: Callable[[float, float, float], float] = lambda hidden, can_s, behind_s: hidden * min(can_s, behind_s),
    shares: Callable[[DataSizes], float] = lambda one: 1,  # in how many parts a gathered buffer is counted
) -> float:
    """The right answer, where nothing is exchanged."""
    group = sizes.group
    gradients, weights = sizes.numbers * gradient_bytes(sizes), sizes.numbers * weight_bytes(sizes) / shares(sizes)
    if sizes.sharding == 3:
        often = times_3(sizes) * calls(sizes)
        weights_s = often * gathers(sizes) * group.all_gather_s(weights / in_a_call(sizes))
        gradients_s = often * scatters * group.all_gather_s(gradients / in_a_call(sizes))
        behind_s = window_3(sizes)
    else:
        reduce_s = of_copies if sizes.sharding == 0 else of_shards
        gradients_s = times_01(sizes) * buckets(sizes) * reduce_s(group, gradients / in_a_bucket(sizes))
        weights_s = gathers_1 * group.all_gather_s(weights) if sizes.sharding == 1 else 0.0
        behind_s = window_01(sizes)
    can_s = gradients_s + (weights_s if ahead(sizes) else 0.0)
    return gradients_s + weights_s - hides(hidden, can_s, behind_s)


def _with(**options: Any) -> Answer:
    def answer(sizes: DataSizes, hidden: float) -> float:
        return _term(sizes, hidden, **options)

    return answer


MISTAKES = (
    Mistake(
        "gathered-once",
        "With sharding 3 you gather the weights once for a micro-batch. A layer lets them go after its forward pass, "
        "so backward gathers them again: `sizes.gathers` times in all.",
        _with(gathers=lambda one: 1),
    ),
    Mistake(
        "gathered-twice",
        "You gather twice, always. A program that computes a layer again may gather its weights once more for that: "
        "`sizes.gathers` says how many times.",
        _with(gathers=lambda one: 2),
    ),
    Mistake(
        "no-gradients",
        "With sharding 3 you send the weights, and no gradients. Each rank keeps the sums of its own share: a "
        "reduce-scatter after a layer's backward pass.",
        _with(scatters=0),
    ),
    Mistake(
        "no-weights",
        "With sharding 3 you send gradients, and no weights. A rank has a share of each layer alone, and gathers the "
        "rest before it computes.",
        _with(gathers=lambda one: 0),
    ),
    Mistake(
        "weights-stay",
        "With sharding 1 you send gradients alone. Each rank updates its own share of the weights, and the others need "
        "it before the next step: an all-gather, once a step.",
        _with(gathers_1=0),
    ),
    Mistake(
        "once-a-step",
        "You count sharding 3 once a step. It lets a layer's weights go after each use, so all of it is sent again "
        "for every micro-batch.",
        _with(times_3=lambda one: 1),
    ),
    Mistake(
        "in-every-micro-batch",
        "With sharding 0 and 1 you send gradients for each micro-batch. There a rank has room to add them up, and "
        "sends them once a step.",
        _with(times_01=lambda one: one.micro_batches),
    ),
    Mistake(
        "one-call",
        "With sharding 3 you send all numbers in one call. They go in `sizes.calls` calls, and each takes time to "
        "start.",
        _with(calls=lambda one: 1, in_a_call=lambda one: 1),
    ),
    Mistake(
        "all-in-every-call",
        "Each of your calls has all numbers. A call of sharding 3 has a `sizes.calls`-th of them.",
        _with(in_a_call=lambda one: 1),
    ),
    Mistake(
        "a-single-call",
        "You count one call of a `sizes.calls`-th of the numbers. A micro-batch has `sizes.calls` of these.",
        _with(calls=lambda one: 1),
    ),
    Mistake(
        "one-bucket",
        "With sharding 0 and 1 you send all gradients in one call. They go in `sizes.buckets` equal buckets, and each "
        "takes time to start.",
        _with(buckets=lambda one: 1, in_a_bucket=lambda one: 1),
    ),
    Mistake(
        "whole-buckets",
        "Each of your buckets has all gradients. A bucket has a `sizes.buckets`-th of them.",
        _with(in_a_bucket=lambda one: 1),
    ),
    Mistake(
        "gradients-as-weights",
        "You count 2 bytes for a gradient. On its way it takes `sizes.gradient_bytes`, which is 4 where sums are in "
        "float32.",
        _with(gradient_bytes=lambda one: 2),
    ),
    Mistake(
        "weights-as-gradients",
        "You count `sizes.gradient_bytes` for a weight. Weights are gathered in 2 bytes each.",
        _with(weight_bytes=lambda one: one.gradient_bytes),
    ),
    Mistake(
        "all-reduce-of-shards",
        "With sharding 1 you all-reduce the gradients. A rank needs the sums of its own share alone: a reduce-scatter, "
        "half of that.",
        _with(of_shards=lambda group, size_bytes: group.all_reduce_s(size_bytes)),
    ),
    Mistake(
        "scatter-of-copies",
        "With sharding 0 you reduce-scatter the gradients. Every rank updates all weights, and needs all sums: an "
        "all-reduce.",
        _with(of_copies=lambda group, size_bytes: group.all_gather_s(size_bytes)),
    ),
    Mistake(
        "own-share-alone",
        "You gather as many bytes as one rank keeps. `all_gather_s` takes the size of what is whole at the end, on "
        "every rank.",
        _with(shares=lambda one: one.group.size),
    ),
    Mistake(
        "nothing-hides",
        "In your term nothing hides. The share `hidden` of all that could hide does hide.",
        _with(hides=lambda hidden, can_s, behind_s: 0.0),
    ),
    Mistake(
        "all-hides",
        "In your term everything hides that can. Only the share `hidden` of it does.",
        _with(hides=lambda hidden, can_s, behind_s: min(can_s, behind_s)),
    ),
    Mistake(
        "share-of-what-is-sent",
        "You take the share `hidden` of what is sent, however little is computed. No more can hide than there is "
        "computing to hide behind: the shorter of the two.",
        _with(hides=lambda hidden, can_s, behind_s: hidden * can_s),
    ),
    Mistake(
        "share-of-computing",
        "You take the share `hidden` of the computing, however little is sent. No more can hide than is sent: the "
        "shorter of the two.",
        _with(hides=lambda hidden, can_s, behind_s: hidden * behind_s),
    ),
    Mistake(
        "weights-always-hide",
        "You let weights hide where they are not gathered ahead. Without `sizes.ahead` a layer waits for its weights, "
        "and gradients alone can hide.",
        _with(ahead=lambda one: True),
    ),
    Mistake(
        "weights-never-hide",
        "You let gradients alone hide. With `sizes.ahead` weights are gathered while the layer before computes, and "
        "can hide as well.",
        _with(ahead=lambda one: False),
    ),
    Mistake(
        "behind-one-micro-batch",
        "With sharding 3 you hide behind the computing of one micro-batch. It sends in all of them, and can hide "
        "behind all.",
        _with(window_3=lambda one: one.computing_s),
    ),
    Mistake(
        "behind-backward-alone",
        "With sharding 3 you hide behind backward passes alone. It sends in forward passes as well.",
        _with(window_3=lambda one: _BACKWARD * one.micro_batches * one.computing_s),
    ),
    Mistake(
        "behind-all-micro-batches",
        "With sharding 0 and 1 you hide behind all micro-batches. The sums are complete in the last one, so they can "
        "hide behind its backward pass alone.",
        _with(window_01=lambda one: _BACKWARD * one.micro_batches * one.computing_s),
    ),
    Mistake(
        "behind-forward-too",
        "With sharding 0 and 1 you hide behind a whole micro-batch. There is no gradient before its backward pass, "
        "which is two thirds of it.",
        _with(window_01=lambda one: one.computing_s),
    ),
)
