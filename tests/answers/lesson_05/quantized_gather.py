"""05.quantized_gather: all ranks' shards, sent as one byte a number and one scale a block."""

from __future__ import annotations

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from answer_table import Row


def scales_of(blocks):
    return blocks.abs().amax(-1) / 127


def gathered(tensor, n):
    parts = [torch.empty_like(tensor) for _ in range(n)]
    dist.all_gather(parts, tensor)
    return parts


def filled(shard, block, dtype=torch.float32):
    return F.pad(shard.to(dtype), (0, -len(shard) % block)).view(-1, block)


def in_codes(shard, block, scale=scales_of, of=torch.round, least=1e-38):
    blocks = filled(shard, block)
    scales = scale(blocks)
    return of(blocks / scales.clamp_min(least)[:, None]).to(torch.int8).flatten()[: len(shard)], scales


def back(codes, scales, block, dtype):
    return (codes.float() * scales.repeat_interleave(block)[: len(codes)]).to(dtype)


def sent(me, codes, scales, block, dtype):
    pairs = zip(gathered(codes, me.world_size), gathered(scales, me.world_size), strict=True)
    return torch.cat([back(codes, scales.float(), block, dtype) for codes, scales in pairs])


def usual(me, shard, block, **how):
    return sent(me, *in_codes(shard, block, **how), block, shard.dtype)


def by_padding(me, shard, block):
    return usual(me, shard, block)


def block_by_block(me, shard, block):
    codes, scales = torch.empty(len(shard), dtype=torch.int8), []
    for start in range(0, len(shard), block):
        part = shard[start : start + block].float()
        scale = part.abs().max().item() / 127
        scales.append(scale)
        if scale:
            codes[start : start + block] = torch.round(part / scale)
    pairs = zip(gathered(codes, me.world_size), gathered(torch.tensor(scales), me.world_size), strict=True)
    out = []
    for of_rank, of_blocks in pairs if len(codes) else ():
        out += [part.float() * scale for part, scale in zip(of_rank.split(block), of_blocks, strict=True)]
    return torch.cat(out).to(shard.dtype) if out else shard.clone()


def in_one_message(me, shard, block):
    codes, scales = in_codes(shard, block)
    message = torch.cat([codes.view(torch.uint8), scales.view(torch.uint8)])
    out = []
    for came in gathered(message, me.world_size):
        size = len(shard)
        out.append(back(came[:size].view(torch.int8), came[size:].clone().view(torch.float32), block, shard.dtype))
    return torch.cat(out)


def as_unsigned(me, shard, block):
    blocks = filled(shard, block)
    scales = scales_of(blocks)
    safe = torch.where(scales > 0, scales, torch.ones_like(scales))
    codes = ((blocks / safe[:, None]).round() + 128).to(torch.uint8).flatten()[: len(shard)].contiguous()
    pairs = zip(gathered(codes, me.world_size), gathered(scales, me.world_size), strict=True)
    return torch.cat([((c.float() - 128) * s.repeat_interleave(block)[: len(c)]).to(shard.dtype) for c, s in pairs])


def into_one_tensor(me, shard, block):
    codes, scales = in_codes(shard, block)
    all_codes = codes.new_empty(me.world_size * len(codes))
    all_scales = scales.new_empty(me.world_size * len(scales))
    works = [dist.all_gather_single(all_codes, codes, async_op=True)]
    works.append(dist.all_gather_single(all_scales, scales, async_op=True))
    for work in works:
        work.wait()
    index = torch.arange(len(shard)) // block
    by_rank = all_codes.view(me.world_size, -1).double() * all_scales.view(me.world_size, -1)[:, index].double()
    return by_rank.flatten().to(shard.dtype)


def nan_to_zero(me, shard, block):
    blocks = filled(shard, block)
    scales = scales_of(blocks)
    codes = torch.nan_to_num(blocks / scales[:, None]).round().to(torch.int8).flatten()[: len(shard)]
    return sent(me, codes, scales, block, shard.dtype)


def zero_by_zero_times_zero(me, shard, block):
    return usual(me, shard, block, least=0.0)


# -- wrong --------------------------------------------------------------------------------------------------------


def one_scale(me, shard, block):
    return usual(me, shard, max(1, len(shard)))


def cut_off(me, shard, block):
    return usual(me, shard, block, of=torch.trunc)


def by_128(me, shard, block):
    return usual(me, shard, block, scale=lambda blocks: blocks.abs().amax(-1) / 128)


def own_scales(me, shard, block):
    codes, scales = in_codes(shard, block)
    return torch.cat([back(one, scales, block, shard.dtype) for one in gathered(codes, me.world_size)])


def zero_by_zero(me, shard, block):
    codes, scales = in_codes(shard, block, of=lambda quotients: quotients.round().nan_to_num(nan=1.0), least=0.0)
    scales = torch.where(scales > 0, scales, torch.nan)
    return sent(me, codes, scales, block, shard.dtype)


def least_scale(me, shard, block):
    return usual(me, shard, block, scale=lambda blocks: (blocks.abs().amax(-1) / 127).clamp_min(1e-8))


def added_epsilon(me, shard, block):
    return usual(me, shard, block, scale=lambda blocks: blocks.abs().amax(-1) / 127 + 1e-8)


def in_its_own_dtype(me, shard, block):
    blocks = filled(shard, block, shard.dtype)
    scales = blocks.abs().amax(-1) / 127
    safe = torch.where(scales > 0, scales, torch.ones_like(scales))
    codes = (blocks / safe[:, None]).round().to(torch.int8).flatten()[: len(shard)]
    return sent(me, codes, scales.float(), block, shard.dtype)


def always_float32(me, shard, block):
    return sent(me, *in_codes(shard, block), block, torch.float32)


def own_part_exact(me, shard, block):
    out = list(usual(me, shard, block).chunk(me.world_size))
    return torch.cat([shard if rank == me.rank else part for rank, part in enumerate(out)]) if len(shard) else shard


def with_its_padding(me, shard, block):
    blocks = filled(shard, block)
    scales = scales_of(blocks)
    codes = (blocks / scales.clamp_min(1e-38)[:, None]).round().to(torch.int8)
    pairs = zip(gathered(codes, me.world_size), gathered(scales, me.world_size), strict=True)
    return torch.cat([(c.float() * s[:, None]).flatten()[: len(shard)].to(shard.dtype) for c, s in pairs])


def in_float32(me, shard, block):
    codes, scales = in_codes(shard, block)
    return sent(me, codes.float(), scales, block, shard.dtype)


def rounds_what_came(me, shard, block):
    """Everything in the shard's dtype, rounded on arrival."""
    out = []
    for came in gathered(shard, me.world_size):
        out.append(back(*in_codes(came, block), block, shard.dtype))
    return torch.cat(out)


def a_call_a_block(me, shard, block):
    blocks = shard.split(block) if len(shard) else ()
    out = [usual(me, part, block).chunk(me.world_size) for part in blocks]
    return torch.cat([part for parts in zip(*out, strict=True) for part in parts]) if out else shard.clone()


def does_not_divide(me, shard, block):
    blocks = shard.float().view(-1, block)
    return usual(me, blocks.flatten().to(shard.dtype), block)


def own_alone(me, shard, block):
    return back(*in_codes(shard, block), block, shard.dtype)


def nobody_waits(me, shard, block):
    codes, scales = in_codes(shard, block)
    all_codes = [torch.empty_like(codes) for _ in range(me.world_size)]
    work = dist.all_gather(all_codes, codes, async_op=True)
    pairs = zip(all_codes, gathered(scales, me.world_size), strict=True)
    del work
    return torch.cat([back(*pair, block, shard.dtype) for pair in pairs])


def signed_largest(me, shard, block):
    return usual(me, shard, block, scale=lambda blocks: blocks.amax(-1) / 127)


def float_eight(me, shard, block):
    blocks = filled(shard, block)
    scales = blocks.abs().amax(-1) / 448
    codes = (blocks / scales.clamp_min(1e-38)[:, None]).to(torch.float8_e4m3fn).flatten()[: len(shard)]
    every = [one.view(torch.float8_e4m3fn) for one in gathered(codes.view(torch.uint8), me.world_size)]
    pairs = zip(every, gathered(scales, me.world_size), strict=True)
    return torch.cat([back(*pair, block, shard.dtype) for pair in pairs])


def scales_the_shard(me, shard, block):
    shard *= 1.0
    return usual(me, shard, block)


def signed_largest_cut(me, shard, block):
    return usual(me, shard, block, scale=lambda blocks: blocks.amax(-1) / 127, of=lambda x: x.round().clamp(-127, 127))


def of_blocks_of_32(me, shard, block):
    return usual(me, shard, min(block, 32))


def scales_in_float64(me, shard, block):
    codes, scales = in_codes(shard, block)
    return sent(me, codes, scales.double(), block, shard.dtype)


def as_objects(me, shard, block):
    every = [None] * me.world_size
    dist.all_gather_object(every, in_codes(shard, block))
    return torch.cat([back(*pair, block, shard.dtype) for pair in every])


def last_rank_first(me, shard, block):
    return torch.cat(usual(me, shard, block).chunk(me.world_size)[::-1]) if len(shard) else shard.clone()


def own_part_first(me, shard, block):
    return usual(me, shard, block).view(me.world_size, -1).roll(-me.rank, 0).flatten()


def zeros_alone_stay_at_home(me, shard, block):
    return usual(me, shard, block) if shard.any() or not len(shard) else torch.zeros(me.world_size * len(shard))


BUFFERS, KEPT = {}, {}


def into_one_buffer(me, shard, block):
    out = usual(me, shard, block)
    return BUFFERS.setdefault((len(out), out.dtype), torch.empty_like(out)).copy_(out)


def scales_of_the_first_step(me, shard, block):
    scales = KEPT.setdefault((len(shard), block), scales_of(filled(shard, block)))
    return usual(me, shard, block, scale=lambda blocks: scales)


def by_numpy(me, shard, block):
    numbers = shard.float().numpy()
    largest = np.maximum.reduceat(np.abs(numbers), np.arange(0, len(numbers), block)) if len(numbers) else numbers
    scales = (largest / np.float32(127)).astype(np.float32)
    each = np.repeat(scales, block)[: len(numbers)]
    codes = np.rint(np.divide(numbers, each, out=np.zeros_like(numbers), where=each > 0)).astype(np.int8)
    return sent(me, torch.from_numpy(codes), torch.from_numpy(scales), block, shard.dtype)


def one_scale_for_all_ranks(me, shard, block):
    def scale(blocks):
        scales = scales_of(blocks)
        dist.all_reduce(scales, op=dist.ReduceOp.MAX)
        return scales

    codes, scales = in_codes(shard, block, scale=scale)
    return torch.cat([back(part, scales, block, shard.dtype) for part in gathered(codes, me.world_size)])


def rounds_by_chance(me, shard, block):
    return usual(me, shard, block, of=lambda numbers: (numbers + torch.rand_like(numbers) - 0.5).round())


def blocks_are_strided(me, shard, block):
    count = -(-len(shard) // block)
    blocks = F.pad(shard.float(), (0, count * block - len(shard))).view(block, count).T
    scales = scales_of(blocks)
    codes = (blocks / scales.clamp_min(1e-38)[:, None]).round().to(torch.int8).T.flatten()[: len(shard)]
    pairs = zip(gathered(codes.contiguous(), me.world_size), gathered(scales, me.world_size), strict=True)
    return torch.cat([(part * of.repeat(block)[: len(part)]).to(shard.dtype) for part, of in pairs])


def meets_first(me, shard, block):
    dist.barrier()
    return usual(me, shard, block)


ROWS = [
    Row(answer=by_padding, verdict="passed", why="zeros fill the last block, and do not travel"),
    Row(answer=block_by_block, verdict="passed", why="a loop over blocks, scales in a list"),
    Row(answer=in_one_message, verdict="passed", why="codes and scales in one message of bytes"),
    Row(answer=as_unsigned, verdict="passed", why="codes from 1 to 255"),
    Row(answer=into_one_tensor, verdict="passed", why="two calls in flight, an index in place of a repeat"),
    Row(answer=nan_to_zero, verdict="passed", why="0 / 0 is mended afterwards"),
    Row(answer=zero_by_zero_times_zero, verdict="passed", why="0 / 0 in int8 is some number, and times 0 it is 0"),
    Row(answer=one_scale, verdict="not yet", mistake="one-scale-a-shard", why="one scale for all blocks"),
    Row(answer=cut_off, verdict="not yet", mistake="cut-off", why="a conversion that does not round"),
    Row(answer=by_128, verdict="not yet", mistake="wraps-around", why="int8 has no 128"),
    Row(answer=own_scales, verdict="not yet", mistake="own-scales", why="scales stayed at home"),
    Row(answer=zero_by_zero, verdict="not yet", mistake="nan-from-zeros", why="a block of zeros"),
    Row(answer=least_scale, verdict="not yet", mistake="scale-made-larger", why="a least scale of 1e-8"),
    Row(answer=added_epsilon, verdict="not yet", mistake="scale-made-larger", why="1e-8 added to each scale"),
    Row(answer=in_its_own_dtype, verdict="not yet", mistake="rounded-in-16-bits", why="bfloat16 divided by bfloat16"),
    Row(answer=always_float32, verdict="not yet", mistake="another-dtype", why="bfloat16 came back as float32"),
    Row(answer=own_part_exact, verdict="not yet", mistake="own-part-exact", why="ranks with different models"),
    Row(answer=with_its_padding, verdict="not yet", mistake="sends-padding", why="252 zeros more"),
    Row(answer=in_float32, verdict="not yet", mistake="sends-wide-numbers", why="whole numbers of four bytes"),
    Row(answer=rounds_what_came, verdict="not yet", mistake="sends-wide-numbers", why="rounded after the journey"),
    Row(answer=a_call_a_block, verdict="not yet", mistake="a-call-a-block", why="eight calls for four blocks"),
    Row(answer=does_not_divide, verdict="not yet", mistake="does-not-divide", why="a view of no whole blocks"),
    Row(answer=own_alone, verdict="not yet", mistake="own-part-alone", why="nothing was gathered"),
    Row(answer=nobody_waits, verdict="not yet", mistake="not-waited-for", unsaid=("; and rank",), why="read too early"),
    Row(answer=signed_largest, verdict="not yet", mistake="without-abs", why="the largest may be a negative number"),
    Row(answer=signed_largest_cut, verdict="not yet", mistake="without-abs", why="and its code is cut off at -127"),
    Row(answer=last_rank_first, verdict="not yet", mistake="order", why="all ranks have the last one's shard first"),
    Row(answer=own_part_first, verdict="not yet", mistake="order", why="each rank has its own shard first"),
    Row(answer=of_blocks_of_32, verdict="not yet", mistake="sends-more", why="eight times as many scales"),
    Row(answer=scales_in_float64, verdict="not yet", mistake="sends-more", why="eight bytes a scale"),
    Row(answer=as_objects, verdict="not yet", mistake="sends-more", unsaid=("wide",), why="pickled"),
    Row(answer=zeros_alone_stay_at_home, verdict="raised", mistake=None, why="a rank of zeros takes no part"),
    Row(answer=into_one_buffer, verdict="not yet", mistake="one-buffer", why="two calls give one tensor"),
    Row(answer=float_eight, verdict="not yet", mistake="", words=("half a step",), why="coarser than int8"),
    Row(answer=scales_of_the_first_step, verdict="not yet", mistake=None, why="scales of an earlier step"),
    Row(answer=by_numpy, verdict="passed", why="NumPy for scales and codes"),
    Row(
        answer=one_scale_for_all_ranks,
        verdict="not yet",
        words=("half a step",),
        why="others have coarser steps",
    ),
    Row(answer=rounds_by_chance, verdict="not yet", words=("half a step",), why="up to a whole step off"),
    Row(answer=blocks_are_strided, verdict="not yet", words=("half a step",), why="a block is neighbours"),
    Row(answer=meets_first, verdict="not yet", words=("3 calls, a barrier among them",), why="two calls at most"),
]
