"""Tests do not watch the clock: whoever reads one, CPU seconds, a load or a resident size has its reason here."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CLOCKS = [
    "clock_gettime",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "process_time_ns",
    "thread_time",
    "thread_time_ns",
    "time",
    "time_ns",
]
SAMPLES = [
    "cpu_percent",
    "cpu_times",
    "getloadavg",
    "getrusage",
    "memory_full_info",
    "memory_info",
    "memory_percent",
    "ru_maxrss",
    "ru_stime",
    "ru_utime",
    "virtual_memory",
]
IN_TEXT = re.compile(rf"\btime\.(?:{'|'.join(CLOCKS)})\(|\.(?:{'|'.join(SAMPLES)})\b")
WORTH_READING = re.compile(rf"\btime\.(?:{'|'.join(CLOCKS)})\b|\bfrom time\b|\.(?:{'|'.join(SAMPLES)})\b")

# A file of tests, how often it does so, and why no machine is too slow or too busy for it.
MAY_READ = {
    "capstone/hiding.py": (1, "a cheat's clock, which goes at half the speed"),
    "claims/test_claims_busy.py": (2, "keeps a crowded core busy for some CPU seconds of its own"),
    "cluster/test_cluster_folders.py": (1, "gives a folder an age of an hour"),
    "cluster/test_cluster_interrupts.py": (1, "draws a seed"),
    "cluster/test_patience.py": (2, "keeps a crowded core busy for some CPU seconds of its own"),
    "devices/test_lock_files.py": (1, "gives a file an age of an hour"),
    "examples/test_preflight.py": (2, "sets a clock five seconds ahead, which is found within its own uncertainty"),
    "support/interrupt_trials.py": (4, "aims interrupts at moments within a call; what they hit does not matter"),
    "support/kill_trials.py": (2, "aims kills at moments within a call; what they hit does not matter"),
    "learn/test_learn_own_time.py": (2, "lets an import compute for longer than a limit, by its thread's own clock"),
    "meter/test_meter_gpu_clock.py": (2, "on a GPU: a span lies between two readings, before it and after it"),
    "meter/test_meter_reads.py": (1, "asks which clock is the usual one"),
    "meter/test_meter_timeline.py": (2, "a reading of another process lies between two of this one"),
    "nodes/test_nodes_launch.py": (2, "a shaped link lets no message be faster; a busy machine only makes it slower"),
    "parallel/sharded/test_checkpoint_kills.py": (1, "draws a seed"),
    "support/waiting.py": (3, "limits against hangs, longer on a crowded machine"),
}


def readings(source: str) -> list[str]:
    """Clocks and samples that a file reads, with their lines; also those in programs that it holds as texts."""
    if not WORTH_READING.search(source):
        return []
    found = []
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            of_time = isinstance(node.value, ast.Name) and node.value.id == "time" and node.attr in CLOCKS
            of_time |= isinstance(node.value, ast.Attribute) and node.value.attr == "time" and node.attr in CLOCKS
            if of_time or node.attr in SAMPLES:
                found.append((node.lineno, node.attr))
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            found += [(node.lineno, alias.name) for alias in node.names if alias.name in CLOCKS]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            found += [(node.lineno, match.group()) for match in IN_TEXT.finditer(node.value)]
    return [f"line {line}: {name}" for line, name in sorted(found)]


def test_no_other_test_reads_a_clock_or_a_sample():
    found = {}
    for path in sorted(TESTS.rglob("*.py")):
        if path != Path(__file__) and (lines := readings(path.read_text(encoding="utf-8"))):
            found[path.relative_to(TESTS).as_posix()] = lines
    told = {name: lines for name, lines in found.items() if len(lines) > MAY_READ.get(name, (0, ""))[0]}
    assert not told, "a stand-in for the clock, the order of events or a count shows it on any machine (see waiting.py)"
    unused = {name: count for name, (count, _) in MAY_READ.items() if count != len(found.get(name, ()))}
    assert not unused, "these read less than they may: take them off the list"


@pytest.mark.parametrize(
    "source",
    [
        "import time\nassert time.perf_counter() < 3",
        "began = module.time.monotonic",
        "from time import process_time as clock",
        "rss = psutil.Process().memory_info().rss",
        "load = os.getloadavg()[0]",
        "script = 'import time; end = time.monotonic() + 5'",
        "script = f'print({number}, time.time())'",
    ],
)
def test_a_reading_is_seen(source):
    assert readings(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""Of time.monotonic() a docstring may speak."""',
        "time.sleep(1)",
        "monkeypatch.setattr(busy.time, 'perf_counter', lambda: next(moments_s))",
        "assert run.time_s == 3.0 and span.time.start == 1",
        "clock = SimpleNamespace(monotonic=lambda: 5.0)",
    ],
)
def test_what_is_no_reading_is_left_alone(source):
    assert readings(source) == []
