"""10.dispatch: an answer is tried on a rank; what it gave, what its experts computed, and what it sent."""

from __future__ import annotations

from collections.abc import Callable
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

__all__ = [
    "COMPUTED",
    "FACTS",
    "KEPT",
    "NOTHING",
    "OUT",
    "SENT",
    "UNWAITED",
    "compare",
    "differs",
    "right",
    "trial",
]

UNWAITED, OUT, COMPUTED = "begun and not waited for", "the output", "rows of each own expert"
KEPT, SENT, NOTHING = "changed that was to stay", "sent", "nothing"
FACTS = (UNWAITED, OUT, COMPUTED, KEPT, SENT)  # in the order in which they are told
_ENOUGH = "no more than rows and outputs"
_ROW_BYTES = 8 * WIDTH + 64  # with a weight and some numbers beside it
_BESIDE_BYTES = 2500  # for each other rank: counts, and such as are pickled


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
    from course_lib.cluster.leaks.compare import never_waited_here
    from course_lib.meter.communication.recorder import Recorder

    given = tokens_of(kind, me.rank, me.world_size)
    tensors = [one.to(me.device, copy=True) for one in (given.rows, given.chosen, given.weights)]
    run = Own(me, own_experts(kind, me.rank, me.world_size))
    kept = Kept(tokens=tensors[0], chosen=tensors[1], weights=tensors[2])
    with Recorder(me.rank) as recorder:
        out = answer(me, *tensors, num_experts_of(kind, me.world_size), run)
    if out is ...:
        return ...
    begun = never_waited_here()
    sent = sum(sum(call.sent_bytes.values()) for call in recorder.calls)
    limit = rows_to_send(kind, me.rank, me.world_size) * _ROW_BYTES + _BESIDE_BYTES * (me.world_size - 1)
    return {
        UNWAITED: begun[0] if begun else NOTHING,
        OUT: out.detach().cpu().clone() if isinstance(out, Tensor) else out,
        COMPUTED: run.num_rows,
        KEPT: kept.changes() or NOTHING,
        SENT: _ENOUGH if sent <= limit else f"{round(sent)} bytes",
    }


def right(kind: str) -> Callable[[int, int], dict[str, Any]]:
    def expected(rank: int, world_size: int) -> dict[str, Any]:
        return {
            UNWAITED: NOTHING,
            OUT: right_out(kind, rank, world_size),
            COMPUTED: rows_computed(kind, rank, world_size),
            KEPT: NOTHING,
            SENT: _ENOUGH,
        }

    return expected


def compare(expected: dict[str, Any], got: Any) -> str:
    """The first fact that is not as expected, in words."""
    if not isinstance(got, dict) or OUT not in got:
        return f"expected an output, got {short(got)}"
    return next((_said(name, want, got[name]) for name, want in expected.items() if differs(want, got[name])), "")


def differs(want: Any, have: Any) -> str:
    if isinstance(want, Tensor):
        return _differing_rows(want, have)
    return difference(want, have)


def _differing_rows(want: Tensor, have: Any) -> str:
    found = difference(want, have, relative=1e-9, absolute=1e-11)
    if found or not isinstance(have, Tensor):
        return found
    return "" if have.dtype == want.dtype else f"expected {want.dtype}, got {have.dtype}"


def _said(name: str, want: Any, have: Any) -> str:
    if name == UNWAITED:
        return f"this rank {have}"
    if name == OUT:
        return f"the output: {differs(want, have)}"
    if name == COMPUTED:
        return (
            "the output is right, and an expert computed other rows than those of the tokens that chose it: "
            f"expected {short(want)} rows, by number of the expert, got {short(have)}"
        )
    if name == KEPT:
        return f"the output is right, and your code changed what was to stay: {have}"
    return f"the output is right, and this rank sent {have}: more than its rows, and outputs for others, need"
