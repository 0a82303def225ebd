"""04.gradients: the mean of all ranks' gradients, on every rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from course_lib.cluster import Rank
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_04.tries import (
    all_got,
    gradient_vector,
    rank_gradients,
    replica,
    times_sent,
    weights,
)
from course_lib.learn.judge import by_trial

__all__ = ["GRADIENTS"]

_PLAIN, _FROZEN, _UNUSED = "three layers", "a frozen layer", "a layer that rank 1 did not use"
_SENT = "sent, in sizes of the gradients"
_SKIPPED = "4."  # the last layer, by the beginning of its parameters' names


def _prepared(kind: str, rank: int, device: torch.device | str = "cpu") -> nn.Module:
    """A replica after the backward pass of this rank."""
    model = replica(device)
    for name, gradient in rank_gradients(model, rank).items():
        parameter = model.get_parameter(name)
        if kind == _FROZEN and name.startswith("0."):
            parameter.requires_grad_(False)
        elif not (kind == _UNUSED and rank == 1 and name.startswith(_SKIPPED)):
            parameter.grad = gradient.to(device)
    return model


def _trial(answer: Callable[..., Any], me: Rank, kind: str) -> dict[str, Any]:
    from course_lib.meter.recorder import Recorder

    model = _prepared(kind, me.rank, me.device)
    before = weights(model)
    size_bytes = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    with Recorder(me.rank) as recorder:
        answer(me, model)
    return {
        "the gradients": gradient_vector(model),
        "the weights": "as they were" if torch.equal(before, weights(model)) else "changed",
        _SENT: times_sent(recorder.calls, size_bytes),
    }


def _right(kind: str) -> Callable[[int, int], dict[str, Any]]:
    def expected(rank: int, world_size: int) -> dict[str, Any]:
        models = [_prepared(kind, each) for each in range(world_size)]
        for model in models:
            for parameter in model.parameters():
                if parameter.grad is None and parameter.requires_grad:
                    parameter.grad = torch.zeros_like(parameter)
        vectors = [vector for model in models if isinstance(vector := gradient_vector(model), torch.Tensor)]
        return {
            "the gradients": torch.stack(vectors).mean(dim=0),
            "the weights": "as they were",
            _SENT: round(2 * (world_size - 1) / world_size, 1),
        }

    return expected


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _learning(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def _filled(model: nn.Module) -> list[torch.Tensor]:
    """The gradients of what learns, zeros where there is none."""
    for parameter in _learning(model):
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    return [parameter.grad for parameter in _learning(model) if parameter.grad is not None]


def _sums(me: Rank, model: nn.Module) -> None:
    for gradient in _filled(model):
        dist.all_reduce(gradient)


def _averages_weights(me: Rank, model: nn.Module) -> None:
    for parameter in _learning(model):
        dist.all_reduce(parameter.data)
        parameter.data /= me.world_size


def _from_rank_0(me: Rank, model: nn.Module) -> None:
    for gradient in _filled(model):
        dist.broadcast(gradient, src=0)


def _only_on_rank_0(me: Rank, model: nn.Module) -> None:
    for gradient in _filled(model):
        dist.reduce(gradient, dst=0)
        gradient /= me.world_size


def _rank_0_divides(me: Rank, model: nn.Module) -> None:
    _sums(me, model)
    if me.rank == 0:
        for gradient in _filled(model):
            gradient /= me.world_size


def _skips_none(me: Rank, model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= me.world_size


def _trips_over_none(me: Rank, model: nn.Module) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= me.world_size  # type: ignore[operator,assignment]  # None is the mistake


def _sends_frozen(me: Rank, model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)
        parameter.grad /= me.world_size


def _keeps_what_is_returned(me: Rank, model: nn.Module) -> None:
    _filled(model)
    for parameter in _learning(model):
        parameter.grad = dist.all_reduce(parameter.grad)  # None: it works in place


def _averages_a_loss(me: Rank, model: nn.Module) -> None:
    loss = torch.ones(1, device=me.device)
    dist.all_reduce(loss)


def _gathers(me: Rank, model: nn.Module) -> None:
    for gradient in _filled(model):
        everything = [torch.empty_like(gradient) for _ in range(me.world_size)]
        dist.all_gather(everything, gradient)
        gradient.copy_(torch.stack(everything).mean(dim=0))


def _by_the_library(me: Rank, model: nn.Module) -> None:
    from course_lib.parallel.data import all_reduce_gradients

    all_reduce_gradients(me, model)


def _own_gradients(evidence: Evidence) -> bool:
    """Whether every rank kept what its own backward pass had left, where that is easy to tell."""
    plain = [o for o in evidence.outcomes if o.case.startswith(_PLAIN)]
    own = [gradient_vector(_prepared(_PLAIN, rank)) for rank in range(4)]
    return bool(plain) and all(
        isinstance(o.got["the gradients"], torch.Tensor)
        and any(torch.equal(o.got["the gradients"], vector) for vector in own if isinstance(vector, torch.Tensor))
        for o in plain
    )  # fmt: skip


def _kept_own_and_sent(low: float, high: float) -> Callable[[Evidence], bool]:
    def recognise(evidence: Evidence) -> bool:
        sent = all_got(evidence, _SENT)
        return _own_gradients(evidence) and all(low <= times <= high for times in sent)

    return recognise


def _first_error_in(label: str) -> Callable[[Evidence], bool]:
    return lambda evidence: evidence.error is not None and evidence.wrong[0].case.startswith(label)


def _loses_gradients(evidence: Evidence) -> bool:
    return evidence.error is None and any(isinstance(got, str) for got in all_got(evidence, "the gradients"))


def _everything_to_everybody(evidence: Evidence) -> bool:
    """Whether the values are right, and each of four ranks sent its gradients three times."""
    sent = [
        times
        for o, times in zip(evidence.outcomes, all_got(evidence, _SENT), strict=True)
        if "of 4" in o.case
    ]
    return set(sent) == {3.0} and all(o.difference.startswith(f"under '{_SENT}") for o in evidence.wrong)


GRADIENTS = Exercise(
    name="04.gradients",
    title="The mean of all gradients, on every rank",
    judge=by_trial(
        (4, 2),
        tuple(Case(kind, (kind,), _right(kind)) for kind in (_PLAIN, _FROZEN, _UNUSED)),
        _trial,
        timeout_s=4.0,
    ),
    mistakes=(
        Mistake(
            "averages-a-loss",
            "Every rank keeps its own gradients, and next to nothing was sent. A loss that is averaged looks well in a "
            "log, and no gradient comes out of it: `backward()` is over. All-reduce each `parameter.grad`.",
            _averages_a_loss,
            _kept_own_and_sent(0.0, 0.3),
        ),
        Mistake(
            "averages-the-weights",
            "Something was sent, and every rank still has its own gradients. Did you all-reduce the weights? They are "
            "equal anyway. Or a new tensor, such as `parameter.grad / n`? Then the result is in that tensor, and the "
            "optimizer reads `parameter.grad`.",
            _averages_weights,
            _kept_own_and_sent(0.4, 9.0),
        ),
        Mistake(
            "sum-not-mean",
            "You have the sum of all ranks' gradients. Each loss is a mean over its own rank's examples, so the mean "
            "over the whole batch is their mean: divide by `me.world_size`, or the step grows with every rank.",
            _sums,
        ),
        Mistake(
            "from-rank-0",
            "All ranks agree, on the gradients of rank 0 alone: a broadcast overwrites what the others computed. Sum "
            "them up first; `dist.all_reduce` does both.",
            _from_rank_0,
        ),
        Mistake(
            "only-on-rank-0",
            "Rank 0 has the mean and the others have something else: `reduce` brings the sum to one rank. Every rank "
            "takes the step itself, so every rank needs it: `all_reduce`.",
            _only_on_rank_0,
        ),
        Mistake(
            "rank-0-divides",
            "Rank 0 divides and the others keep the sum, so from now on the replicas differ. What happens to a "
            "gradient must happen to it on every rank.",
            _rank_0_divides,
        ),
        Mistake(
            "trips-over-none",
            "A frozen parameter has no gradient: its `.grad` is None. Leave out parameters whose `requires_grad` is "
            "False.",
            _trips_over_none,
            _first_error_in(_FROZEN),
        ),
        Mistake(
            "loses-gradients",
            "A parameter that learns has no gradient afterwards: its `.grad` is None. `dist.all_reduce` works in "
            "place and returns None, so do not assign what it returns; and zeros that stand in for None have to "
            "become `parameter.grad`, or the mean is lost.",
            _keeps_what_is_returned,
            _loses_gradients,
        ),
        Mistake(
            "sends-frozen",
            "The values are right, and you sent too much: a frozen parameter has no gradient on any rank, and you "
            "sent zeros for it. Ask for `requires_grad` first.",
            _sends_frozen,
        ),
        Mistake(
            "skips-none",
            "One rank did not use a layer, so its gradient is None there and it does not make a call that the others "
            "make. Calls have no names: its next one meets the wrong partner, or nobody. Whether a rank calls must not "
            "depend on what only that rank knows. Ask for `requires_grad`, and put zeros in place of None.",
            _skips_none,
            _first_error_in(_UNUSED),
        ),
        Mistake(
            "gathers-everything",
            "The values are right, and on four ranks you sent twice what is needed: every gradient went to every rank, "
            "to be added up there. `dist.all_reduce` adds on the way.",
            _gathers,
            _everything_to_everybody,
        ),
    ),
    hints=(
        "Which parameters have a gradient that the others need? Go through them in the model's order: it is the same "
        "on every rank, and so is the order of the calls.",
        "For each parameter with `requires_grad`: if its `.grad` is None, put zeros there; all-reduce `.grad`; divide "
        "it by `me.world_size`.",
        "`dist.all_reduce(parameter.grad)`, then `parameter.grad /= me.world_size`; before both, `if parameter.grad is "
        "None: parameter.grad = torch.zeros_like(parameter)`.",
    ),
    forbidden=("course_lib.parallel.data.all_reduce_gradients", "torch.nn.parallel.DistributedDataParallel"),
    forbidden_example=_by_the_library,
    passed="The mean on every rank, with frozen and unused layers, and each rank sent 2 (n - 1)/n of the gradients: "
    "what a ring needs, and no more.",
)
