"""Machines and learners that tests describe: what a class check is asked about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import nbformat
from fake_nvml import FakeGpu, FakeNvml

from course_lib.classroom.trial.node import Node
from course_lib.classroom.trial.resource_use import Server, Taken, TakenByLesson, Trialled
from course_lib.devices import Machine, look
from course_lib.devices.torch_builds import TorchBuild

GIB, MIB = 1 << 30, 1 << 20
PLAIN = Machine(
    cores=8,
    memory_bytes=100 * GIB,
    cpu_name="a chip",
    system="Linux x86_64",
    python_version="3.11.7",
    torch_version="2.13.0",
    shared_memory_bytes=8 * GIB,
)
LESSON = TakenByLesson(
    peak_bytes=2 * GIB, rest_bytes=GIB, processes=10, threads=50, descriptors=300, process_descriptors=80,
    cpu_s=40.0, longest_cell_cpu_s=8.0,
)  # fmt: skip
SMALL = replace(LESSON, peak_bytes=GIB, rest_bytes=GIB // 2, threads=20, longest_cell_cpu_s=2.0)
TRIALLED = Trialled(6, 8, True, ("00", "02a"), "course class check --trial 6", "2026-11-23")


def node(here: Machine = PLAIN, **other) -> Node:
    """A machine with plenty of everything, but for what is given."""
    plenty = {
        "free_bytes": 90 * GIB,
        "homes": Path("/home"),
        "disk_free_bytes": 1000 * GIB,
        "shared_free_bytes": 8 * GIB,
        "tasks_left": 100_000,
        "tasks_by": "kernel.threads-max",
        "user_tasks": 50_000,
        "process_files": 1024,
        "node_files_left": 10**18,
    }
    return Node(here, **{**plenty, **other})


def taken(**other) -> Taken:
    """What a learner takes, by a trial of lessons 00 and 02a."""
    usual = {
        "lessons": {"00": SMALL, "02a": LESSON},
        "server": Server(100 * MIB, 5, 50),
        "disk_bytes": 100 * MIB,
        "shared_bytes": 0,
        "gpu_bytes": None,
        "trial": TRIALLED,
        "source": "a test",
    }
    return Taken(**{**usual, **other})


def record() -> dict:
    """The same as a file of a trial holds it."""
    return {
        "command": TRIALLED.command,
        "date": TRIALLED.date,
        "machine": {"cores": 8},
        "learners": 6,
        "has_fitted": True,
        "lessons": {"00": {**vars(SMALL), "wall_s": {"median": 3.0}}, "02a": vars(LESSON)},
        "server": {"peak_bytes": 100 * MIB, "threads": 5, "descriptors": 50},
        "disk_bytes_each": 100 * MIB,
        "shared_bytes_each": 0,
        "gpu_bytes_each": None,
    }


def with_gpus(count: int, memory_bytes: int = 80 * GIB) -> Machine:
    """A machine with so many GPUs, as the driver tells of them."""
    gpus = tuple(
        FakeGpu(uuid=f"GPU-{i}", bus=f"0000:{i + 1:02x}:00.0", memory_bytes=memory_bytes) for i in range(count)
    )
    found = look(env={}, nvml=FakeNvml(gpus=gpus), build=TorchBuild(version="2.13.0", cuda="13.0"))
    return replace(PLAIN, devices=found.devices, links=found.links, driver=found.driver, torch_cuda="13.0")


def notebook(path: Path, *cells: str) -> Path:
    """A notebook of these code cells, each below a cell of text."""
    made = nbformat.v4.new_notebook()
    for cell in cells:
        made.cells += [nbformat.v4.new_markdown_cell("text"), nbformat.v4.new_code_cell(cell)]
    nbformat.write(made, path)
    return path
