"""06.backward: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.learn.exercises.lesson_06.backward.mistakes import step


def first_and_others(me: Any, part: nn.Module, x: Any, target: Any, loss_of: Any, room: Tensor) -> Any:
    """As if there were two ranks: whoever is not the first is the last."""
    if me.rank == 0:
        leaving = part(x)
        exchange([send(leaving.detach(), 1)])
        gradient = torch.empty_like(leaving)
        exchange([recv(gradient, 1)])
        return leaving.backward(gradient)
    exchange([recv(room, me.rank - 1)])
    loss = loss_of(part(room.requires_grad_()), target)
    loss.backward()
    exchange([send(room.grad, me.rank - 1)])  # type: ignore[arg-type]
    return loss


def by_the_library(me: Any, part: nn.Module, x: Any, target: Any, loss_of: Any, room: Tensor) -> Any:
    from course_lib.parallel.model import Passing

    passing = Passing(me)
    entering, loss = x, None
    if me.rank:
        exchange([recv(room, me.rank - 1)])
        entering = room.requires_grad_()
    leaving = part(entering)
    if target is not None:
        loss = loss_of(leaving, target)
        loss.backward()
    else:
        passing.send_activation(leaving)
        leaving.backward(passing.recv_gradient(leaving.shape, leaving.dtype))
    if me.rank:
        passing.send_gradient(entering.grad)
    return loss


EXERCISE = "06.backward"
EXAMPLES: dict[str, Any] = {
    "gradients-stay": step(sends_back=False, waits=False),
    "waits-for-ever": step(sends_back=False),
    "no-target-in-the-middle": first_and_others,
    "no-leaf": step(leaf=False),
    "backward-twice": step(after_loss=lambda loss, leaving: leaving.backward(torch.ones_like(leaving))),
    "sends-twice": step(extra=True),
    "forward-again": step(twice=True),
    "holds-the-graph": step(keeps_graph=True),
    "averaged": step(scale=lambda n: 1.0 / n),
    "loss-on-every-rank": step(loss_everywhere=True, waits=False, sends_back=False),
}


FORBIDDEN = by_the_library
