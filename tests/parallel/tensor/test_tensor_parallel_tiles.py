"""A product with A in tiles on a square of ranks: against one device, DTensor on a square mesh, and the meter."""

from __future__ import annotations

import pytest
import torch

from course_lib.cluster import Rank, RankFailed
from course_lib.meter import metered
from course_lib.parallel.tensor.tiled_matmul import run_tiled_matmul, side_of_square, tiled_sent_bytes

N, K, M = 6, 4, 10  # K and M divide by the square's side, 2; N need not


def matrices(me: Rank) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(2)
    return tuple(
        torch.randn(shape, generator=generator, dtype=torch.float64).to(me.device) for shape in ((N, K), (K, M), (N, M))
    )


def parts_of(me: Rank, x: torch.Tensor, a: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    row, column = divmod(me.rank, 2)
    return x.chunk(2, 1)[row], a.chunk(2, 0)[row].chunk(2, 1)[column], y.chunk(2, 1)[column]


def tiled(me: Rank) -> None:
    run_tiled_matmul(me, *parts_of(me, *matrices(me)))


def largest_difference(me: Rank) -> float:
    """To the product of one device, and to DTensor's with the same tiles."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

    x, a, grad_y = matrices(me)
    y, grad_x, grad_a = run_tiled_matmul(me, *parts_of(me, x, a, grad_y))
    wanted_x, wanted_a, wanted_y = parts_of(me, grad_y @ a.T, x.T @ grad_y, x @ a)
    mesh = init_device_mesh(me.device.type, (2, 2))
    tiles = distribute_tensor(a, mesh, [Shard(0), Shard(1)])
    theirs = distribute_tensor(x, mesh, [Shard(1), Replicate()]) @ tiles
    assert isinstance(theirs, DTensor)
    pairs = (
        (grad_x, wanted_x),
        (grad_a, wanted_a),
        (y, wanted_y),
        (y, theirs.redistribute(mesh, [Replicate(), Shard(1)]).to_local()),
    )
    assert all(one.shape == other.shape for one, other in pairs)
    return max((one - other).abs().max().item() for one, other in pairs)


def test_tiles_give_the_product_of_one_device_and_of_dtensor(cluster4):
    assert max(cluster4.run(largest_difference)) < 1e-10


def test_each_all_reduce_runs_in_pairs_and_sends_what_is_said(cluster4):
    communication = metered(cluster4, tiled).communication
    forward, backward = tiled_sent_bytes((N, K, M), 4, itemsize=8)
    assert (forward, backward) == (8 * N * M / 2, 8 * N * K / 2)  # a pair's ring sends the tensor once
    for rank in range(4):
        calls = communication.of(rank).calls
        assert [call.operation for call in calls] == ["all_reduce"] * 2
        assert [sum(call.sent_bytes.values()) for call in calls] == [forward, backward]
        assert [set(call.sent_bytes) - {rank} for call in calls] == [{(rank + 2) % 4}, {rank ^ 1}]


def test_ranks_that_fill_no_square_get_a_sentence(cluster2):
    assert [side_of_square(number) for number in (1, 4, 9)] == [1, 2, 3]
    for number, nearest in ((0, 1), (2, 1), (8, 4)):
        with pytest.raises(ValueError, match=f"{number} ranks do not fill a square.*nearest number is {nearest}"):
            side_of_square(number)
    with pytest.raises(RankFailed, match="2 ranks do not fill a square"):
        cluster2.run(lambda me: run_tiled_matmul(me, *matrices(me)))
