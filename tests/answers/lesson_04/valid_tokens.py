"""04.valid_tokens: right steps in many styles, and wrong ones: means, counts of one rank, calls and graphs too many."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from answer_table import Row


def sum_of(ddp, x, y):
    return F.cross_entropy(ddp(x).flatten(0, 1), y.flatten(), reduction="sum")


def count_of(micro_batches):
    count = torch.tensor(sum(int((y != -100).sum()) for _, y in micro_batches))
    dist.all_reduce(count)
    return count


def step(factor, loss_of=sum_of, syncs=lambda index, count: index == count - 1, divisor=None, part=lambda s, n: s / n):
    """A step whose loss is ``loss_of`` times ``factor(me, count, micro_batches)``."""

    def take(me, ddp, micro_batches):
        count = count_of(micro_batches).clamp(min=1) if divisor is None else divisor(micro_batches)
        total = 0.0
        for index, (x, y) in enumerate(micro_batches):
            with nullcontext() if syncs(index, len(micro_batches)) else ddp.no_sync():
                loss = loss_of(ddp, x, y)
                (loss * factor(me, count, micro_batches)).backward()
            total = total + loss.detach()
        return part(total, count)

    return take


right_step = step(lambda me, count, _: me.world_size / count)


# -- right, in other styles ---------------------------------------------------------------------------------------


def scales_the_gradients_afterwards(me, ddp, micro_batches):
    count = torch.zeros((), dtype=torch.long, device=me.device)
    total = torch.zeros((), dtype=torch.float64)
    with ExitStack() as stack:
        stack.enter_context(ddp.no_sync())
        for index, (x, y) in enumerate(micro_batches):
            if index == len(micro_batches) - 1:
                stack.close()
            loss = sum_of(ddp, x, y)
            loss.backward()
            total += loss.item()
            count += y.ne(-100).sum()
    dist.all_reduce(count)
    factor = 1 / max(1, count.item())
    for parameter in ddp.parameters():
        parameter.grad *= me.world_size * factor
    return total * factor


def waits_late(me, ddp, micro_batches):
    count = torch.tensor([sum(y.ge(0).sum().item() for _, y in micro_batches)], dtype=torch.float64)
    work = dist.all_reduce(count, async_op=True)
    work.wait()
    parts = []
    try:
        for index, (x, y) in enumerate(micro_batches):
            ddp.require_backward_grad_sync = index + 1 == len(micro_batches)
            loss = F.cross_entropy(ddp(x).transpose(1, 2), y, reduction="none").sum() / count.clamp(min=1)
            (me.world_size * loss).sum().backward()
            parts.append(loss.detach())
    finally:
        ddp.require_backward_grad_sync = True
    return torch.stack(parts).sum()


def masks_by_hand(me, ddp, micro_batches):
    masks = [y != -100 for _, y in micro_batches]
    counts = [torch.zeros((), dtype=torch.long) for _ in range(me.world_size)]
    dist.all_gather(counts, torch.stack([mask.sum() for mask in masks]).sum())
    num_valid = max(1, int(sum(counts)))
    part = 0.0
    *first, last = zip(micro_batches, masks, strict=True)

    def one(pair, mask):
        x, y = pair
        chosen = ddp(x).log_softmax(-1).gather(-1, y.clamp(min=0)[..., None])[..., 0]
        loss = -(chosen * mask).sum() / num_valid
        (loss * dist.get_world_size()).backward()
        return loss.item()

    with ddp.no_sync():
        for pair, mask in first:
            part += one(pair, mask)
    return torch.tensor(part + one(*last))


def weighs_means(me, ddp, micro_batches):
    num_valid = count_of(micro_batches).clamp(min=1)
    total = torch.zeros((), dtype=torch.float64)
    for index, (x, y) in enumerate(micro_batches):
        own = int((y != -100).sum())
        with nullcontext() if index == len(micro_batches) - 1 else ddp.no_sync():
            scores = ddp(x).flatten(0, 1)
            mean = F.cross_entropy(scores, y.flatten()) if own else 0 * scores.sum()
            (mean * own * me.world_size / num_valid).backward()
        total += mean.detach() * own / num_valid
    return total


def by_hand_in_one_message(me, ddp, micro_batches):
    model, total = ddp.module, 0.0
    for x, y in micro_batches:
        loss = sum_of(model, x, y)
        loss.backward()
        total += loss.item()
    own = sum(int((y != -100).sum()) for _, y in micro_batches)
    grads = [parameter.grad for parameter in model.parameters()]
    flat = torch.cat([grad.flatten() for grad in grads] + [torch.tensor([own], dtype=torch.float64)])
    dist.all_reduce(flat)
    count = max(1.0, flat[-1].item())
    for grad, new in zip(grads, flat[:-1].split([g.numel() for g in grads]), strict=True):
        grad.copy_(new.view_as(grad) / count)
    return torch.as_tensor(total / count)


# -- wrong --------------------------------------------------------------------------------------------------------


def mean_of(ddp, x, y):
    return F.cross_entropy(ddp(x).flatten(0, 1), y.flatten())


def own(micro_batches):
    return max(1, sum(int((y != -100).sum()) for _, y in micro_batches))


def positions(micro_batches):
    count = torch.tensor(sum(y.numel() for _, y in micro_batches))
    dist.all_reduce(count)
    return count


def a_count_for_each(me, ddp, micro_batches):
    part = 0.0
    for index, (x, y) in enumerate(micro_batches):
        count = count_of([(x, y)]).clamp(min=1)
        with nullcontext() if index == len(micro_batches) - 1 else ddp.no_sync():
            loss = sum_of(ddp, x, y) / count / len(micro_batches)
            (loss * me.world_size).backward()
        part += loss.item()
    return part


def leaves_out(me, ddp, micro_batches):
    count = count_of(micro_batches).clamp(min=1)
    part = 0.0
    for index, (x, y) in enumerate(micro_batches):
        if (y == -100).all():
            continue
        with nullcontext() if index == len(micro_batches) - 1 else ddp.no_sync():
            loss = sum_of(ddp, x, y) / count
            (loss * me.world_size).backward()
        part += loss.item()
    return part


kept: list = []


def keeps_the_count(me, ddp, micro_batches):
    if not kept:
        kept.append(count_of(micro_batches).clamp(min=1))
    return step(lambda me, count, _: me.world_size / count, divisor=lambda _: kept[0])(me, ddp, micro_batches)


def all_forwards_first(me, ddp, micro_batches):
    count = count_of(micro_batches).clamp(min=1)
    with ddp.no_sync():
        losses = [sum_of(ddp, x, y) for x, y in micro_batches[:-1]]
    losses.append(sum_of(ddp, *micro_batches[-1]))
    loss = sum(losses) / count
    (loss * me.world_size).backward()
    return loss.detach()


def sums_the_loss_too(me, ddp, micro_batches):
    part = right_step(me, ddp, micro_batches)
    dist.all_reduce(part)
    return part


def begins_and_leaves(me, ddp, micro_batches):
    count = torch.tensor(float(own(micro_batches)))
    dist.all_reduce(count, async_op=True)
    return step(lambda me, count, _: me.world_size / count, divisor=lambda _: count)(me, ddp, micro_batches)


def steps_too(me, ddp, micro_batches):
    part = right_step(me, ddp, micro_batches)
    with torch.no_grad():
        for parameter in ddp.parameters():
            parameter -= 0.1 * parameter.grad
    return part


def changes_targets(me, ddp, micro_batches):
    part = right_step(me, ddp, micro_batches)
    for _, y in micro_batches:
        y.clamp_(min=0)
    return part


def counts_in_bytes(micro_batches):
    count = torch.tensor(sum(int((y != -100).sum()) for _, y in micro_batches) % 256, dtype=torch.uint8)
    dist.all_reduce(count)
    return count.clamp(min=1)


def counts_in_bfloat16(micro_batches):
    count = torch.tensor(sum(int((y != -100).sum()) for _, y in micro_batches), dtype=torch.bfloat16)
    dist.all_reduce(count)
    return count.double().clamp(min=1)


def counts_above_zero(micro_batches):
    count = torch.stack([(y > 0).sum() for _, y in micro_batches]).sum()
    dist.all_reduce(count)
    return count.clamp(min=1)


def gives_a_graph(me, ddp, micro_batches):
    count = count_of(micro_batches).clamp(min=1)
    part = 0.0
    for index, (x, y) in enumerate(micro_batches):
        with nullcontext() if index == len(micro_batches) - 1 else ddp.no_sync():
            loss = sum_of(ddp, x, y) / count
            (loss * me.world_size).backward()
        part = part + loss
    return part


def leaves_the_flag(me, ddp, micro_batches):
    part = right_step(me, ddp, micro_batches)
    ddp.require_backward_grad_sync = False
    return part


def over_ranks(me, count, _):
    return me.world_size / count


def keeps_the_count_of_a_size(me, ddp, micro_batches, counts={}):  # noqa: B006
    sizes = me.world_size, *(x.shape for x, _ in micro_batches)
    if sizes not in counts:
        counts[sizes] = count_of(micro_batches).clamp(min=1)
    return step(over_ranks, divisor=lambda _: counts[sizes])(me, ddp, micro_batches)


def returns_early(me, ddp, micro_batches):
    count = count_of(micro_batches)
    if count == 0:
        return torch.zeros(())
    return step(over_ranks, divisor=lambda _: count)(me, ddp, micro_batches)


def in_eval_mode(me, ddp, micro_batches):
    ddp.eval()
    return right_step(me, ddp, micro_batches)


def hooks_that_stay(me, ddp, micro_batches):
    for parameter in ddp.parameters():
        parameter.register_hook(lambda grad: grad * me.world_size)
    return step(lambda me, count, _: 1 / count)(me, ddp, micro_batches)


ROWS = [
    Row(answer=right_step, verdict="passed", why="a count first, then sums"),
    Row(answer=scales_the_gradients_afterwards, verdict="passed", why="as Megatron does it: the count comes last"),
    Row(answer=waits_late, verdict="passed", why="asynchronous, waited for, the flag set by hand and put back"),
    Row(answer=masks_by_hand, verdict="passed", why="all_gather, log_softmax, a mask"),
    Row(answer=weighs_means, verdict="passed", why="means times their counts are sums"),
    Row(answer=by_hand_in_one_message, verdict="passed", why="past DDP, gradients and count in one message"),
    Row(
        answer=step(lambda me, count, own: 1 / len(own), mean_of, divisor=lambda _: 1),
        verdict="not yet",
        mistake="mean-of-means",
        why="the usual step",
    ),
    Row(
        answer=step(lambda *_: 1, mean_of, divisor=lambda _: 1), verdict="not yet", mistake="sum-of-means", why="means"
    ),
    Row(
        answer=step(lambda me, count, _: 1 / count, divisor=own),
        verdict="not yet",
        mistake="own-count",
        why="ranks hold different counts",
    ),
    Row(
        answer=step(lambda me, count, _: 1 / count),
        verdict="not yet",
        mistake="divided-by-ranks-too",
        why="DDP takes a mean",
        unsaid=("one rank alone",),
    ),
    Row(
        answer=step(lambda me, count, _: me.world_size**2 / count),
        verdict="not yet",
        mistake="multiplied-twice",
        why="once too often",
    ),
    Row(
        answer=step(lambda me, count, _: 4 / count),
        verdict="not yet",
        mistake="a-written-number",
        why="right on 4 ranks, twice too long on 2",
    ),
    Row(
        answer=step(over_ranks, divisor=counts_above_zero),
        verdict="not yet",
        mistake="above-zero",
        why="0 is a token",
    ),
    Row(
        answer=step(over_ranks, divisor=counts_in_bfloat16),
        verdict="not yet",
        mistake="rounds-the-count",
        why="off by 0.3 %",
    ),
    Row(
        answer=step(lambda me, count, own: me.world_size / count / len(own)),
        verdict="not yet",
        mistake="divided-by-micro-batches-too",
        why="the count is of all micro-batches",
    ),
    Row(
        answer=step(over_ranks, divisor=positions), verdict="not yet", mistake="all-positions", why="padding is counted"
    ),
    Row(answer=step(lambda *_: 1), verdict="not yet", mistake="never-divided", why="a sum"),
    Row(answer=a_count_for_each, verdict="not yet", mistake="a-count-for-each", why="counts differ, and so do calls"),
    Row(answer=leaves_out, verdict="not yet", mistake="leaves-out", why="the last backward pass sends"),
    Row(
        answer=step(over_ranks, syncs=lambda *_: False),
        verdict="not yet",
        mistake="never-averages",
        why="all under no_sync",
    ),
    Row(
        answer=step(over_ranks, syncs=lambda *_: True),
        verdict="not yet",
        mistake="sends-each-time",
        why="never under no_sync",
    ),
    Row(
        answer=step(over_ranks, divisor=count_of),
        verdict="not yet",
        mistake="nothing-valid",
        why="0 / 0 where nothing is valid",
    ),
    Row(answer=keeps_the_count, verdict="not yet", mistake="keeps-the-first-count", why="the next batch has another"),
    Row(answer=step(over_ranks, part=lambda *_: None), verdict="not yet", mistake="no-part", why="nothing returned"),
    Row(
        answer=step(over_ranks, part=lambda s, n: s / n * dist.get_world_size()),
        verdict="not yet",
        mistake="part-times-ranks",
        why="the factor is DDP's",
    ),
    Row(answer=gives_a_graph, verdict="not yet", mistake="still-has-a-graph", why="a log would keep it"),
    Row(answer=all_forwards_first, verdict="not yet", mistake="keeps-every-graph", why="activations of all"),
    Row(
        answer=sums_the_loss_too, verdict="not yet", mistake="calls-besides", why="the part is to come, and a call less"
    ),
    Row(answer=begins_and_leaves, verdict="not yet", mistake="not-waited-for", why="nobody waits for the count"),
    Row(answer=steps_too, verdict="not yet", words=("changed what was to stay",), why="the caller steps"),
    Row(answer=changes_targets, verdict="not yet", words=("micro_batches",), why="the targets are the caller's"),
    Row(answer=step(over_ranks, divisor=counts_in_bytes), verdict="not yet", why="256 is 0 in a byte"),
    Row(answer=leaves_the_flag, verdict="not yet", words=("without synchronisation",), why="the next step is DDP's"),
    Row(
        answer=step(over_ranks, part=lambda s, n: float(s / n)),
        verdict="not yet",
        mistake="part-as-a-number",
        words=("tensors alone",),
        why="the page hands it to dist.all_reduce, which raises",
    ),
    Row(
        answer=keeps_the_count_of_a_size,
        verdict="not yet",
        mistake="keeps-the-first-count",
        why="equal sizes may have other masks",
    ),
    Row(
        answer=returns_early,
        verdict="not yet",
        mistake="no-gradients-then",
        unsaid=("0 is divided by 0",),
        why="gradients are to be 0, and there are none",
    ),
    Row(answer=in_eval_mode, verdict="not yet", words=("left in eval mode",), why="dropout is off from now on"),
    Row(answer=hooks_that_stay, verdict="not yet", words=("more hooks",), why="the next step scales twice"),
]
