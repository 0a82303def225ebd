"""06.tied: two copies of one matrix on two ranks, and what keeps them equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from course_lib.cluster import exchange, recv, send
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.judge import RankJudge

__all__ = ["TIED"]


def _gradient(rank: int) -> torch.Tensor:
    return torch.arange(6, dtype=torch.float64).reshape(3, 2) * (rank + 1) + 10 * rank


def _weight() -> torch.Tensor:
    return torch.full((3, 2), 5.0, dtype=torch.float64)


def _expected(rank: int, n: int) -> dict[str, Any] | str:
    if rank not in (0, n - 1):
        return "holds no copy"
    return {"gradient": _gradient(0) + _gradient(n - 1), "weight": _weight()}


def _called(answer: Callable[..., Any], me: Any) -> Any:
    """The answer, called where there is a copy: on the first rank and on the last."""
    last = me.world_size - 1
    if me.rank not in (0, last):
        return "holds no copy"
    weight = nn.Parameter(_weight().to(me.device))
    weight.grad = _gradient(me.rank).to(me.device)
    if answer(me, weight, last - me.rank) is ...:
        return ...
    return {"gradient": weight.grad, "weight": weight.detach()}


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _with_theirs(use: Callable[[Any, torch.Tensor], None], *, of: str = "grad") -> Callable[..., None]:
    """Swap the gradients (or the weights), then do something with what came."""

    def answer(me: Any, weight: nn.Parameter, other: int) -> None:
        mine = weight.grad if of == "grad" else weight.detach().clone()
        assert mine is not None
        theirs = torch.empty_like(mine)
        exchange([send(mine, other), recv(theirs, other)])
        with torch.no_grad():
            use(weight, theirs)

    return answer


def _replace(weight: Any, theirs: torch.Tensor) -> None:
    weight.grad = theirs


def _average(weight: Any, theirs: torch.Tensor) -> None:
    weight.grad = (weight.grad + theirs) / 2


def _average_weights(weight: Any, theirs: torch.Tensor) -> None:
    weight.copy_((weight + theirs) / 2)


def _add_to_weight(weight: Any, theirs: torch.Tensor) -> None:
    weight += theirs


def _one_way(me: Any, weight: Any, other: int) -> None:
    if me.rank:
        exchange([send(weight.grad, other)])
    else:
        theirs = torch.empty_like(weight.grad)
        exchange([recv(theirs, other)])
        weight.grad += theirs


def _polite(me: Any, weight: Any, other: int) -> None:
    theirs = torch.empty_like(weight.grad)
    exchange([send(weight.grad, other)])
    exchange([recv(theirs, other)])
    weight.grad += theirs


def _everybody(me: Any, weight: Any, other: int) -> None:
    dist.all_reduce(weight.grad)


def _hangs(num_ranks: int) -> Callable[[Evidence], bool]:
    def recognise(evidence: Evidence) -> bool:
        error = evidence.error
        stuck = error is not None and error.kind == "RankTimeout"
        return stuck and evidence.wrong[0].case.endswith(f"on {num_ranks} ranks")

    return recognise


TIED = Exercise(
    name="06.tied",
    title="Two copies of one matrix",
    judge=RankJudge(
        (2, 4), (Case("a matrix on the first and the last rank", (), _expected),), timeout_s=4.0, call=_called
    ),
    mistakes=(
        Mistake(
            "both-send-first",
            "Both ranks `send` first and `recv` second, which is a deadlock: neither message is taken before the other "
            "rank has got rid of its own. Put both halves in one list: `exchange([send(...), recv(...)])`.",
            _polite,
            _hangs(2),
        ),
        Mistake(
            "asks-everybody",
            "With two ranks this works. With four it hangs: `all_reduce` needs every rank of the group, and the ranks "
            "in the middle hold no copy and do not call. Exchange with the one other rank.",
            _everybody,
            _hangs(4),
        ),
        Mistake(
            "one-way",
            "One of the two ranks has the sum, the other still has its own gradient: the copies will part at the next "
            "step. Both need the sum.",
            _one_way,
        ),
        Mistake(
            "averages",
            "You take the mean. In the uncut model the matrix is used in two places, and its gradient is the *sum* of "
            "what both places say; nothing is divided.",
            _with_theirs(_average),
        ),
        Mistake(
            "swaps",
            "The two gradients change places: each rank now has the other's. Add it to your own.",
            _with_theirs(_replace),
        ),
        Mistake(
            "own-gradient",
            "Each copy still has the gradient of its own place alone. (To average the *weights* now and then hides "
            "that: the optimizers' memories differ all the same.) Mend the cause: sum the gradients, before the step.",
            _with_theirs(_average_weights, of="weight"),
        ),
        Mistake(
            "adds-to-the-weight",
            "The other's gradient was added to the weight itself. Gradients meet in `weight.grad`; the weight is the "
            "optimizer's business.",
            _with_theirs(_add_to_weight),
        ),
    ),
    hints=(
        "In the uncut model the matrix is one tensor, used twice. What does autograd do with two gradients for it?",
        "Each rank sends its `weight.grad` to the other and receives the other's, both in one list; then both hold the "
        "sum.",
        "`theirs = torch.empty_like(weight.grad)`, `exchange([send(weight.grad, other), recv(theirs, other)])`, "
        "`weight.grad += theirs`.",
    ),
    passed="Both copies have the sum of both gradients, and the ranks in between were left alone.",
)
