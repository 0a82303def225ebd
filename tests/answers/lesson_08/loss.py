"""08.loss: cross-entropy from logits that stay cut by vocabulary."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from answer_table import Row

from course_lib.parallel.tensor import all_reduce_identity as leave


def largest_of(logits):
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return largest


def parts_of(me, logits, targets, largest):
    """The sum of this rank's exponentials, and the target's logit or 0, (N,) each."""
    size, shifted = logits.size(1), logits - largest[:, None]
    place = targets - me.rank * size
    found = shifted.gather(1, place.clamp(0, size - 1)[:, None])[:, 0]
    return shifted.exp().sum(1), torch.where((place >= 0) & (place < size), found, 0.0)


def loss_of(me, logits, targets, largest):
    sums, found = leave(me, torch.stack(parts_of(me, logits, targets, largest)))
    return (sums.log() - found).mean()


def usual(me, logits, targets):
    return loss_of(me, logits, targets, largest_of(logits))


def by_log_sum_exp(me, logits, targets):
    own = logits.logsumexp(1)
    largest = own.detach().clone()
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    tokens = torch.arange(logits.size(1)) + me.rank * logits.size(1)
    found = torch.where(tokens == targets[:, None], logits, 0.0).sum(1)
    return (leave(me, (own - largest).exp()).log() + largest - leave(me, found)).mean()


class ByHand(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets, me):
        largest = largest_of(logits)
        sums = torch.stack(parts_of(me, logits, targets, largest))
        dist.all_reduce(sums)
        here = torch.arange(logits.size(1)) + me.rank * logits.size(1) == targets[:, None]
        ctx.save_for_backward((logits - largest[:, None]).exp() / sums[0][:, None] - here.to(logits.dtype))
        return (sums[0].log() - sums[1]).mean()

    @staticmethod
    def backward(ctx, gradient):
        (found,) = ctx.saved_tensors
        return found * gradient / len(found), None, None


def by_a_function_of_its_own(me, logits, targets):
    return ByHand.apply(logits, targets, me)


def largest_are_gathered(me, logits, targets):
    own = logits.detach().amax(1)
    rows = [torch.empty_like(own) for _ in range(me.world_size)]
    dist.all_gather(rows, own)
    place = targets - me.rank * logits.size(1)
    place = place.masked_fill((place < 0) | (place >= logits.size(1)), -100)
    shifted = logits - torch.stack(rows).amax(0)[:, None]
    found = -F.nll_loss(shifted, place, reduction="none")
    return (leave(me, shifted.exp().sum(1)).log() - leave(me, found)).mean()


def one_largest_for_all(me, logits, targets):
    largest = logits.detach().max()
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return loss_of(me, logits, targets, largest.expand(len(logits)))


def largest_are_added(me, logits, targets):
    largest = logits.detach().amax(1)
    dist.all_reduce(largest)
    return loss_of(me, logits, targets, largest)


def a_millionth_more(me, logits, targets):
    sums, found = leave(me, torch.stack(parts_of(me, logits, targets, largest_of(logits))))
    return ((sums + 1e-6).log() - found).mean()


def counts_its_own_targets(me, logits, targets):
    sums, found = leave(me, torch.stack(parts_of(me, logits, targets, largest_of(logits))))
    own = (targets // logits.size(1) == me.rank).sum().clamp(min=1)
    return (sums.log() - found).sum() / own


def a_table_of_pairs(me, logits, targets):
    sums, found = parts_of(me, logits, targets, largest_of(logits))
    return (leave(me, sums[:, None]).log() - leave(me, found)).mean()


def targets_in_place(me, logits, targets):
    size, shifted = logits.size(1), logits - largest_of(logits)[:, None]
    targets -= me.rank * size
    found = shifted.gather(1, targets.clamp(0, size - 1)[:, None])[:, 0]
    here = (targets >= 0) & (targets < size)
    return (leave(me, shifted.exp().sum(1)).log() - leave(me, torch.where(here, found, 0.0))).mean()


def meets_first(me, logits, targets):
    dist.barrier()
    return usual(me, logits, targets)


ROWS = [
    Row(answer=usual, verdict="passed", why="the definition"),
    Row(answer=by_log_sum_exp, verdict="passed", why="logarithms of own sums, shifted by their largest"),
    Row(answer=by_a_function_of_its_own, verdict="passed", why="the gradient by its formula"),
    Row(answer=largest_are_gathered, verdict="passed", why="one number more a position, and two sums apart"),
    Row(answer=one_largest_for_all, verdict="not yet", why="rows far below it have a sum of 0"),
    Row(answer=largest_are_added, verdict="not yet", why="more than the largest is taken away"),
    Row(answer=a_millionth_more, verdict="not yet", why="the sum is at least 1 and is to be exact"),
    Row(answer=counts_its_own_targets, verdict="not yet", why="the mean is over all positions"),
    Row(answer=a_table_of_pairs, verdict="passed", why="(N, N) numbers, and their mean is the same mean"),
    Row(answer=targets_in_place, verdict="not yet", words=("targets",), why="the targets are the caller's"),
    Row(answer=meets_first, verdict="not yet", words=("called 1 barrier",), why="a call that carries nothing"),
]
