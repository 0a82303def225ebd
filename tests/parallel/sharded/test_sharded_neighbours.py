"""Weights that few neighbours hold between forward and backward: the same numbers, other bytes on other links."""

from __future__ import annotations

import pytest
import sharded_cases
import torch
import torch.distributed as dist
from ddp_cases import message_of
from sharded_cases import odd, transformer

from course_lib.cluster.base.open_groups import groups_here
from course_lib.cost import UnitSizes, sharded_moments, sharded_sent_bytes
from course_lib.meter import metered, nccl_breaches
from course_lib.parallel.sharded import FullySharded

pytestmark = [
    pytest.mark.xdist_group("sharded"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

NUM_UNITS = 4  # of the transformer: three blocks, and the rest


def assert_close(ours, theirs) -> None:
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], rtol=1e-9, atol=1e-11, msg=name)


# -- equality -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "options", "wrapping"),
    [
        (odd, {}, {}),  # a unit that is used twice, rows that divide by nothing
        (transformer, {"recompute": "inside"}, {"prefetch": 0}),
        pytest.param(transformer, {"recompute": "outside"}, {"prefetch": 2}, marks=pytest.mark.long),
    ],
)
def test_it_equals_one_device(clusters, make, options, wrapping):
    wrapping = {"reshard_after_forward": 2, **wrapping}
    one = sharded_cases.alone(make, 4, 2)
    run = clusters(4).call(sharded_cases.sharded, (make, 2, options, wrapping), show=False)
    for result in run:
        assert_close({n: g for n, g in result["gradients"].items() if g is not None}, _there(one["gradients"]))
        assert_close(result["state"], one["state"])


def _there(gradients):
    return {name: gradient for name, gradient in gradients.items() if gradient is not None}


def by_fully_shard(me):
    from torch.distributed.fsdp import fully_shard

    model = transformer()
    for block in model.blocks:
        fully_shard(block, reshard_after_forward=2)
    fully_shard(model, reshard_after_forward=2)
    return _trained(me, model, lambda p: p.to_local())


def by_ours(me):
    return _trained(me, FullySharded(me, transformer(), reshard_after_forward=2), lambda p: p)


def _trained(me, model, local):
    opt = torch.optim.AdamW(model.parameters(), lr=0.01)
    x, y = (sharded_cases.own(me, t) for t in sharded_cases.token_batch(me.world_size))
    for _ in range(2):
        opt.zero_grad()
        sharded_cases.loss_of(model, x, y).backward()
        opt.step()
    return {name.removeprefix("module."): local(p).detach() for name, p in model.named_parameters()}


def test_each_rank_keeps_what_fully_shard_keeps(clusters):
    theirs = clusters(4).call(by_fully_shard, show=False)
    for own, other in zip(clusters(4).call(by_ours, show=False), theirs, strict=True):
        assert_close(own, other)


# -- what is held, when, and whom it is asked of ------------------------------------------------------------------


def one_step(me, size):
    model = FullySharded(me, transformer(), reshard_after_forward=size)
    x, y = (sharded_cases.own(me, t) for t in sharded_cases.token_batch(me.world_size))
    dist.barrier()  # what comes before it is told apart by it
    loss = sharded_cases.loss_of(model, x, y)
    pieces = [unit.piece.flat.numel() if unit.piece else 0 for unit in model.units]
    loss.backward()
    left = [unit.piece for unit in model.units if unit.piece is not None]
    return (
        pieces,
        len(left),
        [sum(p.rows.shape[0] * p.rows.row_numel for p in u.parameters) for u in model.units],
    )


def _shapes():
    return [tuple(p.shape) for p in transformer().parameters()]


@pytest.mark.parametrize("size", [2, 1, 4])
def test_backward_asks_neighbours_alone(clusters, size):
    run = metered(clusters(4), one_step, size)
    assert not nccl_breaches(run.communication.calls)
    expected = sharded_sent_bytes(_shapes(), stage=3, num_ranks=4, dtype="float64", reshard_after_forward=size)
    for rank, (pieces, num_left, wholes) in enumerate(run):
        calls = [call for call in run.communication.calls if call.rank == rank]
        calls = calls[[call.operation for call in calls].index("barrier") + 1 :]
        gathers = [call for call in calls if call.operation.startswith("all_gather")]
        there, back = gathers[:NUM_UNITS], gathers[NUM_UNITS:]
        assert {len(call.group) for call in there} == {4}
        assert len(back) == (0 if size == 1 else NUM_UNITS)
        beside = set(range(rank // size * size, rank // size * size + size))
        assert all(set(call.group) == beside for call in back)
        assert all(set(call.sent_bytes) <= beside - {rank} for call in back)
        assert sum(sum(call.sent_bytes.values()) for call in calls if call.operation != "barrier") == expected
        for piece, whole in zip(pieces, wholes, strict=True):
            padding = 2 * piece - whole
            assert 0 <= padding < 0.1 * whole if size == 2 else piece == 0
        assert num_left == 0


def test_the_formula_lies_between_the_two_it_knew():
    shapes = [(128, 64), (64, 128)]
    everybody, eight, four, two, one, whole = (
        sharded_sent_bytes(shapes, stage=3, num_ranks=8, reshard_after_forward=m) for m in (True, 8, 4, 2, 1, False)
    )
    assert two == 4 * (2 * 7 / 8 + 1 / 2) * 2 * 128 * 64
    assert everybody == eight > four > two > one == whole
    units = [UnitSizes(800, 100)] * 3
    moments = [sharded_moments(units, num_ranks=8, reshard_after_forward=m) for m in (True, 4, 2, False)]
    assert [max(one.pieces for one in step) for step in moments] == [0, 3 * 200 * 4, 3 * 400 * 4, 0]
    assert [step[-1].pieces for step in moments] == [0, 0, 0, 0]
    assert sharded_sent_bytes(shapes, stage=2, num_ranks=8, reshard_after_forward=2) == sharded_sent_bytes(
        shapes, stage=2, num_ranks=8
    )


# -- other orders, groups, bad values -----------------------------------------------------------------------------


def in_other_orders(me):
    """A forward without a backward, then new weights; two forwards, then two backwards; an evaluation in between."""
    model = FullySharded(me, odd(seed=5), reshard_after_forward=2)
    x, y = (sharded_cases.own(me, t) for t in sharded_cases.odd_batch(me.world_size))
    with torch.no_grad():
        model(x)
    held = sum(unit.piece is not None for unit in model.units)
    model(x)
    model.load_full_state_dict(odd().state_dict())
    first, second = (sharded_cases.loss_of(model, x, y) / 2 for _ in range(2))
    with torch.no_grad():
        model(x)
    first.backward()
    second.backward()
    return held, sharded_cases.whole_gradients(model)


def test_forwards_and_backwards_in_other_orders(clusters):
    one = sharded_cases.alone(odd, 4, 1)["gradients"]
    for held, gradients in clusters(4).call(in_other_orders, show=False):
        assert held == 0  # after an evaluation no backward comes
        assert_close(_there(gradients), _there(one))


def within_a_group(me):
    everybody = dist.new_group(list(range(me.world_size)))
    try:
        options = {"reshard_after_forward": 2, "group": everybody}
        before = len(groups_here())
        state = sharded_cases.sharded(me, odd, 1, {}, options)["state"]
        FullySharded(me, odd(), **options)
        return state, len(groups_here()) - before
    finally:
        dist.destroy_process_group(everybody)


def test_within_a_group_and_the_next_model_finds_the_neighbours_again(clusters):
    one = sharded_cases.alone(odd, 4, 1)["state"]
    for state, num_made in clusters(4).call(within_a_group, show=False):
        assert_close(state, one)
        assert num_made <= 1


def sentences(me):
    values = (3, 0, -2, 5, 2.0, "2", None)
    return {
        value: message_of(lambda value=value: FullySharded(me, odd(), reshard_after_forward=value)) for value in values
    }


def test_values_that_do_not_work(clusters):
    for said in clusters(4).call(sentences, show=False):
        number = "reshard_after_forward divides the number of ranks that share, which is 4. The nearest that works is"
        assert f"reshard_after_forward=3 does not work: {number} 2." in said[3]
        assert f"reshard_after_forward=5 does not work: {number} 4." in said[5]
        for value in (0, -2, 2.0, "2", None):
            assert f"reshard_after_forward={value!r} does not work" in said[value], said[value]
            assert "is a whole number of at least 1. The nearest that works is" in said[value]
    with pytest.raises(ValueError, match=r"reshard_after_forward=3 .* The nearest that works is 2"):
        sharded_sent_bytes([(4, 4)], stage=3, num_ranks=4, reshard_after_forward=3)
    with pytest.raises(ValueError, match=r"reshard_after_forward=3 .* The nearest that works is 2"):
        sharded_moments([UnitSizes(16, 4)], num_ranks=4, reshard_after_forward=3)
