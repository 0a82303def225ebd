"""The conjugate pairs: what each does forward and backward, what that sends, and that gradients come out right."""

from __future__ import annotations

import pytest
import torch

from course_lib.cluster import Rank, RankFailed
from course_lib.meter import metered
from course_lib.parallel.collectives.dim_collectives import start_all_to_all
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.tensor import (
    all_gather_reduce_scatter,
    all_gather_split,
    all_reduce_identity,
    identity_all_reduce,
    reduce_scatter_all_gather,
    split_all_gather,
)

WITHOUT_DIM = {"identity_all_reduce": identity_all_reduce, "all_reduce_identity": all_reduce_identity}
ALONG_DIM = {
    "all_gather_reduce_scatter": all_gather_reduce_scatter,
    "reduce_scatter_all_gather": reduce_scatter_all_gather,
    "split_all_gather": split_all_gather,
    "all_gather_split": all_gather_split,
}


def whole_numbers(rank: int, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Different on each rank, and known to all of them."""
    generator = torch.Generator().manual_seed(100 * seed + rank)
    return torch.randint(-50, 50, shape, generator=generator).double()


def expected(name: str, every: list[torch.Tensor], rank: int, dim: int) -> torch.Tensor:
    """What one collective makes of the tensors of all ranks."""
    n = len(every)
    return {
        "identity": lambda: every[rank],
        "all_reduce": lambda: sum(every),
        "all_gather": lambda: torch.cat(every, dim),
        "reduce_scatter": lambda: sum(every).chunk(n, dim)[rank],
        "split": lambda: every[rank].chunk(n, dim)[rank],
    }[name]()  # type: ignore[return-value]


PAIRS = {
    "identity_all_reduce": ("identity", "all_reduce"),
    "all_reduce_identity": ("all_reduce", "identity"),
    "all_gather_reduce_scatter": ("all_gather", "reduce_scatter"),
    "reduce_scatter_all_gather": ("reduce_scatter", "all_gather"),
    "split_all_gather": ("split", "all_gather"),
    "all_gather_split": ("all_gather", "split"),
}


def wrong_pairs(me: Rank) -> list[str]:
    wrong = []
    for name, (forward, backward) in PAIRS.items():
        for dim in (0, 1, -1, -2):
            function = WITHOUT_DIM.get(name) or (lambda me, x, name=name, dim=dim: ALONG_DIM[name](me, x, dim=dim))
            every = [whole_numbers(r, (4, 3, 8), 1) for r in range(me.world_size)]
            if name in ALONG_DIM and dim in (1, -2):
                every = [x.transpose(1, 2) for x in every]  # so that the dim divides; not contiguous
            x = every[me.rank].clone(memory_format=torch.preserve_format).requires_grad_()
            before = x.detach().clone()
            y = function(me, x)
            grads = [whole_numbers(r, tuple(y.shape), 2) for r in range(me.world_size)]
            y.backward(grads[me.rank])
            is_right = (
                torch.equal(y, expected(forward, every, me.rank, dim))
                and torch.equal(x.grad, expected(backward, grads, me.rank, dim))
                and torch.equal(x, before)  # what was given is left alone
                and torch.equal(grads[me.rank], whole_numbers(me.rank, tuple(y.shape), 2))
            )
            if not is_right:
                wrong.append(f"{name}, dim {dim}")
    return wrong


def test_each_pair_does_what_its_name_says(cluster2, cluster4):
    for cluster in (cluster2, cluster4):
        assert list(cluster.call(wrong_pairs)) == [[]] * cluster.world_size


def chain(me: Rank, x: torch.Tensor) -> torch.Tensor:
    """All pairs in one function of a replicated (4, 6) that gives a replicated (4, 6), the same on any number of ranks.

    Every rank's part of each weight is a slice of what one rank alone uses.
    """
    n, r = me.world_size, me.rank
    up = torch.linspace(-1, 1, 6 * 8).double().reshape(6, 8).chunk(n, 1)[r]
    down = torch.linspace(2, -1, 8 * 6).double().reshape(8, 6).chunk(n, 0)[r]
    h = torch.tanh(identity_all_reduce(me, x) @ up)
    x = x + all_reduce_identity(me, h @ down)
    rows = split_all_gather(me, x, dim=0).square()
    h = torch.tanh(all_gather_reduce_scatter(me, rows, dim=0) @ up)
    rows = rows + reduce_scatter_all_gather(me, h @ down, dim=0)
    return all_gather_split(me, rows.sin(), dim=0)


def gradients_of_the_chain(me: Rank) -> list:
    x = torch.linspace(-1, 1, 24).double().reshape(4, 6).requires_grad_()
    y = chain(me, x)
    (grad,) = torch.autograd.grad(y.square().sum(), x)
    return [y.tolist(), grad.tolist()]


def test_gradients_on_any_number_of_ranks_are_those_on_one(cluster2, cluster4):
    alone = gradients_of_the_chain(Rank(0, 1, torch.device("cpu"), "gloo"))  # one rank: no pair does anything
    for cluster in (cluster2, cluster4):
        for seen in cluster.call(gradients_of_the_chain):
            torch.testing.assert_close(torch.tensor(seen), torch.tensor(alone), rtol=0, atol=1e-10)


def checked_by_differences(me: Rank) -> tuple[bool, bool]:
    torch.manual_seed(3)  # directions are drawn: the same on both ranks, which walk in step
    x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    first = torch.autograd.gradcheck(lambda x: chain(me, x), (x,), fast_mode=True)
    second = torch.autograd.gradgradcheck(lambda x: chain(me, x), (x,), fast_mode=True)
    return first, second


@pytest.mark.limit_s(120)
def test_gradients_and_their_gradients_agree_with_differences(cluster2):
    assert list(cluster2.call(checked_by_differences)) == [(True, True)] * 2


def forward_and_backward(me: Rank, name: str) -> int:
    from course_lib.meter.communication.recorder import Recorder

    function = WITHOUT_DIM.get(name) or ALONG_DIM[name]
    x = torch.ones(8, 5, requires_grad=True)
    with Recorder(me.rank) as recorder:
        y = function(me, x)
    y.sum().backward()
    return len(recorder.calls)


@pytest.mark.parametrize("name", PAIRS)
def test_each_pair_sends_its_collective_once(cluster4, name):
    run = metered(cluster4, forward_and_backward, name)
    asked = [one for one in PAIRS[name] if one not in ("identity", "split")]
    calls = run.communication.of(0).calls
    assert [call.operation for call in calls] == asked
    assert run.results[0] == (PAIRS[name][0] == calls[0].operation)  # forward, or backward
    whole_bytes = {"all_gather_reduce_scatter": 4 * 4 * 40, "all_gather_split": 4 * 4 * 40}.get(name, 4 * 40)
    for call in calls:
        halves = {"all_gather": 1, "reduce_scatter": 2, "all_reduce": 2}[call.operation]
        if call.operation == "reduce_scatter" and "gloo" not in str(cluster4):
            halves = 1  # gloo's is an all-reduce of which each rank keeps a part
        assert sum(call.sent_bytes.values()) == halves * 3 * whole_bytes / 4


def test_ranks_of_a_group_share_among_themselves(cluster4):
    def in_pairs(me: Rank) -> tuple:
        import torch.distributed as dist

        pairs = [dist.new_group([0, 2]), dist.new_group([1, 3])]
        mine = pairs[me.rank % 2]
        x = torch.full((2, 2), float(me.rank), requires_grad=True)
        total = all_reduce_identity(me, x, group=mine)
        gathered = all_gather_reduce_scatter(me, x, dim=1, group=mine)
        gathered.sum().backward()
        seen = total[0, 0].item(), gathered[0].tolist(), x.grad[0, 0].item()
        dist.destroy_process_group(mine)
        return seen

    seen = cluster4.call(in_pairs)
    assert list(seen) == [(2.0 + 2 * (r % 2), [float(r % 2)] * 2 + [2.0 + r % 2] * 2, 2.0) for r in range(4)]


def test_all_to_all_cuts_one_dim_and_joins_another(cluster2):
    def swapped(me: Rank) -> bool:
        every = [whole_numbers(r, (4, 6), 5) for r in range(2)]
        got = start_all_to_all(Members.of(me, None), every[me.rank], cut_dim=1, join_dim=0)()
        return torch.equal(got, torch.cat([x.chunk(2, 1)[me.rank] for x in every], 0))

    assert all(cluster2.call(swapped))


@pytest.mark.parametrize("name", ["reduce_scatter_all_gather", "split_all_gather"])
def test_a_dim_that_does_not_divide_gets_a_sentence(cluster2, name):
    sentence = r"(?s)ValueError.*dim 1 of a tensor of shape \(2, 7\) has size 7.*2 ranks.*nearest.*is 8"
    with pytest.raises(RankFailed, match=sentence):
        cluster2.call(lambda me: ALONG_DIM[name](me, torch.ones(2, 7), dim=1))
