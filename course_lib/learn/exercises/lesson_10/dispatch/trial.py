"""10.dispatch: an answer is tried on a rank; what it gave, what its experts computed, and what it sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_10.dispatch.cases import (
    WIDTH,
    made_by,
    num_experts_of,
    own_experts,
    right_out,
    rows_computed,
    rows_to_send,
    tokens_of,
)
from course_lib.learn.judging.compare import difference, short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOTHING, RankReport, fact, first_unwaited

__all__ = ["ENOUGH", "DispatchReport", "differing_rows", "right", "trial"]

ENOUGH = "no more than rows and outputs"
_ROW_BYTES = 8 * WIDTH + 64  # with a weight and some numbers beside it
_BESIDE_BYTES = 2500  # for each other rank: counts, and such as are pickled


def differing_rows(want: Any, have: Any) -> str:
    """How a rank's output differs, in numbers or in dtype."""
    found = difference(want, have, relative=1e-9, absolute=1e-11)
    if found or not isinstance(have, Tensor):
        return found
    return "" if have.dtype == want.dtype else f"expected {want.dtype}, got {have.dtype}"


@dataclass(frozen=True, kw_only=True)
class DispatchReport(RankReport):
    """What an answer gave on a rank, what its experts computed there, and what was sent."""

    asked_for = "an output"
    out: Any = fact("the output: {difference}", by=differing_rows)
    computed: dict[int, int] = fact(
        "the output is right, but an expert computed other rows than those of the tokens that chose it; expected "
        "{expected} rows, by number of the expert, got {got}"
    )
    kept: str = fact("the output is right, and your code changed what was to stay: {got}", right=NOTHING)
    sent: str = fact(
        "the output is right, but this rank sent {got}: that is more than its rows, and its outputs for others",
        right=ENOUGH,
    )


class Own:
    """``run`` of one rank: its experts, who count their rows."""

    def __init__(self, me: Rank, experts: range) -> None:
        self.me, self.experts = me, experts
        self.num_rows = dict.fromkeys(experts, 0)

    def __call__(self, expert: Any, rows: Any) -> Tensor:
        if not isinstance(expert, Tensor | int) or isinstance(expert, bool):
            raise TypeError(f"run wants the number of an expert; it was given {short(expert)}")
        number = int(expert)
        if number not in self.num_rows:
            raise ValueError(
                f"rank {self.me.rank} has the experts {list(self.experts)}; `run` was asked for expert {number}"
            )
        if not isinstance(rows, Tensor) or rows.dim() != 2 or rows.size(1) != WIDTH:
            raise ValueError(f"run wants rows of shape (R, {WIDTH}); it was given {short(rows)}")
        self.num_rows[number] += len(rows)
        return made_by(number, rows)


def trial(answer: Callable[..., Any], me: Rank, kind: str) -> Any:
    from course_lib.meter.communication.recorder import Recorder

    given = tokens_of(kind, me.rank, me.world_size)
    tensors = [one.to(me.device, copy=True) for one in (given.rows, given.chosen, given.weights)]
    run = Own(me, own_experts(kind, me.rank, me.world_size))
    kept = Kept(tokens=tensors[0], chosen=tensors[1], weights=tensors[2])
    with Recorder(me.rank) as recorder:
        out = answer(me, *tensors, num_experts_of(kind, me.world_size), run)
    if out is ...:
        return ...
    begun = first_unwaited()
    sent = sum(sum(call.sent_bytes.values()) for call in recorder.calls)
    limit = rows_to_send(kind, me.rank, me.world_size) * _ROW_BYTES + _BESIDE_BYTES * (me.world_size - 1)
    return DispatchReport(
        unwaited=begun,
        out=out.detach().cpu().clone() if isinstance(out, Tensor) else out,
        computed=run.num_rows,
        kept=kept.changes() or NOTHING,
        sent=ENOUGH if sent <= limit else f"{round(sent)} bytes",
    )


def right(kind: str) -> Callable[[int, int], DispatchReport]:
    def expected(rank: int, world_size: int) -> DispatchReport:
        return DispatchReport(out=right_out(kind, rank, world_size), computed=rows_computed(kind, rank, world_size))

    return expected
