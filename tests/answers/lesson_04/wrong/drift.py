"""04.drift: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

import zlib
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_04.drift.mistakes import _bytes, _crc, _gathered, _names_where, by


def weighted_to_six_digits(parameter: nn.Parameter) -> str:
    """Positions weigh, so that a swap is seen; rounding hides the last bit."""
    flat = parameter.detach().double().flatten()
    return f"{(flat * torch.arange(1, len(flat) + 1, device=flat.device)).sum().item():.6g}"


def without_minus_zero(parameter: nn.Parameter) -> int:
    return zlib.crc32((parameter.detach().cpu().numpy() + 0.0).tobytes())


def only_the_others_know(me: Rank, model: nn.Module) -> list[str]:
    marks = [_crc(parameter) for parameter in model.parameters()]
    from_rank_0 = [marks]
    dist.broadcast_object_list(from_rank_0, src=0)
    return _names_where(model, [from_rank_0[0], marks])


def gathers_weights(me: Rank, model: nn.Module) -> list[str]:
    found = []
    for name, parameter in model.named_parameters():
        everything = [torch.empty_like(parameter) for _ in range(me.world_size)]
        dist.all_gather(everything, parameter.detach())
        words = {other.cpu().numpy().tobytes() for other in everything}
        found += [name] if len(words) > 1 else []
    return found


def leaves_out_frozen(me: Rank, model: nn.Module) -> list[str]:
    found, learns = by(_crc)(me, model), {n for n, p in model.named_parameters() if p.requires_grad}
    return [name for name in found if name in learns]


def sorted_names(me: Rank, model: nn.Module) -> list[str]:
    return sorted(by(_crc)(me, model))


def looks_alone(me: Rank, model: nn.Module) -> list[str]:
    return []


def with_buffers(me: Rank, model: nn.Module) -> list[str]:
    state = {name: zlib.crc32(value.cpu().numpy().tobytes()) for name, value in model.state_dict().items()}
    rows = _gathered(me, state)
    return [name for name in state if len({row[name] for row in rows}) > 1]


def by_the_library(me: Rank, model: nn.Module) -> list[str]:
    from course_lib.parallel.data import find_divergence

    drift = find_divergence(me, model)
    return [] if drift is None else list(drift.parameters)


python_hash = by(lambda parameter: hash(_bytes(parameter)))


sums = by(lambda parameter: f"{parameter.sum().item()}")


with_tolerance = by(weighted_to_six_digits)


hash_and_largest = by(lambda parameter: [_crc(parameter), parameter.abs().max().item()])


eight_bits = by(lambda parameter: _crc(parameter) & 0xFF)


first_eight = by(lambda parameter: zlib.crc32(_bytes(parameter)[:64]))


no_minus_zero = by(without_minus_zero)


EXERCISE = "04.drift"
EXAMPLES: dict[str, Any] = {
    "python-hash": python_hash,
    "ranks-disagree": only_the_others_know,
    "sends-all-weights": gathers_weights,
    "names-buffers": with_buffers,
    "finds-nothing": looks_alone,
    "compares-sums": sums,
    "not-a-number": hash_and_largest,
    "minus-zero": no_minus_zero,
    "a-tolerance": with_tolerance,
    "a-part-of-the-tensor": first_eight,
    "few-bits": eight_bits,
    "another-order": sorted_names,
    "frozen-left-out": leaves_out_frozen,
}


FORBIDDEN = by_the_library
