"""Pipelines by formula: idle share (bubble fraction) and micro-batches in flight, for equal stages and free messages.

With p ranks, m micro-batches and v stages a rank, a step is m micro-batches of work for a rank, and a wait that
depends on the schedule alone. In GPipe and 1F1B it is p - 1 micro-batches long, hence the (p - 1) / (m + p - 1) of
the textbooks. Unequal stages, slow links and schedules of one's own need ``simulate``.
"""

from __future__ import annotations

from course_lib.base.checks import at_least, known
from course_lib.schedules.published import SCHEDULES, virtual_stages_of
from course_lib.schedules.stage_times import StageTimes

AT_MOST = ("zb_1p", "zb_2p")  # searched for: they may have less in flight than the formula says


def pipeline_idle_share(
    kind: str,
    num_ranks: int,
    num_micro_batches: int,
    *,
    num_virtual_stages: int | None = None,
    times: StageTimes | None = None,
) -> float:
    """The share of the ranks' time in which they do not compute, for a kind of ``SCHEDULES``: the bubble fraction.

    Waiting is divided by the whole step, as GPipe's authors do; Narayanan et al. (arXiv 2104.04473) divide it by the
    time of the work alone, (p - 1) / m for 1F1B.

    ``times`` are those of all that a rank holds; only the zero bubble schedules depend on them. Raises ValueError
    where the formula does not hold: ZB-H1 needs ``m >= p`` and a W that is no longer than F and I, ZB-H2 the same and
    ``m >= 2p - 1``, ZB-V needs ``m >= 2p - 1`` and F, I and W of equal time, DualPipeV ``m >= 2p``, ZB-1p and ZB-2p
    ``m >= p`` and the same.
    """
    p, m, v = (
        num_ranks,
        num_micro_batches,
        _stages_a_rank(kind, num_ranks, num_micro_batches, num_virtual_stages),
    )
    f, i, w = (times.forward_s, times.input_s, times.weight_s) if times else (1.0, 1.0, 1.0)
    work_s = m * (f + i + w)
    if kind == "naive":
        wait_s = (p - 1) * work_s
    elif kind == "zb_h1":
        _holds("ZB-H1", m >= p and w <= min(f, i), "m >= p and a W no longer than F and I")
        wait_s = (p - 1) * (f + i - w)
    elif kind == "zb_h2":  # the first term is that later ranks start later, the second the paper's
        _holds("ZB-H2", m >= 2 * p - 1 and w <= min(f, i), "m >= 2p - 1 and a W no longer than F and I")
        wait_s = (p - 1) * max(f, f + i - 2 * w)
    elif kind in ("zb_1p", "zb_2p"):  # equal times leave ZB-2p the stagger alone, and that is as long
        _holds(SCHEDULES[kind].title, m >= p and f == i == w, "m >= p and F, I and W of equal time")
        wait_s = (p - 1) * f
    elif kind in ("zb_v", "dualpipe_v"):
        least = 2 * p - (kind == "zb_v")
        words = f"m >= 2p{' - 1' * (kind == 'zb_v')} and F, I and W of equal time"
        _holds(SCHEDULES[kind].title, m >= least and f == i == w, words)
        wait_s = (p - 1) * f / 2  # only because later ranks start later
    elif kind in ("gpipe", "1f1b", "interleaved", "looped_bfs"):
        # too few micro-batches do not keep p ranks busy while they pass from stage to stage
        wait_s = (p - 1 + (v - 1) * max(0, p - m)) * (f + i + w) / v
    else:
        raise LookupError(_is_missing(kind, "a branch in pipeline_idle_share"))
    return wait_s / (work_s + wait_s) if wait_s else 0.0


def pipeline_peak_in_flight(
    kind: str, num_ranks: int, num_micro_batches: int, *, num_virtual_stages: int | None = None
) -> tuple[int, ...]:
    """For each rank the most micro-batches that it has in flight; each counts once for each of its stages.

    With several stages a rank, a stage is a smaller piece of the model and its activations are as much smaller.
    Where a schedule is searched for (ZB-1p, ZB-2p; ZB-V of fewer than 2p - 1 micro-batches), this is what it may have
    at most.
    """
    p, m, v = (
        num_ranks,
        num_micro_batches,
        _stages_a_rank(kind, num_ranks, num_micro_batches, num_virtual_stages),
    )
    group = -(-m // max(1, m // p))  # micro-batches that interleaved 1F1B passes on together
    peaks = {
        "naive": lambda rank: 1,
        "gpipe": lambda rank: m,
        "1f1b": lambda rank: p - rank,
        "interleaved": lambda rank: (v - 1) * group + (2 if v > 1 else 1) * (p - 1 - rank) + 1,
        "looped_bfs": lambda rank: v * m,
        "zb_h1": lambda rank: p,
        "zb_h2": lambda rank: 2 * p - 1,
        "zb_1p": lambda rank: p,
        "zb_2p": lambda rank: 2 * p,
        "zb_v": lambda rank: 2 * p,
        "dualpipe_v": lambda rank: min(2 * p + 1, m + 1 + rank),
    }
    if kind not in peaks:
        raise LookupError(_is_missing(kind, "a line in pipeline_peak_in_flight"))
    return tuple(min(peaks[kind](rank), v * m) for rank in range(p))


def _stages_a_rank(kind: str, num_ranks: int, num_micro_batches: int, num_virtual_stages: int | None) -> int:
    """How many stages a rank holds, after a look at all arguments."""
    at_least(1, num_ranks=num_ranks, num_micro_batches=num_micro_batches)
    return virtual_stages_of(known("kind", kind, SCHEDULES), num_virtual_stages)


def _is_missing(kind: str, what: str) -> str:
    return (
        f"No formula is known for {SCHEDULES[kind].title}: it wants {what}, tests/support/pipeline_formulas.py. "
        "What to do where its paper has none: docs/maintaining/add-a-schedule.md, step 5."
    )


def _holds(title: str, condition: bool, words: str) -> None:
    if not condition:
        raise ValueError(f"The formula of {title} holds for {words} only; simulate() answers for the rest.")
