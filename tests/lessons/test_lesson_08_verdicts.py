"""What reviews found in lesson 08's checks, held by tests; and right answers of other styles, to be accepted."""

from __future__ import annotations

import re

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_08.gates.wrong_answers import gate, mean, same, summed
from course_lib.learn.exercises.lesson_08.loss.wrong_answers import split_loss
from course_lib.learn.exercises.lesson_08.mlp.wrong_answers import split_mlp
from course_lib.parallel.tensor import all_reduce_identity, identity_all_reduce

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]

ROOM = r"step\.py|gates\.py|gates_cases\.py|loss_cases\.py|mlp_cases\.py|split_mlp\.py|judging\.py"


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


def told(seen):
    return f"{seen.message} {seen.evidence} {seen.details}"


# -- wrong answers that were accepted ---------------------------------------------------------------------------------


def hasty(tensor):
    total = tensor.clone()
    dist.all_reduce(total, async_op=True)
    return total


@pytest.mark.parametrize(
    "answer", [gate(leave=(hasty, same)), gate(enter=(same, hasty)), gate((same, hasty), (hasty, same))]
)
def test_a_gate_that_does_not_wait_is_refused_though_the_sum_was_quick(answer):
    seen = verdict("08.gates", answer)
    assert (seen.status, seen.mistake) == ("not yet", "not-waited"), seen
    assert "nobody waited" in seen.message


def overwrites_logits(me, logits, targets):
    top = logits.detach().amax(dim=1)
    dist.all_reduce(top, op=dist.ReduceOp.MAX)
    logits.sub_(top[:, None])
    return split_loss(largest=lambda me, logits: torch.zeros_like(logits[:, 0]))(me, logits, targets)


def overwrites_logits_unseen(me, logits, targets):
    loss = split_loss()(me, logits, targets)
    logits.data.sub_(1.0)
    return loss


@pytest.mark.parametrize("answer", [overwrites_logits, overwrites_logits_unseen])
def test_a_loss_that_changes_the_callers_logits_is_refused(answer):
    seen = verdict("08.loss", answer)
    assert (seen.status, seen.mistake) == ("not yet", "overwrites-the-logits"), seen
    assert "`logits` has changed" in seen.evidence


# -- sentences that were not true -------------------------------------------------------------------------------------


class ForwardAlone(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, is_entrance):
        return same(x) if is_entrance else summed(x)

    @staticmethod
    def backward(ctx, grad):
        raise NotImplementedError("Your turn: what comes back?")


class ForwardWrongAndAlone(ForwardAlone):
    @staticmethod
    def forward(ctx, x, is_entrance):
        return same(x)


class Untouched(ForwardAlone):
    @staticmethod
    def forward(ctx, x, is_entrance):
        raise NotImplementedError("Your turn: what goes on?")


def test_a_gate_with_forward_written_is_an_attempt():
    seen = verdict("08.gates", ForwardAlone)
    assert (seen.status, seen.mistake) == ("not yet", "backward-unwritten"), seen
    assert "`forward` is right at both gates" in seen.message
    wrong = verdict("08.gates", ForwardWrongAndAlone)
    assert (wrong.status, wrong.mistake) == ("not yet", None), wrong
    assert verdict("08.gates", Untouched).status == "not attempted"


FLAG = []


class FlagOutside(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, is_entrance):
        FLAG[:] = [is_entrance]
        return same(x) if is_entrance else summed(x)

    @staticmethod
    def backward(ctx, grad):
        return (summed(grad) if FLAG[0] else grad), None


@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (FlagOutside, "flag-beside-ctx", "Each gate is right by itself"),
        (gate(enter=(mean, summed)), "means-going-in", "The numbers are right"),
        (gate(enter=(lambda x: None, summed)), None, "nothing came back"),
    ],
)
def test_nothing_is_said_to_have_come_out_of_the_exit_where_something_came(answer, mistake, words):
    seen = verdict("08.gates", answer)
    assert (seen.status, seen.mistake) == ("not yet", mistake), seen
    assert words in seen.message
    assert "Nothing came out" not in seen.message


def a_function(x, is_entrance):
    return x


class NoFunctionOfAutograd:
    def forward(self, x, is_entrance):
        return x


@pytest.mark.parametrize("answer", [a_function, NoFunctionOfAutograd, NoFunctionOfAutograd(), 3])
def test_what_is_no_gate_is_asked_for_the_class_and_no_line_of_the_check_is_shown(answer):
    seen = verdict("08.gates", answer)
    assert seen.status == "not yet", seen
    assert "Give the class itself" in seen.message
    assert "AttributeError" not in told(seen)
    assert "Give the function" not in told(seen)


class OneGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, is_entrance):
        return same(x) if is_entrance else summed(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


def overwrites_what_autograd_saved(me, x, w_up, b_up, w_down, b_down):
    hidden = F.linear(identity_all_reduce(me, x), w_up, b_up)
    bent = F.gelu(hidden)
    hidden.zero_()
    return all_reduce_identity(me, F.linear(bent, w_down)) + b_down


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("08.gates", OneGradient, "number of gradients"),
        ("08.mlp", overwrites_what_autograd_saved, "inplace operation"),
        ("08.mlp", lambda me, x: x, "positional arguments"),
    ],
)
def test_no_line_of_the_check_is_shown_as_the_learners(name, answer, words):
    seen = verdict(name, answer)
    assert not seen.passed
    assert words in told(seen), seen
    assert not re.search(rf"(?:{ROOM}), line|backward\(\)`|answer\(me", told(seen)), seen


# -- the most usual slips of a split loss get a sentence --------------------------------------------------------------


def loss(*, place=None, here=None, shift=True, add_up=True):
    """A split loss with the target found by ``place`` and counted where ``here`` says so."""

    def answer(me, logits, targets):
        size = logits.size(1)
        top = logits.detach().amax(dim=1)
        dist.all_reduce(top, op=dist.ReduceOp.MAX)
        shifted = logits - top[:, None]
        column = targets - me.rank * size
        where = place(column, targets, size).clamp(0, size - 1)
        found = (shifted if shift else logits).gather(1, where[:, None])[:, 0]
        if here is not None:
            found = torch.where(here(column, size), found, 0.0)
        total = all_reduce_identity(me, shifted.exp().sum(dim=1))
        target = all_reduce_identity(me, found) if add_up else found
        return (total.log() + (0 if shift else top) - target).mean()

    return answer


def column_of(column, targets, size):
    return column


def remainder_of(column, targets, size):
    return targets % size


def is_own(column, size):
    return (column >= 0) & (column < size)


@pytest.mark.first_cases(4)
@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize(
    ("how", "mistake"),
    [
        ({"place": column_of, "here": is_own, "add_up": False}, "target-not-shared"),
        ({"place": column_of}, "everybody-counts-the-target"),
        ({"place": column_of, "add_up": False}, "everybody-counts-the-target"),
        ({"place": remainder_of}, "place-by-remainder"),
        ({"place": remainder_of, "add_up": False}, "place-by-remainder"),
        ({"place": column_of, "here": lambda c, size: (c > 0) & (c < size)}, "first-token-missed"),
        ({"place": column_of, "here": lambda c, size: (c >= 0) & (c < size - 1)}, "last-token-missed"),
        ({"place": column_of, "here": lambda c, size: (c >= 0) & (c <= size)}, "one-column-too-many"),
    ],
)
def test_a_usual_slip_of_a_split_loss_is_named(how, mistake, shift):
    seen = verdict("08.loss", loss(**how, shift=shift))
    assert (seen.status, seen.mistake) == ("not yet", mistake), seen


@pytest.mark.parametrize(
    "answer",
    [
        lambda me, logits, targets: F.cross_entropy(logits, targets % logits.size(1)),
        lambda me, logits, targets: F.cross_entropy(
            logits, (targets - me.rank * logits.size(1)).clamp(0, logits.size(1) - 1)
        ),
    ],
)
def test_a_loss_of_ones_own_tokens_is_named(answer):
    seen = verdict("08.loss", answer)
    assert seen.mistake == "own-part-only", seen


def test_a_loss_that_comes_as_a_number_gets_a_sentence_and_not_the_inside_of_the_check():
    seen = verdict("08.loss", lambda me, *given: split_loss()(me, *given).item())
    assert (seen.status, seen.mistake) == ("not yet", "a-number"), seen
    assert "dictionary" not in told(seen)
    assert "a tensor is expected" in seen.evidence


# -- what stays behind ------------------------------------------------------------------------------------------------

OUTPUTS = []


def keeps_outputs(me, *given):
    OUTPUTS.append(split_mlp()(me, *given))
    return OUTPUTS[-1]


GRAPHS = []


class GateThatIsKept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, is_entrance):
        ctx.is_entrance = is_entrance
        GRAPHS.append(ctx)
        return same(x) if is_entrance else summed(x)

    @staticmethod
    def backward(ctx, grad):
        return (summed(grad) if ctx.is_entrance else grad), None


def test_a_gate_that_keeps_every_way_back_is_refused():
    seen = verdict("08.gates", GateThatIsKept)
    assert seen.status == "not yet", seen
    assert "holds on to tensors of every step" in seen.message


def writes_into_the_bias(me, *given):
    y = split_mlp()(me, *given)
    given[-1].data.zero_()
    return y


def unfreezes(me, x, w_up, *weights):
    w_up.requires_grad_()
    return split_mlp()(me, x, w_up, *weights)


def left_off(me, *given):
    y = split_mlp()(me, *given)
    torch.set_grad_enabled(False)
    return y


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (keeps_outputs, "holds on to tensors of every step"),
        (writes_into_the_bias, "`b_down` has changed"),
        (unfreezes, "'none came', got"),
        (left_off, "gradients were left switched off"),
    ],
)
def test_what_a_right_result_leaves_behind_is_a_difference(answer, words):
    seen = verdict("08.mlp", answer)
    assert not seen.passed
    assert words in told(seen), seen


# -- cuts, however they are written -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [{"a": "S(1)", "b": "S(0)"}, {"A": "S( 1 )", "B": "S( 0 )"}])
def test_cuts_are_read_however_they_are_written(cuts):
    assert verdict("08.between", cuts).passed


def test_wrong_cuts_are_named_however_they_are_written():
    assert verdict("08.between", {"a": "s( 1 )", "b": " S(1)"}).mistake == "columns-twice"


# -- ready-made -------------------------------------------------------------------------------------------------------


def by_distributed_tensors(me, x, w_up, b_up, w_down, b_down):
    """PyTorch's own: right, and what the exercise asks for."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard

    mesh = init_device_mesh(me.device.type, (me.world_size,))
    cuts = (Replicate(), Shard(0), Shard(0), Shard(1), Replicate())
    parts = [
        DTensor.from_local(tensor, mesh, [cut], run_check=False)
        for tensor, cut in zip((x, w_up, b_up, w_down, b_down), cuts, strict=True)
    ]
    hidden = F.gelu(F.linear(parts[0], parts[1], parts[2]))
    return (F.linear(hidden, parts[3]).redistribute(mesh, [Replicate()]) + parts[4]).to_local()


@pytest.mark.long
def test_distributed_tensors_are_refused_by_name():
    seen = verdict("08.mlp", by_distributed_tensors)
    assert seen.status == "forbidden", seen
    assert "DTensor.from_local" in seen.message
