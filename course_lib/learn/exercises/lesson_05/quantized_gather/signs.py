"""05.quantized_gather: what wrong answers show by the numbers that came, and by which ranks have the same."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_05.quantized_gather.trial import (
    GatherKind,
    GatherReport,
    apart,
    blocks_of,
    shard_of,
)
from course_lib.learn.judging.report import Recogniser, always, differing, only_wrong, reports

__all__ = [
    "gives",
    "in_another_order",
    "is_off_as",
    "is_own_alone",
    "own_is_exact",
    "part_of",
    "sends_wide",
    "with_own_scales",
]


def part_of(
    shard: Tensor,
    block: int,
    of: Callable[[Tensor], Tensor] = torch.round,
    by: float = 127.0,
    largest: Callable[[Tensor], Tensor] = lambda part: part.abs().amax(),
) -> Tensor:
    """A shard as a slip gives it: ``of`` makes whole numbers, ``by`` is what the ``largest`` number becomes."""
    parts = shard.float().split(block) if len(shard) else ()
    made = [of(part / (scale := largest(part) / by)).to(torch.int8).float() * scale for part in parts]
    return torch.cat(made).to(shard.dtype) if made else shard


def gives(slip: Callable[[Tensor, int], Tensor]) -> Recogniser:
    """Whether all of it is what this slip makes of each shard, wherever a shard has no zeros alone."""

    def holds(at: AnswerOutcome, report: GatherReport) -> bool:
        if at.kind in (GatherKind.ZEROS, GatherKind.NONE):
            return True
        out = report.full[1]
        want = torch.cat([slip(shard_of(at.kind, rank), blocks_of(at.kind)) for rank in range(at.num_ranks)])
        like = isinstance(out, Tensor) and out.shape == want.shape and out.dtype == want.dtype
        return like and torch.allclose(out.double(), want.double(), rtol=1e-4, atol=1e-7)

    return always(GatherReport, holds)


def is_off_as(*of: str) -> Recogniser:
    """Whether what is wrong about the numbers is of one of these kinds, everywhere."""

    def recognise(evidence: Evidence) -> bool:
        found = [apart(at.expected.full, report.full[1]) for at, report in reports(evidence, GatherReport)]
        kinds = {getattr(one, "kind", "") for one in found if one}
        return evidence.error is None and bool(kinds) and kinds <= {*of}

    return recognise


def with_own_scales(evidence: Evidence) -> bool:
    """Whether each rank's own part is near enough, and no other's is."""
    seen = []
    for at, report in reports(evidence, GatherReport):
        out, full = report.full[1], at.expected.full[1]
        if at.num_ranks == 1 or at.kind != GatherKind.EVEN or not isinstance(out, Tensor) or out.shape != full.shape:
            continue
        near = [not apart((at.kind, b), a) for a, b in zip(*(x.chunk(at.num_ranks) for x in (out, full)), strict=True)]
        seen.append(near == [rank == at.rank for rank in range(at.num_ranks)])
    return bool(seen) and all(seen) and evidence.error is None


def in_another_order(evidence: Evidence) -> bool:
    """Whether every rank has each shard once, and somewhere not rank 0's first."""
    orders = []
    for at, report in reports(evidence, GatherReport):
        out, full = report.full[1], at.expected.full[1]
        if at.num_ranks == 1 or at.kind != GatherKind.EVEN or not isinstance(out, Tensor) or out.shape != full.shape:
            continue
        shards = [(rank, (at.kind, shard_of(at.kind, rank))) for rank in range(at.num_ranks)]
        parts = out.chunk(at.num_ranks)
        orders.append([next((rank for rank, shard in shards if not apart(shard, part)), -1) for part in parts])
    whole = all(sorted(order) == [*range(len(order))] for order in orders)
    return evidence.error is None and whole and any(order != sorted(order) for order in orders)


def sends_wide(evidence: Evidence) -> bool:
    """Whether, wherever too much was sent, it was about a byte more for each number, or more than that."""

    def is_wide(at: AnswerOutcome, report: GatherReport) -> bool:
        num, block = len(shard_of(at.kind, at.rank)), blocks_of(at.kind)
        return report.more_bytes >= num - 4 * -(-num // block)  # two bytes for each, and no scales

    wrong = [(at, report) for at, report in reports(evidence, GatherReport) if not at.right]
    return only_wrong("sent")(evidence) and all(is_wide(*one) for one in wrong)


def own_is_exact(evidence: Evidence) -> bool:
    """Whether ranks differ, and each holds its own shard as it was."""

    def is_exact(at: AnswerOutcome, report: GatherReport) -> bool:
        return torch.equal(report.full[1].chunk(at.num_ranks)[at.rank], shard_of(at.kind, at.rank))

    wrong = [(at, report) for at, report in reports(evidence, GatherReport) if not at.right]
    return only_wrong("alike")(evidence) and all(is_exact(*one) for one in wrong)


def is_own_alone(evidence: Evidence) -> bool:
    return always(
        GatherReport,
        lambda at, report: (
            at.num_ranks == 1
            or (isinstance(report.full[1], Tensor) and report.full[1].shape == shard_of(at.kind, at.rank).shape)
        ),
    )(evidence) and any("full" in differing(one) for one in evidence.wrong)
