"""The judge of 05.clip against answers that are neither the reference nor a catalogued example."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_05.clip.wrong_answers import norm_of_all, of, scale, squares_of

pytestmark = pytest.mark.xdist_group("exercises")


def own_factor_and_the_norm_of_all(me, shards, max_norm):
    """What is returned is right, which makes it worse: the log looks well."""
    norm = norm_of_all(me, shards)
    scale(of(shards), squares_of(me, of(shards)).sqrt(), max_norm)
    return norm


def one_call_a_gradient(me, shards, max_norm):
    total = torch.zeros((), device=me.device)
    for gradient in of(shards):
        squares = gradient.square().sum()
        dist.all_reduce(squares)
        total = total + squares
    return scale(of(shards), total.sqrt(), max_norm)


def the_root_too_early(me, shards, max_norm):
    norms = squares_of(me, of(shards)).sqrt()
    dist.all_reduce(norms)
    return scale(of(shards), norms.sqrt(), max_norm)


def only_the_last(me, shards, max_norm):
    """An indentation that is off."""
    norm = norm_of_all(me, shards)
    for gradient in of(shards)[-1:]:
        gradient *= (max_norm / norm).clamp(max=1.0)
    return norm


def with_its_partner(me, shards, max_norm):
    """Right on two ranks."""
    mine = squares_of(me, of(shards))
    partner, theirs = me.rank ^ 1, torch.zeros_like(mine)
    if partner < me.world_size:
        swap = [dist.P2POp(dist.isend, mine, partner), dist.P2POp(dist.irecv, theirs, partner)]
        for work in dist.batch_isend_irecv(swap):
            work.wait()
    return scale(of(shards), (mine + theirs).sqrt(), max_norm)


def keeps_the_first(me, shards, max_norm, seen=[]):  # noqa: B006 - the mistake itself
    seen.append(norm_of_all(me, shards))
    return scale(of(shards), seen[0], max_norm)


def asks_the_first_shard(me, shards, max_norm):
    squares = shards[0].grad.new_zeros(())
    for gradient in of(shards):
        squares += gradient.square().sum()
    dist.all_reduce(squares)
    return scale(of(shards), squares.sqrt(), max_norm)


def adds_the_norms_of_shards(me, shards, max_norm):
    norm = sum((gradient.norm() for gradient in of(shards)), torch.zeros((), device=me.device))
    dist.all_reduce(norm)
    return scale(of(shards), norm, max_norm)


def weights_too(me, shards, max_norm):
    norm = scale(of(shards), norm_of_all(me, shards), max_norm)
    shards[0].data *= 0.5
    return norm


def in_half_precision(me, shards, max_norm):
    squares = squares_of(me, of(shards)).half()
    dist.all_reduce(squares)
    return scale(of(shards), squares.float().sqrt(), max_norm)


@pytest.mark.long
@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (own_factor_and_the_norm_of_all, "local-norm", "the norm is right; of the gradients afterwards"),
        (one_call_a_gradient, "returns-early", "no gradient at all on rank 1"),
        (only_the_last, None, "up.weight"),
        (with_its_partner, None, "of 4: the norm: expected"),
        (asks_the_first_shard, "trips-over-none", "'NoneType' object has no attribute 'new_zeros'"),
        (adds_the_norms_of_shards, "adds-norms", "the norm: expected"),
        (weights_too, None, "your code changed what was to stay: `shards`[0]"),
        pytest.param(the_root_too_early, None, "the norm: expected", marks=pytest.mark.long),
        pytest.param(keeps_the_first, None, "the norm: expected", marks=pytest.mark.long),
        pytest.param(in_half_precision, None, "the norm: expected", marks=pytest.mark.long),
    ],
)
def test_wrong_clips_are_turned_away(answer, mistake, words):
    seen = judged(exercises.exercise("05.clip"), answer)
    assert (seen.status, seen.mistake) == ("not yet", mistake), seen
    assert words in f"{seen.message} {seen.evidence}", seen
