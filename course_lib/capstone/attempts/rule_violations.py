"""Rules of the capstone, and who has broken one: told by name, from what was seen on the ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import torch

from course_lib.capstone.attempts.hidden_memory import FEW_BYTES, hidden_memory
from course_lib.capstone.attempts.own_code import not_your_own
from course_lib.capstone.jobs.job import CapstoneJob
from course_lib.capstone.jobs.result import Fault
from course_lib.capstone.memory.intact import rule_of
from course_lib.capstone.running.steps import RankRecord
from course_lib.meter.units import bytes_text, time_text

__all__ = ["FAULTS", "faults_of"]

FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "fewer ranks": "every rank of the job works",
        "hidden memory": "in every step a rank holds its data in tensors of its own process",
        "smaller model": "all layers are computed, and all weights come back in their shapes",
        "lower precision": "weights, gradients and optimizer states are float32",
        "smaller batch": "every sequence of the batch goes through every layer, in every step",
        "no waiting": "every computation takes the time that the job gives it",
        "foreign weights": "the weights that come back are those that the ranks hold",
        "fewer steps": "the ranks take every step",
        "past the meter": "ranks send data by torch.distributed only",
        "not your own": "at level 4 the strategies are yours; torch's tensors, autograd and optimizers, and "
        "torch.distributed's collectives, messages and groups are allowed",
    }
)
_WORDS_BYTES = 256  # in a step: a loss, a norm
_LATE = 0.9  # of the time that computing stands for
_HELD = 0.99  # of the numbers that are looked for


def faults_of(
    job: CapstoneJob, ranks: Sequence[RankRecord], misfits: Sequence[str], are_equal: bool
) -> tuple[Fault, ...]:
    """All that was seen, in the order of ``FAULTS``. ``are_equal``: the weights are those of one device."""
    found = [
        *_fewer_ranks(ranks),
        *hidden_memory(job.memory_bytes, ranks),
        *_changed(ranks),
        *(Fault("smaller model", f"{said}.") for said in misfits[:1]),
        *_uncomputed(job, ranks, are_equal),
        *_narrow(ranks),
        *_no_waiting(job, ranks),
        *_foreign(ranks, bool(misfits)),
        *_past_the_meter(job, ranks, are_equal),
        *not_your_own(job, ranks),
    ]
    order = list(FAULTS)
    return tuple(sorted(dict.fromkeys(found), key=lambda fault: order.index(fault.name)))


def _fewer_ranks(ranks: Sequence[RankRecord]) -> Iterator[Fault]:
    idle = [number for number, one in enumerate(ranks) if _computed(one) == 0 and _most_sent(one) <= _WORDS_BYTES]
    if idle and len(idle) < len(ranks):
        yield Fault("fewer ranks", f"{_ranks(idle)} computed nothing and sent nothing, in all steps.")


def _uncomputed(job: CapstoneJob, ranks: Sequence[RankRecord], are_equal: bool) -> Iterator[Fault]:
    """Rows that should have gone through a layer, and have not."""
    batch, layers = job.job.batch_size, range(job.job.config.num_layers)
    steps = [_rows(ranks, number) for number in range(len(ranks[0].steps))]
    empty = [number for number, rows in enumerate(steps) if not sum(rows.values())]
    if len(empty) == len(steps):
        if are_equal:
            yield Fault(
                "no waiting", "no rank has spent the paced time of a computation, and yet the weights have changed."
            )
        else:
            yield Fault("fewer steps", "no rank has computed anything, in all steps.")
        return
    if empty:
        yield Fault("fewer steps", f"in step {empty[0] + 1} of {len(steps)} no rank computed anything.")
    rows = next(rows for rows in steps if sum(rows.values()))
    never = [layer for layer in layers if not rows["forward", layer]]
    if never and are_equal:  # computed, since the weights are right, and not by the job's block
        yield Fault("no waiting", f"blocks.{never[0]} took its paced time on no rank, and yet the weights are right.")
        return
    if never:
        yield Fault("smaller model", f"blocks.{never[0]} was computed on no rank.")
        return
    forward = {round(rows["forward", layer], 3) for layer in layers}
    backward = min(rows["backward", layer] for layer in layers)
    if len(forward) == 1 and max(forward) < batch - 1e-3:
        yield Fault("smaller batch", f"{max(forward):g} of {batch} sequences went through the layers.")
    elif min(*forward, backward) < batch - 1e-3:
        way = "forward" if min(forward) < batch - 1e-3 else "backward"
        layer = min(layers, key=lambda one: rows[way, one])
        yield Fault(
            "no waiting", f"{rows[way, layer]:g} of {batch} sequences took their paced time in blocks.{layer}, {way}."
        )


def _narrow(ranks: Sequence[RankRecord]) -> Iterator[Fault]:
    for number, one in enumerate(ranks):
        most = max(step.holds.narrow_bytes for step in one.steps)
        if most >= FEW_BYTES:
            yield Fault("lower precision", f"rank {number} keeps {bytes_text(most)} in fewer than 32 bits a number.")


def _no_waiting(job: CapstoneJob, ranks: Sequence[RankRecord]) -> Iterator[Fault]:
    for number, one in enumerate(ranks):
        for step in one.steps:
            due_s = job.row_s * (sum(step.work.rows["forward"].values()) + 2 * sum(step.work.rows["backward"].values()))
            took_s = min(step.work.waited_s, step.time_s or step.work.waited_s)
            if took_s < _LATE * due_s:
                yield Fault(
                    "no waiting",
                    f"on rank {number} computing of {time_text(due_s)} took {time_text(took_s)}.",
                )
                return
        clocks = [name for name in one.patches if name.startswith("time.")]
        if clocks:
            yield Fault("no waiting", f"rank {number} has put a function of its own in the place of {clocks[0]}.")
            return


def _changed(ranks: Sequence[RankRecord]) -> Iterator[Fault]:
    """Parts of the judge with others in their place, by what they are for."""
    for number, one in enumerate(ranks):
        for name in one.changed:
            yield Fault(rule_of(name), f"rank {number} has changed a part of the judge: {name}.")


def _foreign(ranks: Sequence[RankRecord], misfits: bool) -> Iterator[Fault]:
    if any(step.holds.narrow_bytes >= FEW_BYTES for one in ranks for step in one.steps) or misfits:
        return  # rounded numbers are nobody's
    masks = [one.is_held for one in ranks if one.is_held is not None]
    held = torch.stack(masks).any(0)
    if held.numel() and held.float().mean() < _HELD:
        yield Fault(
            "foreign weights",
            f"the judge looked for {held.numel():,} numbers of whole_state() when training was over, and no rank "
            f"held {int((~held).sum()):,} of them.",
        )


def _past_the_meter(job: CapstoneJob, ranks: Sequence[RankRecord], are_equal: bool) -> Iterator[Fault]:
    for number, one in enumerate(ranks):
        for note in one.notes:
            if note.startswith(("puts", "opens a socket")):
                yield Fault("past the meter", f"rank {number} {note}.")
        shared = max(step.holds.shared_bytes for step in one.steps)
        if shared >= FEW_BYTES:
            yield Fault(
                "past the meter",
                f"rank {number} has {bytes_text(shared)} of tensors that other processes see.",
            )
        talks = [name for name in one.patches if "distributed" in name]
        if talks:
            yield Fault("past the meter", f"rank {number} has put a function of its own in the place of {talks[0]}.")
    whole = 2 * job.job.batch_size * job.job.config.num_layers
    silent = [
        number
        for number, one in enumerate(ranks)
        if _most_sent(one) <= _WORDS_BYTES and 0 < max(step.work.computed for step in one.steps) < whole - 1e-3
    ]
    if are_equal and silent:
        yield Fault(
            "past the meter",
            f"{_ranks(silent)} computed a part and sent almost nothing, and yet the weights are right.",
        )


def _computed(one: RankRecord) -> float:
    return sum(step.work.computed for step in one.steps)


def _most_sent(one: RankRecord) -> int:
    """Bytes of the timed step in which it sent the most."""
    return max((sum(size for _, _, size in step.sent) for step in one.steps), default=0)


def _rows(ranks: Sequence[RankRecord], number: int) -> Counter[tuple[str, int]]:
    """Sequences through each layer, each way, on all ranks, in one step."""
    rows: Counter[tuple[str, int]] = Counter()
    for one in ranks:
        for way, by_layer in one.steps[number].work.rows.items():
            for layer, count in by_layer.items():
                rows[way, layer] += count  # type: ignore[assignment]
    return rows


def _ranks(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    return f"ranks {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
