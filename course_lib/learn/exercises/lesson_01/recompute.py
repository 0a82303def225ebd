"""01.recompute: the backward pass of a block that kept its input alone (activation checkpointing)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from course_lib.learn.compare import close_to
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_01.tries import behaves_like, recomputed, run_again
from course_lib.learn.judge import by_cases

__all__ = ["RECOMPUTE"]


def _again(
    *, cut: bool = True, record: bool = True, dropout: str = "restored", parameters: bool = True
) -> Callable[..., Tensor | None]:
    def answer(block: nn.Module, x: Tensor, grad_y: Tensor, rng_state: Tensor) -> Tensor | None:
        before = torch.get_rng_state()
        x = x.detach().requires_grad_() if cut else x
        if dropout != "drawn anew":
            torch.set_rng_state(rng_state)
        with torch.set_grad_enabled(record):
            y = block(x)
        if dropout == "restored":
            torch.set_rng_state(before)
        if not parameters:
            return torch.autograd.grad(y, x, grad_y)[0]
        torch.autograd.backward(y, grad_y)
        return x.grad if cut else None

    return answer


def _with_ones(block: nn.Module, x: Tensor, grad_y: Tensor, rng_state: Tensor) -> Tensor | None:
    return _again()(block, x, torch.ones_like(grad_y), rng_state)


def _keeps_its_gradient(block: nn.Module, x: Tensor, grad_y: Tensor, rng_state: Tensor) -> None:
    _again()(block, x, grad_y, rng_state)


def _without_grad_y(seen: Evidence) -> bool:
    """As if the gradient of y were all ones, or none had been given."""
    if seen.error is not None:
        return "only for scalar outputs" in seen.error.message
    return behaves_like(RECOMPUTE, seen, _with_ones)


def _no_gradient_came_back(seen: Evidence) -> bool:
    block_grads = "the .grad of the block's parameters"
    compare = close_to(1e-6, 1e-9)
    return all(
        o.got["the gradient of x"] is None and not compare(o.expected[block_grads], o.got[block_grads])
        for o in seen.outcomes
    )


def _by_checkpoint(block: nn.Module, x: Tensor, grad_y: Tensor, rng_state: Tensor) -> Tensor | None:
    x = x.detach().requires_grad_()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.set_rng_state(rng_state)
        checkpoint(block, x, use_reentrant=False).backward(grad_y)
    return x.grad


RECOMPUTE: Exercise = Exercise(
    name="01.recompute",
    title="The backward pass of a block that kept nothing but its input",
    judge=by_cases(
        [
            Case("a block without dropout", (0.0,), recomputed),
            Case("a block with dropout", (0.5,), recomputed),
        ],
        call=run_again,
        compare=close_to(1e-6, 1e-9),
    ),
    mistakes=(
        Mistake(
            "not-recorded",
            "The second run of the block was not recorded, so nothing can flow back through it: autograd calls a "
            "backward with recording switched off. Run the block `with torch.enable_grad():`.",
            _again(record=False),
            recognise=lambda seen: "does not require grad" in (seen.error.message if seen.error else ""),
        ),
        Mistake(
            "not-cut-off",
            "Your backward pass ran on past `x` into the layers before the block, whose turn comes later, and "
            "`x` got no "
            "gradient of its own. Cut first: `x = x.detach().requires_grad_()`.",
            _again(cut=False),
            recognise=lambda seen: any(
                isinstance(one.got, dict) and one.got["the gradient of what came before x"] == "changed"
                for one in seen.outcomes
            ),
        ),
        Mistake(
            "nothing-for-x",
            "The block's parameters have their gradients, and for `x` nothing came back. Either `return x.grad` is "
            "missing, or `x.grad` was None: a detached tensor gets a gradient only if you ask, with "
            "`x.detach().requires_grad_()`.",
            _keeps_its_gradient,
            recognise=_no_gradient_came_back,
        ),
        Mistake(
            "grad-y-unused",
            "The layers after the block have said how the loss changes with `y`: that is `grad_y`, and you did not "
            "use it. Go backward from `y` with it: `torch.autograd.backward(y, grad_y)`.",
            _with_ones,
            recognise=_without_grad_y,
        ),
        Mistake(
            "parameters-forgotten",
            "The gradient of `x` is right, and the block's parameters got none: `torch.autograd.grad(y, x, "
            "...)` returns "
            "what it is asked for and adds nothing to `.grad`. Use `torch.autograd.backward(y, grad_y)`.",
            _again(parameters=False),
        ),
        Mistake(
            "other-dropout",
            "Right without dropout and wrong with it: the second run drew other random numbers, so other values were "
            "dropped than in the forward pass. Set the generator to `rng_state` before the block runs.",
            _again(dropout="drawn anew"),
            recognise=lambda seen: (
                seen.error is None and seen.outcomes[0].right and not seen.outcomes[1].right
            ),
        ),
        Mistake(
            "generator-moved",
            "The gradients are right, and the random number generator is left where the second run brought it: "
            "the next "
            "layer to draw repeats numbers. Do it inside `with torch.random.fork_rng(devices=[]):`, which puts "
            "it back.",
            _again(dropout="left moved"),
        ),
    ),
    hints=(
        "You have the input and the block, and the forward pass was deterministic given `rng_state`. What is "
        "missing is "
        "the graph: run the block once more, this time recorded.",
        "Autograd calls you with recording switched off, and `x` still hangs on the layers before it. So: cut "
        "`x` off, "
        "switch recording on, put the random numbers back, run the block, go backward from `y` with `grad_y`.",
        "`x = x.detach().requires_grad_()`, then `with torch.random.fork_rng(devices=[]), torch.enable_grad():` "
        "set the "
        "state, `y = block(x)` and `torch.autograd.backward(y, grad_y)`; the answer is `x.grad`.",
    ),
    forbidden=("torch.utils.checkpoint.checkpoint",),
    forbidden_example=_by_checkpoint,
    passed="The same gradients as a recorded forward pass, dropout included, from the input alone.",
)
