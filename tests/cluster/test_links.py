"""Shaped links and slowed ranks: times as asked, overlap kept, values untouched, and nothing left behind.

A machine may be late and is never early: a lower bound is asserted to the point, an upper one generously.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import time
from dataclasses import replace

import psutil
import pytest
import torch
import torch.distributed as dist
from shaped_runs import booked, held, spans_s
from waiting import HANG_LIMIT_S, wait_until

from course_lib.cluster import Cluster, Links, Rank, RankFailed, pace
from course_lib.cluster.base.backends import RankDevice
from course_lib.cluster.base.flat_collectives import flat_collective
from course_lib.cluster.base.process_group import RankConfig
from course_lib.cluster.hooks import comm_hooks
from course_lib.cluster.links import emulated_compute
from course_lib.cluster.links.emulated_compute import Slowdown, paced_s
from course_lib.cluster.links.emulation import _Timer
from course_lib.cluster.links.link_times import Ports, joint_times, link_time, settle_tree
from course_lib.cluster.links.links import shape_of
from course_lib.cluster.links.port_schedule import Booking, Timetable
from course_lib.cluster.links.toggle import ShapeSwitch
from course_lib.devices import Device
from course_lib.layouts.link import Link
from course_lib.meter import metered
from course_lib.meter.communication.wire_bytes import traffic

pytestmark = [pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning")]

JOINT = ("all_reduce", "reduce_scatter", "all_gather", "reduce", "all_to_all", "barrier")
TREE = ("broadcast", "scatter", "gather")
SLOW = Link(latency_s=0.01, bandwidth_bytes_per_s=10e6)


# -- arithmetic ---------------------------------------------------------------------------------------------------


class Watched(Ports):
    """Ports that remember what passed through them."""

    def carry(self, message, ready_s):
        self.seen = [*getattr(self, "seen", []), message]
        return super().carry(message, ready_s)


@pytest.mark.parametrize("n", [2, 3, 4, 8])
@pytest.mark.parametrize("operation", JOINT + TREE)
def test_messages_add_up_to_the_table_of_bytes_on_the_wire(operation, n):
    size_bytes, root = 840 * 4, n - 1
    ports = Watched(Links(), n, range(n))
    if operation in TREE:
        part_bytes = size_bytes // n if operation == "scatter" else size_bytes
        settle_tree(operation, [1.0] * n, [0.0] * n, part_bytes, root=root, ports=ports)
    else:
        part_bytes = size_bytes / n if operation == "all_to_all" else size_bytes
        joint_times(operation, [1.0] * n, [[part_bytes] * n] * n, root=root, ports=ports)
    for rank in range(n):
        told = traffic(operation, rank=rank, num_ranks=n, size_bytes=size_bytes, root=root)
        sent = [message for message in ports.seen if message[0] == rank]
        assert sum(size for *_, size in sent) == pytest.approx(sum(told.sent_bytes.values())), rank
        assert len(sent) == told.num_messages, rank
        assert {receiver for _, receiver, size in sent if size} == set(told.sent_bytes), rank


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_times_are_the_textbook_s(n):
    links, size = Links(Link(0.5, 10.0)), 120.0

    def message_s(size_bytes):
        return 0.5 + size_bytes / 10

    rounds = math.ceil(math.log2(n))
    expected = {
        "all_reduce": 2 * (n - 1) * message_s(size / n),
        "all_gather": (n - 1) * message_s(size),
        "all_to_all": (n - 1) * message_s(size / n),
        "broadcast": rounds * message_s(size),
        "gather": (n - 1) * message_s(size),
        "scatter": (n - 1) * message_s(size),
        "barrier": rounds * 0.5,
        "send": message_s(size),
    }
    for operation, time_s in expected.items():
        assert link_time(operation, size, num_ranks=n, links=links) == pytest.approx(time_s), operation
    assert link_time("all_reduce", size, num_ranks=1, links=links) == 0


@pytest.mark.parametrize("n", [2, 4, 8])
def test_the_cost_model_predicts_the_same(n):
    from course_lib.cost import Network
    from course_lib.cost.collectives.collective_cost import collective_cost

    inside, size = Link(1e-3, 1e9), 8e6
    for links, network in (
        (Links(SLOW), Network.uniform(n, SLOW)),
        (Links.nodes(2, inside=inside, across=SLOW), Network.nodes(n // 2, 2, intra=inside, inter=SLOW)),
    ):
        for name, algorithm in (("all_reduce", "ring"), ("broadcast", "tree"), ("all_gather", "ring")):
            cost = collective_cost(name, size, network, algorithm=algorithm)
            mine = size / n if name == "all_gather" else size
            if name == "broadcast" and links.across is not None:
                continue  # the model's rounds wait for each other, and messages of fast links do not
            assert link_time(name, mine, num_ranks=n, links=links) == pytest.approx(cost.time_s), name


def test_a_port_carries_one_message_at_a_time_and_each_direction_has_its_own():
    ports = Ports(Links(Link(1.0, 1.0)), 4, range(4))
    assert ports.carry((0, 1, 9.0), 100.0) == 110
    assert ports.carry((0, 2, 9.0), 100.0) == 120, "the sender's port was busy"
    assert ports.carry((3, 1, 9.0), 100.0) == 120, "the receiver's port was busy"
    assert ports.carry((1, 0, 9.0), 100.0) == 110, "the way back is free"
    assert ports.carry((2, 3, 9.0), 100.0) == 110, "two ranks that nobody else talks to"
    assert ports.carry((0, 1, 9.0), 500.0) == 510, "later, all is free again"


def test_one_slow_link_slows_the_ring_and_no_other_message():
    links = Links(Link(0, 100.0), between={(1, 2): Link(0, 1.0)})
    assert link_time("all_reduce", 4.0, num_ranks=4, links=links) >= 6
    ports = Ports(links, 4, range(4))
    assert ports.carry((0, 3, 1.0), 0.0) == pytest.approx(0.01)
    assert links.link(2, 1) == links.link(1, 2) == Link(0, 1.0)
    one_way = Links(Link(0, 100.0), between={(1, 2): Link(0, 1.0), (2, 1): Link(0, 5.0)})
    assert one_way.link(2, 1) == Link(0, 5.0)
    assert links.matrix(3)[0] == (None, Link(0, 100.0), Link(0, 100.0))


def test_ranks_of_a_node_share_its_ports_to_other_nodes():
    inside, across = Link(0, 100.0), Link(0, 1.0)
    links = Links.nodes(2, inside=inside, across=across)
    assert (links.link(0, 1), links.link(2, 1)) == (inside, across)
    ports = Ports(links, 4, range(4))
    assert ports.carry((0, 2, 5.0), 0.0) == 5
    assert ports.carry((1, 3, 5.0), 0.0) == 10, "one port between the nodes"
    assert ports.carry((0, 1, 100.0), 5.0) == 6, "which rank 0 has left by now"
    apart = Ports(Links.nodes(2, inside=inside, across=across, ports_per_node=2), 4, range(4))
    assert [apart.carry((0, 2, 5.0), 0.0), apart.carry((1, 3, 5.0), 0.0)] == [5, 5]
    far = Ports(Links.nodes(2, inside=inside, across=Link(3.0, 1.0)), 4, range(4))
    assert far.carry((0, 2, 5.0), 0.0) == 8
    assert far.carry((1, 3, 5.0), 0.0) == 13, "the port passes one after the other, and both are on their way"
    assert far.carry((0, 2, 5.0), 0.0) == 18, "rank 0's own port was free at 8, the node's at 10"


def test_the_last_to_come_holds_up_a_ring_and_no_cousin_in_a_tree():
    links = Links(Link(1.0))
    late = [10.0, 10.0, 10.0, 50.0]
    times = joint_times("all_reduce", late, [[0.0] * 4] * 4, root=0, ports=Ports(links, 4, range(4)))
    assert min(times) > 50
    arrived = [0.0] * 4
    settle_tree("gather", [10.0, 11.0, 12.0, 0.0], arrived, 0.0, root=0, ports=Ports(links, 4, range(4)))
    assert arrived == [0, 12, 13, 0], "rank 3 has not come, and is not waited for"
    arrived = [0.0] * 4
    settle_tree("broadcast", [10.0, 0.0, 10.0, 10.0], arrived, 0.0, root=0, ports=Ports(links, 4, range(4)))
    assert arrived == [0, 11, 12, 0], "rank 1 cannot pass on before it is there"
    settle_tree("broadcast", [10.0, 20.0, 10.0, 10.0], arrived, 0.0, root=0, ports=Ports(links, 4, range(4)))
    assert arrived == [0, 11, 12, 21]


# -- the timetable ------------------------------------------------------------------------------------------------


def timetables(tmp_path, n=2, link=Link(0.0, 1.0)):  # noqa: B008 - frozen
    return [Timetable(tmp_path / "table", Links(link), n) for _ in range(n)]


def send_booking(number, place):
    return Booking(("pair", number), "send", (0, 1), place)


def test_both_ends_read_the_same_and_the_record_is_freed(tmp_path):
    sender, receiver = timetables(tmp_path)
    sender.enter(send_booking(1, 0), 100.0, [5.0, 5.0])
    receiver.enter(send_booking(1, 1), 103.0, [5.0, 5.0])
    assert receiver.settle(send_booking(1, 1)) == 108, "it began when both were there"
    assert (sender._keys != 0).sum() == 1
    assert sender.settle(send_booking(1, 0)) == 108
    assert (sender._keys != 0).sum() == 0


def test_calls_of_a_series_are_served_in_order_whichever_is_seen_to_finish_first(tmp_path):
    sender, receiver = timetables(tmp_path)
    for number, size in ((1, 5.0), (2, 1.0)):
        for place, table in enumerate((sender, receiver)):
            table.enter(send_booking(number, place), 100.0, [size, size])
    assert receiver.settle(send_booking(2, 1)) == 106
    assert receiver.settle(send_booking(1, 1)) == 105
    assert [sender.settle(send_booking(number, 0)) for number in (1, 2)] == [105, 106]


def test_a_peer_that_never_came_holds_up_nobody_and_a_full_table_goes_on(tmp_path):
    sender, _ = timetables(tmp_path)
    for number in range(1, 2000):
        sender.enter(send_booking(number, 0), 100.0 + number, [5.0, 5.0])
    assert sender.settle(send_booking(1999, 0)) == 100.0 + 1999


# -- what cannot work ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Link(-1.0), "latency_s=-1.0 must be a number of seconds, 0 or more; the nearest that works is 0"),
        (lambda: Link(math.inf), "latency_s=inf must be"),
        (lambda: Link(0.0, 0), "bandwidth_bytes_per_s=0 must be a number above 0"),
        (lambda: Link(0.0, math.nan), "bandwidth_bytes_per_s=nan does not work"),
        (lambda: Link("1", 1), "latency_s='1' does not work"),
        (lambda: Links(100e6), "default=100000000.0 must be a Link"),
        (lambda: Links(between={(0, 1): 5}), r"between\[\(0, 1\)\]=5 must be a Link"),
        (lambda: Links(between={(1, 1): Link()}), "a link joins two different ranks"),
        (lambda: Links(between={3: Link()}), "a key is a pair of ranks"),
        (lambda: Links.nodes(0, inside=Link(), across=Link()), "ranks_per_node=0 must be a whole number"),
        (lambda: Links.nodes(2, inside=Link(), across=None), "across=None must be a Link"),
        (lambda: Cluster(2, links=Link()), r"links=Link\(.*\) must be Links, such as"),
        (lambda: Cluster(2, links=Links(between={(0, 5): Link()})), "rank 5; .* 0 to 1, the nearest is 1"),
        (lambda: Cluster(4, links=Links.nodes(3, inside=Link(), across=Link())), "the nearest that does is 2"),
        (lambda: Cluster(2, slow={2: 2.0}), "names rank 2; ranks here are 0 to 1"),
        (lambda: Cluster(2, slow={1: 0.5}), r"slow=\{1: 0.5\} must be a factor of at least 1"),
        (
            lambda: shape_of(Links(), None, world_size=2, device="cuda:0"),
            r"these ranks are on cuda:0: make Cluster\(2, links=...\)",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_a_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


class TwoGpus:
    devices = (Device(0, "a GPU", 1, "GPU-a"), Device(1, "a GPU", 1, "GPU-b"))
    cores = 2

    def __init__(self, num_gpus):
        pass


def test_ranks_on_gpus_have_stand_ins_on_the_cpu_while_links_are_shaped(monkeypatch):
    monkeypatch.setattr("course_lib.cluster.api.placement.seated", TwoGpus)

    def where(me):
        return str(me.device), os.getpid()

    with Cluster(2) as cluster:
        assert "on cuda:0, cuda:1 by nccl: not started yet" in repr(cluster)
        with cluster.shaped(links=Links(Link(1e-3))):
            assert "on cpu by gloo" in repr(cluster)
            first = list(cluster.run(where))
        assert "on cuda:0, cuda:1 by nccl: not started yet" in repr(cluster)
        with cluster.shaped(links=Links(Link(2e-3))):
            again = list(cluster.run(where))
        assert first == again, "they stay warm as well"
        assert {device for device, _ in first} == {"cpu"}
        processes = [psutil.Process(pid) for _, pid in first]
    assert not psutil.wait_procs(processes, timeout=30)[1], "and end with the cluster"
    with Cluster(2, backend="nccl") as asked_for, asked_for.shaped(links=Links()):
        assert "on cpu by gloo" in repr(asked_for)
    with pytest.raises(ValueError, match="these ranks are on cuda:0"):
        Cluster(2, backend="nccl", links=Links(Link(1e-3)))


def test_links_that_slow_nothing_put_ranks_on_the_cpu_and_are_not_shaped(monkeypatch):
    monkeypatch.setattr("course_lib.cluster.api.placement.seated", TwoGpus)
    assert shape_of(Links(), None, world_size=2, device="cpu") is None
    assert shape_of(Links(), {1: 2.0}, world_size=2, device="cpu").links is None
    with Cluster(2, links=Links()) as cluster:
        assert "on cpu by gloo" in repr(cluster)
    with Cluster(2, backend="gloo") as cluster:
        assert "on cuda:0, cuda:1 by gloo" in repr(cluster)
        with cluster.shaped(links=Links()):
            assert "on cpu by gloo" in repr(cluster)


def test_pace_refuses_what_is_no_time():
    for time_s in (-1, math.inf, "1", None):
        with pytest.raises(ValueError, match=f"time_s={time_s!r} must be a number of seconds, 0 or more"):
            pace(Rank(0, 1, torch.device("cpu"), "gloo"), time_s)


# -- on ranks -----------------------------------------------------------------------------------------------------

SIZE_BYTES = 400_000  # 50 ms on SLOW
TINY_S = 1e-6  # what adding up moments of a clock may round


def every_operation(me):
    """By name of the operation, what this rank's timetable says of it."""
    n, x = me.world_size, torch.ones(SIZE_BYTES // 4)
    big, part = torch.empty(SIZE_BYTES // 4 * n), torch.empty(SIZE_BYTES // 4 // n)

    def message():
        if me.rank == 0:
            dist.send(x, 1)
        elif me.rank == 1:
            dist.recv(x, 0)

    parts = [torch.empty_like(x) for _ in range(n)] if me.rank == 0 else None
    operations = {
        "send": message,
        "all_reduce": lambda: dist.all_reduce(x),
        "broadcast": lambda: dist.broadcast(x, 0),
        "all_gather": lambda: flat_collective("all_gather")(big, x),
        "reduce_scatter": lambda: flat_collective("reduce_scatter")(part, x),
        "reduce": lambda: dist.reduce(x, 0),
        "all_to_all": lambda: dist.all_to_all_single(torch.empty_like(x), x),
        "gather": lambda: dist.gather(x, parts, 0),
        "scatter": lambda: dist.scatter(torch.empty_like(x), parts, 0),
        "barrier": lambda: dist.barrier(),
    }
    found = {}
    for name, call in operations.items():
        dist.barrier()
        with booked() as calls:
            call()
        found[name] = calls
    return found


@pytest.mark.parametrize("n", [2, 4])
def test_every_operation_takes_what_was_asked(n, request):
    cluster, links = request.getfixturevalue(f"cluster{n}"), Links(SLOW)
    with cluster.shaped(links=links):
        ranks = list(cluster.run(every_operation))
    for name in ranks[0]:
        ((from_last_s, from_first_s),) = spans_s([by[name] for by in ranks]).values()
        asked_s = link_time(name, SIZE_BYTES, num_ranks=n, links=links)
        assert from_last_s <= asked_s + TINY_S, name
        assert from_first_s >= asked_s - TINY_S, name


def test_things_are_done_at_their_moments_and_not_before():
    now_s, done = 0.0, {name: threading.Event() for name in ("three", "five", "never")}
    timer = _Timer(clock=lambda: now_s)
    timer.at(5.0, done["five"].set)
    timer.at(3.0, done["three"].set)
    timer.at(9.0, done["never"].set)
    for moment_s, name in ((3.0, "three"), (5.0, "five")):
        now_s = moment_s
        timer.at(1e6, done["never"].set)  # it looks at the clock again
        assert done[name].wait(HANG_LIMIT_S)
        assert done["five"].is_set() == (name == "five")
    assert not done["never"].is_set()


def as_ever(me):
    """Values from every kind of caller: DDP, fully_shard, tensor parallel, functional, messages, autograd, objects."""
    import torch.distributed._functional_collectives as functional
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.nn.functional import all_reduce
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    from torch.nn.parallel import DistributedDataParallel

    n, found = me.world_size, {}
    torch.manual_seed(0)
    model = DistributedDataParallel(
        torch.nn.Sequential(*[torch.nn.Linear(50, 50) for _ in range(4)]), bucket_cap_mb=0.02
    )
    for _ in range(3):
        model(torch.ones(4, 50) * (me.rank + 1)).sum().backward()
    found["ddp"] = [p.grad for p in model.parameters()]
    model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(3)])
    for layer in (*model, model):
        fully_shard(layer)
    model(torch.ones(2, 16) * (me.rank + 1)).sum().backward()
    found["fsdp"] = [p.grad.full_tensor() for p in model.parameters()]
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    parallelize_module(model, init_device_mesh("cpu", (n,)), plan)
    x = torch.ones(8, 16, requires_grad=True)
    y = model(x)
    y.sum().backward()
    found["tensor parallel"] = [y.detach(), x.grad]
    found["functional"] = [functional.all_reduce(torch.ones(4), "sum", dist.group.WORLD) + 0]
    x = torch.ones(3, requires_grad=True)
    (all_reduce(x) * 2).sum().backward()
    found["autograd"] = [x.grad]
    found["messages"] = messages(me)
    objects = [None] * n
    dist.all_gather_object(objects, {"rank": me.rank})
    found["objects"] = [torch.tensor([o["rank"] for o in objects])]
    dist.monitored_barrier()
    return {key: [tensor.tolist() for tensor in tensors] for key, tensors in found.items()}


def messages(me):
    n, ring, anyone = me.world_size, torch.empty(5), torch.zeros(3)
    operations = [
        dist.P2POp(dist.isend, torch.ones(5) * me.rank, (me.rank + 1) % n),
        dist.P2POp(dist.irecv, ring, (me.rank - 1) % n),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    if me.rank == 0:
        anyone[0] = dist.recv(anyone[1:])  # from whom
    elif me.rank == 1:
        dist.send(torch.full((2,), 7.0), 0)
    sizes = [[1, 2], [3, 0]]  # rank i sends sizes[i][j] to rank j
    theirs = [row[me.rank] for row in sizes]
    mixed = torch.empty(sum(theirs))
    dist.all_to_all_single(mixed, torch.arange(float(sum(sizes[me.rank]))), theirs, sizes[me.rank])
    return [ring, anyone, mixed]


def test_values_are_as_ever_whoever_calls(cluster2):
    plain = list(cluster2.run(as_ever))
    with cluster2.shaped(links=Links(Link(1e-3, 50e6)), slow={1: 1.5}):
        run = metered(cluster2, as_ever)
    assert list(run) == plain
    assert plain[0]["messages"][1] == [1.0, 7.0, 7.0]
    calls = run.communication.calls
    assert all(call.end_s - call.start_s >= 1e-3 for call in calls if call.operation == "all_reduce")
    assert all(call.end_s is not None for call in calls if call.operation in ("send", "recv"))


def test_the_thread_that_starts_a_call_goes_on_and_can_ask_whether_it_is_done(cluster2):
    def start(me):
        x = torch.full((3,), 1.0 + me.rank)
        with held() as release:
            works = [dist.all_reduce(x, async_op=True)]
            works.append(dist.isend(x, 1) if me.rank == 0 else dist.irecv(torch.empty(3), 0))
            at_once = [work.is_completed() for work in works]
            release()
            for work in works:
                work.wait()
        return at_once, [work.is_completed() for work in works], x.tolist()

    with cluster2.shaped(links=Links(Link(1e-3))):
        for at_once, at_the_end, x in cluster2.run(start):
            assert at_once == [False, False]
            assert at_the_end == [True, True]
            assert x == [3.0, 3.0, 3.0]


def test_whoever_waits_goes_on_when_the_links_say_so_and_not_before(cluster2):
    """In Python, in C++, for a message and for one from anyone."""

    def wait(me, how):
        import torch.distributed._functional_collectives as functional

        order, x = [], torch.ones(3)
        with held() as release:
            thread = threading.Timer(0.1, lambda: (order.append("released"), release()))
            thread.start()
            if how == "collective":
                dist.all_reduce(x)
            elif how == "functional":
                functional.wait_tensor(functional.all_reduce(x, "sum", dist.group.WORLD))
            elif me.rank == 1:
                dist.send(x, 0)
            else:
                dist.recv(x, 1 if how == "message" else None)
            order.append("gone on")
            thread.join()
        return order

    with cluster2.shaped(links=Links(Link(1e-3))):
        for how in ("collective", "functional", "message", "from anyone"):
            assert list(cluster2.run(wait, how)) == [["released", "gone on"]] * 2, how


def test_ddp_goes_on_with_backward_while_a_bucket_is_on_its_way(cluster2):
    def train(me):
        from torch.nn.parallel import DistributedDataParallel

        first, second = torch.nn.Linear(100, 100), torch.nn.Linear(100, 100)
        model = DistributedDataParallel(torch.nn.Sequential(first, second), bucket_cap_mb=0.01)
        x = torch.ones(2, 100)
        model(x).sum().backward()  # the second step has its buckets in the order of backward
        order, begin = [], []

        def reached(name, then=()):
            def hook(_gradient):
                order.append(name)
                for begin_now in then:
                    begin_now()

            return hook

        first.weight.register_hook(reached("first layer", begin))  # until here nothing can arrive
        second.weight.register_hook(reached("second layer"))
        loss = model(x).sum()
        with held() as release:
            late = threading.Timer(0.1, lambda: (order.append("buckets arrive"), release()))
            begin.append(late.start)
            loss.backward()
            order.append("end")
            late.join()
        return order

    with cluster2.shaped(links=Links(Link(1e-3))):
        for order in cluster2.run(train):
            assert order == ["second layer", "first layer", "buckets arrive", "end"]


def test_messages_on_one_link_queue_and_those_on_two_do_not(cluster4):
    def flood(me, pairs):
        dist.barrier()
        x, works = torch.ones(10), []
        with booked() as calls:
            for sender, receiver in pairs:
                if me.rank == sender:
                    works.append(dist.isend(x, receiver))
                if me.rank == receiver:
                    works.append(dist.irecv(torch.empty(10), sender))
            for work in works:
                work.wait()
        return calls

    with cluster4.shaped(links=Links(Link(0.02))):
        queued = list(cluster4.run(flood, [(0, 1)] * 4))
        apart = list(cluster4.run(flood, [(0, 1), (1, 0), (2, 3), (3, 2)]))
    arrivals = sorted(call.arrives_s for call in queued[1])
    assert len(arrivals) == 4
    assert all(then - now >= 0.02 - TINY_S for now, then in itertools.pairwise(arrivals))
    assert len(spans_s(apart)) == 4
    for from_last_s, from_first_s in spans_s(apart).values():
        assert from_last_s <= 0.02 + TINY_S
        assert from_first_s >= 0.02 - TINY_S


def test_one_slow_link_is_slow_for_its_two_ranks_alone(cluster4):
    def pairs(me):
        x = torch.ones(10)
        with booked() as calls:
            dist.send(x, me.rank + 1) if me.rank % 2 == 0 else dist.recv(x, me.rank - 1)
        return calls

    with cluster4.shaped(links=Links(between={(0, 1): Link(0.05)})):
        ranks = list(cluster4.run(pairs))
    ((_, slow_s),), ((fast_s, _),) = spans_s(ranks[:2]).values(), spans_s(ranks[2:]).values()
    assert slow_s >= 0.05 - TINY_S
    assert fast_s <= TINY_S


def test_a_receive_from_anyone_takes_its_time_too(cluster2):
    def anyone(me):
        with booked() as calls:
            dist.recv(torch.ones(1)) if me.rank == 0 else dist.send(torch.ones(1), 0)
        return calls

    with cluster2.shaped(links=Links(Link(0.02))):
        ((from_last_s, from_first_s),) = spans_s(list(cluster2.run(anyone))).values()
    assert from_last_s <= 0.02 + TINY_S
    assert from_first_s >= 0.02 - TINY_S


def test_messages_of_different_tags_are_not_taken_for_each_other(cluster2):
    def crossed(me):
        big, small = torch.ones(50_000), torch.ones(1)
        dist.barrier()
        with booked() as calls:
            if me.rank == 0:
                works = [dist.isend(big, 1, tag=1), dist.isend(small, 1, tag=2)]
            else:
                works = [dist.irecv(small, 0, tag=2), dist.irecv(big, 0, tag=1)]
            for work in works:
                work.wait()
        return calls

    with cluster2.shaped(links=Links(Link(0, 4e6))):  # 0.05 s for the big one, and a microsecond for the other
        sender, receiver = cluster2.run(crossed)
    assert {call.key for call in sender} == {call.key for call in receiver}
    arrivals = {call.key: call.arrives_s for call in receiver}
    assert all(arrivals[call.key] == call.arrives_s for call in sender)
    first_s = min(call.began_s for call in (*sender, *receiver))
    last_s = max(call.began_s for call in (*sender, *receiver))
    assert max(arrivals.values()) - first_s >= 0.05 - TINY_S
    assert max(arrivals.values()) - last_s <= 0.05 + 1e-6 + TINY_S, "one big message, and not two"


def test_a_late_rank_holds_up_the_others_by_the_time_that_its_messages_take(cluster2, tmp_path):
    def late(me, begun):
        if me.rank == 1:
            wait_until(begun.exists, "rank 0 has begun")
        with booked() as calls:
            work = dist.all_reduce(torch.ones(1), async_op=True)
            begun.touch()
            work.wait()
        return calls

    with cluster2.shaped(links=Links(Link(0.02))):
        (early,), (late_one,) = cluster2.run(late, tmp_path / "begun")
    assert early.began_s < late_one.began_s
    # Not over before the late one's messages have arrived: two steps of a ring.
    for call in (early, late_one):
        assert call.arrives_s - late_one.began_s == pytest.approx(2 * 0.02)


def test_a_failure_of_the_real_call_is_raised(cluster2):
    def leave_alone(me, kind):
        if me.rank == 1:
            dist.destroy_process_group()
            return None
        try:
            if kind == "message":
                dist.recv(torch.ones(1), 1)
            elif kind == "collective":
                dist.all_reduce(torch.ones(1))
        except RuntimeError as error:
            dist.destroy_process_group()
            return str(error)

    for kind in ("message", "collective"):
        with Cluster(2, links=Links(Link(1e-3)), timeout_s=20) as cluster:
            assert "onnection" in cluster.run(leave_alone, kind)[0], kind


def test_a_failure_that_only_cpp_waited_for_ends_the_function():
    def functional(me):
        import torch.distributed._functional_collectives as functional

        if me.rank == 1:
            dist.destroy_process_group()
            time.sleep(0.2)
            return
        functional.wait_tensor(functional.all_reduce(torch.ones(4), "sum", dist.group.WORLD))

    with (
        Cluster(2, links=Links(Link(1e-3)), timeout_s=20) as cluster,
        pytest.raises(RankFailed, match="onnection"),
    ):
        cluster.run(functional)


def state(me):
    from torch._C._distributed_c10d import Work

    dist.barrier()
    return comm_hooks._library is None, len(comm_hooks._subscribers), Work.wait.__name__, me.slow_factor


def test_out_of_the_block_nothing_is_left_behind(cluster2):
    before = list(cluster2.run(state))
    with cluster2.shaped(links=Links(SLOW), slow={1: 2.0}):
        assert [s[:2] for s in cluster2.run(state)] == [(False, 1), (False, 2)]
        assert [s[3] for s in cluster2.run(state)] == [1.0, 2.0]
    after = list(cluster2.run(state))
    assert before == after
    assert [s[:2] for s in after] == [(True, 0)] * 2


def test_cells_are_shaped_too_and_stay_so_after_a_failure():
    with Cluster(2, links=Links(Link(0.1)), slow={1: 3.0}, timeout_s=20) as cluster:
        source = "import torch, torch.distributed as dist\nfrom shaped_runs import booked\nx = 1\n"
        source += (
            "with booked() as calls:\n    dist.all_reduce(torch.ones(1))\n"
            "(all(call.arrives_s - call.began_s >= 0.19 for call in calls), len(calls), me.slow_factor)"
        )
        first = list(cluster.cell(source, show=False))
        failing = (
            "if me.rank == 1:\n    dist.recv(torch.ones(1), 0)\n    raise ValueError('boom')\n"
            "work = dist.all_reduce(torch.ones(1), async_op=True); dist.send(torch.ones(1), 1); work.wait()"
        )
        with pytest.raises(RankFailed, match=r"rank 0  (waits in|has not finished) all_reduce #1"):
            cluster.cell(failing, show=False)
        assert list(cluster.cell("x", show=False)) == ["1", "1"], "the ranks were kept"
        assert list(cluster.cell(source, show=False)) == first == ["(True, 1, 1.0)", "(True, 1, 3.0)"]


def test_a_group_that_the_function_makes_itself_is_shaped():
    def script(me):
        dist.init_process_group("gloo")
        with booked() as calls:
            dist.all_reduce(torch.ones(1))
        dist.destroy_process_group()
        return calls

    with Cluster(2, links=Links(Link(0.02)), process_group=False) as cluster:
        ((_, from_first_s),) = spans_s(list(cluster.run(script))).values()
    assert from_first_s >= 2 * 0.02 - TINY_S


# -- slowed ranks and paced steps ---------------------------------------------------------------------------------


class Clock:
    """Stands in for the module ``time`` of ``pacing``: a wait moves the one clock, and computing both."""

    def __init__(self):
        self.now_s, self.cpu_s, self.slept_s = 100.0, 5.0, []

    def monotonic(self):
        return self.now_s

    def thread_time(self):
        return self.cpu_s

    def sleep(self, time_s):
        self.slept_s.append(time_s)
        self.now_s += time_s

    def compute(self, cpu_s):
        self.cpu_s += cpu_s
        self.now_s += cpu_s


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(emulated_compute, "time", clock)
    return clock


def test_a_paced_step_is_stretched_on_a_slowed_rank_and_counts_as_computing(clock):
    me, thread = Rank(0, 1, torch.device("cpu"), "gloo"), threading.get_ident()
    before_s = paced_s(thread)
    pace(me, 0.1)
    pace(replace(me, slow_factor=3.0), 0.1)
    assert clock.slept_s == pytest.approx([0.1, 0.3])
    assert paced_s(thread) - before_s == pytest.approx(0.4)


def test_a_wait_that_goes_on_counts_as_far_as_it_has_come(clock, monkeypatch):
    thread, seen_s = threading.get_ident(), []

    def half_of_it(time_s):
        clock.now_s += time_s / 2
        seen_s.append(paced_s(thread))

    before_s = paced_s(thread)
    monkeypatch.setattr(clock, "sleep", half_of_it)
    pace(Rank(0, 1, torch.device("cpu"), "gloo"), 0.5)
    assert seen_s == [pytest.approx(before_s + 0.25)]


def test_computing_is_stretched_once_and_before_the_next_call(clock):
    order, slow = [], Slowdown(3.0)
    slow.begin()
    for cpu_s in (0.1, 0.05, 0.0):
        clock.compute(cpu_s)
        slow._on_call("all_reduce", {}, lambda: (order.append(len(clock.slept_s)), clock.compute(0.7)))
    assert order == [1, 2, 2], "each call begins after the wait before it"
    clock.compute(0.01)  # at the end of the function no call follows
    slow.catch_up()
    assert clock.slept_s == pytest.approx([0.2, 0.1, 0.02]), "what a call computes itself is not stretched"


def test_on_a_slowed_rank_its_slowdown_hears_every_call_first(cluster2):
    def listeners(me):
        heard = comm_hooks._subscribers[-1].__self__
        return type(heard).__name__, getattr(heard, "_factor", None)

    with cluster2.shaped(links=Links(SLOW), slow={1: 3.0}):
        assert list(cluster2.run(listeners)) == [("ShapedLinks", None), ("Slowdown", 3.0)]


def test_what_a_rank_computes_in_the_function_is_stretched_and_between_two_calls_nothing(clock, tmp_path):
    place = RankConfig(1, 2, RankDevice("cpu", "gloo"), tmp_path, 1, False, False)
    switch = ShapeSwitch(place)
    switch.use(shape_of(None, {1: 10.0}, world_size=2, device="cpu"))
    try:
        clock.compute(0.5)
        with switch.work():
            pass
        assert clock.slept_s == []
        with switch.work():
            clock.compute(0.5)
        assert clock.slept_s == [4.5]
    finally:
        switch.use(None)
    assert comm_hooks._library is None


def test_the_meter_counts_a_paced_step_as_computing_and_a_stretch_as_no_part_of_the_call(cluster2):
    """Waits are of hundreds of seconds, which no thread computes besides, on a clock that does not wait for them."""

    def overlapped(me):
        clock = emulated_compute.time = Clock()
        try:
            with held() as release:
                if me.slow_factor > 1:
                    comm_hooks._subscribers[-1].__self__.begin()
                    clock.compute(250.0)
                work = dist.all_reduce(torch.ones(1), async_op=True)
                pace(me, 300.0 / me.slow_factor)
                release()
                work.wait()
        finally:
            emulated_compute.time = time
        return clock.slept_s

    with cluster2.shaped(links=Links(Link(1e-3)), slow={1: 4.0}):
        run = metered(cluster2, overlapped)
    assert list(run) == [[300.0], [750.0, 300.0]]
    for rank in (0, 1):
        (call,) = run.communication.of(rank).calls
        assert 300.0 <= call.hidden_s < 400.0, "the paced step went on meanwhile, and the stretch was before"


def test_those_who_tap_first_stay_in_front(cluster2):
    def order(me):
        heard = []

        def listener(name):
            def hear(_operator, _arguments, proceed):
                heard.append(name)
                return proceed()

            return hear

        early, front, late = listener("early"), listener("front"), listener("late")
        comm_hooks.subscribe(early)
        comm_hooks.subscribe(front, first=True)
        comm_hooks.subscribe(late)
        dist.barrier()
        comm_hooks.unsubscribe(early)
        comm_hooks.unsubscribe(front)
        comm_hooks.subscribe(early)
        dist.barrier()
        comm_hooks.unsubscribe(late)
        comm_hooks.unsubscribe(early)
        return heard, comm_hooks._num_first

    assert cluster2.run(order)[0] == (["front", "late", "early", "early", "late"], 0)
