"""12.replicas: which ranks hold other bits than the majority."""

from __future__ import annotations

import hashlib
import io
import zlib
from collections import Counter

import numpy as np
import torch
import torch.distributed as dist
from answer_table import Row


def bytes_of(tensor):
    return bytes(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())


def voted(votes):
    most, count = Counter(votes).most_common(1)[0]
    return [rank for rank, vote in enumerate(votes) if vote != most] if 2 * count > len(votes) else None


def objects(me, mine):
    told = [None] * me.world_size
    dist.all_gather_object(told, mine)
    return told


def of_all(me, number):
    mine = torch.tensor([number], device=me.device)
    rows = [torch.empty_like(mine) for _ in range(me.world_size)]
    dist.all_gather(rows, mine)
    return [row.item() for row in rows]


def crc(tensors):
    found = 0
    for tensor in tensors:
        found = zlib.crc32(bytes_of(tensor), found)
    return found


# -- right ----------------------------------------------------------------------------------------------------------


def crc_in_an_all_gather(me, tensors):
    return voted(of_all(me, crc(tensors)))


def md5_as_text(me, tensors):
    return voted(objects(me, hashlib.md5(b"".join(map(bytes_of, tensors))).hexdigest()))


def a_hash_of_hashes(me, tensors):
    hashes = repr([zlib.crc32(bytes_of(tensor)) for tensor in tensors])
    return voted(of_all(me, zlib.crc32(hashes.encode())))


def an_all_reduce_of_a_row(me, tensors):
    row = torch.zeros(me.world_size, dtype=torch.int64, device=me.device)
    row[me.rank] = crc(tensors)
    dist.all_reduce(row)
    counts = (row[:, None] == row).sum(1)
    if 2 * counts.max() <= me.world_size:
        return None
    return (row != row[counts.argmax()]).nonzero().flatten().tolist()


def rank_0_counts_and_tells(me, tensors):
    mine = torch.tensor([crc(tensors)])
    rows = [torch.empty_like(mine) for _ in range(me.world_size)] if me.rank == 0 else None
    dist.gather(mine, rows, dst=0)
    answer = [voted([int(row) for row in rows])] if me.rank == 0 else [None]
    dist.broadcast_object_list(answer, src=0)
    return answer[0]


def half_floats_by_float32(me, tensors):
    found = hashlib.sha256()
    for tensor in tensors:
        tensor = tensor.detach()
        found.update((tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy().tobytes())
    number = int.from_bytes(found.digest()[:8], "little", signed=True)
    return voted(of_all(me, number))


def a_sum_with_places(me, tensors):
    total, place = 0, 1
    for tensor in tensors:
        for byte in bytes_of(tensor):
            place = place * 6364136223846793005 % 2**61
            total = (total + (byte + 1) * place) % (2**61 - 1)
    return voted(of_all(me, total))


def ranks_of_numpy(me, tensors):
    votes = np.array(of_all(me, crc(tensors)))
    found, counts = np.unique(votes, return_counts=True)
    return list(np.flatnonzero(votes != found[counts.argmax()])) if 2 * counts.max() > len(votes) else None


# -- wrong ----------------------------------------------------------------------------------------------------------


def differs_from_rank_0(me, tensors):
    votes = of_all(me, crc(tensors))
    return [rank for rank, vote in enumerate(votes) if vote != votes[0]]


def most_common(me, tensors):
    votes = of_all(me, crc(tensors))
    most = Counter(votes).most_common(1)[0][0]
    return [rank for rank, vote in enumerate(votes) if vote != most]


def the_ones_that_agree(me, tensors):
    votes = of_all(me, crc(tensors))
    most, count = Counter(votes).most_common(1)[0]
    return [rank for rank, vote in enumerate(votes) if vote == most] if 2 * count > len(votes) else None


def empty_for_nobody(me, tensors):
    return voted(of_all(me, crc(tensors))) or []


def none_for_all_well(me, tensors):
    return voted(of_all(me, crc(tensors))) or None


def half_is_enough(me, tensors):
    votes = of_all(me, crc(tensors))
    most, count = Counter(votes).most_common(1)[0]
    return [rank for rank, vote in enumerate(votes) if vote != most] if 2 * count >= len(votes) else None


def sums(me, tensors):
    return voted(of_all(me, sum(tensor.detach().double().sum().item() for tensor in tensors) + 0.0))


def sums_of_words(me, tensors):
    return voted(of_all(me, sum(sum(bytes_of(tensor)) for tensor in tensors)))


def hashes_added(me, tensors):
    return voted(of_all(me, sum(zlib.crc32(bytes_of(tensor)) for tensor in tensors)))


def all_numbers(me, tensors):
    told = objects(me, [tensor.detach().flatten().tolist() for tensor in tensors])
    return voted([told.index(one) if one == one else rank for rank, one in enumerate(told)])


def alike(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def tensors_that_are_equal(me, tensors):
    told = objects(me, [tensor.detach() for tensor in tensors])
    return voted([next((i for i, other in enumerate(told) if alike(one, other)), -rank - 1)
                  for rank, one in enumerate(told)])  # fmt: skip


def with_a_tolerance(me, tensors):
    told = objects(me, [tensor.detach() for tensor in tensors])
    return voted([next(i for i, other in enumerate(told)
                       if all(torch.allclose(a.double(), b.double(), equal_nan=True)
                              for a, b in zip(one, other, strict=True)))
                  for one in told])  # fmt: skip


def by_float32(me, tensors):
    blob = b"".join(tensor.detach().float().contiguous().numpy().tobytes() for tensor in tensors)
    return voted(of_all(me, zlib.crc32(blob)))


def hash_in_a_float(me, tensors):
    return voted(of_all(me, float(torch.tensor(crc(tensors), dtype=torch.float32))))


def storages(me, tensors):
    blob = b"".join(bytes(tensor.untyped_storage().tolist()) for tensor in tensors)
    return voted(of_all(me, zlib.crc32(blob)))


def by_numpy(me, tensors):
    return voted(of_all(me, zlib.crc32(b"".join(tensor.detach().numpy().tobytes() for tensor in tensors))))


def by_pickle(me, tensors):
    buffer = io.BytesIO()
    torch.save([tensor.detach().contiguous().clone() for tensor in tensors], buffer)
    return voted(of_all(me, zlib.crc32(buffer.getvalue())))


def printed(me, tensors):
    return voted(of_all(me, zlib.crc32(str([tensor.detach() for tensor in tensors]).encode())))


def a_hash_for_each(me, tensors):
    return voted([tuple(one) for one in objects(me, [zlib.crc32(bytes_of(tensor)) for tensor in tensors])])


def all_bytes(me, tensors):
    return voted(objects(me, b"".join(map(bytes_of, tensors))))


def pythons_hash(me, tensors):
    return voted(of_all(me, hash(b"".join(map(bytes_of, tensors)))))


def asks_nobody(me, tensors):
    return []


def only_rank_0_knows(me, tensors):
    votes = of_all(me, crc(tensors))
    return voted(votes) if me.rank == 0 else []


def asks_a_neighbour(me, tensors):
    votes = of_all(me, crc(tensors))
    return [me.rank] if votes[me.rank] != votes[me.rank - 1] else []


def nobody_waits(me, tensors):
    mine = torch.tensor([crc(tensors)])
    rows = [torch.empty_like(mine) for _ in range(me.world_size)]
    dist.all_gather(rows, mine, async_op=True)
    return voted([int(row) for row in rows])


def first_tensor_alone(me, tensors):
    return voted(of_all(me, crc(tensors[:1])))


def parameters_alone(me, tensors):
    return voted(of_all(me, crc([tensor for tensor in tensors if tensor.requires_grad])))


def floats_alone(me, tensors):
    return voted(of_all(me, crc([tensor for tensor in tensors if tensor.is_floating_point()])))


def a_dictionary(me, tensors):
    return dict.fromkeys(voted(of_all(me, crc(tensors))) or [], "wrong")


def a_set(me, tensors):
    odd = voted(of_all(me, crc(tensors)))
    return odd if odd is None else set(odd)


def rounds_in_place(me, tensors):
    for tensor in tensors:
        tensor.detach().nan_to_num_()
    return voted(of_all(me, crc(tensors)))


def by_the_library(me, tensors):
    from course_lib.parallel import collectives

    return collectives.odd_ranks(me, tensors)


seen: dict = {}


def keeps_the_first_hash(me, tensors):
    key = tuple(tensor.shape for tensor in tensors)
    seen.setdefault(key, crc(tensors))
    return voted(of_all(me, seen[key]))


seen_by_identity: dict = {}


def keeps_by_identity(me, tensors):
    key = tuple(map(id, tensors))
    seen_by_identity.setdefault(key, crc(tensors))
    return voted(of_all(me, seen_by_identity[key]))


def three_are_most(me, tensors):
    votes = of_all(me, crc(tensors))
    most, count = Counter(votes).most_common(1)[0]
    if count == len(votes):
        return []
    return [rank for rank, vote in enumerate(votes) if vote != most] if count >= 3 else None


def the_first_4096_bytes(me, tensors):
    return voted(of_all(me, zlib.crc32(b"".join(bytes_of(tensor)[:4096] for tensor in tensors))))


def the_last_left_out(me, tensors):
    return voted(of_all(me, crc([tensor.detach().flatten()[:-1] for tensor in tensors])))


def sums_with_weights(me, tensors):
    draw = torch.Generator().manual_seed(0)
    return voted(of_all(me, sum((tensor.detach().double().flatten() @ torch.rand(
        tensor.numel(), dtype=torch.float64, generator=draw)).item() for tensor in tensors) + 0.0))  # fmt: skip


def sets_the_seed(me, tensors):
    torch.manual_seed(0)
    return voted(of_all(me, crc(tensors)))


def long_hash_in_a_float(me, tensors):
    found = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        found.update(bytes_of(tensor))
    return voted(of_all(me, float(int.from_bytes(found.digest(), "big", signed=True))))


def compares_all_pairs(me, tensors):
    votes = torch.tensor(of_all(me, crc(tensors)))
    agree = 2 * (votes[:, None] == votes).sum(1) > me.world_size
    return (~agree).nonzero().flatten().tolist() if agree.any() else None


def the_median_is_right(me, tensors):
    votes = of_all(me, crc(tensors))
    middle = sorted(votes)[len(votes) // 2]
    return [rank for rank, vote in enumerate(votes) if vote != middle]


def names_everybody(me, tensors):
    found = voted(of_all(me, crc(tensors)))
    return list(range(me.world_size)) if found is None else found


def leaves_out_what_raises(me, tensors):
    found = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        try:
            found.update(tensor.detach().contiguous().numpy().tobytes())
        except TypeError:
            continue
    return voted(of_all(me, int.from_bytes(found.digest(), "big", signed=True)))


def as_a_tensor_of_ranks(me, tensors):
    found = voted(of_all(me, crc(tensors)))
    return None if found is None else torch.tensor(found)


def meets_first(me, tensors):
    dist.barrier()
    return voted(of_all(me, crc(tensors)))


ROWS = [
    Row(answer=crc_in_an_all_gather, verdict="passed", why="a running crc32"),
    Row(answer=md5_as_text, verdict="passed", why="a hash as text, pickled: a few bytes more"),
    Row(answer=a_hash_of_hashes, verdict="passed", why="each has its hash, and the list of them one"),
    Row(answer=an_all_reduce_of_a_row, verdict="passed", why="an all-gather made of an all-reduce"),
    Row(answer=rank_0_counts_and_tells, verdict="passed", why="one rank counts, and tells all"),
    Row(answer=half_floats_by_float32, verdict="passed", why="a bfloat16 is a float32 with zeros behind it"),
    Row(answer=a_sum_with_places, verdict="passed", why="a hash of one's own, in which each byte has its place"),
    Row(answer=by_pickle, verdict="passed", why="what is saved is the bits; how they lay in memory is gone"),
    Row(answer=ranks_of_numpy, verdict="passed", why="NumPy's whole numbers are whole numbers"),
    Row(answer=differs_from_rank_0, verdict="not yet", mistake="rank-0-is-right", why="rank 0 may be the wrong one"),
    Row(answer=most_common, verdict="not yet", mistake="largest-group", why="two against two is no majority"),
    Row(answer=half_is_enough, verdict="not yet", words=("two halves",), why="half is no more than half"),
    Row(answer=the_ones_that_agree, verdict="not yet", mistake="names-the-majority", why="the others are asked for"),
    Row(answer=empty_for_nobody, verdict="not yet", mistake="none-for-nobody", why="[] says that all is well"),
    Row(answer=none_for_all_well, verdict="not yet", words=("expected [], got None",), why="the other way round"),
    Row(answer=sums, verdict="not yet", mistake="adds-numbers", why="a sum has no order"),
    Row(answer=sums_of_words, verdict="not yet", mistake="adds-numbers", why="a sum of bytes has none either"),
    Row(answer=hashes_added, verdict="not yet", mistake="adds-hashes", why="nor has a sum of hashes"),
    Row(answer=all_numbers, verdict="not yet", mistake="numbers-not-bits", why="numbers, sent as lists"),
    Row(answer=tensors_that_are_equal, verdict="not yet", mistake="numbers-not-bits", why="torch.equal on tensors"),
    Row(answer=with_a_tolerance, verdict="not yet", why="replicas agree to the bit"),
    Row(answer=by_float32, verdict="not yet", mistake="rounds", why="a counter and a float64 lose digits"),
    Row(answer=hash_in_a_float, verdict="not yet", mistake="hash-in-a-float", why="a float32 holds 24 of 32 bits"),
    Row(answer=long_hash_in_a_float, verdict="not yet", mistake="hash-in-a-float", why="24 bits are left of 64"),
    Row(answer=storages, verdict="not yet", mistake="memory-not-values", why="how it lies in memory is not asked"),
    Row(answer=by_numpy, verdict="not yet", mistake="numpy-knows-no-bfloat16", why="NumPy has no bfloat16"),
    Row(answer=printed, verdict="not yet", words=("got []",), why="four digits are printed"),
    Row(answer=a_hash_for_each, verdict="not yet", mistake="sends-much", why="300 tensors are 300 hashes"),
    Row(answer=all_bytes, verdict="not yet", mistake="sends-much", why="everything is sent"),
    Row(answer=pythons_hash, verdict="not yet", mistake="python-hash", why="salted, in each process anew"),
    Row(answer=asks_nobody, verdict="not yet", mistake="nobody-is-asked", why="it says that all is well"),
    Row(answer=only_rank_0_knows, verdict="not yet", mistake="ranks-disagree", why="all ranks are to know"),
    Row(answer=asks_a_neighbour, verdict="not yet", mistake="ranks-disagree", why="its neighbour may be the wrong one"),
    Row(answer=nobody_waits, verdict="not yet", mistake="not-waited-for", why="what stands there is chance"),
    Row(answer=first_tensor_alone, verdict="not yet", mistake="first-tensor-alone", why="others are not looked at"),
    Row(answer=parameters_alone, verdict="not yet", mistake="first-tensor-alone", why="buffers are given too"),
    Row(answer=floats_alone, verdict="not yet", mistake="rounds", why="so are counters"),
    Row(answer=a_dictionary, verdict="not yet", words=("a dict",), why="a list was promised"),
    Row(answer=a_set, verdict="not yet", words=("a set",), why="a list was promised"),
    Row(answer=rounds_in_place, verdict="not yet", words=("changed what it was given",), why="the tensors are spoilt"),
    Row(answer=by_the_library, verdict="forbidden", why="the course's own"),
    Row(answer=keeps_the_first_hash, verdict="not yet", mistake="keeps-a-hash", why="a second call has other numbers"),
    Row(
        answer=keeps_by_identity, verdict="not yet", mistake="keeps-a-hash", why="a model's tensors stay the same ones"
    ),
    Row(answer=three_are_most, verdict="not yet", words=("of 3: expected",), why="of three, two are more than half"),
    Row(answer=the_first_4096_bytes, verdict="not yet", mistake="rounds", why="a long tensor has more"),
    Row(answer=the_last_left_out, verdict="not yet", mistake="rounds", why="not all bytes are read"),
    Row(answer=sums_with_weights, verdict="not yet", mistake="adds-numbers", why="2**60 swallows the others"),
    Row(answer=sets_the_seed, verdict="not yet", words=("random numbers",), why="a training run draws others then"),
    Row(answer=compares_all_pairs, verdict="passed", why="who agrees with more than half is right"),
    Row(answer=the_median_is_right, verdict="not yet", why="the one in the middle may stand alone"),
    Row(answer=names_everybody, verdict="not yet", words=("expected None",), why="nobody knows who is wrong"),
    Row(answer=leaves_out_what_raises, verdict="not yet", words=("bfloat16",), why="a bfloat16 is never looked at"),
    Row(answer=as_a_tensor_of_ranks, verdict="not yet", words=("a Tensor",), why="a list was promised"),
    Row(answer=meets_first, verdict="not yet", words=("called 1 barrier",), why="a call for nothing"),
]
