"""Collectives from scratch: equal to PyTorch's own, at the cost that theory says, and adjoint to their backward."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from course_lib import machine
from course_lib.cluster import Cluster, Rank, RankFailed
from course_lib.cluster.base.flat_collectives import flat_collective
from course_lib.cost import collective_cost
from course_lib.layouts.link import Link
from course_lib.meter import expect, metered
from course_lib.parallel import collectives
from course_lib.parallel.collectives import ALL_REDUCE_ALGORITHMS, split_sizes

pytestmark = pytest.mark.xdist_group("parallel_collectives")  # one process: its clusters are warm after the first

SHAPES = ((), (1,), (3,), (7,), (13, 3), (2, 0, 3), (0,), (4, 5, 6))
DTYPES = (torch.int64, torch.uint8, torch.float32, torch.float64, torch.bfloat16, torch.float16)


def values(rank: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Small whole numbers, different on each rank and at each place: exact in every dtype here."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 7 + 3 * rank + 1) % 11).reshape(shape).to(dtype)


def same(expected: torch.Tensor, got: torch.Tensor) -> bool:
    return expected.dtype == got.dtype and expected.shape == got.shape and bool(torch.equal(expected, got))


# -- values ---------------------------------------------------------------------------------------------------


def wrong_all_reduces(me: Rank, algorithm: str) -> list:
    wrong = []
    for shape in SHAPES:
        for dtype in DTYPES:
            for op in ("sum", "product", "max", "min"):
                mine = values(me.rank, shape, dtype)
                every = torch.stack([values(r, shape, dtype) for r in range(me.world_size)])
                if op == "product":  # small, so that no order of multiplication rounds or runs over
                    mine, every = mine % 2 + 1, every % 2 + 1
                reduced = {"sum": every.sum, "product": every.prod, "max": every.amax, "min": every.amin}[op](0).to(
                    dtype
                )
                before = mine.clone()
                got = collectives.all_reduce(me, mine, op=op, algorithm=algorithm)
                if not same(reduced, got) or not same(before, mine):
                    wrong.append((shape, dtype, op, "new"))
                if collectives.all_reduce(me, mine, op=op, algorithm=algorithm, out=mine) is None or not same(
                    reduced, mine
                ):
                    wrong.append((shape, dtype, op, "in place"))
    return wrong


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("algorithm", ALL_REDUCE_ALGORITHMS)
@pytest.mark.parametrize("world_size", [2, 3, 4, *(pytest.param(size, marks=pytest.mark.long) for size in (1, 6))])
def test_all_reduce_gives_the_same_whole_numbers_by_every_algorithm(clusters, world_size, algorithm):
    assert list(clusters(world_size).call(wrong_all_reduces, (algorithm,))) == [[]] * world_size


def floats_beside_torch(me: Rank) -> list[float]:
    torch.manual_seed(me.rank)
    x = torch.randn(1001, 3, dtype=torch.float64)
    theirs = x.clone()
    dist.all_reduce(theirs)
    return [
        float((collectives.all_reduce(me, x, algorithm=name) - theirs).abs().max()) for name in ALL_REDUCE_ALGORITHMS
    ]


def test_sums_of_floats_differ_by_rounding_alone(clusters):
    for errors in clusters(4).call(floats_beside_torch):
        assert max(errors) < 1e-14


def wrong_beside_torch(me: Rank) -> list:
    """Everything that torch.distributed can do too, on rows that divide and for whole numbers."""
    n, wrong = me.world_size, []
    for dtype in (torch.int64, torch.float32):
        for tail in ((), (3,), (2, 5)):
            for root in range(n):
                x = values(me.rank, (2 * n, *tail), dtype)
                theirs = x.clone()
                dist.broadcast(theirs, root)
                if not same(theirs, collectives.broadcast(me, x, root=root)):
                    wrong.append(("broadcast", root, tail))
                theirs = x.clone()
                dist.reduce(theirs, root)
                got = collectives.reduce(me, x, root=root)
                if (got is None) != (me.rank != root) or (got is not None and not same(theirs, got)):
                    wrong.append(("reduce", root, tail))
                got = collectives.gather(me, x, root=root)
                listed = [torch.empty_like(x) for _ in range(n)] if me.rank == root else None
                dist.gather(x, listed, root)
                if (got is None) != (listed is None) or (listed is not None and not same(torch.cat(listed), got)):
                    wrong.append(("gather", root, tail))
                theirs = torch.empty_like(x[:2])
                dist.scatter(theirs, list(x.split(2)) if me.rank == root else None, root)
                if not same(
                    theirs,
                    collectives.scatter(me, x if me.rank == root else None, out=torch.empty_like(theirs), root=root),
                ):
                    wrong.append(("scatter", root, tail))
            theirs = torch.empty(n * len(x), *tail, dtype=dtype)
            flat_collective("all_gather")(theirs, x)
            if not same(theirs, collectives.all_gather(me, x)):
                wrong.append(("all_gather", tail))
            theirs = torch.empty_like(x[:2])
            flat_collective("reduce_scatter")(theirs, x.clone())
            if not same(theirs, collectives.reduce_scatter(me, x)):
                wrong.append(("reduce_scatter", tail))
            theirs = torch.empty_like(x)
            dist.all_to_all_single(theirs, x)
            if not same(theirs, collectives.all_to_all(me, x)):
                wrong.append(("all_to_all", tail))
    return wrong


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_everything_is_as_torch_distributed_has_it(clusters, world_size):
    assert list(clusters(world_size).call(wrong_beside_torch)) == [[]] * world_size


def uneven_ways(me: Rank, num_rows: int) -> dict[str, torch.Tensor | None]:
    """Deal out rows that do not divide, and collect them again, several ways."""
    n, sizes = me.world_size, split_sizes(num_rows, me.world_size)
    whole = torch.arange(num_rows * 2).reshape(num_rows, 2)
    part = collectives.scatter(me, whole if me.rank == n - 1 else None, out=whole[: sizes[me.rank]].clone(), root=n - 1)
    send_sizes = [(me.rank + 2 * to) % 3 for to in range(n)]
    recv_sizes = [(source + 2 * me.rank) % 3 for source in range(n)]
    to_send = torch.arange(sum(send_sizes)) + 100 * me.rank
    return {
        "part": part,
        "gathered": collectives.gather(me, part, sizes=sizes, root=n - 1),
        "all gathered": collectives.all_gather(me, part, sizes=sizes, segment_bytes=24),
        "summed": collectives.reduce_scatter(me, whole, segment_bytes=24),
        "by sizes": collectives.reduce_scatter(me, whole, sizes=[0] * (n - 1) + [num_rows], segment_bytes=24),
        "exchanged": collectives.all_to_all(me, to_send, send_sizes=send_sizes, recv_sizes=recv_sizes),
    }


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(("world_size", "num_rows"), [(1, 3), (2, 7), (3, 2), (4, 11), (4, 3), (6, 20)])
def test_sizes_need_not_divide(clusters, world_size, num_rows):
    n = world_size
    whole = torch.arange(num_rows * 2).reshape(num_rows, 2)
    parts = whole.split(split_sizes(num_rows, n))
    for rank, seen in enumerate(clusters(n).call(uneven_ways, (num_rows,))):
        assert same(parts[rank], seen["part"])
        assert (seen["gathered"] is None) == (rank != n - 1)
        if rank == n - 1:
            assert same(whole, seen["gathered"])
        assert same(whole, seen["all gathered"])
        assert same(n * parts[rank], seen["summed"])
        assert same(n * whole if rank == n - 1 else whole[:0], seen["by sizes"])
        blocks = []
        for source in range(n):
            start = sum((source + 2 * to) % 3 for to in range(rank))
            blocks.append(torch.arange(start, start + (source + 2 * rank) % 3) + 100 * source)
        assert same(torch.cat(blocks), seen["exchanged"])


def long_parts_in_small_segments(me: Rank) -> bool:
    """Segments that overlap with adding, more of them than rooms, and a last one that is shorter."""
    x = torch.arange(10_007) * (me.rank + 1)
    factor = sum(range(1, me.world_size + 1))
    part = collectives.reduce_scatter(me, x, segment_bytes=800)
    whole = collectives.all_gather(me, part, sizes=split_sizes(len(x), me.world_size), segment_bytes=808)
    large = torch.arange(5 * 2**20) * (me.rank + 1)  # more than one of the default segments for each part
    collectives.all_reduce(me, large, out=large)
    return same(torch.arange(10_007) * factor, whole) and same(torch.arange(5 * 2**20) * factor, large)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("world_size", [2, 3])
def test_long_parts_travel_in_segments(clusters, world_size):
    assert all(clusters(world_size).call(long_parts_in_small_segments))


def in_groups(me: Rank) -> dict:
    """Ranks 0, 1 and 3 form one group, 0 and 2 another; rank 2 calls a group that is not its own."""
    three, two = dist.new_group([0, 1, 3]), dist.new_group([2, 0])
    seen: dict = {}
    x = torch.arange(5) + 10 * me.rank
    if me.rank in (0, 1, 3):
        for algorithm in ALL_REDUCE_ALGORITHMS:
            seen[algorithm] = collectives.all_reduce(me, x, group=three, algorithm=algorithm)
        seen["gathered"] = collectives.all_gather(me, x[:1], group=three)
        seen["from 3"] = collectives.broadcast(me, x, root=3, group=three)
        seen["sum at 1"] = collectives.reduce(me, x, root=1, group=three)
        seen["part"] = collectives.reduce_scatter(me, x, group=three)
    else:
        try:
            collectives.all_reduce(me, x, group=three)
        except ValueError as error:
            seen["error"] = str(error)
    if me.rank in (0, 2):
        seen["swapped"] = collectives.all_to_all(me, x[:2], group=two)
    dist.destroy_process_group(three) if me.rank != 2 else None
    dist.destroy_process_group(two) if me.rank in (0, 2) else None
    return seen


def test_sub_groups_work_among_themselves():
    with Cluster(4, backend="gloo") as cluster:
        seen = cluster.call(in_groups)
    total = 3 * torch.arange(5) + 40
    for rank, part in ((0, total[:2]), (1, total[2:4]), (3, total[4:])):
        assert all(same(total, seen[rank][algorithm]) for algorithm in ALL_REDUCE_ALGORITHMS)
        assert seen[rank]["gathered"].tolist() == [0, 10, 30]
        assert seen[rank]["from 3"].tolist() == [30, 31, 32, 33, 34]
        assert same(part, seen[rank]["part"])
        assert (seen[rank]["sum at 1"] is None) == (rank != 1)
    assert same(total, seen[1]["sum at 1"])
    assert "rank 2 is not in this group" in seen[2]["error"]
    assert (seen[0]["swapped"].tolist(), seen[2]["swapped"].tolist()) == ([0, 20], [1, 21])


def views_and_gradients(me: Rank) -> list[bool]:
    """Inputs that are not contiguous, or need a gradient, are read as they are and stay as they were."""
    x = (torch.arange(24.0).reshape(4, 6) + me.rank).requires_grad_()
    column = x.T
    total = me.world_size * torch.arange(24.0).reshape(4, 6).T + sum(range(me.world_size))
    results = [collectives.all_reduce(me, column, algorithm=name) for name in ALL_REDUCE_ALGORITHMS]
    results.append(
        collectives.all_gather(me, collectives.reduce_scatter(me, column), sizes=split_sizes(6, me.world_size))
    )
    seen = [same(total, result) and not result.requires_grad for result in results]
    sent = collectives.broadcast(me, column, root=1)
    return [*seen, same(sent, torch.arange(24.0).reshape(4, 6).T + 1), x.grad is None]


def test_views_are_read_as_they_are(clusters):
    assert all(map(all, clusters(4).call(views_and_gradients)))


# -- cost -----------------------------------------------------------------------------------------------------

NUM_NUMBERS = 240  # divides by 2, 3, 4, 6
SIZE_BYTES = 8 * NUM_NUMBERS


def call_one(me: Rank, name: str, options: dict) -> None:
    x = torch.arange(NUM_NUMBERS)
    if name == "scatter":
        collectives.scatter(me, x if me.rank == 0 else None, out=x[: NUM_NUMBERS // me.world_size].clone())
    elif name in ("gather", "all_gather"):
        getattr(collectives, name)(me, x[: NUM_NUMBERS // me.world_size], **options)
    else:
        getattr(collectives, name)(me, x, **options)


def tree_children(n: int) -> list[int]:
    """How many messages each rank sends in a binomial tree from rank 0."""
    counts = [0] * n
    for child in range(1, n):
        counts[child - 2 ** (child.bit_length() - 1)] += 1  # the parent lacks the highest binary digit
    return counts


THEORY = {  # bytes and messages that rank r of n sends; S is SIZE_BYTES
    "ring": lambda n, r: (2 * (n - 1) * SIZE_BYTES // n, 2 * (n - 1)),
    "naive": lambda n, r: ((n - 1) * SIZE_BYTES, n - 1) if r == 0 else (SIZE_BYTES, 1),
    "tree": lambda n, r: ((tree_children(n)[r] + (r > 0)) * SIZE_BYTES, tree_children(n)[r] + (r > 0)),
    "reduce_scatter": lambda n, r: ((n - 1) * SIZE_BYTES // n, n - 1),
    "all_gather": lambda n, r: ((n - 1) * SIZE_BYTES // n, n - 1),
    "broadcast": lambda n, r: (tree_children(n)[r] * SIZE_BYTES, tree_children(n)[r]),
    "reduce": lambda n, r: (SIZE_BYTES * (r > 0), int(r > 0)),
    "gather": lambda n, r: (SIZE_BYTES // n * (r > 0), int(r > 0)),
    "scatter": lambda n, r: ((n - 1) * SIZE_BYTES // n * (r == 0), (n - 1) * (r == 0)),
    "all_to_all": lambda n, r: ((n - 1) * SIZE_BYTES // n, n - 1),
}


@pytest.mark.first_cases(8)
@pytest.mark.parametrize("name", THEORY)
@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 6])
def test_bytes_and_messages_are_those_of_theory(clusters, world_size, name):
    is_algorithm = name in ALL_REDUCE_ALGORITHMS
    call = ("all_reduce", {"algorithm": name}) if is_algorithm else (name, {})
    run = metered(clusters(world_size), call_one, *call)
    sent = [THEORY[name](world_size, rank) for rank in range(world_size)]
    assert [run.communication.sent_bytes(rank) for rank in range(world_size)] == [size for size, _ in sent]
    assert [run.communication.num_messages(rank) for rank in range(world_size)] == [count for _, count in sent]
    assert expect(run.communication, only=["send", "recv"]) == []


@pytest.mark.parametrize(("world_size", "rounds"), [(2, 1), (4, 2)])
def test_halving_and_doubling_sends_as_little_as_a_ring_in_fewer_messages(clusters, world_size, rounds):
    run = metered(clusters(world_size), call_one, "all_reduce", {"algorithm": "halving-doubling"})
    ring_bytes, _ = THEORY["ring"](world_size, 0)
    assert expect(run.communication, sent_bytes=ring_bytes, num_messages=2 * rounds) == []


def test_halving_and_doubling_folds_the_ranks_beyond_a_power_of_two(clusters):
    run = metered(clusters(6), call_one, "all_reduce", {"algorithm": "halving-doubling"})
    inner = 2 * 3 * SIZE_BYTES // 4
    sent = [inner + SIZE_BYTES] * 2 + [inner] * 2 + [SIZE_BYTES] * 2
    assert expect(run.communication, sent_bytes=sent, num_messages=[5, 5, 4, 4, 1, 1]) == []


USES = {
    "broadcast": "tree",
    "reduce": "tree",
    "scatter": "naive",
    "gather": "naive",
    "all_to_all": "pairwise",
}


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 6])
def test_the_cost_model_says_the_same(clusters, world_size):
    names = [("all_reduce", algorithm) for algorithm in ALL_REDUCE_ALGORITHMS]
    names += [(name, USES.get(name, "ring")) for name in THEORY if name not in ALL_REDUCE_ALGORITHMS]
    link = Link(latency_s=1e-6, bandwidth_bytes_per_s=1e9)
    for name, algorithm in names:
        options = {"algorithm": algorithm} if name == "all_reduce" else {}
        sent = metered(clusters(world_size), call_one, name, options).communication
        cost = collective_cost(name, SIZE_BYTES, link, num_ranks=world_size, algorithm=algorithm)
        ranks = range(world_size)
        assert tuple(map(sent.sent_bytes, ranks)) == cost.bytes_sent, (name, algorithm)
        assert tuple(map(sent.num_messages, ranks)) == cost.messages_sent, (name, algorithm)


def test_a_ring_sends_to_its_neighbour_alone(clusters):
    matrix = metered(clusters(4), call_one, "all_reduce", {"algorithm": "ring"}).communication.matrix()
    assert all((matrix[i][j] > 0) == (j == (i + 1) % 4) for i in range(4) for j in range(4))


def test_segments_cost_messages_and_no_bytes(clusters):
    run = metered(clusters(4), call_one, "reduce_scatter", {"segment_bytes": 200})
    assert expect(run.communication, sent_bytes=3 * SIZE_BYTES // 4, num_messages=3 * 3) == []


def test_an_empty_tensor_sends_nothing(clusters):
    run = metered(clusters(4), lambda me: collectives.all_reduce(me, torch.empty(0)))
    assert run.communication.calls == ()


# -- backward -------------------------------------------------------------------------------------------------


def dot_products(me: Rank) -> dict[str, tuple[int, int]]:
    """<forward(x), y> and <x, backward(y)> on this rank, for each pair that the docstrings name."""
    n = me.world_size
    x, y = torch.arange(12) * (me.rank + 1) + 3, (torch.arange(12) - 4) * (5 - me.rank) % 7
    few, many = x[: 12 // n], torch.arange(12 * n) % (me.rank + 5)
    first = y[: len(few)]

    def pair(out: torch.Tensor | None, grad: torch.Tensor, given: torch.Tensor, back: torch.Tensor | None):
        left = 0 if out is None else int((out * grad).sum())
        return left, 0 if back is None else int((given * back).sum())

    at_root = me.rank == 1
    sizes = {
        "send_sizes": [1] * (n - 1) + [13 - n],
        "recv_sizes": [1] * n if me.rank < n - 1 else [13 - n] * n,
    }
    swapped = {"send_sizes": sizes["recv_sizes"], "recv_sizes": sizes["send_sizes"]}
    shuffled = collectives.all_to_all(me, x, **sizes)
    grad = torch.arange(len(shuffled)) + me.rank
    reduced = collectives.reduce(me, x, root=1)
    from_root = collectives.reduce(me, y, root=1)
    return {
        "all_reduce": pair(collectives.all_reduce(me, x), y, x, collectives.all_reduce(me, y)),
        "all_gather": pair(collectives.all_gather(me, x), many, x, collectives.reduce_scatter(me, many)),
        "reduce_scatter": pair(collectives.reduce_scatter(me, x), first, x, collectives.all_gather(me, first)),
        "broadcast": pair(collectives.broadcast(me, x, root=1), y, x, from_root),
        "reduce": pair(reduced, y, x, collectives.broadcast(me, y, root=1)),
        "scatter": pair(
            collectives.scatter(me, x if at_root else None, out=few.clone(), root=1), y[: len(few)],
            x, collectives.gather(me, y[: len(few)], root=1),
        ),
        "gather": pair(
            collectives.gather(me, few, root=1), many[:12], few,
            collectives.scatter(me, many[:12] if at_root else None, out=few.clone(), root=1),
        ),
        "all_to_all": pair(shuffled, grad, x, collectives.all_to_all(me, grad, **swapped)),
    }  # fmt: skip


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_each_backward_is_the_one_that_the_docstring_names(clusters, world_size):
    """The backward of a linear map is its adjoint: <forward(x), y> = <x, backward(y)>, summed over ranks."""
    seen = list(clusters(world_size).call(dot_products))
    for name in seen[0]:
        left, right = (sum(one[name][side] for one in seen) for side in (0, 1))
        assert left == right != 0, name


# -- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda me: collectives.broadcast(me, torch.ones(2), root=7), "root=7 is not in this group.*nearest is 1"),
        (lambda me: collectives.all_reduce(me, torch.ones(2), op="mean"), "op='mean' is not known.*Use 'sum'"),
        (
            lambda me: collectives.all_reduce(me, torch.ones(2) * 1j, op="max"),
            "complex64.*complex numbers have no order.*'sum'",
        ),
        (lambda me: collectives.all_reduce(me, torch.ones(2) * 1j, op="max", algorithm="tree"), "complex64.*none is"),
        (lambda me: collectives.reduce_scatter(me, torch.ones(2) * 1j, op="min"), "complex64.*the largest.*'product'"),
        (
            lambda me: collectives.reduce(me, torch.ones(2) * 1j, op="min"),
            "complex64.*complex numbers have no order.*'product'",
        ),
        (lambda me: collectives.all_reduce(me, torch.ones(2), algorithm="star"), "algorithm='star'.*ring"),
        (lambda me: collectives.all_reduce(me, torch.ones(2), out=torch.ones(3)), r"out is \(3,\).*result is \(2,\)"),
        (lambda me: collectives.reduce_scatter(me, torch.tensor(1.0)), r"no rows to deal out; give .*reshape\(1\)"),
        (lambda me: collectives.reduce_scatter(me, torch.ones(5), sizes=[2, 2]), r"add up to the 5 rows.*\[3, 2\]"),
        (lambda me: collectives.reduce_scatter(me, torch.ones(5), segment_bytes=0), "at least 1"),
        (lambda me: collectives.all_gather(me, torch.ones(5), sizes=[3, 3]), r"has 5 rows"),
        (lambda me: collectives.all_to_all(me, torch.ones(5)), "2 ranks do not divide 5 rows evenly; give 4 rows"),
        (lambda me: collectives.all_to_all(me, torch.ones(5), send_sizes=[2, 3]), "give both, or neither"),
        (lambda me: collectives.all_reduce(me, torch.ones(4, 2), out=torch.ones(2, 4).T), "not contiguous"),
    ],
)
def test_bad_input_gets_a_sentence(clusters, call, message):
    with pytest.raises(RankFailed, match=f"(?s)ValueError.*{message}") as failed:
        clusters(2).call(call)
    assert "broken" not in str(failed.value), "every rank says it by itself"


# -- on a GPU -------------------------------------------------------------------------------------------------


def on_its_device(me: Rank, function, *args):
    with torch.device(me.device):  # every tensor that is made from here on
        return function(me, *args)


@pytest.mark.gpu
@pytest.mark.skipif(len(machine().devices) < 1, reason="needs a GPU")
@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_tensors_may_lie_on_gpus(world_size):
    with Cluster(world_size) as cluster:
        for algorithm in ALL_REDUCE_ALGORITHMS:
            wrong = cluster.call(on_its_device, (wrong_all_reduces, algorithm))
            assert list(wrong) == [[]] * world_size, algorithm
        seen = cluster.call(on_its_device, (uneven_ways, 11))
        assert all(same(torch.arange(22).reshape(11, 2), one["all gathered"].cpu()) for one in seen)
        assert all(cluster.call(on_its_device, (long_parts_in_small_segments,)))
