"""DDP from scratch where it is hard: accumulation, missing gradients, dtypes, layouts."""

from __future__ import annotations

import pytest
import torch
from ddp_cases import Branches, gradients, message_of, wrapped_twice, x_of
from torch import nn

from course_lib.meter import metered
from course_lib.models import SmallCNN
from course_lib.parallel.data import DistributedDataParallel, all_reduce_buckets, all_reduce_gradients

pytestmark = pytest.mark.xdist_group("parallel_ddp")

# -- which parameters have a gradient -------------------------------------------------------------------------


def missing_on_some(me, set_to_none: bool) -> tuple[list, list, bool]:
    """ "a" is used on both ranks, "b" on rank 0 alone, "c" on none, in two steps."""
    ours, theirs = wrapped_twice(me, Branches(), find_unused_parameters=True)
    for ddp in (ours, theirs):
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
        for step in range(2):
            optimizer.zero_grad(set_to_none=set_to_none)
            ddp(x_of(me, step), "ab" if me.rank == 0 else "a").square().sum().backward()
            optimizer.step()
    same = all(torch.allclose(p, q, atol=1e-12) for p, q in zip(ours.parameters(), theirs.parameters(), strict=True))
    return gradients(ours), gradients(theirs), same


@pytest.mark.parametrize("set_to_none", [True, False])
def test_what_only_some_ranks_use_counts_as_zero_and_what_none_uses_stays_none(two, set_to_none):
    results = two.call(missing_on_some, (set_to_none,))
    for ours, theirs, same in results:
        assert same
        assert ours[2] is None
        assert theirs[2] is None
        assert torch.allclose(torch.tensor(ours[:2]), torch.tensor(theirs[:2]), atol=1e-12)
        assert ours == results[0][0]


def one_more_call(me) -> int:
    ddp = DistributedDataParallel(me, Branches(), find_unused_parameters=True)
    ddp(x_of(me), "abc").sum().backward()
    return len(ddp.buckets)


def test_finding_unused_parameters_takes_one_more_all_reduce(two):
    run = metered(two, one_more_call)
    assert run.communication.by_operation()["all_reduce"] == 2 * (run[0] + 1)


def missing_without_the_flag(me) -> tuple[str, str, list, list]:
    ours, theirs = wrapped_twice(me, Branches())
    everywhere = message_of(lambda: ours(x_of(me), "ac").sum().backward())
    on_one = message_of(lambda: ours(x_of(me), "abc" if me.rank == 0 else "bc").sum().backward())
    for ddp in (ours, theirs):
        ddp.zero_grad()
        ddp(x_of(me), "abc").sum().backward()
    return everywhere, on_one, gradients(ours), gradients(theirs)


def test_a_parameter_without_gradient_is_named_and_no_rank_waits_for_ever(two):
    for rank, (everywhere, on_one, ours, theirs) in enumerate(two.call(missing_without_the_flag)):
        assert f"on rank {rank} this backward gave no gradient to b.weight; the mean" in everywhere
        assert "find_unused_parameters=True" in everywhere
        assert ("no gradient to a.weight;" in on_one) if rank == 1 else (on_one == "nothing was raised")
        assert torch.allclose(torch.tensor(ours), torch.tensor(theirs), atol=1e-12)  # the next step is clean


def none_after_backward(me) -> list[list]:
    """Steps (a) and (b) where a rank has no gradient: zero, so that the others need not wait."""
    found = []
    for way in (all_reduce_gradients, all_reduce_buckets):
        torch.manual_seed(0)
        model = Branches()
        buckets = DistributedDataParallel(me, model).buckets if way is all_reduce_buckets else model
        model(torch.ones(1, 3, dtype=torch.float64), "a" if me.rank == 0 else "b").sum().backward()
        way(me, buckets)
        found.append([p.grad[0, 0].item() for p in model.parameters()])
    return found


def test_the_first_two_steps_count_a_missing_gradient_as_zero(two):
    assert list(two.call(none_after_backward)) == [[[0.5, 0.5, 0.0]] * 2] * 2


# -- accumulation ---------------------------------------------------------------------------------------------


def accumulated(me) -> tuple[list, list]:
    """Three parts of a batch, twice, of which the last one travels; and one that enters ``no_sync`` too late."""
    ours, theirs = wrapped_twice(me, Branches())
    for ddp in (ours, theirs):
        for _ in range(2):
            for part in range(3):
                with ddp.no_sync() if part < 2 else torch.enable_grad():
                    ddp(x_of(me, part), "abc").square().sum().backward()
        loss = ddp(x_of(me, 3), "abc").square().sum()
        with torch.no_grad():
            ddp(x_of(me, 4), "abc")  # a look at other data changes nothing
        with ddp.no_sync():
            loss.backward()
    return gradients(ours), gradients(theirs)


def test_accumulation_is_that_of_torch_also_when_no_sync_comes_after_the_forward(two):
    results = two.call(accumulated)
    for ours, theirs in results:
        assert torch.allclose(torch.tensor(ours), torch.tensor(theirs), atol=1e-12)
        assert ours == results[0][0]


def local_forward(me) -> tuple[list, list]:
    """The forward is within ``no_sync``, its backward outside, after a look at other data."""
    ours, theirs = wrapped_twice(me, Branches())
    for ddp in (ours, theirs):
        with ddp.no_sync():
            loss = ddp(x_of(me), "abc").square().sum()
        with torch.no_grad():
            ddp(x_of(me, 1), "abc")
        loss.backward()
    return gradients(ours), gradients(theirs)


def test_a_forward_within_no_sync_stays_local_wherever_its_backward_is(two):
    results = list(two.call(local_forward))
    assert all(ours == theirs for ours, theirs in results)
    assert results[0] != results[1]


def backwards_alone(me, num_backwards: int) -> list:
    torch.manual_seed(0)
    ddp = DistributedDataParallel(me, nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).double())
    with ddp.no_sync():
        for seed in range(num_backwards):
            ddp(x_of(me, seed)).square().sum().backward()
            ddp.module(x_of(me, seed)).square().sum().backward()  # past the wrapper, and meant so
    return gradients(ddp)


def test_no_sync_sends_nothing_and_leaves_each_rank_its_own_gradients(two):
    wrapping, run = (metered(two, backwards_alone, number) for number in (0, 2))
    assert run.communication.by_operation() == wrapping.communication.by_operation()
    assert run[0] != run[1]


# -- dtypes, layouts, memory ----------------------------------------------------------------------------------


def mixed_dtypes(me) -> tuple[list, list, list]:
    torch.manual_seed(0)
    model = Branches(b=torch.bfloat16, c=torch.float32)
    ours, theirs = wrapped_twice(me, model)
    for ddp in (ours, theirs):
        ddp(x_of(me), "abc").float().sum().backward()
    return gradients(ours), gradients(theirs), [str(b.flat.dtype) for b in ours.buckets]


def test_each_dtype_has_buckets_of_its_own(two):
    for ours, theirs, dtypes in two.call(mixed_dtypes):
        assert ours == theirs
        assert dtypes == ["torch.float32", "torch.bfloat16", "torch.float64"]


def sent_in_32_bits(me, dtype: torch.dtype, average_in_float32: bool) -> tuple:
    """Gradients of 60,000 on both ranks, of which float16 can hold one but not two."""
    layer = nn.Linear(1, 1, bias=False, dtype=dtype)
    ddp = DistributedDataParallel(me, layer, average_in_float32=average_in_float32)
    for part in range(2):
        with ddp.no_sync() if part == 0 else torch.enable_grad():
            ddp(torch.full((1, 1), 30_000.0, dtype=dtype)).sum().backward()
    first = layer.weight.grad.item()
    layer.weight.grad = None
    ddp(torch.full((1, 1), 4.0 * me.rank, dtype=dtype)).sum().backward()
    return first, layer.weight.grad.item(), layer.weight.grad.dtype == dtype, ddp.buckets[0].size_bytes


def test_gradients_of_16_bits_may_be_averaged_in_32(two):
    for dtype in (torch.float16, torch.bfloat16):
        near = torch.tensor(30_000.0, dtype=dtype).item() * 2
        assert list(two.call(sent_in_32_bits, (dtype, True))) == [(near, 2.0, True, 4)] * 2
    assert list(two.call(sent_in_32_bits, (torch.float16, False))) == [(float("inf"), 2.0, True, 2)] * 2


def memory_and_layouts(me) -> tuple[bool, bool]:
    """Gradients lie in the buckets, whatever zero_grad does; a model in channels_last is no exception."""
    torch.manual_seed(me.rank)
    ours, theirs = wrapped_twice(me, SmallCNN(width=3, batch_norm=False).to(memory_format=torch.channels_last))
    draw, in_buckets = torch.Generator().manual_seed(me.rank), True
    early: list[bool] = []  # while backward goes on, so that the memory of a copied gradient is free at once
    last = ours.buckets[0]
    ours.module.stem[0].weight.register_hook(lambda _: early.append(last.parameters[0].grad is last.views[0]))
    for set_to_none in (True, False, False):
        x = torch.randn(2, 1, 8, 8, generator=draw)
        for ddp in (ours, theirs):
            ddp.zero_grad(set_to_none=set_to_none)
            ddp(x).square().sum().backward()
        for bucket in ours.buckets:
            places = {parameter.grad.untyped_storage().data_ptr() for parameter in bucket.parameters}
            in_buckets &= places == {bucket.flat.untyped_storage().data_ptr()}
    pairs = zip(ours.parameters(), theirs.parameters(), strict=True)
    return in_buckets and early == [True] * 3, all(torch.allclose(p.grad, q.grad, atol=1e-6) for p, q in pairs)


def test_gradients_are_parts_of_the_buckets_however_they_are_zeroed(two):
    assert list(two.call(memory_and_layouts)) == [(True, True)] * 2


def strides(me) -> tuple[list, list, float, str]:
    """Of the gradients of a model in channels_last, ours and torch's, over two backwards that add up."""
    torch.manual_seed(me.rank)
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Conv2d(4, 2, 1, bias=False), nn.Flatten(), nn.Linear(2, 1)).double()
    ours, theirs = wrapped_twice(me, model.to(memory_format=torch.channels_last))
    x = torch.randn(2, 2, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(me.rank))
    for ddp in (ours, theirs, ours, theirs):
        ddp(x).square().sum().backward()
    pairs = [(p.grad, q.grad) for p, q in zip(ours.parameters(), theirs.parameters(), strict=True)]
    other = nn.Conv2d(2, 4, 3)
    if me.rank == 1:
        other = other.to(memory_format=torch.channels_last)
    said = message_of(lambda: DistributedDataParallel(me, other))
    return *([grad.stride() for grad in both] for both in zip(*pairs, strict=True)), apart(pairs), said


def apart(pairs) -> float:
    return max(float((a - b).abs().max()) for a, b in pairs)


def test_gradients_keep_the_strides_of_their_parameters(two):
    for ours, theirs, far, said in two.call(strides):
        assert ours == theirs
        assert ours[0] == (18, 1, 6, 2), "channels last"
        assert far < 1e-12
        assert "rank 1 has weight (4, 2, 3, 3) torch.float32, strides (18, 1, 6, 2), trained" in said
