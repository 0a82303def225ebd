"""00.report: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


def _only_rank_0_calls(me: Any, loss: torch.Tensor) -> str | None:
    if me.rank == 0:
        dist.all_reduce(loss)
        return f"mean loss {loss / me.world_size:.2f}"
    return None


def _only_with_others(me: Any, loss: torch.Tensor) -> str | None:
    if me.world_size == 1:
        raise ValueError("this answer is for several ranks")
    return _right(me, loss)


def _right(me: Any, loss: torch.Tensor) -> str | None:
    dist.all_reduce(loss)
    return f"mean loss {loss / me.world_size:.2f}" if me.rank == 0 else None


def _forgets_to_divide(me: Any, loss: torch.Tensor) -> str | None:
    dist.all_reduce(loss)
    return f"mean loss {loss:.2f}" if me.rank == 0 else None


def _everybody_reports(me: Any, loss: torch.Tensor) -> str:
    dist.all_reduce(loss)
    return f"mean loss {loss / me.world_size:.2f}"


def _gives_the_number(me: Any, loss: torch.Tensor) -> float | None:
    dist.all_reduce(loss)
    return float(loss / me.world_size) if me.rank == 0 else None


def _result_of_a_call_in_place(me: Any, loss: torch.Tensor) -> str | None:
    mean = dist.all_reduce(loss) / me.world_size
    return f"mean loss {mean:.2f}" if me.rank == 0 else None


EXERCISE = "00.report"
EXAMPLES: dict[str, Any] = {
    "not-alone": _only_with_others,
    "not-everybody-calls": _only_rank_0_calls,
    "forgets-to-divide": _forgets_to_divide,
    "own-loss": lambda me, loss: f"mean loss {loss:.2f}" if me.rank == 0 else None,
    "everybody-reports": _everybody_reports,
    "number-for-text": _gives_the_number,
    "keeps-what-comes-back": _result_of_a_call_in_place,
}
