"""Groups that members make alone. From torch 2.14 on PyTorch counts them on these alone; here it does so on any."""

from __future__ import annotations

import os

import pytest
import torch
import torch.distributed as dist

from course_lib.cluster import Cluster, RankTimeout
from course_lib.cluster.hooks import operators
from course_lib.cluster.state import monkeypatch_guard

pytestmark = [
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
    pytest.mark.limit_s(120.0),
]


def counts_as_torch_2_14_does(me):
    c10d = dist.distributed_c10d
    before, plain = c10d._world.group_count, c10d._hash_ranks_to_str
    c10d._process_group_name([me.rank], True)
    if c10d._world.group_count == before:

        def counted(ranks):
            name = plain([*ranks, c10d._world.group_count])
            c10d._world.group_count += 1
            return name

        c10d._hash_ranks_to_str = counted
        monkeypatch_guard.accept()  # as if PyTorch had come with it


@pytest.fixture
def ranks():
    with Cluster(3, timeout_s=20) as cluster:
        assert cluster.run(counts_as_torch_2_14_does).leaks == ()
        yield cluster


def pair_alone(me):
    if me.rank != 1:
        dist.all_reduce(torch.ones(1), group=dist.new_group([0, 2], use_local_synchronization=True))
    return os.getpid(), dist.distributed_c10d._world.group_count


def group_of_all(me):
    total = torch.ones(1)
    dist.all_reduce(total, group=dist.new_group([0, 1, 2]))
    return total.item()


def test_groups_of_members_alone_leave_the_next_call_its_groups(ranks):
    for _ in range(2):
        run = ranks.run(pair_alone)
        assert run.leaks == ()
        assert run[0][1] == run[2][1] == run[1][1] + 1, "counted on the members alone"
        after = ranks.run(group_of_all)
        assert (list(after), after.leaks) == ([3.0] * 3, ())
    assert [pid for pid, _ in ranks.run(pair_alone)] == [pid for pid, _ in run]


def test_a_cell_on_some_ranks_leaves_the_others_in_step(ranks):
    source = "import torch.distributed as dist\n_ = dist.new_group([0, 2], use_local_synchronization=True)"
    assert ranks.cell(source, only=[0, 2], show=False).leaks == ()
    assert list(ranks.run(group_of_all)) == [3.0] * 3


def test_who_does_not_call_new_group_is_still_told(ranks):
    def some_only(me):
        pair_alone(me)
        if me.rank != 1:
            dist.new_group([0, 2])

    ranks.run(pair_alone)
    assert "ranks 0, 2 called new_group and rank 1 did not" in ranks.call(some_only, show=False).leaks[0]


def test_a_group_that_has_two_names_is_told(ranks):
    def within_one_call(me):
        pair_alone(me)
        group_of_all(me)

    with pytest.raises(RankTimeout) as caught:
        ranks.call(within_one_call, show=False)
    assert "can never finish" in str(caught.value)
    assert "Ranks 0, 2 asked for a group with use_local_synchronization=True" in str(caught.value)
    assert "earlier new_group" not in str(caught.value)


def test_a_call_that_makes_its_own_default_group_leaves_the_next_its_numbers():
    def own_group(me):
        dist.init_process_group("gloo")
        counts_as_torch_2_14_does(me)
        return pair_alone(me)[1], group_name(dist.group.WORLD)

    def group_name(group):
        return group.group_name

    with Cluster(3, timeout_s=20, process_group=False) as cluster:
        for _ in range(2):
            run = cluster.run(own_group)
            assert run.leaks == ()
            assert [name for _, name in run] == ["0"] * 3


def test_every_operator_of_this_torch_that_moves_data_is_known():
    c10d = {name for name in torch._C._dispatch_get_all_op_names() if name.startswith("c10d::")}
    names = {name.removeprefix("c10d::").partition(".")[0] for name in c10d}
    assert names - set(operators._OPERATIONS) == {"check_for_nan"}
