"""Lesson 08's judge of split losses against answers that are neither the reference nor a catalogued example."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.parallel.tensor import all_gather_split, all_reduce_identity, identity_all_reduce

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]


def verdict(answer):
    return judged(exercises.exercise("08.loss"), answer)


def loss_by_log_sums(me, logits, targets):
    """Right: each rank's log-sum is gathered, so no largest logit is agreed on."""
    size = logits.size(1)
    own = torch.logsumexp(logits, dim=1)
    here = torch.div(targets, size, rounding_mode="floor") == me.rank
    found = logits[torch.arange(len(targets)), targets % size]
    both = torch.stack([own, torch.where(here, found, 0.0)]).unsqueeze(0)
    every = all_gather_split(me, both, dim=0)  # (n, 2, N)
    return (torch.logsumexp(every[:, 0], dim=0) - every[:, 1].sum(dim=0)).mean()


def loss_by_one_hot(me, logits, targets):
    """Right: the target's logit by a product with ones and zeros; three messages of one number each."""
    largest = logits.max(dim=1).values.detach().clone()
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    tokens = me.rank * logits.size(1) + torch.arange(logits.size(1))
    shifted = logits - largest.unsqueeze(1)
    target = all_reduce_identity(me, (shifted * (tokens == targets.unsqueeze(1))).sum(dim=1))
    total = all_reduce_identity(me, torch.exp(shifted).sum(dim=1))
    return -(target - torch.log(total)).sum() / len(targets)


@pytest.mark.parametrize("answer", [loss_by_log_sums, loss_by_one_hot])
def test_another_right_loss_passes(answer):
    seen = verdict(answer)
    assert seen.passed, seen


def loss_of(me, logits, targets, *, op=dist.ReduceOp.MAX, here=True, scale=1.0):
    top = logits.detach().amax(dim=1)
    dist.all_reduce(top, op=op)
    shifted, size = logits - top[:, None], logits.size(1)
    place = targets - me.rank * size
    is_here = (place >= 0) & (place < size) if here else place < size
    found = torch.where(is_here, shifted.gather(1, place.clamp(0, size - 1)[:, None])[:, 0], 0.0)
    sums = all_reduce_identity(me, torch.stack([shifted.exp().sum(dim=1), found]))
    return scale * (sums[0].log() - sums[1]).mean()


def looked_up_by_token(me, logits, targets):
    """Fails with an error: nothing overflowed."""
    return -F.log_softmax(logits, dim=1)[torch.arange(len(targets)), targets].mean()


def fails_otherwise(me, logits, targets):
    return logits.no_such_thing()


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(
    ("answer", "status", "mistake"),
    [
        (looked_up_by_token, "not yet", "looks-outside"),
        (fails_otherwise, "raised", None),
        (lambda me, *given: loss_of(me, *given, op=dist.ReduceOp.SUM), "not yet", "shifted-too-far"),
        (lambda me, *given: loss_of(me, *given, scale=-1.0), "not yet", "sign"),
        (lambda me, *given: loss_of(me, *given) - torch.inf, "not yet", None),  # with small logits as well
    ],
)
def test_what_is_wrong_with_a_loss_is_named_and_nothing_else(answer, status, mistake):
    seen = verdict(answer)
    assert (seen.status, seen.mistake) == (status, mistake), seen


def sends_back(me, logits, targets):
    """Right, and an all-reduce backward for nothing."""
    loss = loss_of(me, logits, targets)
    return identity_all_reduce(me, loss / me.world_size) + (loss - loss / me.world_size).detach()


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(
    "answer",
    [
        sends_back,
        lambda me, logits, targets: loss_of(me, logits, targets, op=dist.ReduceOp.MIN),  # overflows
        lambda me, logits, targets: loss_of(me, logits, targets, here=False),  # counts what is on later ranks
        lambda me, logits, targets: loss_of(me, logits, targets).detach(),  # nobody learns
        lambda me, logits, targets: F.cross_entropy(logits, targets % logits.size(1)),
        lambda me, logits, targets: loss_of(me, logits, targets).item(),
    ],
)
def test_wrong_losses_are_turned_away(answer):
    seen = verdict(answer)
    assert not seen.passed, seen
    assert seen.status in ("not yet", "raised")
