"""06.backward: one batch through a model cut over ranks and back, judged by gradients and by messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.cluster import exchange, recv, send
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_02.costs import CostJudge, sent, values_are_right
from course_lib.learn.judge import RankJudge
from course_lib.meter import Communication, expect

__all__ = ["BACKWARD"]

_WIDTH, _BATCH = 6, 5
_SHAPE = (_BATCH, _WIDTH)
_SIZE_BYTES = 8 * _BATCH * _WIDTH
_ONE, _TWO = "one batch", "a second batch, gradients not cleared"


def _parts(num_ranks: int) -> list[nn.Module]:
    torch.manual_seed(6)
    return [nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.Tanh()).double() for _ in range(num_ranks)]


def _batch(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(number)
    x, y = (torch.randn(_SHAPE, generator=made, dtype=torch.float64) for _ in range(2))
    return x, y


@cache
def _on_one_device(num_ranks: int, num_batches: int) -> tuple[list[dict[str, torch.Tensor]], float]:
    """The gradients of every part and the last loss, of a model in one piece."""
    parts = _parts(num_ranks)
    for number in range(num_batches):
        x, y = _batch(number)
        loss = F.mse_loss(nn.Sequential(*parts)(x), y)
        loss.backward()
    return [_gradients(part) for part in parts], loss.item()


def _gradients(part: nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in part.named_parameters() if p.grad is not None}


def _expected(rank: int, num_ranks: int, num_batches: int) -> dict[str, Any]:
    gradients, loss = _on_one_device(num_ranks, num_batches)
    return {"loss": loss if rank == num_ranks - 1 else None, "gradients": gradients[rank]}


def _case(label: str, num_batches: int) -> Case:
    return Case(
        label,
        lambda rank, n: (num_batches,),
        lambda rank, n: _expected(rank, n, num_batches),
    )


def _trained(answer: Callable[..., Any], me: Any, num_batches: int) -> Any:
    """What a rank runs: the answer on this rank's part, batch by batch; then its loss and its gradients."""
    part = _parts(me.world_size)[me.rank].to(me.device)
    for number in range(num_batches):
        x, y = (tensor.to(me.device) for tensor in _batch(number))
        is_first, is_last = me.rank == 0, me.rank == me.world_size - 1
        room = torch.empty(_SHAPE, dtype=torch.float64, device=me.device)
        loss = answer(me, part, x if is_first else None, y if is_last else None, F.mse_loss, room)
        if loss is ...:
            return loss
    return {
        "loss": loss.item() if isinstance(loss, torch.Tensor) else loss,
        "gradients": _gradients(part),
    }


def _weigh(communication: Communication) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
    n = communication.world_size
    wanted = {"bytes by rank": [_SIZE_BYTES * ((rank < n - 1) + (rank > 0)) for rank in range(n)]}
    got = {"bytes by rank": [communication.sent_bytes(rank) for rank in range(n)]}
    messages = [(rank < n - 1) + (rank > 0) for rank in range(n)]
    wrong = expect(communication, sent_bytes=wanted["bytes by rank"], num_messages=messages)
    return wanted, got, " ".join(wrong)


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _step(
    *,
    leaf: bool = True,
    backward: Callable[..., None] = lambda leaving, gradient: leaving.backward(gradient),
    back: Callable[..., Any] = lambda entering, gradient: entering.grad,
    sends_back: bool = True,
    waits: bool = True,
    scale: Callable[[int], float] = lambda n: 1.0,
    loss_everywhere: bool = False,
    extra: bool = False,
    one_room: bool = False,
    after_loss: Callable[..., None] = lambda loss, leaving: None,
) -> Callable[..., Any]:
    """A right answer but for what the arguments change."""

    def step(me: Any, part: nn.Module, x: Any, target: Any, loss_of: Any, room: torch.Tensor) -> Any:
        is_first, is_last = me.rank == 0, me.rank == me.world_size - 1
        entering = x if is_first else room
        if not is_first:
            exchange([recv(entering, me.rank - 1)])
            entering.requires_grad_(leaf)
        leaving, loss, gradient = part(entering), None, None
        if is_last:
            loss = loss_of(leaving, target) * scale(me.world_size)
            loss.backward()
            after_loss(loss, leaving)
        else:
            exchange([send(leaving.detach(), me.rank + 1)])
            if loss_everywhere:
                loss = loss_of(leaving, torch.zeros_like(leaving))
                loss.backward()
            if waits:
                gradient = room if one_room else torch.empty_like(leaving)
                exchange([recv(gradient.detach(), me.rank + 1)] * (1 + extra))
                backward(leaving, gradient)
        if not is_first and sends_back:
            exchange([send(back(entering, gradient), me.rank - 1)] * (1 + extra))
        return loss

    return step


def _ratio(evidence: Evidence) -> float | None:
    """The number by which all gradients of all ranks are too large, where there is one."""
    found = set()
    for outcome in evidence.outcomes:
        if outcome.case.startswith("the cost"):
            continue
        if outcome.error or outcome.got["gradients"].keys() != outcome.expected["gradients"].keys():
            return None
        for name, want in outcome.expected["gradients"].items():
            ratio = outcome.got["gradients"][name] / want
            if not torch.allclose(ratio, ratio.reshape(-1)[0].expand_as(ratio), rtol=1e-4):
                return None
            found.add(round(ratio.reshape(-1)[0].item(), 4))
    return max(found, key=lambda ratio: abs(ratio - 1)) if found else None


def _error_says(*words: str) -> Callable[[Evidence], bool]:
    def recognise(evidence: Evidence) -> bool:
        error = evidence.error
        return error is not None and any(word in f"{error.kind}: {error.message}" for word in words)

    return recognise


def _nothing_before_the_end(evidence: Evidence) -> bool:
    """On every rank but the last, not one parameter has a gradient."""
    values = [o for o in evidence.outcomes if o.error is None and not o.case.startswith("the cost")]
    before = [o for o in values if o.expected["loss"] is None]
    return bool(before) and len(values) > len(before) and not any(o.got["gradients"] for o in before)


BACKWARD = Exercise(
    name="06.backward",
    title="There and back through a cut model",
    judge=CostJudge(
        RankJudge((2, 4), (_case(_ONE, 1), _case(_TWO, 2)), timeout_s=4.0, call=_trained), {_ONE: _weigh}
    ),
    mistakes=(
        Mistake(
            "gradients-stay",
            "Only the last rank learns: no rank before it has a gradient. The activations crossed the cut as plain "
            "numbers, and `loss.backward()` stops where they came in. Send `entering.grad` back, and on the other "
            "side of the cut begin again from there: `leaving.backward(gradient)`.",
            _step(sends_back=False, waits=False),
            _nothing_before_the_end,
        ),
        Mistake(
            "waits-for-ever",
            "It hangs: some rank waits for a message that nobody sends. Count on both sides of a cut: one activation "
            "goes to the right, one gradient comes back. Most often the rank on the right never sends "
            "`entering.grad`, or a rank calls `recv` for its gradient before it has sent its activation.",
            _step(sends_back=False),
            _error_says("RankTimeout"),
        ),
        Mistake(
            "no-leaf",
            "There is no gradient to send: `entering.grad` is None. What arrives in a message is a tensor like any "
            "other, and autograd keeps the gradient of a tensor you made only if you ask: "
            "`entering.requires_grad_()`, before the part sees it.",
            _step(leaf=False),
            _error_says("NoneType"),
        ),
        Mistake(
            "backward-twice",
            "`backward()` went through the same part twice. The first time uses up what the forward pass kept. On the "
            "last rank `loss.backward()` is all there is to do; on the others `leaving.backward(gradient)`, once.",
            _step(after_loss=lambda loss, leaving: leaving.backward(torch.ones_like(leaving))),
            _error_says("second time"),
        ),
        Mistake(
            "sends-twice",
            "The gradients are right, and more was sent than needed. An activation crosses each cut once, its "
            "gradient once in the other direction, and nothing else has to travel.",
            _step(extra=True),
            lambda evidence: (
                values_are_right(evidence) and sum(sent(evidence, "bytes by rank", 2)) > 2 * _SIZE_BYTES
            ),
        ),
        Mistake(
            "activation-comes-back",
            "What comes back is the activation itself, `entering`; the rank before needs its *gradient*. After "
            "`backward()` that is in `entering.grad`.",
            _step(back=lambda entering, gradient: entering.detach()),
        ),
        Mistake(
            "same-gradient-for-all",
            "With two ranks this looks right; with more, the ranks in the middle hand on the gradient that they "
            "received. That is the gradient of what *left* them. The rank before needs that of what *entered*: "
            "`entering.grad`, after `leaving.backward(gradient)`.",
            _step(back=lambda entering, gradient: entering.grad if gradient is None else gradient),
        ),
        Mistake(
            "one-room-for-both",
            "With two ranks this looks right; with more, the ranks in the middle receive the gradient into `room`, "
            "where the activation still lies. Backward needs that activation for the weights' gradients, and finds "
            "the gradient in its place. Make new room: `torch.empty_like(leaving)`.",
            _step(one_room=True),
        ),
        Mistake(
            "ones-in-place-of-the-gradient",
            "A rank begins its backward pass with ones, as `leaving.sum().backward()` does, and does not use the "
            "gradient that it received. The ones say that every number of the activation adds one to the loss. How "
            "much each really adds is in the message: `leaving.backward(gradient)`.",
            _step(backward=lambda leaving, gradient: leaving.sum().backward()),
        ),
        Mistake(
            "averaged",
            "All gradients are too small by the number of ranks. That average belongs to data parallelism, where "
            "every rank has a batch of its own. Here all ranks work on one batch and there is one loss: nothing is "
            "to be divided.",
            _step(scale=lambda n: 1.0 / n),
            lambda evidence: _ratio(evidence) in (0.5, 0.25),
        ),
        Mistake(
            "loss-on-every-rank",
            "A rank before the last computes a loss of its own. Its activations are half-way through the model; no "
            "target fits them. The loss exists on the last rank alone, the others return None.",
            _step(loss_everywhere=True, waits=False, sends_back=False),
            lambda evidence: any(
                o.error is None and o.expected["loss"] is None and o.got["loss"] is not None
                for o in evidence.outcomes
                if not o.case.startswith("the cost")
            ),
        ),
    ),
    hints=(
        "Draw two ranks and one line between them. What crosses it to the right, what to the left, and which rank does "
        "which backward? On the last rank, `loss.backward()`. What has it computed for the rank before?",
        "Whatever arrives is a new tensor: `entering.requires_grad_()` makes it a leaf, so that backward leaves the "
        "gradient in `entering.grad`. That is sent back; on the other side, `leaving.backward(gradient)` goes on.",
        "Not first: `exchange([recv(room, me.rank - 1)])`, then `entering = room.requires_grad_()`. Not last: send "
        "`leaving.detach()` to `me.rank + 1`, `recv` into `gradient = torch.empty_like(leaving)` from there, "
        "`leaving.backward(gradient)`. Not first: send `entering.grad` to `me.rank - 1`.",
    ),
    passed="Gradients on 2 and 4 ranks are those of the uncut model, and each cut was crossed once each way.",
)
