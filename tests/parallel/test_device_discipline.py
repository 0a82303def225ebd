"""Every strategy on a device that is not the CPU, and by NCCL's rules, on a machine without a GPU.

A tensor made on the wrong device is an error there (``fake_device_tensor``); what makes the host wait for the device is
counted by line, and each line that may do so is listed here with its reason. The values are those of the CPU.
"""

from __future__ import annotations

import dataclasses

import pytest
from fake_device import HAS_FAR, far, waits_on
from strategy_runs import COMBINATIONS, NUM_STEPS, STRATEGIES, on_mesh

from course_lib.cluster import Cluster
from course_lib.meter import metered, nccl_breaches

pytestmark = [pytest.mark.xdist_group("device_discipline"), pytest.mark.limit_s(300)]

needs_far = pytest.mark.skipif(not HAS_FAR, reason="this torch has no Python back end for foreign devices")
named = pytest.mark.parametrize("name", STRATEGIES)

# By file: why the host has to know.
MAY_WAIT = {
    "course_lib/parallel/model/stage_p2p.py": "shapes are told once, before the first batch",
    "course_lib/parallel/pipeline/shapes.py": "shapes are told once, before the first batch",
    "course_lib/parallel/experts/layer.py": "how many rows each expert gets says where to cut them",
    "course_lib/parallel/experts/dispatch.py": "how many rows come is told once a layer, and it has to make room",
    "course_lib/parallel/data/distributed_data_parallel.py": "find_unused_parameters: who used what, once a backward",
    "course_lib/parallel/data/replica_check.py": "digests are compared by the host, once, while a strategy is built",
    "course_lib/parallel/data/replica_divergence.py": "fingerprints are compared by the host, where somebody asks",
}


@pytest.fixture(scope="module")
def clusters():
    """Ranks of this file's own: PyTorch must hear of the device before the first backward pass of a process."""
    made: dict[int, Cluster] = {}

    def of(world_size: int) -> Cluster:
        if world_size not in made:
            made[world_size] = Cluster(world_size, backend="gloo")
            if HAS_FAR:
                made[world_size].call(far(lambda me: None))
        return made[world_size]

    yield of
    for cluster in made.values():
        cluster.close()


def numbers_in(value) -> list:
    """The numbers of nested lists, in their order; anything else as it is."""
    return [number for part in value for number in numbers_in(part)] if isinstance(value, list) else [value]


def as_on_nccl(me, function, *args):
    """On gloo, in the order that the library keeps on NCCL."""
    return function(dataclasses.replace(me, backend="nccl"), *args)


@pytest.mark.first_cases(2)
@needs_far
@named
def test_values_on_another_device_are_those_of_the_cpu(clusters, name):
    function, args = STRATEGIES[name]
    cluster = clusters(2)
    for there, here in zip(cluster.call(far(function), args), cluster.call(function, args), strict=True):
        assert numbers_in(there) == pytest.approx(numbers_in(here), rel=1e-9, abs=1e-12)


@pytest.mark.first_cases(3)
@needs_far
@named
def test_the_host_waits_for_the_device_nowhere_but_where_it_must(clusters, name):
    function, args = STRATEGIES[name]
    for seen in clusters(2).call(waits_on(function), args):
        surprising = {place: count for place, count in seen.items() if place[1].split(":")[0] not in MAY_WAIT}
        assert not surprising


@pytest.mark.first_cases(8)
@pytest.mark.parametrize("world_size", [2, 3])
@named
def test_nccl_would_take_every_strategy(clusters, name, world_size):
    if world_size == 3 and ("tensor" in name or "all-to-all" in name):
        pytest.skip("4 heads cannot be cut in three")
    function, args = STRATEGIES[name]
    run = metered(clusters(world_size), as_on_nccl, function, *args)
    assert run.communication.calls
    assert run.communication.nccl_breaches() == ()


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("mesh", COMBINATIONS)
def test_nccl_would_take_every_combination(clusters, mesh):
    run = metered(clusters(4), as_on_nccl, on_mesh, mesh)
    assert run.communication.calls
    assert run.communication.nccl_breaches() == ()


@needs_far
@pytest.mark.long
@pytest.mark.parametrize("mesh", COMBINATIONS)
def test_a_combination_on_another_device_has_the_values_of_the_cpu(clusters, mesh):
    cluster = clusters(4)
    for there, here in zip(cluster.call(far(on_mesh), (mesh,)), cluster.call(on_mesh, (mesh,)), strict=True):
        assert numbers_in(there) == pytest.approx(numbers_in(here), rel=1e-9, abs=1e-12)


def test_a_pipelines_order_on_gloo_is_not_taken_for_that_on_nccl(clusters):
    function, args = STRATEGIES["pipeline, 1f1b"]
    calls = metered(clusters(2), function, *args).communication.calls
    assert nccl_breaches(calls) == ()
    unmarked = [dataclasses.replace(call, only_on_gloo=False) for call in calls]
    assert [breach.rule for breach in nccl_breaches(unmarked)] == ["order"], "its recvs are early on gloo"


@needs_far
def test_what_makes_the_host_wait_is_counted(clusters):
    """Else the test above could not fail."""
    function, args = STRATEGIES["DDP, unused layer"]
    for seen in clusters(2).call(waits_on(function), args):
        ((what, place),) = seen
        assert what == "tolist"
        assert place.startswith("course_lib/parallel/data/distributed_data_parallel.py:")
        assert seen[what, place] == NUM_STEPS


@needs_far
def test_experts_make_the_host_wait_once_a_layer_and_no_more(clusters):
    function, args = STRATEGIES["experts"]
    for seen in clusters(2).call(waits_on(function), args):
        by_file = sorted((what, place.split(":")[0], count) for (what, place), count in seen.items())
        room = "course_lib/parallel/experts"
        assert by_file == [("tolist", f"{room}/{file}.py", NUM_STEPS) for file in ("dispatch", "layer")]


# -- the device itself ---------------------------------------------------------------------------------------------


def mixes(me):
    import torch

    there, here, found = torch.ones(3, device=me.device), torch.ones(3, device="cpu"), []
    for mix in (lambda: there + here, lambda: there.numpy(), lambda: there.copy_(here)):
        try:
            mix()
            found.append("")
        except (RuntimeError, TypeError) as error:
            found.append(str(error))
    return found, (there + torch.ones((), device="cpu")).tolist()


@needs_far
def test_a_cpu_tensor_beside_one_of_the_device_is_an_error(clusters):
    (((added, as_array, copied), sums),) = clusters(1).call(far(mixes))
    assert copied == "", "copies are what brings tensors to the device"
    assert "at least two devices, far:0 and cpu" in added
    assert "can't convert" in as_array
    assert sums == [2.0] * 3, "a CPU tensor without dims may be mixed in, as on CUDA"


def sends_what_lies_on_the_cpu(me):
    import torch
    import torch.distributed as dist

    found = []
    for tensor in (torch.ones(2, device="cpu"), torch.arange(2, device=me.device)):
        try:
            dist.all_reduce(tensor)
        except RuntimeError as error:
            found.append(str(error))
        else:
            found.append(tensor.tolist())
    everybody: list = [None] * me.world_size
    dist.all_gather_object(everybody, me.rank)  # bytes, for which PyTorch finds the device
    return found, everybody


@needs_far
def test_a_cpu_tensor_in_a_collective_is_an_error(clusters):
    for (refused, summed), everybody in clusters(2).call(far(sends_what_lies_on_the_cpu)):
        assert "was given a tensor of the CPU" in refused
        assert summed == [0, 2]
        assert everybody == [0, 1]


def begins_on_the_cpu(me):
    import torch

    from course_lib.parallel.data import broadcast_parameters

    torch.manual_seed(me.rank)
    model = torch.nn.Linear(3, 2, device="cpu")
    broadcast_parameters(me, model)
    return model.weight.device.type, model.weight.tolist()


@needs_far
def test_parameters_on_the_cpu_are_broadcast_by_way_of_the_device(clusters):
    """A mesh cuts the whole model before its parts go to their devices."""
    first, second = clusters(2).call(far(begins_on_the_cpu))
    assert first == second
    assert first[0] == "cpu"
