"""04.gradients: wrong answers, each wrong in one way, and how some are told by what they leave behind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster import Rank
from course_lib.learn.exercise import Evidence, Outcome
from course_lib.learn.exercises.lesson_04.gradients_cases import (
    FROZEN,
    MIXED,
    PLAIN,
    SENT,
    UNUSED,
    VALUES,
    prepared,
)
from course_lib.learn.exercises.lesson_04.tries import all_got, only_wrong_in

# -- wrong answers ----------------------------------------------------------------------------------------------


def learning(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def filled(model: nn.Module) -> list[Tensor]:
    """The gradients of what learns, zeros where there is none."""
    for parameter in learning(model):
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    return [parameter.grad for parameter in learning(model) if parameter.grad is not None]


def sums(me: Rank, model: nn.Module) -> None:
    for gradient in filled(model):
        dist.all_reduce(gradient)


def divides_by_four(me: Rank, model: nn.Module) -> None:
    sums(me, model)
    for gradient in filled(model):
        gradient /= 4


def divides_a_name(me: Rank, model: nn.Module) -> None:
    for parameter in learning(model):
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        dist.all_reduce(gradient)
        gradient = gradient / me.world_size


def zeros_of_the_default_type(me: Rank, model: nn.Module) -> None:
    for parameter in learning(model):
        if parameter.grad is None:
            parameter.grad = torch.zeros(parameter.shape, device=parameter.device)
        dist.all_reduce(parameter.grad)
        parameter.grad /= me.world_size


def averages_weights(me: Rank, model: nn.Module) -> None:
    for parameter in learning(model):
        dist.all_reduce(parameter.data)
        parameter.data /= me.world_size


def from_rank_0(me: Rank, model: nn.Module) -> None:
    for gradient in filled(model):
        dist.broadcast(gradient, src=0)


def only_on_rank_0(me: Rank, model: nn.Module) -> None:
    for gradient in filled(model):
        dist.reduce(gradient, dst=0)
        gradient /= me.world_size


def rank_0_divides(me: Rank, model: nn.Module) -> None:
    sums(me, model)
    if me.rank == 0:
        for gradient in filled(model):
            gradient /= me.world_size


def skips_none(me: Rank, model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= me.world_size


def trips_over_none(me: Rank, model: nn.Module) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= me.world_size  # type: ignore[operator,assignment]  # None is the mistake


def sends_frozen(me: Rank, model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)
        parameter.grad /= me.world_size
        if not parameter.requires_grad:
            parameter.grad = None


def keeps_what_is_returned(me: Rank, model: nn.Module) -> None:
    filled(model)
    for parameter in learning(model):
        parameter.grad = dist.all_reduce(parameter.grad)  # None: it works in place


def averages_a_loss(me: Rank, model: nn.Module) -> None:
    loss = torch.ones(1, device=me.device)
    dist.all_reduce(loss)


def gathers(me: Rank, model: nn.Module) -> None:
    for gradient in filled(model):
        everything = [torch.empty_like(gradient) for _ in range(me.world_size)]
        dist.all_gather(everything, gradient)
        gradient.copy_(torch.stack(everything).mean(dim=0))


def mean_over_users(me: Rank, model: nn.Module) -> None:
    for parameter in learning(model):
        num_users = torch.tensor(float(parameter.grad is not None), device=me.device)
        dist.all_reduce(num_users)
        parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        dist.all_reduce(parameter.grad)
        parameter.grad /= num_users


def in_shorter_numbers(me: Rank, model: nn.Module) -> None:
    for gradient in filled(model):
        short = gradient.float()
        dist.all_reduce(short)
        gradient.copy_(short / me.world_size)


def by_the_library(me: Rank, model: nn.Module) -> None:
    from course_lib.parallel.data import all_reduce_gradients

    all_reduce_gradients(me, model)


# -- what they leave behind -------------------------------------------------------------------------------------


def _compared(evidence: Evidence) -> Iterator[tuple[Outcome, int, dict[str, Tensor], dict[str, Any]]]:
    """Each outcome with values: itself, its world size, the gradients expected and those that came."""
    for outcome in evidence.outcomes:
        if outcome.error is None:
            yield outcome, int(outcome.case.rpartition(" ")[2]), outcome.expected[VALUES], outcome.got[VALUES]


def _factor(want: dict[str, Tensor], got: dict[str, Any]) -> float | None:
    """The one number by which all gradients are too large; None where there is none."""
    if not all(
        isinstance(gradient, Tensor) and gradient.shape == want[name].shape for name, gradient in got.items()
    ):
        return None
    wanted, came = (torch.cat([each[name].flatten() for name in want]) for each in (want, got))
    factor = float(came @ wanted / (wanted @ wanted))
    return factor if torch.allclose(came, factor * wanted, rtol=1e-7, atol=1e-9) else None  # fmt: skip


def sums_what_was_there(evidence: Evidence) -> bool:
    """Whether each gradient that came is the sum of all ranks', and some are missing."""
    if evidence.error is not None:
        return False
    all_there = True
    for _, world_size, want, got in _compared(evidence):
        there = {name: gradient for name, gradient in got.items() if isinstance(gradient, Tensor)}
        factor = _factor({name: want[name] for name in there}, there)
        if factor is None or abs(factor - world_size) > 1e-6:
            return False
        all_there = all_there and len(there) == len(got)
    return not all_there


def assigns_another_type(evidence: Evidence) -> bool:
    """Whether PyTorch refused a gradient for its type where a rank had none."""
    error = evidence.error
    return (
        error is not None
        and "assign" in error.message
        and "gradient" in error.message
        and "type" in error.message
        and evidence.wrong[0].case.startswith((UNUSED, MIXED))
    )


def divides_alike(evidence: Evidence) -> bool:
    """Whether each sum was divided by one number, the same for every number of ranks."""
    factors = [(world_size, _factor(want, got)) for _, world_size, want, got in _compared(evidence)]
    divisors = [world_size / factor for world_size, factor in factors if factor]
    if evidence.error is not None or not factors or len(divisors) < len(factors):
        return False
    return max(divisors) - min(divisors) < 1e-6 and abs(divisors[0] - 1) > 1e-6


def counts_users(evidence: Evidence) -> bool:
    """Whether all is right but the layers that some ranks did not use, which are too large by that count."""
    if evidence.error is not None:
        return False
    for outcome, world_size, want, got in _compared(evidence):
        label, users = outcome.case.partition(", rank")[0], world_size
        odd = {UNUSED: ("4.", world_size - 1), MIXED: ("6.", 1)}.get(label)
        for name, gradient in want.items():
            users = odd[1] if odd and name.startswith(odd[0]) else world_size
            if not isinstance(got[name], Tensor) or not torch.allclose(
                got[name], gradient * (world_size / users), rtol=1e-7, atol=1e-9
            ):
                return False
    return True


def nearly_right_and_shorter(evidence: Evidence) -> bool:
    """Whether the values are right to a few digits, and fewer bytes travelled than numbers of this type need."""
    for outcome, _, want, got in _compared(evidence):
        if not all(
            isinstance(g, Tensor) and torch.allclose(g, want[n], rtol=0.05, atol=0.05) for n, g in got.items()
        ):
            return False
        if outcome.got[SENT] > 0.7 * outcome.expected[SENT]:
            return False
    return evidence.error is None  # fmt: skip


def kept_own_and_sent(low: float, high: float) -> Callable[[Evidence], bool]:
    def recognise(evidence: Evidence) -> bool:
        sent = all_got(evidence, SENT)
        return _own_gradients(evidence) and all(low <= times <= high for times in sent)

    return recognise


def _own_gradients(evidence: Evidence) -> bool:
    """Whether every rank kept what its own backward pass had left, where that is easy to tell."""
    plain = [outcome for outcome in evidence.outcomes if outcome.case.startswith(PLAIN)]
    return evidence.error is None and bool(plain) and all(map(_is_own, plain))


def _is_own(outcome: Outcome) -> bool:
    place = re.search(r"rank (\d+) of", outcome.case)
    if place is None:
        return False
    own = prepared(PLAIN, int(place[1]))
    return all(
        isinstance(gradient, Tensor) and torch.equal(gradient, own.get_parameter(name).grad)  # type: ignore[arg-type]
        for name, gradient in outcome.got[VALUES].items()
    )


def asks_none_where_frozen(evidence: Evidence) -> bool:
    """Whether the first error came with the frozen layer, and is about None."""
    error = evidence.error
    about_none = error is not None and "None" in error.message
    return about_none and evidence.wrong[0].case.startswith(FROZEN)


def stops_where_unused(evidence: Evidence) -> bool:
    """Whether frozen layers went well, and ranks waited for each other where one of them did not use a layer."""
    error = evidence.error
    stuck = error is not None and error.kind in ("RankTimeout", "RankFailed")
    return stuck and evidence.wrong[0].case.startswith((UNUSED, MIXED))


def sends_for_frozen(evidence: Evidence) -> bool:
    """Whether the values are right, and too much was sent only where something is frozen."""
    return only_wrong_in(evidence, SENT) and all(
        outcome.case.startswith((FROZEN, MIXED)) and outcome.got[SENT] > outcome.expected[SENT]
        for outcome in evidence.wrong
    )


def loses_gradients(evidence: Evidence) -> bool:
    return evidence.error is None and any(
        isinstance(gradient, str) for got in all_got(evidence, VALUES) for gradient in got.values()
    )


def everything_to_everybody(evidence: Evidence) -> bool:
    """Whether the values are right, and each of four ranks sent its gradients three times or more."""
    sent = [o.got[SENT] for o in evidence.outcomes if o.error is None and o.case.endswith("of 4")]
    return bool(sent) and min(sent) >= 3.0 and only_wrong_in(evidence, SENT)
