"""What hand-made traces of a GPU say: every answer was worked out on paper."""

from __future__ import annotations

import pytest
from trace_files import copy, host, kernel, launch, nccl, write

from course_lib.traces import read_traces, trace_report


def device_of(path):
    (one,) = trace_report(path).devices
    return one


def test_every_moment_is_counted_once(tmp_path):
    # computing 0-100 and 150-200, communication 80-170, a copy 190-260, nothing 260-300, computing 300-310
    path = write(tmp_path / "t.json", kernel(0, 100), kernel(150, 50), nccl(80, 90), copy(190, 70), kernel(300, 10))
    time = device_of(path).time
    assert (time.window_us, time.computing_us, time.communication_us) == (310, 160, 90)
    assert (time.hidden_us, time.exposed_us) == (20 + 20, 50)
    assert (time.copy_us, time.idle_us) == (60, 40)
    assert time.computing_us + time.exposed_us + time.copy_us + time.idle_us == time.window_us


def test_a_copy_within_the_device_computes_and_kernels_at_once_count_once(tmp_path):
    events = kernel(0, 10), kernel(5, 10, stream=8), copy(15, 5, "Memcpy DtoD (Device -> Device)")
    time = device_of(write(tmp_path / "t.json", *events)).time
    assert (time.computing_us, time.copy_us, time.idle_us) == (20, 0, 0)
    assert {row.stream: row.computing_us for row in time.streams} == {"stream 7": 10, "stream 8": 10, "stream 22": 5}


def test_the_window_is_that_of_the_steps_and_of_what_they_launched(tmp_path):
    steps = [host("user_annotation", f"ProfilerStep#{n}", 100 * n, 100) for n in (1, 2)]
    path = write(tmp_path / "t.json", *steps, kernel(50, 100), kernel(280, 40))
    time = device_of(path).time
    assert (time.num_steps, time.step_us, time.window_us) == (2, 100, 220)
    assert time.computing_us == 50 + 40, "the first kernel began before the first step"


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_bytes_are_the_kernel_s_numbers_times_their_size(tmp_path, name):
    path = write(tmp_path / name, kernel(0, 1), nccl(5, 10, numbers=1000), nccl(20, 10, numbers=500))
    (row,) = device_of(path).time.collectives
    assert (row.collective, row.num_calls, row.size_bytes, row.largest_bytes) == ("all_reduce", 2, 6000, 4000)


def test_bytes_of_a_kernel_without_them_are_those_of_its_call(tmp_path):
    call = host("cpu_op", "record_param_comms", 0, 1, **{
        "External id": 5, "Collective name": "_allgather_base", "In msg nelems": 10, "dtype": "BFloat16"})  # fmt: skip
    bare = kernel(2, 3, name="ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWork)", stream=9, **{"External id": 5})
    (row,) = device_of(write(tmp_path / "t.json", call, bare)).time.collectives
    assert (row.collective, row.size_bytes) == ("all_gather", 20)


def test_bytes_are_not_told_where_one_call_does_not_say_them(tmp_path):
    bare = kernel(9, 3, name="ncclKernel_AllReduce_RING_LL_Sum_float", stream=20)
    (row,) = device_of(write(tmp_path / "t.json", nccl(1, 2), bare)).time.collectives
    assert (row.num_calls, row.size_bytes) == (2, None)


def test_idle_time_by_reason(tmp_path):
    events = [
        kernel(0, 10, correlation=1), launch(-5, 1),
        kernel(50, 10, correlation=2), launch(42, 2),  # 32 us of waiting for the host, 8 us of a start
        kernel(160, 10, correlation=3), launch(40, 3),  # launched long before: 100 us held up
        kernel(270, 10),  # 100 us of which no launch tells
        host("cuda_runtime", "cudaStreamSynchronize", 100, 30),
    ]  # fmt: skip
    idle = device_of(write(tmp_path / "t.json", *events)).idle
    assert (idle.host_us, idle.starting_us, idle.held_us, idle.untold_us) == (32, 8, 100, 100)
    assert (idle.num_synchronisations, idle.synchronising_us) == (1, 30)


def test_idle_time_by_what_the_program_was_at(tmp_path):
    annotations = [
        host("user_annotation", "## forward ##", 0, 40), host("user_annotation", "inner", 10, 10),
        host("user_annotation", "## backward ##", 50, 50), host("user_annotation", "nccl:all_reduce", 60, 1),
    ]  # fmt: skip
    idle = device_of(write(tmp_path / "t.json", *annotations, kernel(0, 15), kernel(90, 20))).idle
    assert dict(idle.by_annotation) == {"## forward ##": 25, "## backward ##": 40, "": 10}


def test_two_gpus_of_one_rank_are_two_devices(tmp_path):
    other = kernel(0, 30)
    other["args"]["device"] = 1
    report = trace_report(write(tmp_path / "t.json", kernel(0, 10), other))
    assert [(one.name, one.time.computing_us) for one in report.devices] == [
        ("rank 0, GPU 0", 10),
        ("rank 0, GPU 1", 30),
    ]


# -- several ranks -----------------------------------------------------------------------------------------------------


def ranks(tmp_path, *durations_us: tuple[float, ...], shift_us: float = 0.0):
    """A trace for each rank, with all-reduces of these times; clocks are apart by ``shift_us`` a rank."""
    return [
        write(
            tmp_path / f"{rank}.json",
            kernel(0, 1),
            *(nccl(1000 * n + rank * shift_us, time) for n, time in enumerate(times, 1)),
            distributedInfo={"rank": rank, "world_size": len(durations_us)},
        )
        for rank, times in enumerate(durations_us)
    ]


@pytest.mark.parametrize("shift_us", [0.0, 1e9])
def test_the_rank_that_waits_least_is_the_straggler_whatever_clocks_say(tmp_path, shift_us):
    found = trace_report(*ranks(tmp_path, (50, 60), (10, 20), (40, 15), shift_us=shift_us)).stragglers
    assert found.num_calls == 2
    assert found.waited_us == {0: 40 + 45, 1: 0 + 5, 2: 30 + 0}
    assert found.came_last == {0: 0, 1: 1, 2: 1}
    assert found.straggler == 1


def test_ranks_that_made_different_numbers_of_calls_are_not_compared(tmp_path):
    found = trace_report(*ranks(tmp_path, (50, 60), (10,))).stragglers
    assert found.straggler is None
    assert "calls of all_reduce do not match" in found.not_told


def test_calls_of_two_groups_are_compared_within_each(tmp_path):
    for rank, times in enumerate([(9, 5), (7, 8), (30, 1), (31, 4)]):
        group = {"Process Group Name": "1", "Process Group Ranks": "[0, 1]" if rank < 2 else "[2, 3]"}
        events = [nccl(100 * n, time, **group) for n, time in enumerate(times, 1)]
        write(tmp_path / f"{rank}.json", *events, distributedInfo={"rank": rank})
    found = trace_report(*(tmp_path / f"{rank}.json" for rank in range(4))).stragglers
    assert found.waited_us == {0: 2, 1: 3, 2: 0, 3: 1 + 3}


def test_a_rank_is_that_of_the_file_else_of_its_name_else_of_its_place(tmp_path):
    told = write(tmp_path / "a.json", kernel(0, 1), distributedInfo={"rank": 1})
    named = write(tmp_path / "rank-7.json", kernel(0, 1))
    bare = [write(tmp_path / f"{name}.json", kernel(0, 1)) for name in "xy"]
    assert [trace.rank for trace in read_traces(bare[0], told, named, bare[1])] == [0, 1, 3, 7]
    with pytest.raises(ValueError, match="both of rank 1; give one trace a rank"):
        read_traces(told, told)
