"""What an exercise may demand of a run's communication, and the sentence for each way to miss it.

Two programs can give the same tensor at very different cost: on 4 ranks an all-reduce that gathers everything sends
twice or four times what a ring does. Values alone never tell; this does.
"""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.meter.communication.communication import Communication
from course_lib.meter.units import bytes_text

__all__ = ["expect"]


@checked
def expect(
    communication: Communication,
    *,
    sent_bytes: int | Sequence[int] | None = None,
    num_messages: int | Sequence[int] | None = None,
    only: Sequence[str] | None = None,
    never: Sequence[str] = (),
    tolerance: float = 0.0,
) -> list[str]:
    """Sentences for what differs; an empty list when all is as demanded.

    ``sent_bytes`` and ``num_messages`` are what each rank must send: one number for all, or one a rank. ``only`` names
    the operations that may be used, ``never`` those that may not. ``tolerance`` is a share: 0.01 lets 1 % pass.
    """
    for name, demand in (("sent_bytes", sent_bytes), ("num_messages", num_messages)):
        for value in demand if isinstance(demand, Sequence) else () if demand is None else (demand,):
            at_least(0, **{name: value})
    wrong = []
    used = communication.by_operation()
    for name in used:
        if name in never or (only is not None and name not in only):
            line = next(call.line for call in communication.calls if call.operation == name)
            allowed = f" Use only {', '.join(only)}." if only else ""
            location = f" (line {line.line_number}, in {line.function})" if line else ""
            wrong.append(f"{name} was called{location}, which this task does not allow.{allowed}")
    ranks = range(communication.world_size)
    for rank, wanted in zip(ranks, _by_rank(sent_bytes, len(ranks)), strict=True):
        got = communication.sent_bytes(rank)
        if wanted is not None and abs(got - wanted) > tolerance * wanted:
            much = f"{got / wanted:.3g} times the {bytes_text(wanted)}" if wanted else "and not nothing, as"
            wrong.append(f"rank {rank} sent {bytes_text(got)}, {much} that the task needs.")
            break  # the other ranks would say the same
    for rank, wanted in zip(ranks, _by_rank(num_messages, len(ranks)), strict=True):
        got = communication.num_messages(rank)
        if wanted is not None and got != wanted:
            wrong.append(f"rank {rank} sent {got} message{'s' * (got != 1)}; the task needs {wanted}.")
            break
    return wrong


def _by_rank(wanted: int | Sequence[int] | None, num_ranks: int) -> list[int | None]:
    if wanted is None or isinstance(wanted, int):
        return [wanted] * num_ranks
    if len(wanted) != num_ranks:
        raise ValueError(f"{len(wanted)} numbers were given for {num_ranks} ranks; give one number, or one a rank")
    return list(wanted)
