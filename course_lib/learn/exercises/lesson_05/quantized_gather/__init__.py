"""05.quantized_gather: all ranks' shards, sent as one byte a number and one scale a block."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.exercises.lesson_05.quantized_gather.signs import (
    gives,
    in_another_order,
    is_off_as,
    is_own_alone,
    own_is_exact,
    part_of,
    sends_wide,
    with_own_scales,
)
from course_lib.learn.exercises.lesson_05.quantized_gather.trial import KINDS, GatherKind, right, trial
from course_lib.learn.judging.errors import error_says
from course_lib.learn.judging.judge import by_trial
from course_lib.learn.judging.report import both, compare, either, is_not_waited_for, only_in, only_wrong

__all__ = ["QUANTIZED_GATHER"]


def _by_the_largest(least: float | None, shard: Tensor, block: int) -> Tensor:
    """A slip: the largest number and not the largest absolute value; codes may be cut off at a least one."""
    return part_of(shard, block, lambda codes: codes.round().clamp(least, 127), largest=torch.amax)


QUANTIZED_GATHER = Exercise(
    name="05.quantized_gather",
    title="Shards, gathered in bytes",
    judge=by_trial(
        (2, 3, 1), tuple(Case(kind, (kind,), right(kind)) for kind in KINDS), trial, compare=compare, timeout_s=10.0
    ),
    mistakes=(
        Mistake(
            "not-waited-for",
            "A collective was begun with `async_op=True`, and nobody waited for it. Call `wait()` on what `dist` "
            "returns, and read its tensors then.",
            recognise=is_not_waited_for,
        ),
        Mistake(
            "own-part-alone",
            "What came is as long as this rank's shard. All ranks' shards are asked for, rank 0's first.",
            recognise=is_own_alone,
        ),
        Mistake(
            "one-scale-a-shard",
            "All numbers of a shard were divided by one scale. Each block has its own: the steps of a block follow "
            "its own largest number, and no other's.",
            recognise=gives(lambda shard, block: part_of(shard, len(shard))),
        ),
        Mistake(
            "cut-off",
            "Your whole numbers are cut off and not rounded: `.to(torch.int8)` drops what stands behind the point. So "
            "a number may be off by a whole step, and always towards 0. Round first.",
            recognise=gives(lambda shard, block: part_of(shard, block, torch.trunc)),
        ),
        Mistake(
            "wraps-around",
            "The largest number of a block became 128, which int8 does not have: it goes from -128 to 127. So 128 "
            "came back as -128. Divide the largest absolute value by 127.",
            recognise=gives(lambda shard, block: part_of(shard, block, by=128.0)),
        ),
        Mistake(
            "without-abs",
            "The scale came from the largest number of a block. The number with the largest absolute value may be "
            "negative, and then its code is below -127. Take `abs()` first.",
            recognise=either(*(gives(partial(_by_the_largest, least)) for least in (None, -127, -128))),
        ),
        Mistake(
            "order",
            "The parts are right, and on some rank they stand in another order. Rank 0's shard is first, then rank "
            "1's, on every rank.",
            recognise=in_another_order,
        ),
        Mistake(
            "own-scales",
            "This rank's own part is right, and the parts of others are not: they were multiplied by this rank's "
            "scales. A scale has to travel with its block.",
            recognise=with_own_scales,
        ),
        Mistake(
            "nan-from-zeros",
            "A block of zeros has come back as nan: its largest absolute value is 0, and 0 / 0 is nan. Such a "
            "block needs a scale that is not 0 to divide by.",
            recognise=both(only_in(GatherKind.ZEROS), is_off_as("nan")),
        ),
        Mistake(
            "scale-made-larger",
            "Only the block of very small numbers is wrong. A constant that was added to the scale, or a least value "
            "for it, is larger there than the scale itself. Keep 0 / 0 away in a way that leaves small scales alone.",
            recognise=both(only_in(GatherKind.SMALL), is_off_as("far")),
        ),
        Mistake(
            "rounded-in-16-bits",
            "Only the shard in bfloat16 is wrong. bfloat16 has 8 bits of precision, and there the scale, or the number "
            "divided by it, was rounded a second time. Take `shard.float()` first, and go back at the end.",
            recognise=both(only_in(GatherKind.HALF), is_off_as("far", "nan")),
        ),
        Mistake(
            "another-dtype",
            "The numbers came back in another dtype than the shard has. What computes with them expects the shard's.",
            recognise=is_off_as("dtype"),
        ),
        Mistake(
            "own-part-exact",
            "Each rank has its own shard as it was, and the others' rounded. So no two ranks have the same weights, "
            "and they compute with different models. Round your own part too: take it from what was gathered.",
            recognise=own_is_exact,
        ),
        Mistake(
            "sends-padding",
            "Only where the last block is short too much was sent: the zeros that fill it up. They may help to find "
            "the scales; cut them off before the codes leave.",
            recognise=both(only_wrong("sent"), only_in(GatherKind.SHORT, GatherKind.SMALLER)),
        ),
        Mistake(
            "sends-wide-numbers",
            "The numbers are right, and they left in more than one byte each. What is to travel are whole numbers, "
            "made by `.to(torch.int8)` before they are sent: one in a float32 tensor still has four bytes.",
            recognise=sends_wide,
        ),
        Mistake(
            "sends-more",
            "The numbers are right, and more left than a byte a number and four a block. How many scales did you "
            "send, and in which dtype? What else was in the message?",
            recognise=only_wrong("sent"),
        ),
        Mistake(
            "a-call-a-block",
            "The numbers are right, and there were more than two calls. Each call costs a latency: send all codes in "
            "one, and all scales in another.",
            recognise=only_wrong("calls", "sent"),
        ),
        Mistake(
            "one-buffer",
            "Each call was right, and a later one changed what an earlier one had given: both lie in one tensor. Two "
            "layers may be whole at a time. Give a new tensor in each call.",
            recognise=only_wrong("stays"),
        ),
        Mistake(
            "does-not-divide",
            "The shard has numbers that fill no whole block. `torch.nn.functional.pad` fills it up with zeros, or "
            "`shard.split(block)` gives a last block that is shorter.",
            recognise=error_says("is invalid for input of size", "unflatten: Provided sizes"),
        ),
    ),
    hints=(
        "Take one block of four numbers on paper: what is its scale, which four whole numbers leave, and what comes "
        "back? Then: what must another rank know to read them?",
        "Fill the shard up with zeros, `.view(-1, block)`, and take `.abs().amax(1)` of it. Whole numbers are "
        "`(blocks / scale).round()`. Gather them as int8 without the zeros that you added; gather the scales as they "
        "are; multiply on the other side, the own part too. What of a block of zeros?",
        "`scales = blocks.abs().amax(1) / 127`; `codes = (blocks / scales.clamp_min(1e-38)[:, None]).round()"
        ".to(torch.int8).flatten()[: len(shard)]`; two `dist.all_gather`; of each rank "
        "`codes.float() * scales.repeat_interleave(block)[: len(codes)]`, then `torch.cat` and `.to(shard.dtype)`.",
    ),
    forbidden=(
        "course_lib.parallel.sharded.quantized_gather.all_gather_quantized",
        "course_lib.parallel.sharded.quantized_gather.quantize_blocks",
    ),
    passed="Each number is off by half a step of its own block at most, on 1, 2 and 3 ranks. It is so beside an "
    "outlier, in a block of zeros, and in a short block. All ranks have the same numbers. A rank sent one byte for "
    "each number and four for each block.",
)
