"""Lesson 08's judges against answers that are neither the reference nor a catalogued example."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.parallel.tensor import Shard, all_gather_split, all_reduce_identity, identity_all_reduce

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


def summed(tensor):
    total = tensor.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total


# -- right, in another way --------------------------------------------------------------------------------------


class GateByFlags(torch.autograd.Function):
    """Right: a number in place of the flag, waiting for the sum, the input itself handed on."""

    @staticmethod
    def forward(ctx, x, is_entrance):
        ctx.entrance = int(is_entrance)
        if is_entrance:
            return x
        total = x.detach().clone()
        dist.all_reduce(total, async_op=True).wait()
        return total

    @staticmethod
    def backward(ctx, grad):
        return (summed(grad), None) if ctx.entrance else (grad.clone(), None)


def mlp_by_gates(me, x, w_up, b_up, w_down, b_down):
    """Right: the learner's own gates, plain products, and the bias first."""
    hidden = F.gelu(GateByFlags.apply(x, True) @ w_up.T + b_up)
    return b_down + GateByFlags.apply(hidden @ w_down.T, False)


def mlp_by_a_hook(me, x, w_up, b_up, w_down, b_down):
    """Right: the gradient is summed by a hook, and the sum is made by hand."""
    entered = x.view_as(x)
    entered.register_hook(summed)
    partial = F.linear(F.gelu(F.linear(entered, w_up, b_up)), w_down)
    return partial + (summed(partial.detach()) - partial).detach() + b_down


def norm_by_a_hook(me, x, norm_weight, w_up, w_down):
    h = F.layer_norm(x, x.shape[-1:], weight=norm_weight)
    h.register_hook(summed)
    return all_reduce_identity(me, F.gelu(h @ w_up.T) @ w_down.T) + x


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("08.between", {"B": Shard(0), "A": Shard(1)}),
        ("08.between", {"A": "s(1)", "B": " S(0)"}),
        ("08.gates", GateByFlags),
        ("08.mlp", mlp_by_gates),
        ("08.mlp", mlp_by_a_hook),
        ("08.norm", norm_by_a_hook),
    ],
)
def test_another_right_answer_passes(name, answer):
    seen = verdict(name, answer)
    assert seen.passed, seen


# -- wrong, in another way --------------------------------------------------------------------------------------


def gate(forward, backward):
    """A gate whose entrance and exit are given as (entrance, exit) for each way."""

    class Gate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, is_entrance):
            ctx.way = not is_entrance
            return forward[ctx.way](x)

        @staticmethod
        def backward(ctx, grad):
            return backward[ctx.way](grad), None

    return Gate


def same(x):
    return x.view_as(x)


def largest(x):
    total = x.clone()
    dist.all_reduce(total, op=dist.ReduceOp.MAX)
    return total


def in_place(x):
    dist.all_reduce(x)
    return x


def no_return(x):
    dist.all_reduce(x)


class FlagSavedAsATensor(GateByFlags):
    @staticmethod
    def forward(ctx, x, is_entrance):
        ctx.save_for_backward(is_entrance)
        return same(x) if is_entrance else summed(x)


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (gate((same, same), (summed, same)), "nothing-summed-at-the-exit", "the output"),
        (gate((same, largest), (summed, same)), None, "the output"),
        (gate((same, summed), (same, summed)), "backward-swapped", "the gradient of x"),
        (gate((same, summed), (in_place, same)), "overwrites-the-gradient", "overwritten"),
        (gate((same, no_return), (summed, same)), "all-reduce-gives-nothing", "nothing"),
        (FlagSavedAsATensor, "flag-not-kept", "ctx"),
        (gate((same, lambda x: x.detach()), (summed, same)), "nothing-summed-at-the-exit", "the output"),
        (lambda x, is_entrance: x, None, "apply"),
        (gate, None, "apply"),
        (3, None, ""),
    ],
)
def test_wrong_gates_are_turned_away(answer, mistake, words):
    seen = verdict("08.gates", answer)
    assert not seen.passed
    assert seen.mistake == mistake, seen
    assert words in f"{seen.evidence} {seen.message} {seen.details}", seen


def one_gate_for_all(me, x, w_up, b_up, w_down, b_down):
    """Sums the whole of forward and gathers the whole of the weights: no rank saves anything."""
    up, bias, down = (all_gather_split(me, w, dim=dim) for w, dim in ((w_up, 0), (b_up, 0), (w_down, 1)))
    return F.linear(F.gelu(F.linear(x, up, bias)), down, b_down)


def bias_of_the_first_layer_forgotten(me, x, w_up, b_up, w_down, b_down):
    hidden = F.gelu(F.linear(identity_all_reduce(me, x), w_up))
    return all_reduce_identity(me, F.linear(hidden, w_down)) + b_down + 0 * b_up.sum()


def enters_late(me, x, w_up, b_up, w_down, b_down):
    """The entrance stands behind the first product: gradients of different units are summed."""
    hidden = F.gelu(identity_all_reduce(me, F.linear(x, w_up, b_up)))
    return all_reduce_identity(me, F.linear(hidden, w_down)) + b_down


def relu(me, x, w_up, b_up, w_down, b_down):
    hidden = F.relu(F.linear(identity_all_reduce(me, x), w_up, b_up))
    return all_reduce_identity(me, F.linear(hidden, w_down)) + b_down


def gathers_hidden_units(me, x, w_up, b_up, w_down, b_down):
    """Joins the hidden units along the right dim, where its rows of w_down have no use for them."""
    hidden = all_gather_split(me, F.gelu(F.linear(identity_all_reduce(me, x), w_up, b_up)), dim=1)
    return all_reduce_identity(me, F.linear(hidden, w_down)) + b_down


def second_weight_not_transposed(me, x, w_up, b_up, w_down, b_down):
    hidden = F.gelu(F.linear(identity_all_reduce(me, x), w_up, b_up))
    return all_reduce_identity(me, hidden @ w_down) + b_down


def sums_after_every_layer(me, x, w_up, b_up, w_down, b_down):
    hidden = F.gelu(all_reduce_identity(me, F.linear(x, w_up, b_up)))
    return all_reduce_identity(me, F.linear(hidden, w_down)) + b_down


def weights_enter(me, x, w_up, b_up, w_down, b_down):
    first, second = identity_all_reduce(me, w_up), identity_all_reduce(me, w_down)
    hidden = F.gelu(F.linear(identity_all_reduce(me, x), first, b_up))
    return all_reduce_identity(me, F.linear(hidden, second)) + b_down


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (one_gate_for_all, "one-collective-too-many"),  # and dear ones
        (bias_of_the_first_layer_forgotten, None),
        (enters_late, None),
        (relu, None),
        (gathers_hidden_units, "gathers-the-hidden-units"),
        (second_weight_not_transposed, "weights-not-transposed"),
        (sums_after_every_layer, "bends-after-the-sum"),
        (weights_enter, "weights-through-the-gate"),
        (lambda me, x, *_: x, None),
        (lambda *_: None, None),
    ],
)
def test_wrong_mlps_are_turned_away(answer, mistake):
    seen = verdict("08.mlp", answer)
    assert not seen.passed
    assert seen.mistake == mistake, seen
    assert seen.message


def gates_the_weight(me, x, norm_weight, w_up, w_down):
    """Sums the norm's gradient alone; that of x stays partial."""
    h = F.layer_norm(x, x.shape[-1:], identity_all_reduce(me, norm_weight))
    return x + all_reduce_identity(me, F.linear(F.gelu(F.linear(h, w_up)), w_down))


def gates_weight_and_input(me, x, norm_weight, w_up, w_down):
    """Right gradients by two all-reduces where one does."""
    h = F.layer_norm(identity_all_reduce(me, x), x.shape[-1:], identity_all_reduce(me, norm_weight))
    return x + all_reduce_identity(me, F.linear(F.gelu(F.linear(h, w_up)), w_down))


@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (gates_the_weight, "gate-at-the-weight", "the gradient of x"),
        (gates_weight_and_input, None, "going back this rank called"),
    ],
)
def test_wrong_places_for_the_gate_are_turned_away(answer, mistake, words):
    seen = verdict("08.norm", answer)
    assert (seen.status, seen.mistake) == ("not yet", mistake), seen
    assert words in f"{seen.evidence} {seen.message}"


@pytest.mark.parametrize(
    ("cuts", "mistake", "words"),
    [
        ({"A": "S(1)"}, None, "keys"),
        ("S(1), S(0)", None, "dictionary"),
        ({"A": "S(2)", "B": "S(0)"}, None, "A is placed S(2)"),
        ({"A": "columns", "B": "rows"}, None, "is no placement"),
        ({"A": "R", "B": "S(0)"}, "half-cut", "is on every rank"),
        ({"A": "P", "B": "S(0)"}, None, "A is placed P"),
    ],
)
def test_other_cuts_get_a_sentence(cuts, mistake, words):
    seen = verdict("08.between", cuts)
    assert (seen.status, seen.mistake) == ("not yet", mistake), seen
    assert words in f"{seen.evidence} {seen.message}"


def test_the_quiz_has_the_answers_that_the_formulas_give():
    answers = {question.name: question.answer() for question in exercises.quiz_of("08")}
    assert answers == {
        "count": 96,
        "cut": "reduce_scatter",
        "batch": "only tensor parallelism's double",
        "heads": 8,
        "sequence": "the same bytes, less memory",
    }
