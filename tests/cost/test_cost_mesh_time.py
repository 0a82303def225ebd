"""The time of a step on a mesh: beside the formulas of single axes, and what the order of the axes does to it."""

from __future__ import annotations

import pytest
from test_cost_mesh import CONFIG, MESH, step

from course_lib.cost import (
    Network,
    collective_cost,
    collectives_time_s,
    mesh_step_time,
    simulate,
    split_transformer_collectives,
    transformer_parameters,
)
from course_lib.layouts.link import Link
from course_lib.layouts.mesh import Mesh
from course_lib.schedules import StageTimes, get_schedule, one_f_one_b

FAST, SLOW = Link(1e-5, 1e8), Link(1e-4, 1e6)
NO_TIME = Link()


def on(mesh, link, **others):
    return mesh_step_time(step(mesh), Network.uniform(mesh.num_ranks, link), **others)


def loss_s(mesh, link):
    return collective_cost("all_reduce", 8, link, num_ranks=mesh.num_ranks).time_s


def nodes(ranks_per_node=4, **options):
    return Network.nodes(8 // ranks_per_node, ranks_per_node, intra=FAST, inter=SLOW, **options)


def test_tensor_parallelism_alone_is_its_collectives_one_after_the_other():
    mesh = Mesh.of(tp=2)
    calls = split_transformer_collectives(CONFIG, batch_size=16)
    found = on(mesh, SLOW, forward_s=0.25, backward_s=0.5)
    wanted_s = collectives_time_s(calls, SLOW, num_ranks=2)
    assert found.waited_s["tp"] == pytest.approx(wanted_s)
    assert found.compute_s == pytest.approx(0.75)
    assert found.step_s == pytest.approx(0.75 + wanted_s + loss_s(mesh, SLOW))


@pytest.mark.parametrize(
    ("mesh", "options"),
    [
        (Mesh.of(dp_shard=4), {}),
        (Mesh.of(tp=4), {"sequence_parallel": True}),
        (Mesh.of(tp=4), {"sequence_parallel": True, "backend": "nccl"}),
    ],
)
def test_without_latency_and_computing_a_port_is_busy_with_bytes_alone(mesh, options):
    one, (axis,) = step(mesh, **options), mesh.axes
    found = mesh_step_time(one, Network.uniform(4, Link(0.0, 1e6)))
    assert found.waited_s[axis] == pytest.approx(one.sent_bytes(0)[axis] / 1e6)


def test_replicas_of_shards_are_waited_for():
    one = step(Mesh.of(dp_replicate=2, dp_shard=2))
    found = mesh_step_time(one, Network.nodes(2, 2, intra=NO_TIME, inter=Link(0.0, 1e6)))
    of_a_rank = one.sent_bytes(0)["dp_replicate"] / 1e6
    assert found.step_s == pytest.approx(2 * of_a_rank, rel=0.01), "two ranks, one port"
    assert found.waited_s["dp_replicate"] > 0


def test_replicas_compute_and_then_average():
    mesh, size_bytes = Mesh.of(dp_replicate=4), 4 * sum(transformer_parameters(CONFIG))
    found = on(mesh, SLOW, forward_s=0.1, backward_s=0.2)
    average_s = collective_cost("all_reduce", size_bytes, SLOW, num_ranks=4).time_s
    assert found.step_s == pytest.approx(0.3 + average_s + loss_s(mesh, SLOW))


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "interleaved", "zb_h1"])
def test_a_pipeline_without_links_is_the_simulation(name):
    schedule = get_schedule(name, 3, 6)
    num_virtual = schedule.num_stages // 3
    one = step(Mesh.of(pp=3), batch_size=12, schedule=schedule)
    whole = StageTimes.of(0.1).divided(num_virtual)
    if schedule.is_split:  # what a W computes is counted with its I here
        whole = StageTimes(0.1, 0.2, 0.0)
    found = mesh_step_time(one, Network.uniform(3, NO_TIME), forward_s=0.6, backward_s=1.2)
    assert found.step_s == pytest.approx(simulate(schedule, whole).makespan_s)
    assert found.compute_s == pytest.approx(1.8)


def test_a_message_of_a_pipeline_hides_behind_computing_and_its_latency_fills_the_bubble():
    one = step(Mesh.of(pp=2), batch_size=8, schedule=one_f_one_b(2, 4))
    message_s = 0.01
    link = Link(message_s, float("inf"))
    found = mesh_step_time(one, Network.uniform(2, link), forward_s=0.4, backward_s=0.8)
    without = mesh_step_time(one, Network.uniform(2, NO_TIME), forward_s=0.4, backward_s=0.8)
    later_s = found.step_s - without.step_s - loss_s(Mesh.of(pp=2), link)
    assert 2 * message_s <= later_s + 1e-9 < 8 * message_s, "there and back once at least, and not once for each"


def test_the_next_all_gather_hides_behind_computing():
    mesh = Mesh.of(dp_shard=2)
    messages_s = on(mesh, SLOW).step_s
    both_s = on(mesh, SLOW, forward_s=messages_s, backward_s=2 * messages_s).step_s
    assert 3 * messages_s < both_s < 3.8 * messages_s
    assert on(mesh, NO_TIME, forward_s=1.0, backward_s=2.0).step_s == pytest.approx(3.0)


def test_groups_that_leave_a_node_together_share_its_port():
    mesh = Mesh.of(dp_replicate=2, tp=4)
    alone = mesh_step_time(step(mesh), nodes(ports_per_node=4)).waited_s["dp_replicate"]
    shared = mesh_step_time(step(mesh), nodes()).waited_s["dp_replicate"]
    assert shared > 2 * alone, "four groups pass through one port"


def test_the_order_of_the_axes_decides_and_one_kind_of_link_knows_no_order():
    times_s = {mesh.axes: mesh_step_time(step(mesh), nodes()).step_s for mesh in MESH.orders()}
    assert times_s["pp", "dp_shard", "tp"] == min(times_s.values())
    assert max(times_s.values()) > 1.5 * min(times_s.values())
    same = [mesh_step_time(step(mesh), Network.uniform(8, SLOW)).step_s for mesh in MESH.orders()]
    assert same == pytest.approx([same[0]] * 6)


def test_what_was_waited_for_and_computed_is_the_step_of_every_rank():
    found = mesh_step_time(step(), nodes(), forward_s=0.01, backward_s=0.02, call_s=1e-4)
    assert found.compute_s + sum(found.waited_s.values()) == pytest.approx(found.step_s, rel=0.01)
    assert set(found.waited_s) == {"pp", "dp_shard", "tp", "loss"}


def test_ports_of_their_own_are_never_slower():
    own_s, one_s = (
        [mesh_step_time(step(mesh), nodes(2), separate_ports=separate).step_s for mesh in MESH.orders()]
        for separate in (True, False)
    )
    assert all(own <= one * (1 + 1e-9) for own, one in zip(own_s, one_s, strict=True))
    assert any(own < 0.99 * one for own, one in zip(own_s, one_s, strict=True))


def test_calls_cost_time_of_their_own():
    mesh = Mesh.of(tp=2)
    number = sum(call.axis == "tp" for call in step(mesh).calls(0))
    assert on(mesh, NO_TIME, call_s=0.001).waited_s["tp"] == pytest.approx(0.001 * number)
    assert on(Mesh.of(pp=2), NO_TIME, call_s=0.001).waited_s["pp"] > 0.001


def test_a_network_of_other_ranks_is_refused():
    with pytest.raises(ValueError, match=r"this network has 4 ranks, and the mesh .* has 8: give a network of 8 ranks"):
        mesh_step_time(step(), Network.uniform(4, FAST))
    with pytest.raises(ValueError, match="forward_s is -1"):
        mesh_step_time(step(), nodes(), forward_s=-1)


def test_ranks_that_compute_unequally_make_the_others_wait():
    mesh = Mesh.of(pp=2)
    even = on(mesh, NO_TIME, forward_s=0.1, backward_s=0.2)
    slow_last = on(mesh, NO_TIME, forward_s=0.1, backward_s=0.2, work=[0.5, 1.5])
    assert slow_last.compute_s == pytest.approx(even.compute_s)
    assert slow_last.step_s == pytest.approx(0.45 + 0.15 / 4)  # the slow stage without a pause, and the other's slot
    slow_first = on(mesh, NO_TIME, forward_s=0.1, backward_s=0.2, work=[1.5, 0.5])
    assert slow_first.step_s == pytest.approx(0.45)  # the other's slots lie beside its own
    with pytest.raises(ValueError, match="work has 3 numbers, one for each rank"):
        on(mesh, NO_TIME, work=[1.0, 1.0, 1.0])
