"""The branches of ``course bench gpu`` that a GPU takes, with the CPU and some made-up functions in its place.

What a GPU would answer is not shown here; that these lines run, and what is told and judged, is.
"""

from __future__ import annotations

import contextlib
import json
import time

import pytest
import torch
from gpu_tasks import outcomes

from course_lib.authoring.bench.gpu import record as record_module
from course_lib.authoring.bench.gpu.measurements import memory, peak, precision, timeline
from course_lib.authoring.bench.gpu.page import page
from course_lib.authoring.bench.gpu.record import GpuRecord
from course_lib.authoring.bench.gpu.task import BenchTask
from course_lib.devices import Device, GpuLink, Machine
from course_lib.meter import origin as origin_module
from course_lib.models import TransformerConfig

TINY = TransformerConfig(context_length=16, num_layers=1, width=32, num_heads=2)
CARD = Device(0, "NVIDIA H100 80GB HBM3", 80 * 10**9, "GPU-1")
HERE = Machine(16, 10**11, "a CPU", "Linux", "3.12", "2.11.0", devices=(CARD,), driver="580.1")


class InPlace(BenchTask):
    """A task for a GPU whose tensors lie on the CPU."""

    @property
    def device_name(self) -> str:
        return "cpu"


class Event:
    """An event of a device that does everything at once, and whose clock runs while it sleeps."""

    now_s = 0.0

    def __init__(self, enable_timing: bool = False) -> None:
        self.at_s = 0.0

    def record(self, stream: object = None) -> None:
        self.at_s = Event.now_s

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other: Event) -> float:
        return 1e3 * (other.at_s - self.at_s)


def sleep(cycles: int) -> None:
    time.sleep(cycles / 1e9)
    Event.now_s += cycles / 1e9


@pytest.fixture
def task(tmp_path, monkeypatch):
    stand_ins = {
        "Event": Event,
        "Stream": lambda device=None: None,
        "stream": lambda stream: contextlib.nullcontext(),
        "current_stream": lambda device=None: None,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "reset_peak_memory_stats": lambda device=None: None,
        "max_memory_allocated": lambda device=None: 10**6,
        "_sleep": sleep,
    }
    for name, function in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, function)
    for module in (memory, precision):
        monkeypatch.setattr(module, "middle", lambda on_gpu: TINY)
    monkeypatch.setattr(peak, "widest", lambda on_gpu: TINY)
    monkeypatch.setattr(peak, "_matmul_rate", lambda task: 1e12)
    monkeypatch.setattr(peak, "machine", lambda: HERE)
    return InPlace(tmp_path / "result.json", on_gpu=True, num_gpus=1, rounds=2, end_s=300.0, clock=lambda: 0.0)


def test_the_peak_is_judged_by_the_data_sheet_of_the_card(task):
    peak.run(task)
    assert set(outcomes(task).values()) == {"passed"}
    judged = [row for row in task.table.rows if row.target is not None]
    assert [row.what for row in judged] == ["share of the data sheet's peak, bfloat16 weights"]
    assert judged[0].meets_target is False, "no CPU reaches half of it"


def test_every_precision_learns_alike(task):
    precision.run(task)
    found = outcomes(task)
    assert all(found[f"training in {name}"] == "passed" for name in precision._WAYS)
    assert all(found[f"the loss of {name}"] == "passed" for name in precision._WAYS if name != "float32")
    assert torch.get_float32_matmul_precision() == "highest", "put back"
    promised = [row.what for row in task.table.rows if row.target is not None]
    assert promised == ["speed-up over float32, bfloat16 autocast"]


def test_a_loss_that_strays_fails(task, monkeypatch):
    trained = iter([(5.0, [0.1, 0.1]), (5.1, [0.1, 0.1]), (6.0, [0.05, 0.05]), (float("nan"), [0.1, 0.1])])
    monkeypatch.setattr(precision, "_WAYS", dict.fromkeys(("float32", "near", "far", "lost")))
    monkeypatch.setattr(precision, "_train", lambda *_: next(trained))
    precision.run(task)
    found = outcomes(task)
    assert [found[f"the loss of {name}"] for name in ("near", "far", "lost")] == [
        "passed",
        "failed",
        "failed",
    ]


def test_a_ledger_that_saw_nothing_on_the_gpu_fails(task):
    memory.run(task)
    assert outcomes(task)["peak by the allocator, transformer"] == "failed"


def test_spans_are_held_against_events_and_a_device_that_does_all_at_once_fails(task):
    timeline.run(task)
    found = outcomes(task)
    assert found["a span lasts as long as its work"] == "passed"
    assert found["the call returns before its span ends"] == "failed"
    assert found["spans on two streams overlap"] == "failed"
    assert found["a span agrees with the profiler: the trial itself"] == "failed", "it asks for a real GPU"


def test_the_record_names_the_gpus(tmp_path, monkeypatch):
    two = Machine(
        16, 10**11, "a CPU", "Linux", "3.12", "2.11.0", torch_cuda="13.0", devices=(CARD, CARD),
        links=(GpuLink(0, 1, "NVLink", "18 links"),), driver="580.1",
    )  # fmt: skip
    for module in (record_module, origin_module):
        monkeypatch.setattr(module, "machine", lambda: two)
    record = GpuRecord(tmp_path / "it.json", on_gpu=True)
    record.add("peak", {"outcome": "passed", "why": "", "time_s": 1.0, "rows": [], "parts": [], "notes": {}})
    kept = json.loads((tmp_path / "it.json").read_text())
    assert kept["machine"]["gpu_memory_bytes"] == [80 * 10**9] * 2
    assert kept["machine"]["gpu_links"] == ["0-1: NVLink"]
    assert (kept["machine"]["driver"], kept["machine"]["cuda_of_torch"]) == ("580.1", "13.0")
    assert "On 2 x NVIDIA H100 80GB HBM3; 16 cores" in page(kept)
