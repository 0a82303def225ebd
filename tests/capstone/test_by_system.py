"""What the system counts of a process, without ranks; what is told of that, and what is left to the noise."""

from __future__ import annotations

import mmap
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from course_lib.capstone.attempts.hidden_memory import hidden_memory
from course_lib.capstone.attempts.rule_violations import FAULTS
from course_lib.capstone.memory import memory_group, open_files, system_memory
from course_lib.capstone.memory.intact import changes, fingerprint, rule_of
from course_lib.capstone.memory.memory_group import OwnGroup
from course_lib.capstone.memory.memory_inventory import Holdings
from course_lib.capstone.memory.system_memory import Since, SystemHeld, adopted, malloc_in_use
from course_lib.capstone.running.emulated_compute import StepWork
from course_lib.capstone.running.steps import RankRecord, StepRecord

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone counts it")
SIZE = 1 << 20
LIMIT = 3_000_000


def a_file():
    fd = os.memfd_create("hidden")
    os.write(fd, bytes(SIZE))
    return fd, lambda: os.close(fd)


def a_pipe():
    ends = os.pipe()
    os.write(ends[1], bytes(50_000))
    return ends, lambda: [os.close(end) for end in ends]


def a_socket():
    pair = socket.socketpair()
    pair[0].sendall(bytes(50_000))
    return pair, lambda: [one.close() for one in pair]


def a_map():
    one = mmap.mmap(-1, SIZE)
    return one, one.close


@LINUX
@pytest.mark.parametrize(
    ("make", "kind", "least"),
    [
        (a_file, "open files", SIZE),
        (a_pipe, "pipes", 50_000),
        (a_socket, "sockets", 50_000),
        (a_map, "shared memory", SIZE),
    ],
)
def test_what_is_put_there_is_counted_while_it_is_there(make, kind, least):
    since = Since()
    _kept, end = make()
    held = since.held().beside
    assert held.keys() == {kind}
    assert least <= held[kind] <= 2 * least
    assert Since().held().beside == {}, "what was there before is nobody's"
    end()
    assert since.held().beside == {}


@LINUX
def test_files_that_are_only_read_are_nobodys():
    since = Since()
    with open(__file__, encoding="utf-8"), socket.socket():
        assert since.held().beside == {}


@pytest.mark.skipif(malloc_in_use() is None, reason="this C does not tell")
def test_the_heap_grows_by_what_is_asked_of_it():
    since = Since()
    kept = bytearray(8 << 20)
    grown = since.held().heap_bytes
    assert grown > 7 << 20
    del kept
    assert since.held().heap_bytes < grown - (7 << 20)


TABLE = """       key      shmid perms                  size  cpid  lpid nattch
         0          7  1600               4194304  {pid}     1      1
         0          8  1600                   100  1     1      1
"""


def test_a_table_of_system_v(monkeypatch):
    tables = {"/proc/sysvipc/shm": TABLE.format(pid=os.getpid())}
    monkeypatch.setattr(open_files, "_lines_of", lambda path: iter(tables.get(path, "").splitlines()))
    assert open_files.system_v() == {("System V", ("shm", "7")): 4194304}


def test_a_system_that_tells_nothing_is_no_accusation(monkeypatch):
    """As on macOS and on Windows: other processes alone are known."""
    monkeypatch.setattr(open_files, "_lines_of", lambda path: iter(()))
    monkeypatch.setattr(open_files, "_descriptors", list)
    monkeypatch.setattr(system_memory, "_libc", lambda: None)
    monkeypatch.setattr(system_memory, "_resident_bytes", lambda: None)
    with adopted():
        held = Since().held()
    alone = replace(held, children=())  # this process may have a server of ranks
    assert alone == SystemHeld({}, None, None, 0, ())
    assert told_of([step(alone), step(alone)]) == []


ORPHAN = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
os.wait()
"""


@LINUX
def test_an_orphan_is_seen_and_ended():
    with adopted():
        before = sorted(Since().held().children)  # a server of ranks, say
        subprocess.run([sys.executable, "-c", ORPHAN], check=True)
        assert len(Since().held().children) == len(before) + 1
    assert sorted(Since().held().children) == before


# -- what is told ----------------------------------------------------------------------------------------------------


NOTHING = SystemHeld()


def step(held=NOTHING, *, tensors=0, kept=0, is_weighed=True, **group):
    holds = Holdings(tensors, 0, 0, {}, tensors, held)
    peak = {"other": tensors} if is_weighed else None
    return StepRecord(2.0, 0.1, StepWork(), (), (), holds, peak, kept_bytes=kept, **group)


def told_of(steps):
    found = list(hidden_memory(LIMIT, [RankRecord(steps=steps)]))
    assert {fault.name for fault in found} <= {"hidden memory"}
    return [fault.sentence for fault in found]


def both(**facts):
    """A weighed and a timed step."""
    return [step(**facts), step(is_weighed=False, **facts)]


def test_what_may_be_noise_is_not_told():
    assert told_of(both(held=SystemHeld(heap_bytes=1_900_000, resident_bytes=12 << 20), tensors=0)) == []
    assert told_of(both(held=SystemHeld({"pipes": 9_000, "open files": 9_000}))) == []
    assert told_of(both(held=SystemHeld(heap_bytes=5_000_000), tensors=3_000_000)) == [], "tensors explain it"
    assert told_of(both(held=SystemHeld(heap_bytes=5_000_000), tensors=1_000_000, kept=4_000_000)) == [], "a graph"
    assert told_of(both(held=SystemHeld(heap_bytes=5_000_000, new_modules=20))) == [], "libraries were loaded"
    assert told_of([step(SystemHeld(heap_bytes=9_000_000)), step(SystemHeld(heap_bytes=0))]) == [], "gone again"
    assert told_of(both(group_shared_bytes=100_000, group_peak_bytes=12 << 20)) == []


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (both(held=SystemHeld({"pipes": 60_000})), "rank 0 holds 58.6 KiB in pipes, by the system's count."),
        (both(held=SystemHeld(children=("python", "python"))), "rank 0 has started the process python."),
        (both(group_others=1), "is not alone in its group"),
        (both(group_shared_bytes=4 << 20), "has 4 MiB in files in memory or in shared memory"),
        (both(held=SystemHeld(heap_bytes=4 << 20)), "has 4 MiB of C's heap outside tensors, after every step"),
        ([step(), step(SystemHeld(heap_bytes=4 << 20), is_weighed=False)], "after every step that is timed"),
        (both(held=SystemHeld(resident_bytes=40 << 20)), "has grown by 40 MiB, and may hold 2.86 MiB"),
        (both(group_peak_bytes=40 << 20), "grows by 40 MiB in a step, by its group's count"),
    ],
)
def test_what_is_no_noise_is_told(steps, said):
    (sentence,) = told_of(steps)
    assert said in sentence


# -- a group of its own ----------------------------------------------------------------------------------------------


def a_made_up_group(folder: Path, **files: object) -> OwnGroup:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(str(text))
    return OwnGroup(folder)


@pytest.mark.parametrize(
    ("peak", "usage"),
    [("memory__max_usage_in_bytes", "memory__usage_in_bytes"), ("memory__peak", "memory__current")],
)
def test_a_group_tells_its_peak_by_either_version(tmp_path, peak, usage):
    stat = "cache 5\nshmem 4194304\ntotal_shmem 1\n"
    group = a_made_up_group(tmp_path, **{usage: 1000, peak: 7_000_000, "memory__stat": stat})
    (tmp_path / "cgroup.procs").write_text(f"{os.getpid()}\n17\n")
    assert group.peak_bytes() is None
    group.begin()
    file = tmp_path / peak.replace("__", ".")
    assert file.read_text().startswith("0\n"), "the earlier peak is forgotten"
    file.write_text("5000\n")
    assert (group.peak_bytes(), group.shared_bytes(), group.others()) == (4000, 4 << 20, (17,))
    group.close()
    assert group.peak_bytes() is None


def test_a_peak_that_cannot_be_forgotten_is_not_told(tmp_path):
    (tmp_path / "memory.current").write_text("1000")
    (tmp_path / "memory.peak").mkdir()  # cannot be written to, as before Linux 6.12
    group = OwnGroup(tmp_path)
    group.begin()
    assert group.peak_bytes() is None


def test_without_a_group_nothing_is_known():
    group = OwnGroup(None)
    group.begin()
    assert (group.is_there, group.peak_bytes(), group.shared_bytes(), group.others()) == (
        False,
        None,
        None,
        (),
    )


def test_a_group_that_may_not_be_made_is_none(tmp_path):
    with memory_group.own_group(tmp_path / "nowhere") as group:
        assert not group.is_there
    with memory_group.own_group(tmp_path) as group:  # a folder of no group: there is nothing to count with
        assert not group.is_there
    assert list(tmp_path.iterdir()) == []


TABLES = {
    "version 1": ("4:memory:/job/7\n0::/\n", "30 1 0:1 / {at} rw - cgroup cgroup rw,memory\n", "job/7"),
    "a container": ("4:memory:/job/7\n", "30 1 0:1 /job {at} rw - cgroup cgroup rw,memory\n", "7"),
    "version 2": ("0::/user.slice/me\n", "30 1 0:1 / {at} rw - cgroup2 cgroup2 rw\n", "user.slice/me"),
    "none": ("", "30 1 0:1 / {at} rw - tmpfs tmpfs rw\n", None),
}


@pytest.mark.parametrize("name", TABLES)
def test_where_a_process_is_counted(monkeypatch, tmp_path, name):
    groups, mounts, expected = TABLES[name]
    texts = {"/proc/self/cgroup": groups, "/proc/self/mountinfo": mounts.format(at=tmp_path)}
    monkeypatch.setattr(Path, "read_text", lambda path, **_: texts[str(path)])
    assert memory_group._home() == (None if expected is None else tmp_path / expected)


HOLDS = """
import os, sys
from course_lib.capstone.memory.memory_group import own_group
with own_group() as group:
    if not group.is_there:
        sys.exit(3)
    fd = os.memfd_create("hidden")
    os.write(fd, bytes(8 << 20))
    print(group.shared_bytes(), *group.others())
    folder = group._folder
print(folder.exists())
"""


@LINUX
def test_a_real_group_counts_what_no_object_holds():
    done = subprocess.run([sys.executable, "-c", HOLDS], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip("this user may make no group")
    shared_bytes, still_there = done.stdout.split()
    assert int(shared_bytes) >= 8 << 20
    assert still_there == "False"


# -- the judge's own code --------------------------------------------------------------------------------------------


def test_what_is_left_alone_is_as_it_was():
    assert changes(fingerprint(), fingerprint()) == ()


@pytest.mark.parametrize(
    ("place", "name", "value", "rule"),
    [
        (
            "course_lib.capstone.running.emulated_compute.WorkBlock",
            "wait",
            lambda block, way, rows: None,
            "no waiting",
        ),
        (
            "course_lib.capstone.running.emulated_compute.WorkBlock",
            "matrices_numel",
            property(lambda block: 0),
            "no waiting",
        ),
        ("course_lib.capstone.running.steps", "time", None, "no waiting"),
        ("course_lib.capstone.memory.memory_inventory", "sum", max, "hidden memory"),
        ("course_lib.capstone.memory.memory_limit", "StorageBook", dict, "hidden memory"),
        ("course_lib.meter.communication.recorder", "Recorder", object, "past the meter"),
    ],
)
def test_what_is_changed_is_told_by_what_it_is_for(monkeypatch, place, name, value, rule):
    before = fingerprint()
    monkeypatch.setattr(f"{place}.{name}", value, raising=False)
    found = changes(before, fingerprint())
    assert f"{place.removeprefix('course_lib.')}.{name}" in found
    assert {rule_of(one) for one in found} == {rule} <= set(FAULTS)
