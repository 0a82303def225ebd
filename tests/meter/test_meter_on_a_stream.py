"""The communication meter on NCCL, as far as a machine without a GPU can show it: stand-ins for what NCCL answers.

NCCL gives a null ``Work`` where nobody has to wait, and what it begins ends on a stream: no clock of the host sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work
from torch._subclasses.fake_tensor import FakeTensorMode

from course_lib.cluster.hooks.operators import CommCall
from course_lib.meter import Communication
from course_lib.meter.communication.call import Call
from course_lib.meter.communication.recorder import Recorder

NULL = Work.boxed(None)


@pytest.fixture
def group() -> Iterator[Any]:
    """Of one rank, this process, on gloo; as the operators are handed it."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD.boxed()
    dist.destroy_process_group()


@pytest.fixture
def on_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CommCall, "backend", property(lambda self: "nccl"))


def on_gpu() -> torch.Tensor:
    """A tensor that says that it lies on a GPU, and holds nothing."""
    with FakeTensorMode():
        return torch.empty(8, device="cuda")


def said_of(group: Any, name: str, arguments: dict[str, Any], result: Any) -> Call:
    """What the meter notes of a call that ``result`` is the answer to; a real ``Work`` in it is waited for."""
    with Recorder(0) as recorder:
        answer = recorder._on_call(name, {"process_group": group, **arguments}, lambda: result)
        assert answer is result
        for part in result if isinstance(result, tuple) else (result,):
            work = Work.unbox(part) if isinstance(part, torch.ScriptObject) else None
            if work is not None:
                work.wait()
    (call,) = recorder.calls
    return call


def asked(name: str) -> tuple[str, dict[str, Any], Any]:
    """An operator, its arguments, and what it gives beside its ``Work``."""
    x = on_gpu()
    return {
        "barrier": ("barrier", {"tensor": x}, None),
        "all_reduce": ("allreduce_", {"tensors": [x]}, [x]),
        "send": ("send", {"tensors": [x], "dst": 0, "tag": 0}, None),
        "recv": ("recv_", {"tensors": [x], "src": 0, "tag": 0}, None),
    }[name]


CALLS = pytest.mark.parametrize("name", ["barrier", "all_reduce", "send", "recv"])


@CALLS
@pytest.mark.usefixtures("on_nccl")
def test_a_call_without_a_work_is_noted_and_has_no_end(group: Any, name: str) -> None:
    operator, arguments, beside = asked(name)
    call = said_of(group, operator, arguments, NULL if beside is None else (beside, NULL))
    assert call.operation == name
    assert call.size_bytes == (0 if name == "barrier" else 32)
    assert (call.end_s, call.hidden_s, call.exposed_s, call.span()) == (None, None, None, None)
    assert call.waited_after is call.waited_s is None


@CALLS
@pytest.mark.usefixtures("on_nccl")
def test_a_wait_on_a_stream_is_kept_and_is_no_end(group: Any, name: str) -> None:
    """The host goes on at once there: when it called ``wait`` says nothing of when the work was done."""
    operator, arguments, beside = asked(name)
    work = Work.boxed(dist.barrier(async_op=True))  # of gloo, whose future is over at once
    call = said_of(group, operator, arguments, work if beside is None else (beside, work))
    assert (call.end_s, call.hidden_s) == (None, None)
    assert call.waited_after == 1
    assert call.waited_s is not None
    assert call.waited_s >= call.start_s


def test_gloo_on_a_gpu_is_done_when_the_wait_for_it_is_over(group: Any) -> None:
    operator, arguments, beside = asked("all_reduce")
    call = said_of(group, operator, arguments, (beside, Work.boxed(dist.barrier(async_op=True))))
    assert call.end_s is not None
    assert call.waited_s is not None
    assert call.end_s >= call.waited_s


@pytest.mark.usefixtures("on_nccl")
def test_nccl_beside_gloo_leaves_what_lies_on_the_cpu_to_the_host(group: Any) -> None:
    call = said_of(group, "allreduce_", {"tensors": [torch.ones(8)]}, ([torch.ones(8)], NULL))
    assert call.end_s is not None
    assert call.hidden_s is not None


def a_call(rank: int, end_s: float | None) -> Call:
    hidden_s = None if end_s is None else 0.0
    return Call(rank, 1, "all_reduce", (0, 1), 1024, {1 - rank: 1024}, 2, 0.0, end_s, hidden_s, None)


@pytest.mark.parametrize(
    ("ends_s", "told"),
    [
        ((None, None), ["-", "-"]),  # and not 0 s: nobody has seen that it took no time
        ((None, 0.004), ["0 ns", "4 ms"]),
    ],
)
def test_the_table_tells_no_time_that_no_clock_has_seen(ends_s: tuple, told: list[str]) -> None:
    seen = Communication(2, tuple(a_call(rank, end_s) for rank, end_s in enumerate(ends_s)))
    (row,) = [line for line in str(seen).splitlines() if line.startswith("all_reduce")]
    assert " ".join(row.split()).endswith(" ".join(told))
