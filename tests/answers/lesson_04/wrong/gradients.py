"""04.gradients: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_04.gradients.wrong_answers import filled, learning, sums


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


def sends_zeros_of_the_default_type(me: Rank, model: nn.Module) -> None:
    for parameter in learning(model):
        grad = torch.zeros(parameter.shape, device=parameter.device) if parameter.grad is None else parameter.grad
        dist.all_reduce(grad)
        grad /= me.world_size
        parameter.grad = grad.to(parameter.dtype)


def assigns_the_mean(me: Rank, model: nn.Module) -> None:
    for parameter, gradient in zip(learning(model), filled(model), strict=True):
        dist.all_reduce(gradient)
        parameter.grad = gradient / me.world_size


def averages_weights(me: Rank, model: nn.Module) -> None:
    for parameter in learning(model):
        dist.all_reduce(parameter.data)
        parameter.data /= me.world_size


def skips_none(me: Rank, model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= me.world_size


def those_without_last(me: Rank, model: nn.Module) -> None:
    without = [parameter for parameter in learning(model) if parameter.grad is None]
    filled(model)
    for parameter in sorted(learning(model), key=lambda one: any(one is other for other in without)):
        dist.all_reduce(parameter.grad)
        parameter.grad /= me.world_size  # type: ignore[operator,assignment]  # all are filled


def flat_without_none(me: Rank, model: nn.Module) -> None:
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    parts = flat.split([gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient) / me.world_size)


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


EXERCISE = "04.gradients"
EXAMPLES: dict[str, Any] = {
    "averages-a-loss": averages_a_loss,
    "averages-the-weights": averages_weights,
    "sum-stays-behind": divides_a_name,
    "zeros-of-another-type": zeros_of_the_default_type,
    "sends-another-type": sends_zeros_of_the_default_type,
    "not-in-place": assigns_the_mean,
    "divides-by-a-constant": divides_by_four,
    "mean-over-users": mean_over_users,
    "shorter-numbers": in_shorter_numbers,
    "trips-over-none": trips_over_none,
    "loses-gradients": keeps_what_is_returned,
    "sends-frozen": sends_frozen,
    "another-order": those_without_last,
    "shorter-flat-tensor": flat_without_none,
    "skips-none": skips_none,
    "gathers-everything": gathers,
}


FORBIDDEN = by_the_library
