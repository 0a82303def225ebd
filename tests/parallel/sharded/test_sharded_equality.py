"""ZeRO-3 computes what one device computes: losses, gradients, and weights after five steps, in float64."""

from __future__ import annotations

from functools import lru_cache, partial

import pytest
import sharded_cases
import torch
from sharded_cases import odd, transformer
from torch.distributed.fsdp import fully_shard

from course_lib.parallel.sharded import FullySharded

pytestmark = [
    pytest.mark.xdist_group("sharded"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

NUM_STEPS = 5


@lru_cache
def expected(make, num_ranks: int, optimizer=torch.optim.AdamW, **options):
    return sharded_cases.alone(make, num_ranks, NUM_STEPS, optimizer, **options)


def assert_equal(run, one) -> None:
    mean_losses = [sum(losses) / len(losses) for losses in zip(*(result["losses"] for result in run), strict=True)]
    assert mean_losses == pytest.approx(one["losses"], rel=1e-12)
    for result in run:
        for what in ("gradients", "state"):
            assert result[what].keys() <= one[what].keys() if what == "gradients" else True
            for name, tensor in result[what].items():
                expected_tensor = one[what][name]
                if tensor is None or expected_tensor is None:
                    assert tensor is None, name
                    assert expected_tensor is None, name
                else:
                    torch.testing.assert_close(tensor, expected_tensor, rtol=1e-10, atol=1e-12, msg=f"{what} {name}")
        assert result["state"].keys() == one["state"].keys()


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("make", "options"), [(odd, {}), (transformer, {})])
def test_it_equals_one_device(clusters, make, options, num_ranks):
    run = clusters(num_ranks).call(sharded_cases.sharded, (make, NUM_STEPS, options, {}), show=False)
    assert_equal(run, expected(make, num_ranks, **options))


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    "wrapping", [{"prefetch": 0}, {"prefetch": 3}, {"reshard_after_forward": False}, {"units": ()}], ids=str
)
@pytest.mark.parametrize("make", [odd, transformer])
def test_however_it_is_wrapped(clusters, make, wrapping):
    run = clusters(3).call(sharded_cases.sharded, (make, NUM_STEPS, {}, wrapping), show=False)
    assert_equal(run, expected(make, 3))


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("recompute", ["inside", "outside"])
@pytest.mark.parametrize("prefetch", [0, 2])
def test_with_recomputation(clusters, recompute, prefetch):
    case = (transformer, NUM_STEPS, {"recompute": recompute}, {"prefetch": prefetch})
    assert_equal(clusters(2).call(sharded_cases.sharded, case, show=False), expected(transformer, 2))


@pytest.mark.parametrize("wrapping", [{}, {"prefetch": 0}])
def test_tied_weights(clusters, wrapping):
    case = (transformer, NUM_STEPS, {"tied": True}, wrapping)
    run = clusters(3).call(sharded_cases.sharded, case, show=False)
    assert_equal(run, expected(transformer, 3, tied=True))


def test_tied_weights_of_two_modules_in_a_unit(clusters):
    run = clusters(2).call(sharded_two_modules, show=False)
    assert_equal(run, expected(transformer, 2, tied=True))


def sharded_two_modules(me):
    model = transformer(tied=True)
    units = [[model.stem, model.head], *model.blocks]
    return sharded_cases.sharded(me, lambda: model, NUM_STEPS, {}, {"units": units})


def test_unused_parameters(clusters):
    wrapping = {"find_unused_parameters": True}
    run = clusters(2).call(sharded_cases.sharded, (odd, NUM_STEPS, {"unused": True}, wrapping), show=False)
    one = expected(odd, 2, unused=True)
    assert one["gradients"]["extra.weight"] is None
    assert_equal(run, one)


# -- beside PyTorch's own -----------------------------------------------------------------------------------------


def by_fully_shard(me, make, options):
    model = make(**options)
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    opt = torch.optim.AdamW(model.parameters(), lr=0.01)
    x, y = (sharded_cases.own(me, t) for t in sharded_cases.batch_for(make, me.world_size))
    for _ in range(NUM_STEPS):
        opt.zero_grad()
        sharded_cases.loss_of(model, x, y).backward()
        opt.step()
    return {name: p.to_local().detach() for name, p in model.named_parameters()}


def shards(me, make, options):
    model = FullySharded(me, make(**options))
    opt = torch.optim.AdamW(model.parameters(), lr=0.01)
    x, y = (sharded_cases.own(me, t) for t in sharded_cases.batch_for(make, me.world_size))
    for _ in range(NUM_STEPS):
        opt.zero_grad()
        sharded_cases.loss_of(model, x, y).backward()
        opt.step()
    return {name.removeprefix("module."): p.detach() for name, p in model.named_parameters()}


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("num_ranks", [2, 3])
def test_each_rank_keeps_what_fully_shard_keeps(clusters, num_ranks):
    theirs = clusters(num_ranks).call(by_fully_shard, (transformer, {}), show=False)
    ours = clusters(num_ranks).call(shards, (transformer, {}), show=False)
    for own, other in zip(ours, theirs, strict=True):
        assert own.keys() == other.keys()
        for name, shard in own.items():
            torch.testing.assert_close(shard, other[name], rtol=1e-9, atol=1e-11, msg=name)


# -- accumulation, replicas, dtypes -------------------------------------------------------------------------------


def in_pieces(me, num_pieces, synchronise_all):
    model = FullySharded(me, odd())
    x, y = (sharded_cases.own(me, t) for t in sharded_cases.odd_batch(me.world_size))
    pieces = list(zip(x.chunk(num_pieces), y.chunk(num_pieces), strict=True))
    for i, (xs, ys) in enumerate(pieces):
        loss = sharded_cases.loss_of(model, xs, ys) / num_pieces
        if synchronise_all or i + 1 == num_pieces:
            loss.backward()
        else:
            with model.no_sync():
                loss.backward()
    return sharded_cases.whole_gradients(model)


@pytest.mark.parametrize("synchronise_all", [True, False])
def test_gradients_of_pieces_add_up(clusters, synchronise_all):
    one = expected(odd, 2)["gradients"]
    for gradients in clusters(2).call(in_pieces, (2, synchronise_all), show=False):
        for name, gradient in gradients.items():
            if gradient is not None:
                torch.testing.assert_close(gradient, one[name], rtol=1e-11, atol=1e-13, msg=name)


def on_a_grid(me, shard_size):
    import torch.distributed as dist

    n = me.world_size
    rows = [dist.new_group(list(range(i, i + shard_size))) for i in range(0, n, shard_size)]
    columns = [dist.new_group(list(range(j, n, shard_size))) for j in range(shard_size)]
    grid = {"group": rows[me.rank // shard_size], "replicas": columns[me.rank % shard_size]}
    try:
        return sharded_cases.sharded(me, odd, NUM_STEPS, {}, grid)
    finally:
        for group in [*rows, *columns]:
            if me.rank in dist.get_process_group_ranks(group):
                dist.destroy_process_group(group)


def test_hybrid_sharding(clusters):
    assert_equal(clusters(4).call(partial(on_a_grid, shard_size=2), show=False), expected(odd, 4))


def dtypes_in(me, compute_dtype, reduce_dtype):
    model = FullySharded(me, transformer().float(), compute_dtype=compute_dtype, reduce_dtype=reduce_dtype)
    seen = []
    model.module.blocks[0].mlp.w_up.register_forward_hook(lambda m, i, o: seen.append((m.weight.dtype, o.dtype)))
    x, y = (sharded_cases.own(me, t) for t in sharded_cases.token_batch(me.world_size))
    sharded_cases.loss_of(model, x, y).backward()
    return seen, {p.dtype for p in model.parameters()}, {p.grad.dtype for p in model.parameters()}


@pytest.mark.parametrize("reduce_dtype", [None, torch.float32])
def test_weights_compute_in_bfloat16_and_stay_in_float32(clusters, reduce_dtype):
    for seen, kept, gradients in clusters(2).call(dtypes_in, (torch.bfloat16, reduce_dtype), show=False):
        assert seen == [(torch.bfloat16, torch.bfloat16)]
        assert kept == gradients == {torch.float32}
