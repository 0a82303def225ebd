"""12.hierarchical: an all-reduce for ranks on several nodes."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from answer_table import Row


def plain(me, tensor, inside, between):
    n = dist.get_world_size(inside)
    size = -(-tensor.numel() // n)
    flat = torch.zeros(size * n, dtype=tensor.dtype, device=tensor.device)
    flat[: tensor.numel()] = tensor.reshape(-1)
    own = torch.empty(size, dtype=tensor.dtype, device=tensor.device)
    dist.reduce_scatter(own, [part.contiguous() for part in flat.view(n, size)], group=inside)
    dist.all_reduce(own, group=between)
    parts = [torch.empty_like(own) for _ in range(n)]
    dist.all_gather(parts, own, group=inside)
    return torch.cat(parts)[: tensor.numel()].reshape(tensor.shape)


def scattered_and_gathered_between(me, tensor, inside, between):
    n, k = dist.get_world_size(inside), dist.get_world_size(between)
    flat = F.pad(tensor.reshape(-1), (0, -tensor.numel() % (n * k)))
    own = flat.new_empty(flat.numel() // n)
    dist.reduce_scatter(own, list(flat.chunk(n)), group=inside)
    bit = own.new_empty(own.numel() // k)
    dist.reduce_scatter(bit, list(own.chunk(k)), group=between)
    bits = [torch.empty_like(bit) for _ in range(k)]
    dist.all_gather(bits, bit, group=between)
    parts = [torch.empty_like(own) for _ in range(n)]
    dist.all_gather(parts, torch.cat(bits), group=inside)
    return torch.cat(parts)[: tensor.numel()].reshape(tensor.shape)


def the_same_by_one_tensor(me, tensor, inside, between):
    n, k = dist.get_world_size(inside), dist.get_world_size(between)
    flat = F.pad(tensor.reshape(-1), (0, -tensor.numel() % (n * k)))
    own = flat.new_empty(flat.numel() // n)
    dist.reduce_scatter_tensor(own, flat, group=inside)
    bit = own.new_empty(own.numel() // k)
    dist.reduce_scatter_tensor(bit, own, group=between)
    dist.all_gather_into_tensor(own, bit, group=between)
    dist.all_gather_into_tensor(flat, own, group=inside)
    return flat[: tensor.numel()].reshape(tensor.shape)


KEPT = {}


def keeps_by_shape_and_dtype(me, tensor, inside, between):
    key = tensor.shape, tensor.dtype
    if key not in KEPT:
        KEPT[key] = plain(me, tensor, inside, between)
    return KEPT[key].clone()


def keeps_in_a_default_argument(me, tensor, inside, between, kept={}):  # noqa: B006 - the mistake itself
    if tensor.shape not in kept:
        kept[tensor.shape] = plain(me, tensor, inside, between)
    return kept[tensor.shape].clone()


BUFFERS = {}


def one_buffer_for_all_results(me, tensor, inside, between):
    out = BUFFERS.setdefault((tensor.shape, tensor.dtype), torch.empty(tensor.shape, dtype=tensor.dtype))
    return out.copy_(plain(me, tensor, inside, between))


def flat_for_small_ones(me, tensor, inside, between):
    if tensor.numel() < 64:
        out = tensor.clone().contiguous()
        dist.all_reduce(out)
        return out
    return plain(me, tensor, inside, between)


def not_for_an_empty_tensor(me, tensor, inside, between):
    assert tensor.numel() > 0
    return plain(me, tensor, inside, between)


def none_for_an_empty_tensor(me, tensor, inside, between):
    if tensor.numel() == 0:
        return None
    return plain(me, tensor, inside, between)


def not_for_float32(me, tensor, inside, between):
    assert tensor.dtype != torch.float32
    return plain(me, tensor, inside, between)


def not_for_bfloat16(me, tensor, inside, between):
    assert tensor.dtype != torch.bfloat16
    return plain(me, tensor, inside, between)


def only_for_float32(me, tensor, inside, between):
    assert tensor.dtype == torch.float32
    return plain(me, tensor, inside, between)


def float64_inside(me, tensor, inside, between):
    if not tensor.is_floating_point():
        return plain(me, tensor, inside, between)
    return plain(me, tensor.double(), inside, between).to(tensor.dtype)


def the_remainder_by_all_ranks(me, tensor, inside, between):
    n = dist.get_world_size(inside)
    flat = tensor.reshape(-1).clone()
    size = flat.numel() // n
    rest = flat[size * n :].clone()
    if size:
        own = flat.new_empty(size)
        dist.reduce_scatter(own, list(flat[: size * n].chunk(n)), group=inside)
        dist.all_reduce(own, group=between)
        parts = [torch.empty_like(own) for _ in range(n)]
        dist.all_gather(parts, own, group=inside)
        flat[: size * n] = torch.cat(parts)
    if rest.numel():
        dist.all_reduce(rest)
        flat[size * n :] = rest
    return flat.reshape(tensor.shape)


def a_number_more_in_each_part(me, tensor, inside, between):
    n = dist.get_world_size(inside)
    size = tensor.numel() // n + 1
    flat = F.pad(tensor.reshape(-1), (0, size * n - tensor.numel()))
    own = flat.new_empty(size)
    dist.reduce_scatter(own, list(flat.split(size)), group=inside)
    dist.all_reduce(own, group=between)
    parts = [torch.empty_like(own) for _ in range(n)]
    dist.all_gather(parts, own, group=inside)
    return torch.cat(parts)[: tensor.numel()].reshape(tensor.shape)


def gathered_between_and_added_up(me, tensor, inside, between):
    n, k = dist.get_world_size(inside), dist.get_world_size(between)
    flat = F.pad(tensor.reshape(-1), (0, -tensor.numel() % n))
    own = flat.new_empty(flat.numel() // n)
    dist.reduce_scatter(own, list(flat.chunk(n)), group=inside)
    every = [torch.empty_like(own) for _ in range(k)]
    dist.all_gather(every, own, group=between)
    own = torch.stack(every).sum(0)
    parts = [torch.empty_like(own) for _ in range(n)]
    dist.all_gather(parts, own, group=inside)
    return torch.cat(parts)[: tensor.numel()].reshape(tensor.shape)


def gathered_into_one_tensor_and_added_up(me, tensor, inside, between):
    n, k = dist.get_world_size(inside), dist.get_world_size(between)
    flat = F.pad(tensor.reshape(-1), (0, -tensor.numel() % n))
    own = flat.new_empty(flat.numel() // n)
    dist.reduce_scatter_tensor(own, flat, group=inside)
    every = own.new_empty(k * own.numel())
    dist.all_gather_into_tensor(every, own, group=between)
    own = every.view(k, -1).sum(0)
    dist.all_gather_into_tensor(flat, own, group=inside)
    return flat[: tensor.numel()].reshape(tensor.shape)


NOT_DROPPED = ("they are in no part",)  # the last numbers are in a part, and are right

ROWS = [
    Row(answer=plain, verdict="passed", why="the three steps, parts filled up by hand"),
    Row(
        answer=scattered_and_gathered_between,
        verdict="passed",
        why="an all-reduce is a reduce-scatter and an all-gather; that gloo's reduce-scatter sends twice as much as "
        "its algorithm has to is told on no page",
    ),
    Row(
        answer=the_same_by_one_tensor,
        verdict="passed",
        why="as the one above, by the collectives that take one tensor",
        long=True,
    ),
    Row(
        answer=keeps_by_shape_and_dtype,
        verdict="not yet",
        mistake="keeps-a-sum",
        why="other numbers of the same shape get the sum of the first",
        words=("right after others of the same shape", "It is the sum of the call before"),
    ),
    Row(
        answer=keeps_in_a_default_argument,
        verdict="not yet",
        mistake="keeps-a-sum",
        why="as above, in a default argument",
        long=True,
    ),
    Row(
        answer=one_buffer_for_all_results,
        verdict="not yet",
        why="the second call overwrites the first result, and a new tensor is promised",
        words=("the sum that the call before gave has other numbers since",),
    ),
    Row(
        answer=flat_for_small_ones,
        verdict="not yet",
        why="seven numbers cross the slow link as often as the flat one sends them",
        words=("two nodes and 7 numbers", "this rank sent to other nodes"),
        unsaid=("it is the flat all-reduce", *NOT_DROPPED),
    ),
    Row(
        answer=not_for_an_empty_tensor,
        verdict="raised",
        why="any number of elements, which none is as well",
        words=("no numbers at all",),
    ),
    Row(
        answer=none_for_an_empty_tensor,
        verdict="not yet",
        why="a tensor of the same shape is promised",
        words=("no numbers at all", "nothing came back"),
    ),
    Row(answer=not_for_float32, verdict="raised", why="the page's own tensor is float32", words=("240 numbers",)),
    Row(
        answer=not_for_bfloat16,
        verdict="raised",
        why="the same dtype, whichever that is",
        words=("a rank on each node",),
    ),
    Row(
        answer=only_for_float32,
        verdict="raised",
        mistake="",
        why="lengths and layouts are right, and float64 is refused",
        words=("one node, and 125 numbers",),
        unsaid=("parts are not equally long", "`view`"),
    ),
    Row(
        answer=float64_inside,
        verdict="not yet",
        mistake="in-a-wider-dtype",
        why="a float32 tensor becomes twice the bytes",
        words=("two nodes and 240 numbers", "this rank sent to other nodes"),
    ),
    Row(
        answer=the_remainder_by_all_ranks,
        verdict="not yet",
        why="a second collective of all ranks for what does not divide: more than the part's own all-reduce",
        words=("this rank sent to other nodes",),
        unsaid=("it is the flat all-reduce", *NOT_DROPPED),
    ),
    Row(
        answer=a_number_more_in_each_part,
        verdict="not yet",
        why="a part of 240 numbers for two ranks is 120, and 121 are sent",
        words=("two nodes and 240 numbers", "this rank sent to other nodes"),
        unsaid=NOT_DROPPED,
    ),
    Row(
        answer=gathered_between_and_added_up,
        verdict="not yet",
        mistake="gathers-between",
        why="as much as an all-reduce with two nodes, and twice as much with four; no number is left out",
        words=("with a rank on each node, and 5 x 25 numbers", "this rank sent to other nodes 750 bytes"),
        unsaid=NOT_DROPPED,
    ),
    Row(
        answer=gathered_into_one_tensor_and_added_up,
        verdict="not yet",
        mistake="gathers-between",
        why="another spelling of it",
        unsaid=NOT_DROPPED,
        long=True,
    ),
]
