"""How many learners fit: each limit by its formula, the one that is met first, and what to change."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from class_cases import GIB, LESSON, MIB, PLAIN, TRIALLED, node, taken, with_gpus

from course_lib.classroom.trial.advice import advise
from course_lib.classroom.trial.capacity import first_met, limits, wait_s
from course_lib.classroom.trial.node import look, used_gpu_bytes
from course_lib.classroom.trial.resource_use import Server


def limit(name: str, *, of=None, by=None, open_lessons: int = 1):
    found = limits(node() if of is None else of, taken() if by is None else by, open_lessons)
    (one,) = [limit for limit in found if limit.name == name]
    return one


# -- the formula -----------------------------------------------------------------------------------------------------


def test_memory_by_hand():
    # (90 free - 10 % of 100) / (2 at the peak of 02a + 100 MiB of JupyterLab)
    one = limit("memory")
    assert one.learners == int(80 * GIB / (2 * GIB + 100 * MIB)) == 38
    for number in ("90 GiB", "10 GiB", "2 GiB", "100 MiB", "= 38", "02a"):
        assert number in one.formula


def test_a_lesson_more_that_is_open_is_at_rest():
    assert limit("memory", open_lessons=4).learners == int(80 * GIB / (2 * GIB + 3 * GIB + 100 * MIB)) == 15


def test_no_memory_is_room_for_nobody():
    assert limit("memory", of=node(free_bytes=GIB)).learners == 0


def test_an_exact_fit_fits():
    by = taken(server=Server())
    assert limit("memory", of=node(free_bytes=70 * GIB), by=by).learners == 30


def test_threads_of_the_machine():
    one = limit("processes", of=node(tasks_left=1000))
    assert one.learners == 1000 // (50 + 5)
    assert limit("processes", of=node(tasks_left=1000), open_lessons=2).learners == 1000 // (100 + 5)
    assert limit("processes", of=node(tasks_left=None)).learners is None


def test_pools_of_threads_grow_with_the_cores():
    here = replace(PLAIN, cores=TRIALLED.cores + 10)
    assert limit("processes", of=node(here, tasks_left=1000)).learners == 1000 // (50 + 3 * 10 + 5)
    here = replace(PLAIN, cores=TRIALLED.cores + 1000)
    assert limit("processes", of=node(here, tasks_left=1000)).learners == 1000 // (50 + 3 * 64 + 5)


def test_what_each_user_and_each_process_may_have():
    assert limit("each user").learners is None  # everybody has it
    assert limit("each user", of=node(user_tasks=54)).learners == 0  # nobody has
    assert limit("each user", of=node(user_tasks=55)).learners is None
    assert limit("open files", of=node(process_files=79)).learners == 0
    assert limit("open files", of=node(process_files=80)).learners is None
    names = [one.name for one in limits(node(user_tasks=None, process_files=None), taken(), 1)]
    assert not {"each user", "open files"} & set(names)


def test_files_of_the_machine():
    assert limit("files in all", of=node(node_files_left=3500)).learners == 3500 // (300 + 50)


def test_shared_memory():
    assert limit("shared memory").learners is None  # the lessons took none
    by = taken(shared_bytes=GIB)
    assert limit("shared memory", by=by).learners == 8
    assert limit("shared memory", of=node(shared_free_bytes=None), by=by).learners is None


def test_disk():
    assert limit("disk", of=node(disk_free_bytes=GIB)).learners == int(0.9 * 1024 / 100) == 9


def test_gpus_by_contexts_where_no_trial_measured_them():
    assert "GPUs" not in [one.name for one in limits(node(), taken(), 1)]
    one = limit("GPUs", of=node(with_gpus(2)))
    # 8 of the 10 processes may open a context of 500 MiB
    assert one.learners == int(0.9 * 160 * GIB / (8 * 500 * MIB)) == 36
    assert "assumed" in one.formula


def test_gpus_by_what_was_measured_and_what_others_use():
    of = node(with_gpus(2), gpu_used_bytes=(40 * GIB, 0))
    one = limit("GPUs", of=of, by=taken(gpu_bytes=3 * GIB))
    assert one.learners == int(0.9 * 120 / 3) == 36
    assert "measured" in one.formula


def test_what_is_in_use_is_that_of_the_boards_that_are_shown():
    used = (10 * GIB, 20 * GIB, 30 * GIB, 70 * GIB)  # by the driver's numbers, whatever is visible
    every = with_gpus(4)

    def free_gib(*boards, used=used):
        here = replace(every, devices=tuple(every.devices[board] for board in boards))
        one = limit("GPUs", of=node(here, gpu_used_bytes=used), by=taken(gpu_bytes=GIB))
        return one.left / 0.9 / GIB

    assert free_gib(1, 3) == pytest.approx(60 + 10)
    assert free_gib(2) == pytest.approx(50)
    assert free_gib(1, 3, used=()) == pytest.approx(160)  # the driver tells nothing
    small = replace(every.devices[1], memory_bytes=40 * GIB)  # as many boards as GPUs, in another order
    here = replace(every, devices=(*every.devices[2:], small, every.devices[0]))
    one = limit("GPUs", of=node(here, gpu_used_bytes=used), by=taken(gpu_bytes=GIB))
    assert one.left / 0.9 / GIB == pytest.approx(50 + 10 + 20 + 70)


def test_a_gpu_whose_board_is_not_known_counts_as_free():
    here = with_gpus(1)
    here = replace(here, devices=(replace(here.devices[0], board=None),))
    one = limit("GPUs", of=node(here, gpu_used_bytes=(70 * GIB,)), by=taken(gpu_bytes=GIB))
    assert one.left / 0.9 / GIB == pytest.approx(80)


def test_the_limit_that_is_met_first():
    assert first_met(limits(node(), taken(), 1)).name == "memory"
    assert first_met(limits(node(tasks_left=110), taken(), 1)).name == "processes"
    assert first_met([]) is None


def test_waiting_for_the_longest_cell():
    assert wait_s(node(), taken(), 30) == pytest.approx(30 * 8.0 / 8)


# -- what to change --------------------------------------------------------------------------------------------------


def test_nothing_to_change_where_all_fit_and_nobody_waits():
    assert advise(node(), taken(), 30, 1) == []


def test_fewer_learners_and_how_much_memory():
    said = advise(node(free_bytes=31 * GIB), taken(), 30, 1)
    assert "10 fit here. The other 20" in said[0]
    assert "memory: 30 learners take 62.9 GiB, 41.9 GiB more" in said[1]


def test_fewer_open_lessons_where_that_is_enough():
    said = " ".join(advise(node(), taken(), 30, 4))
    assert "15 fit here" in said
    assert "with one lesson open each, 30 of 30 fit" in said
    assert "cull" in said.lower()
    said = " ".join(advise(node(), taken(), 20, 4))
    assert "with 2 lessons open each, 20 of 20 fit" in said


def test_nobody_fits_is_not_told_as_a_nearest():
    said = advise(node(free_bytes=0), taken(), 30, 1)
    assert not any("fit here" in one for one in said)
    assert any(one.startswith("memory: 30 learners take") for one in said)


@pytest.mark.parametrize(
    ("lacking", "wanted"),
    [
        ({"user_tasks": 10}, "allow 55 threads"),
        ({"process_files": 10}, "allow 80 a process"),
        ({"tasks_left": 55}, "1,595 threads more"),
        ({"disk_free_bytes": GIB}, "--homes"),
        ({"node_files_left": 10}, "fs.file-max"),
    ],
)
def test_each_limit_says_what_would_do(lacking, wanted):
    assert wanted in " ".join(advise(node(**lacking), taken(), 30, 1))


def test_shared_memory_and_gpus_say_what_would_do():
    assert "--shm-size" in " ".join(advise(node(shared_free_bytes=GIB), taken(shared_bytes=GIB), 30, 1))
    assert "CUDA_VISIBLE_DEVICES" in " ".join(advise(node(with_gpus(1, 8 * GIB)), taken(), 30, 1))


def test_long_waits_say_how_many_cores():
    by = taken(lessons={"00": replace(LESSON, longest_cell_cpu_s=40.0)})
    (said,) = advise(node(), by, 30, 1)
    assert "it takes 150 s" in said
    assert "With 20 cores it takes 60 s" in said


# -- the look --------------------------------------------------------------------------------------------------------


def test_a_look_at_this_machine(tmp_path):
    found = look(tmp_path, PLAIN)
    assert found.free_bytes > 0
    assert found.disk_free_bytes > 0


def test_the_tightest_limit_of_threads(tmp_path, monkeypatch):
    monkeypatch.setattr("course_lib.classroom.trial.node.task_limit", lambda: None)
    for name, text in {
        "loadavg": "1 1 1 2/300 99",
        "sys/kernel/threads-max": "9000",
        "sys/kernel/pid_max": "800",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = look(tmp_path, PLAIN, proc=tmp_path)
    assert (found.tasks_left, found.tasks_by) == (500, "kernel.pid_max")
    monkeypatch.setattr("course_lib.classroom.trial.node.task_limit", lambda: (120, 20))
    assert look(tmp_path, PLAIN, proc=tmp_path).tasks_left == 100


def test_a_system_that_tells_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("course_lib.classroom.trial.node.task_limit", lambda: None)
    found = look(tmp_path, PLAIN, proc=tmp_path / "none")
    assert found.tasks_left is None
    assert found.node_files_left is None


def test_a_folder_of_homes_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match=f"names a folder that exists. The nearest is {tmp_path}"):
        look(tmp_path / "a" / "b", PLAIN)


def test_a_board_that_does_not_answer_hides_no_others(monkeypatch):
    class Lost(Exception):
        pass

    def handle(number):
        if number == 1:
            raise Lost
        return number

    binding = SimpleNamespace(
        NVMLError=Lost,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: 3,
        nvmlDeviceGetHandleByIndex=handle,
        nvmlDeviceGetMemoryInfo=lambda number: SimpleNamespace(used=10 + number),
    )
    monkeypatch.setitem(sys.modules, "pynvml", binding)
    assert used_gpu_bytes() == (10, 0, 12)
