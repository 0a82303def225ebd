"""The deep view: profilers of all ranks and the course's meters in one trace, on one clock."""

from __future__ import annotations

import json
import pickle
from itertools import combinations
from typing import Any

import pytest

from course_lib.cluster import Cluster, RankFailed, Run
from course_lib.meter import DeepTrace, Span, Timeline, profiled
from course_lib.meter.profiling.deep_view import on_common_clock

pytestmark = [pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning")]

CLOCK_US = 300.0  # what the clocks may differ by; orders below hold by construction, on a busy machine too


def train(me: Any, factor: float, *, rounds: int = 2) -> tuple[float, Timeline]:
    import time

    import torch
    import torch.distributed as dist

    timeline = Timeline(me.rank)
    weights = torch.ones(50_000)
    for _ in range(rounds):
        with timeline.span("forward"):
            torch.ones(64, 64) @ torch.ones(64, 64)
            time.sleep(0.02)  # so that the two rounds cannot be taken for one another
        dist.all_reduce(weights)
    first, second = dist.all_reduce(weights, async_op=True), dist.all_reduce(weights.clone(), async_op=True)
    with timeline.span("meanwhile"):
        torch.ones(64, 64) @ torch.ones(64, 64)
    first.wait()
    second.wait()
    print("trained")
    return factor * float(weights[0]), timeline


@pytest.fixture(scope="module")
def run(cluster2: Any) -> Run:
    return profiled(cluster2, train, 0.5, rounds=2)


@pytest.fixture(scope="module")
def trace(run: Run, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    path = run.timeline.save(tmp_path_factory.mktemp("trace") / "trace.json")
    loaded = json.loads(path.read_text(encoding="utf-8"))
    assert loaded["displayTimeUnit"] == "ms"
    return loaded["traceEvents"]


def blocks(trace: list[dict[str, Any]], rank: int, name: str, category: str) -> list[dict[str, Any]]:
    events = [e for e in trace if e["ph"] == "X" and (e["pid"], e["name"], e["cat"]) == (rank, name, category)]
    return sorted(events, key=lambda e: e["ts"])


def end(event: dict[str, Any]) -> float:
    return event["ts"] + event["dur"]


def is_within(inner: dict[str, Any], outer: dict[str, Any]) -> bool:
    return outer["ts"] - CLOCK_US <= inner["ts"] and end(inner) <= end(outer) + CLOCK_US


def test_the_run_is_that_of_the_function_with_meter_and_trace(run: Run) -> None:
    assert [result for result, _ in run] == [4.0, 4.0]
    assert run.text == {0: "trained\n", 1: "trained\n"}
    assert run.communication.by_operation() == {"all_reduce": 8}
    assert isinstance(run.timeline, DeepTrace)
    assert "2 ranks" in repr(run.timeline)
    assert {span.kind for span in run.timeline.spans} == {"compute", "collective"}


def test_each_rank_is_a_process_and_every_thread_has_a_name(trace: list[dict[str, Any]]) -> None:
    names = {e["pid"]: e["args"]["name"] for e in trace if e["ph"] == "M" and e["name"] == "process_name"}
    assert names == {0: "rank 0", 1: "rank 1"}
    threads = [(e["pid"], e["tid"], e["args"]["name"]) for e in trace if e["ph"] == "M" and e["name"] == "thread_name"]
    for rank in (0, 1):
        mine = [name for pid, _, name in threads if pid == rank]
        assert {"compute", "collective", "main thread"} <= set(mine)
        assert len({tid for pid, tid, _ in threads if pid == rank}) == len(mine)
    assert {(e["pid"], e["tid"]) for e in trace if e["ph"] == "X"} == {(pid, tid) for pid, tid, _ in threads}


def test_events_are_in_order_and_their_numbers_are_sound(trace: list[dict[str, Any]]) -> None:
    assert {e["ph"] for e in trace} <= {"M", "X", "s", "t", "f"}
    happened = [e for e in trace if e["ph"] != "M"]
    times = [e["ts"] for e in happened]
    assert times == sorted(times)
    assert all(isinstance(ts, float) for ts in times)
    assert 0 <= times[0] < 1.001, "the trace begins at zero"
    assert all(e["dur"] >= 0 for e in happened if e["ph"] == "X")
    assert not [e for e in happened if "clock of" in e["name"] or "PyTorch Profiler" in e["name"]]


def test_blocks_of_one_thread_are_apart_or_inside_one_another(trace: list[dict[str, Any]]) -> None:
    by_thread: dict[Any, list[dict[str, Any]]] = {}
    for event in trace:
        if event["ph"] == "X":
            by_thread.setdefault((event["pid"], event["tid"]), []).append(event)
    for mine in by_thread.values():
        for one, other in combinations(mine, 2):  # by their start
            is_apart, is_inside = other["ts"] >= end(one) - 0.002, end(other) <= end(one) + 0.002
            assert is_apart or is_inside or one["ts"] == other["ts"], (one, other)


@pytest.mark.parametrize("rank", [0, 1])
def test_profiler_and_meter_show_each_all_reduce_at_the_same_time(trace: list[dict[str, Any]], rank: int) -> None:
    ours = blocks(trace, rank, "all_reduce", "collective")
    theirs = blocks(trace, rank, "gloo:all_reduce", "user_annotation")
    calls = blocks(trace, rank, "c10d::allreduce_", "cpu_op")
    assert len(ours) == len(theirs) == len(calls) == 4
    for meter, profiler, call in zip(ours, theirs, calls, strict=True):
        assert call["ts"] - CLOCK_US <= meter["ts"] <= end(call) + CLOCK_US, "it hears inside the operator"
        assert meter["ts"] - CLOCK_US <= profiler["ts"] <= end(meter) + CLOCK_US, "and before gloo begins"


@pytest.mark.parametrize("rank", [0, 1])
def test_spans_of_a_timeline_stand_beside_the_profilers_blocks_of_that_name(
    trace: list[dict[str, Any]], rank: int
) -> None:
    for name, count in {"forward": 2, "meanwhile": 1}.items():
        ours, theirs = blocks(trace, rank, name, "compute"), blocks(trace, rank, name, "user_annotation")
        assert len(ours) == len(theirs) == count
        products = blocks(trace, rank, "aten::mm", "cpu_op")
        for mine, noted in zip(ours, theirs, strict=True):
            assert noted["ts"] - CLOCK_US <= mine["ts"]
            assert end(mine) <= end(noted) + CLOCK_US
            assert sum(is_within(product, mine) for product in products) == 1


def test_a_collective_ends_on_no_rank_before_it_began_on_the_other(trace: list[dict[str, Any]]) -> None:
    pairs = zip(*(blocks(trace, rank, "gloo:all_reduce", "user_annotation") for rank in (0, 1)), strict=True)
    for one, other in pairs:
        assert max(one["ts"], other["ts"]) <= min(end(one), end(other)) + CLOCK_US


def test_the_shortest_marker_sets_the_clock_and_gpu_streams_are_threads() -> None:
    marker = {"ph": "X", "name": "clock of course_lib", "pid": 7, "tid": 7}
    stream = {"ph": "M", "name": "thread_name", "pid": 0, "tid": 20, "args": {"name": "stream 20 "}}
    kernel = {"ph": "X", "name": "gemm", "cat": "kernel", "pid": 0, "tid": 20, "ts": 160.0, "dur": 5.0}
    events = [
        {**marker, "ts": 100.0, "dur": 40.0},
        {**marker, "ts": 150.0, "dur": 2.0},
        stream,
        kernel,
        {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "args": {"name": "python"}},
        {"ph": "X", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "x", "ts": 1.0, "dur": 900.0},
        {"ph": "s", "name": "ac2g", "id": 3, "pid": 7, "tid": 7, "ts": 158.0},
    ]
    moved = on_common_clock(events, [3.5, 2.0], rank=1, pid=7)
    assert [(e["ph"], e.get("ts")) for e in moved] == [("M", None), ("X", 2_000_009.0), ("s", 2_000_007.0)]
    assert {e["pid"] for e in moved} == {1}
    assert moved[0]["args"]["name"] == "GPU 0 stream 20"
    assert moved[2]["id"] != 3, "arrows of two ranks have numbers of their own"
    zero = DeepTrace({1: tuple(moved)}, ()).chrome_trace()["traceEvents"]
    assert [(e["name"], e.get("ts")) for e in zero if e["ph"] != "M"] == [("ac2g", 0.0), ("gemm", 2.0)]


def test_blocks_that_cross_get_threads_of_their_own() -> None:
    block = {"ph": "X", "name": "gloo:all_reduce", "pid": 0, "tid": (9, 5)}
    name = {"ph": "M", "name": "thread_name", "pid": 0, "tid": (9, 5), "args": {"name": "gloo"}}
    events = ({**block, "ts": 0.0, "dur": 3.0}, {**block, "ts": 2.0, "dur": 3.0}, name)
    trace = DeepTrace({0: events}, (Span(0, "x", "compute", 1e-6, 2e-6),)).chrome_trace()["traceEvents"]
    names = [e["args"]["name"] for e in trace if e["name"] == "thread_name"]
    assert names == ["compute", "gloo", "gloo (2)"]
    assert len({e["tid"] for e in trace if e["name"] == "gloo:all_reduce"}) == 2
    assert [e["ts"] for e in trace if e["ph"] == "X"] == [0.0, 1.0, 2.0]


def test_the_profiler_ends_with_a_function_that_fails() -> None:
    def fail(me: Any) -> None:
        raise KeyError("no such weight")

    with Cluster(1) as cluster:
        cluster.cell("kept = 1")  # so that the rank stays, and a profiler left on would stay with it
        with pytest.raises(RankFailed, match="no such weight") as caught:
            profiled(cluster, fail)
        assert "USDT" not in str(caught.value)
        assert list(cluster.cell("import torch; kept, torch.autograd._profiler_enabled()")) == ["(1, False)"]
        assert list(profiled(cluster, lambda me: "well")) == ["well"]


def test_a_timeline_travels_with_its_spans() -> None:
    timeline = Timeline(3)
    with timeline.span("forward"):
        pass
    assert pickle.loads(pickle.dumps(timeline)).spans == timeline.spans
