"""01.recompute: the backward pass of a block that kept its input alone (activation checkpointing)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_01.recompute.trial import (
    BLOCK_GRADS,
    OF_X,
    SOURCE,
    BlockSetting,
    recomputed,
    run_again,
    second_run_was_recorded,
)
from course_lib.learn.exercises.lesson_01.tries import BESIDES, behaves_like, told
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.judge import by_cases

__all__ = ["RECOMPUTE"]


_PLAIN, _DROPS = "a block without dropout", "a block with dropout"
_UNUSED = "a block in float32 with a layer that it does not use"


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


def _asked_for_what_is_not_there(seen: Evidence) -> bool:
    error = seen.error
    return error is not None and "appears to not have been used" in error.message and seen.wrong[0].case == _UNUSED


def _wrong_with_dropout_alone(seen: Evidence) -> bool:
    """Whether the gradients are wrong in the case with dropout and right in all others."""
    compare = close_to(1e-6, 1e-9)
    wrong = [one.case for one in seen.outcomes if compare(one.expected[OF_X], one.got[OF_X])]
    return seen.error is None and wrong == [_DROPS] and not any(one.got[BESIDES] for one in seen.outcomes)


def _lost_the_gradients_before(seen: Evidence) -> bool:
    """Whether the plain block's gradients are those of this pass alone: there were ones in ``.grad`` before it."""
    compare = close_to(1e-6, 1e-9)
    plain = next((one for one in seen.outcomes if one.case == _PLAIN and one.error is None), None)
    if plain is None or compare(plain.expected[OF_X], plain.got[OF_X]):
        return False
    alone = {name: grad - 1 for name, grad in plain.expected[BLOCK_GRADS].items()}
    return not compare(alone, plain.got[BLOCK_GRADS])


def _no_gradient_came_back(seen: Evidence) -> bool:
    compare = close_to(1e-6, 1e-9)
    return all(o.got[OF_X] is None and not compare(o.expected[BLOCK_GRADS], o.got[BLOCK_GRADS]) for o in seen.outcomes)


def _does_not_require_grad(*, recorded: bool) -> Callable[[Evidence], bool]:
    """Whether backward met something without a graph, and the block itself ran recorded or not."""
    return lambda seen: (
        seen.error is not None
        and "element 0 of tensors does not require grad" in seen.error.message
        and second_run_was_recorded(seen.answer) == recorded
    )


RECOMPUTE: Exercise = Exercise(
    name="01.recompute",
    title="The backward pass of a block that kept nothing but its input",
    judge=by_cases(
        [
            Case(_PLAIN, (BlockSetting(),), recomputed),
            Case(_DROPS, (BlockSetting(dropout=0.5),), recomputed),
            Case("the first step, where `.grad` is still None", (BlockSetting(first=True),), recomputed),
            Case(
                "a block in evaluation mode",
                (BlockSetting(dropout=0.5, shape=(3, 4), training=False),),
                recomputed,
            ),
            Case(
                "a block with a frozen and a tied weight",
                (BlockSetting(shape=(3, 2, 4), plain=False),),
                recomputed,
            ),
            Case(_UNUSED, (BlockSetting(unused=True, dtype=torch.float32),), recomputed),
            Case("a second block, after another of the same shape", (BlockSetting(second=True),), recomputed),
        ],
        call=run_again,
        compare=told(close_to(1e-6, 1e-9)),
    ),
    mistakes=(
        Mistake(
            "not-recorded",
            "The second run of the block was not recorded, so nothing can flow back through it: autograd calls a "
            "backward with recording switched off. Switch it on for that run, with `torch.enable_grad()`.",
            recognise=_does_not_require_grad(recorded=False),
        ),
        Mistake(
            "recorded-too-little",
            "The block ran recorded, and what you compute from `y` after it does not: recording was off again, since "
            "autograd calls a backward that way. Nothing has to be computed from `y`: a backward pass can begin at "
            "`y` itself when it is given the gradient there.",
            recognise=_does_not_require_grad(recorded=True),
        ),
        Mistake(
            "not-cut-off",
            "Your backward pass ran on past `x` into the layers before the block, whose turn comes later. Cut `x` off "
            "first: `detach()` gives a tensor of the same numbers and without a history.",
            recognise=lambda seen: any(
                isinstance(one.got, dict) and one.got[SOURCE] == "changed" for one in seen.outcomes
            ),
        ),
        Mistake(
            "nothing-for-x",
            "The block's parameters have their gradients, and for `x` nothing came back. Either nothing is returned, "
            "or the `.grad` that you return was None. A detached tensor gets a gradient only if you ask for it, with "
            "`requires_grad_()`.",
            recognise=_no_gradient_came_back,
        ),
        Mistake(
            "grad-y-unused",
            "Your gradients are those of the sum of `y`. The layers after the block have said how the loss changes "
            "with `y`, and that is `grad_y`: the backward pass has to begin with it.",
            recognise=lambda seen: behaves_like(RECOMPUTE, seen, _with_ones),
        ),
        Mistake(
            "no-grad-y",
            "PyTorch can begin a backward pass by itself at a single number only, such as a loss, and `y` has many. "
            "It has to be given the gradient there: that is `grad_y`.",
            recognise=lambda seen: seen.error is not None and "only for scalar outputs" in seen.error.message,
        ),
        Mistake(
            "parameters-forgotten",
            "The gradient of `x` is right, and the block's parameters got none. A backward pass that is asked for the "
            "gradient of `x` alone adds nothing to the `.grad` of others. `torch.autograd.backward` reaches every "
            "leaf unless you say otherwise.",
            _again(parameters=False),
        ),
        Mistake(
            "all-layers-taken-for-used",
            "The block of one case has a layer that its forward pass does not use. Autograd was asked for a gradient "
            "of it by name, and there is none. A backward pass that begins at `y` and names no parameters reaches "
            "those that were used; `torch.autograd.grad` gives None for the others with `allow_unused=True`.",
            recognise=_asked_for_what_is_not_there,
        ),
        Mistake(
            "gradients-replaced",
            "The block's parameters have the gradients of this pass, and what was in their `.grad` before is lost: it "
            "was cleared or replaced. A block may be used twice in a step, or by several micro-batches, so a backward "
            "pass adds to `.grad`.",
            recognise=_lost_the_gradients_before,
        ),
        Mistake(
            "other-dropout",
            "Right without dropout and wrong with it: the second run drew other random numbers, so other values were "
            "dropped than in the forward pass. Set the generator to `rng_state` before the block runs.",
            recognise=_wrong_with_dropout_alone,
        ),
        Mistake(
            "generator-moved",
            "The gradients are right, and the random number generator is left where the second run brought it, so "
            "whatever draws next repeats numbers. `torch.random.fork_rng` puts the generator back at its end.",
            _again(dropout="left moved"),
        ),
        Mistake(
            "recording-left-on",
            "The gradients are right, and recording is left switched on. Autograd called you with recording off; "
            "whatever runs next is recorded now, and kept. A `with` block puts the switch back.",
            recognise=lambda seen: (
                seen.error is None and all(str(o.got[BESIDES]).startswith("recording is left") for o in seen.outcomes)
            ),
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
    forbidden=("torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential"),
    passed="From the input alone you get the gradients of a recorded forward pass, with dropout, frozen and tied "
    "weights too. All else is as it was.",
)
