"""The communication meter misses nothing, counts nothing twice, and agrees with the kernel's count of the sockets."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from socket_bytes import is_settled, socket_bytes, socket_packets
from waiting import wait_until

from course_lib.cluster import Cluster
from course_lib.cluster.base.call_marks import under_construction
from course_lib.cluster.base.flat_collectives import flat_collective
from course_lib.meter import Communication, expect, metered
from course_lib.meter.communication import recorder
from course_lib.meter.communication.call import Call
from course_lib.meter.communication.wire_bytes import traffic

pytestmark = [
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

N = 4000  # elements; float32: 16 kB, divisible by 2 and 4


def recorder_entries() -> int:
    """How many operations PyTorch's own flight recorder has seen in this process."""
    import json

    return len(json.loads(torch._C._distributed_c10d._dump_fr_trace_json(True, False)).get("entries") or [])


def direct(me):
    import warnings

    warnings.simplefilter("ignore")
    x, n = torch.ones(N), me.world_size
    dist.all_reduce(x)
    dist.all_reduce(x, async_op=True).wait()
    dist.broadcast(x, 1)
    dist.reduce(x, 1)
    dist.all_gather([torch.empty(N) for _ in range(n)], x)
    flat_collective("all_gather")(torch.empty(N * n), x)
    flat_collective("reduce_scatter")(torch.empty(N // n), x)
    dist.gather(x, [torch.empty(N) for _ in range(n)] if me.rank == 0 else None, 0)
    dist.scatter(x, [torch.empty(N) for _ in range(n)] if me.rank == 0 else None, 0)
    dist.all_to_all_single(torch.empty(N), x)
    dist.barrier()
    with torch.inference_mode():
        dist.all_reduce(torch.ones(N))


def test_direct_calls_sync_and_async_are_all_seen_once(cluster4):
    seen = metered(cluster4, direct).communication
    assert seen.by_operation() == {
        "all_gather": 8, "all_reduce": 12, "all_to_all": 4, "barrier": 4, "broadcast": 4, "gather": 4, "reduce": 4,
        "reduce_scatter": 4, "scatter": 4,
    }  # fmt: skip
    size = 4 * N
    assert seen.of(operation="all_reduce").sent_bytes(0) == 3 * 6 * size // 4
    assert seen.of(operation="all_gather").sent_bytes(0) == 2 * 3 * size
    assert seen.of(operation="broadcast").total_bytes == 3 * size
    assert seen.of(operation="scatter").matrix()[0] == [0, size, size, size]
    assert seen.of(operation="gather").matrix()[3] == [size, 0, 0, 0]
    assert [call.number for call in seen.of(2).calls] == list(range(1, len(seen.of(2).calls) + 1))
    lines = {call.line.function for call in seen.calls}
    assert lines == {"direct"}
    assert all(call.end_s >= call.start_s for call in seen.calls)


def test_it_agrees_with_the_flight_recorder_of_pytorch():
    def counted(me):
        before = recorder_entries()
        direct(me)
        return recorder_entries() - before

    with Cluster(2) as fresh:  # the recorder keeps a fixed number, and has dropped the oldest on busy ranks
        run = metered(fresh, counted)
    assert run[0] < 200, "the recorder's buffer has not run over"
    if run[0]:
        assert len(run.communication.of(0).calls) == run[0]


def test_the_table_of_bytes_agrees_with_the_sockets(cluster4):
    def measured(me, operation):
        import warnings

        from course_lib.meter.communication.recorder import Recorder

        warnings.simplefilter("ignore")
        big, n = torch.ones(400_000), me.world_size
        part = torch.empty(400_000 // n)
        calls = {
            "all_reduce": lambda: dist.all_reduce(big),
            "broadcast": lambda: dist.broadcast(big, 1),
            "reduce": lambda: dist.reduce(big, 2),
            "all_gather": lambda: flat_collective("all_gather")(torch.empty(400_000 * n), big),
            "reduce_scatter": lambda: flat_collective("reduce_scatter")(part, big),
            "gather": lambda: dist.gather(big, [torch.empty(400_000)] * n if me.rank == 0 else None, 0),
            "scatter": lambda: dist.scatter(big, [torch.ones(400_000)] * n if me.rank == 0 else None, 0),
            "all_to_all": lambda: dist.all_to_all_single(torch.empty(400_000), big),
        }
        calls[operation]()  # connections are made at the first use
        dist.barrier()
        wait_until(is_settled, "all is acknowledged")
        before = socket_bytes()
        with Recorder(me.rank) as recorder:
            calls[operation]()
        dist.barrier()
        wait_until(is_settled, "all is acknowledged")
        after = socket_bytes()
        return after[0] - before[0], sum(sum(call.sent_bytes.values()) for call in recorder.calls)

    for operation in (
        "all_reduce",
        "broadcast",
        "reduce",
        "all_gather",
        "reduce_scatter",
        "gather",
        "scatter",
        "all_to_all",
    ):
        for rank, (kernel, table) in enumerate(cluster4.run(measured, operation)):
            assert kernel == pytest.approx(table, rel=0.01, abs=2000), f"{operation}, rank {rank}"


def scattered(me, as_list):
    """Packets of a reduce-scatter, and its messages and bytes by the table."""
    from course_lib.meter.communication.recorder import Recorder

    whole, part = torch.ones(16 * me.world_size), torch.empty(16)

    def reduce_scatter():
        if as_list:
            dist.reduce_scatter(part, list(whole.chunk(me.world_size)))
        else:
            flat_collective("reduce_scatter")(part, whole)

    reduce_scatter()  # connections are made at the first use
    dist.barrier()
    wait_until(is_settled, "all is acknowledged")
    before = socket_packets()
    with Recorder(me.rank) as recorder:
        reduce_scatter()
    wait_until(is_settled, "all is acknowledged")
    packets = socket_packets() - before
    dist.barrier()
    (call,) = recorder.calls
    return packets, call.num_messages, sum(call.sent_bytes.values())


@pytest.mark.parametrize("world_size", [2, 3])
def test_a_reduce_scatter_of_a_list_sends_an_all_reduce_for_each_part(clusters, world_size):
    flat, listed = (clusters(world_size).call(scattered, (as_list,)) for as_list in (False, True))
    for (packets, messages, sent), (packets_of_list, messages_of_list, sent_of_list) in zip(flat, listed, strict=True):
        assert packets_of_list / packets == pytest.approx(world_size, rel=0.25), "by the kernel's count"
        assert messages_of_list == world_size * messages == world_size * 2 * (world_size - 1)
        assert sent_of_list == sent


def ddp(me):
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    layers = [torch.nn.Linear(100, 100, bias=False) for _ in range(6)]  # 40,000 bytes each
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.1)
    for _ in range(2):
        model(torch.ones(4, 100)).sum().backward()
    with model.no_sync():
        model(torch.ones(4, 100)).sum().backward()


def test_buckets_of_ddp_are_seen_with_the_line_of_backward(cluster2):
    seen = metered(cluster2, ddp).communication.of(0)
    reduced = seen.of(operation="all_reduce")
    assert reduced.sent_bytes(0) == 2 * 240_000, "two synchronised steps, each gradient once; no_sync sends nothing"
    assert len(reduced.calls) == 3, "one bucket (the first is large) in the first step, two in the second"
    weights = [call for call in seen.calls if call.operation == "broadcast" and call.size_bytes >= 240_000]
    assert len(weights) == 1, "rank 0's weights go out once"
    assert all(call.line.function == "ddp" for call in reduced.calls)


def fsdp(me):
    from torch.distributed.fsdp import fully_shard

    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64, bias=False) for _ in range(3)])
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model(torch.ones(2, 64)).sum().backward()


def test_fully_shard_is_seen(cluster2):
    seen = metered(cluster2, fsdp).communication.of(0)
    layer_bytes = 64 * 64 * 4
    gathers = [call for call in seen.calls if call.operation == "all_gather" and call.size_bytes == layer_bytes // 2]
    scatters = [call for call in seen.calls if call.operation == "reduce_scatter"]
    assert len(gathers) in (5, 6), "once forward and once backward a layer; the last may be kept between them"
    assert [call.size_bytes for call in scatters] == [layer_bytes] * 3


def tensor_parallel(me):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16))
    mesh = init_device_mesh("cpu", (me.world_size,))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    before = len(_open_calls())
    x = torch.ones(8, 16, requires_grad=True)
    model(x).sum().backward()
    return len(_open_calls()) - before


def _open_calls():
    from course_lib.cluster.hooks import comm_hooks

    return comm_hooks._subscribers[-1].__self__._open


def test_functional_collectives_of_dtensor_are_seen_once(cluster2):
    run = metered(cluster2, tensor_parallel)
    reduced = [call for call in run.communication.of(0, operation="all_reduce").calls if call.size_bytes == 8 * 16 * 4]
    assert len(reduced) == 2, "one all-reduce forward, one backward (of the input's gradient)"
    assert run[0] == 2, "and nothing else"


def messages(me):
    x, n = torch.ones(N), me.world_size
    after, before = (me.rank + 1) % n, (me.rank - 1) % n
    for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, x, after), dist.P2POp(dist.irecv, torch.empty(N), before)]
    ):
        work.wait()
    pair = dist.new_group([1, 3])
    if me.rank == 1:
        dist.send(x[:10], 3, group=pair)
    if me.rank == 3:
        dist.recv(torch.empty(10), 1, group=pair)


def test_messages_are_seen_with_their_global_peer(cluster4):
    seen = metered(cluster4, messages).communication
    assert seen.of(operation="send").matrix() == [
        [0, 4 * N, 0, 0], [0, 0, 4 * N, 40], [0, 0, 0, 4 * N], [4 * N, 0, 0, 0],
    ]  # fmt: skip
    assert seen.of(operation=["send", "recv"]).by_operation() == {"recv": 5, "send": 5}
    last = seen.of(1, operation="send").calls[-1]
    assert (last.group, last.sent_bytes) == ((1, 3), {3: 40})
    assert all(call.end_s is not None for call in seen.of(operation=["send", "recv"]).calls)
    assert seen.busiest_bytes == seen.received_bytes(3) or seen.busiest_bytes == seen.sent_bytes(1)


def rooted(me):
    """Collectives of a group that is not all ranks, from rank 3 and to rank 1."""
    pair = dist.new_group([1, 3])
    x = torch.ones(N)
    if me.rank in (1, 3):
        dist.broadcast(x, src=3, group=pair)
        dist.reduce(x, dst=1, group=pair)
        dist.all_reduce(x, group=pair)
    dist.gather(x, [torch.empty(N) for _ in range(4)] if me.rank == 2 else None, 2)


def test_a_root_is_told_as_a_rank_of_the_whole_job(cluster4):
    seen = metered(cluster4, rooted).communication
    roots = {call.operation: call.root for call in seen.calls}
    assert roots == {"broadcast": 3, "reduce": 1, "all_reduce": None, "gather": 2}


def autograd_collective(me):
    from torch.distributed.nn.functional import all_reduce

    x = torch.ones(N, requires_grad=True)
    (all_reduce(x) * 2).sum().backward()


def test_calls_that_a_backward_pass_issues_are_seen(cluster2):
    assert metered(cluster2, autograd_collective).communication.of(0).by_operation() == {"all_reduce": 2}


def test_time_hidden_behind_computing_is_told_from_time_waited(cluster2, tmp_path):
    def overlapped(me, begun):
        """Rank 0 has computed, on a stand-in for its clock; only then rank 1 begins."""
        if me.rank == 1:
            wait_until(begun.exists, "rank 0 has computed")
        work = dist.all_reduce(torch.ones(10), async_op=True)
        if me.rank == 0:
            computed_s.update({threading.get_ident(): 300.0})
            begun.touch()
        work.wait()

    def on_own_clock(me, begun):
        plain = recorder.paced_s
        recorder.paced_s = lambda thread: plain(thread) + computed_s.get(thread, 0.0)
        try:
            overlapped(me, begun)
        finally:
            recorder.paced_s = plain

    computed_s = {}
    calls = metered(cluster2, on_own_clock, tmp_path / "begun").communication.calls
    computing, waiting = (call.hidden_s for call in calls)
    assert 300.0 <= computing < 400.0
    assert 0.0 <= waiting < 100.0, "CPU seconds of a thread that waits"


def test_what_is_hidden_is_computing_of_the_thread_that_began_the_call(monkeypatch):
    clocks = {("CPU of", 7): 2.0, ("CPU of", 8): 50.0}
    stand_in = SimpleNamespace(
        pthread_getcpuclockid=lambda thread: ("CPU of", thread),
        clock_gettime=clocks.__getitem__,
        perf_counter=lambda: now_s,
    )
    monkeypatch.setattr(recorder, "time", stand_in)
    monkeypatch.setattr(recorder, "now_s", stand_in.perf_counter)
    monkeypatch.setattr(recorder, "paced_s", {7: 10.0, 8: 500.0}.get)
    now_s, call = 100.0, Call(0, 1, "all_reduce", (0, 1), 4, {}, 0, 0.0, None, None, None)
    pending = recorder._Pending(call, 7)
    pending.begin()
    now_s, clocks["CPU of", 7], clocks["CPU of", 8] = 104.0, 4.5, 90.0
    pending.end()
    assert (pending.call.start_s, pending.call.end_s, pending.call.hidden_s) == (100.0, 104.0, 2.5)
    assert pending.call.exposed_s == 1.5


def test_when_a_rank_began_to_wait_is_told(cluster2):
    def each(me):
        began = dist.all_reduce(torch.ones(10), async_op=True)
        dist.broadcast(torch.ones(1), 0)  # between the two
        began.wait()
        dist.all_reduce(torch.ones(10))
        dist.barrier(async_op=True).get_future().wait()

    begun, between, *calls = metered(cluster2, each).communication.of(0).calls
    assert begun.start_s <= between.start_s <= between.end_s <= begun.waited_s
    calls = [begun, *calls]
    assert begun.waited_s <= calls[1].start_s <= calls[1].waited_s
    assert calls[2].waited_s is None


def test_with_the_meter_off_nothing_is_left_behind(cluster2):
    def around(me):
        from torch._C._distributed_c10d import Work

        from course_lib.cluster.hooks import comm_hooks
        from course_lib.meter.communication.recorder import Recorder

        wait = Work.wait
        with Recorder(me.rank) as recorder:
            dist.all_reduce(torch.ones(1))
        dist.all_reduce(torch.ones(1))
        return len(recorder.calls), comm_hooks._library is None, Work.wait is wait

    assert list(cluster2.run(around)) == [(1, True, True)] * 2


def test_the_report_reads_well():
    call = Call(0, 1, "all_reduce", (0, 1), 1024, {1: 1024}, 2, 0.0, 0.002, 0.0015, None)
    seen = Communication(2, (call, Call(1, 1, "all_reduce", (0, 1), 1024, {0: 1024}, 2, 0.0, 0.004, 0.0, None)))
    text = str(seen)
    assert "all_reduce" in text
    assert "1 KiB" in text
    assert "4 ms" in text
    assert "in all 2 KiB; the busiest rank 1 KiB" in text
    assert str(Communication(2, ())) == "no communication"


# -- expectations -----------------------------------------------------------------------------------------------


def by_gathering(me, x):
    parts = [torch.empty_like(x) for _ in range(me.world_size)]
    dist.all_gather(parts, x)
    return torch.stack(parts).sum(0)


def too_little(me, x):
    return x * me.world_size  # right, as long as all ranks hold the same


def by_ring(me, x):
    from course_lib.cluster.base.point_to_point import exchange, recv, send

    n, parts = me.world_size, list(x.clone().chunk(me.world_size))
    for step in range(2 * (n - 1)):
        give, take = (me.rank - step) % n, (me.rank - step - 1) % n
        arrived = torch.empty_like(parts[take])
        exchange([send(parts[give], (me.rank + 1) % n), recv(arrived, (me.rank - 1) % n)])
        parts[take] = parts[take] + arrived if step < n - 1 else arrived
    return torch.cat(parts)


def test_expectations_pass_a_ring_and_turn_both_fakes_away(cluster4):
    x = torch.ones(N)
    demand = {"sent_bytes": 6 * 4 * N // 4, "num_messages": 6, "only": ("send", "recv")}
    results = {f.__name__: metered(cluster4, f, x) for f in (by_ring, by_gathering, too_little)}
    for run in results.values():
        assert all(torch.equal(result, torch.full((N,), 4.0)) for result in run), "every one has the right sum"
    assert expect(results["by_ring"].communication, **demand) == []
    gathered = " ".join(expect(results["by_gathering"].communication, **demand))
    assert "all_gather was called" in gathered
    assert "rank 0 sent 46.9 KiB, 2 times the 23.4 KiB that the task needs." in gathered
    assert "sent 3 messages; the task needs 6" in gathered
    assert "rank 0 sent 0 B, 0 times" in " ".join(expect(results["too_little"].communication, **demand))


def test_expectations_by_rank_and_with_tolerance():
    call = Call(0, 1, "send", (0, 1), 100, {1: 100}, 1, 0.0, 0.0, 0.0, None)
    seen = Communication(2, (call,))
    assert expect(seen, sent_bytes=[100, 0], num_messages=[1, 0]) == []
    assert expect(seen, sent_bytes=[101, 0], tolerance=0.02) == []
    assert expect(seen, sent_bytes=[101, 0]) != []
    assert expect(seen, never=["send"]) != []
    with pytest.raises(ValueError, match="3 numbers were given for 2 ranks"):
        expect(seen, sent_bytes=[1, 2, 3])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
def test_bytes_sent_add_up_to_what_each_operation_must_move(n):
    def total(operation, **kwargs):
        return sum(
            sum(traffic(operation, rank=rank, num_ranks=n, size_bytes=840 * n, **kwargs).sent_bytes.values())
            for rank in range(n)
        )

    size = 840 * n
    assert total("all_reduce") == 2 * (n - 1) * size
    assert total("broadcast", root=n - 1) == (n - 1) * size
    assert total("broadcast", backend="nccl") == (n - 1) * size
    assert total("all_gather") == n * (n - 1) * size
    assert total("reduce_scatter", backend="nccl") == (n - 1) * size
    assert total("gather") == (n - 1) * size
    assert total("scatter") == (n - 1) * size // n
    assert total("all_to_all") == (n - 1) * size
    assert total("barrier") == 0


def test_an_unknown_operation_is_refused():
    with pytest.raises(ValueError, match="no algorithm is known for operation 'gossip'"):
        traffic("gossip", rank=0, num_ranks=2, size_bytes=1)


# -- while a strategy is built ---------------------------------------------------------------------------------------


def built_and_used(me):
    with recorder.Recorder(me.rank) as own:
        with under_construction():
            dist.all_reduce(torch.zeros(2))
        dist.broadcast(torch.zeros(N), 0)
    return [(call.operation, call.is_construction) for call in own.calls]


def test_what_is_sent_while_a_strategy_is_built_is_counted_apart_and_hidden_from_no_recorder(cluster2):
    run = metered(cluster2, built_and_used)
    assert list(run) == [[("all_reduce", True), ("broadcast", False)]] * 2
    seen = run.communication
    assert seen.by_operation() == {"broadcast": 2}
    assert seen.total_bytes == 4 * N
    assert [call.operation for call in seen.construction] == ["all_reduce"] * 2
    assert [call.rank for call in seen.of(1).construction] == [1]
    assert seen.of(operation="broadcast").construction == ()
    assert str(seen).endswith("\nbesides, to compare models while they are built: 2 messages a rank, 16 B in all")


def held_after_waits(me):
    """Bytes beside the first tensor at the peak, where each message had a room of its own that was let go."""
    from course_lib.meter import MemoryLedger

    other, own = 1 - me.rank, torch.ones(N)
    with recorder.Recorder(me.rank) as seen, MemoryLedger(inputs=(own,)) as ledger:
        for _ in range(4):
            room = torch.empty(N)
            both = [dist.P2POp(dist.isend, own, other), dist.P2POp(dist.irecv, room, other)]
            for work in dist.batch_isend_irecv(both):
                work.wait()
            del both, room, work
    return ledger.peak().total_bytes - own.nbytes, len(seen.calls)


def test_a_recorder_holds_no_tensor_of_what_was_waited_for(cluster2):
    for held_bytes, num_calls in cluster2.run(held_after_waits):
        assert num_calls == 8
        assert held_bytes < 2 * 4 * N
