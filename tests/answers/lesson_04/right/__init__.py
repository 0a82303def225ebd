"""Lesson 04: right answers of other styles than the lesson's own. Not for learners: the tests hand them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from answers.lesson_04.right import accumulate, drift, gradients, overlap, sampler

__all__ = ["MEANS_NOTHING", "RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Callable[..., Any] | Any, ...]] = {
    "04.gradients": gradients.ANSWERS,
    "04.overlap": overlap.ANSWERS,
    "04.sampler": sampler.ANSWERS,
    "04.accumulate": accumulate.ANSWERS,
    "04.drift": drift.ANSWERS,
}

_EQUAL_LENGTHS = "Both always have as many items, so `strict` has nothing to find."
_ANY_ROW = "From two ranks on: all rows are equal to one of them, or they are not, whichever one that is."
_CPU = "On ranks that compute on the CPU it is there already; where ranks have GPUs, the check refuses it."

_ADDED = "A whole number, a float or a list is added to either way."

MEANS_NOTHING: dict[str, dict[str, str]] = {
    "04.trace_buckets": {
        "kept-by-arguments": "no cell changes the buckets, and the text does not ask for a list that is nobody else's",
    },
    "04.overlap": {
        "fails-where-nothing-is-to-do": "a model without parameters has no gradients to average",
        "all-of-it-twice": "the copies never go through a backward pass, so nothing is sent for them",
        "keeps-all-tensors-alive": "it is handed parameters, and its hooks on them hold them for as long",
        "makes-a-grad": "a backward pass adds to these zeros, and what it leaves is the gradient all the same",
    },
}

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "04.trace_buckets": {
        "3: `bucket.append(place)` after `num_bytes += sizes[place]`": "Neither needs the other.",
        "3: `bucket.append(place)` -> `bucket.insert(0, place)`": "The order within a bucket is up to the learner.",
        "4: `num_bytes += sizes[place]` -> a new name for a new value": _ADDED,
    },
    "04.trace_overlap": {
        "2: `for which, spans in enumerate((communication, computing)):` after `num_open, total, before = "
        "([0, 0], 0.0, 0.0)`": "Neither needs the other.",
        "4: `edges += [(start, which, 1), (start + duration, which, -1)]` -> a new name for a new value": _ADDED,
        "5: `0.0` -> `1.0`": "Before the first edge nothing is open, so from where on it counts does not matter.",
        "8: `total += moment - before` -> a new name for a new value": _ADDED,
        "9: `num_open[which] += change` after `before = moment`": "Neither needs the other.",
        "9: `num_open[which] += change` -> a new name for a new value": _ADDED,
        "9: `num_open[which] += change` -> `num_open[which] -= change`": "Only whether it is nought is asked.",
    },
    "04.drift": {
        "4: `torch.tensor(hashes, device=me.device)` -> `torch.tensor(hashes)`": _CPU,
        "3: `p.detach().cpu()` -> `p.detach()`": _CPU,
        "3: `p.detach().cpu().numpy().tobytes()` -> `p.detach().cpu().numpy()`": (
            "zlib reads an array's bytes itself. Only an array in another memory layout would be refused there, and "
            "the text says nothing of those."
        ),
        "5: `range(me.world_size)` -> `reversed(range(me.world_size))`": "It counts empty rows alone.",
        "7: `0` -> `1`": _ANY_ROW,
        "7: `0` -> `-1`": _ANY_ROW,
        "8: `zip(model.named_parameters(), differs.tolist(), strict=True)` -> "
        "`zip(model.named_parameters(), differs.tolist())`": _EQUAL_LENGTHS,
        "8: `True` -> `False`": _EQUAL_LENGTHS,
        "8: `differs.tolist()` -> `differs`": "A tensor of one truth value is as true as the value.",
    },
    "04.overlap": {
        "1: `come[number] += 1` -> a new name for a new value": "A whole number is added to either way.",
        "4: `under_way.append((dist.all_reduce(flat, async_op=True), flat, buckets[number]))` after "
        "`come[number] = 0`": "The count and the call do not depend on each other.",
        "4: `under_way.append((dist.all_reduce(flat, async_op=True), flat, buckets[number]))` -> "
        "`under_way.insert(0, (dist.all_reduce(flat, async_op=True), flat, buckets[number]))`": (
            "All are waited for; in which order does not matter to the means or to the time of the last one."
        ),
        "14: `zip(bucket, parts, strict=True)` -> `zip(bucket, parts)`": _EQUAL_LENGTHS,
        "14: `True` -> `False`": _EQUAL_LENGTHS,
        "on_gradient: gradients switched off": (
            "Autograd runs hooks under switches of its own and puts them back when the pass is over."
        ),
    },
    "04.gradients": {
        "5: `dist.all_reduce(parameter.grad)` after `parameter.grad /= me.world_size`": (
            "The sum of the quotients is the quotient of the sum, to rounding."
        ),
        "6: `parameter.grad /= me.world_size` -> a new name for a new value": (
            "The optimizer reads `parameter.grad`; a new tensor there is as good as the old one."
        ),
    },
    "04.sampler": {
        "2: `order = torch.randperm(num_items, generator=generator).tolist()` after "
        "`share = -(-num_items // world_size)`": "The order and the share do not depend on each other.",
        "2: `torch.randperm(num_items, generator=generator).tolist()` -> "
        "`torch.randperm(num_items, generator=generator)`": (
            "A list of whole numbers as tensors of no dimension: a data set is read by them as by numbers."
        ),
    },
}
