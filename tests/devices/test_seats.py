"""Seats: a class spreads over GPUs, keeps its places, frees them, and is told the truth about who shares."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_nvml import FakeGpu, FakeNvml

from course_lib.cluster.api import notebook, placement
from course_lib.cluster.api.arguments import CrowdedWarning
from course_lib.devices import Device, Machine, look, seats, this_machine
from course_lib.devices.lock_files import Folder
from course_lib.devices.seats import Others, Survey, survey, threads_each, where
from course_lib.devices.torch_builds import TorchBuild
from course_lib.doctor.sharing import check_seats

pytest.importorskip("fcntl")
BUILD = TorchBuild(version="2.13.0", cuda="13.0")
HERE = Path(__file__).resolve().parent
VARIABLES = ("COURSE_SEATS", "COURSE_SEAT", "COURSE_GPUS", "CUDA_VISIBLE_DEVICES")
NOTEBOOK = '{"kind": "notebook", "gpus": [%s]}'


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A folder of lock files of our own, and a process without a seat; ``room("GPU-a")`` adds a notebook."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # noted, so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setenv("COURSE_SEATS", str(tmp_path / "seats"))
    monkeypatch.setattr(seats, "_here", seats._Process())
    monkeypatch.setattr(placement, "_warned", set())
    folder, held = Folder(tmp_path / "seats"), []

    def add(*uuids, text=None):
        held.append(folder.hold(NOTEBOOK % ", ".join(map(json.dumps, uuids)) if text is None else text))
        return held[-1]

    yield add
    seats._leave()
    for file in held:
        file.close()
    folder.close()
    this_machine._cached_machine.cache_clear()


def machine_with(letters: str = "abcd") -> Machine:
    gpus = tuple(FakeGpu(uuid=f"GPU-{letter}", bus=f"0000:0{letter}:00.0") for letter in letters)
    return look(env=os.environ, nvml=FakeNvml(gpus=gpus), build=BUILD)


def claimed() -> list[str]:
    """What this process tells the others that it uses."""
    folder = Folder(Path(os.environ["COURSE_SEATS"]))
    text = folder.held_by_others()[os.environ["COURSE_SEAT"]]
    folder.close()
    return json.loads(text)["gpus"]


# -- a class ---------------------------------------------------------------------------------------------------------


def a_class(folder: Path, *numbers: int) -> list[str]:
    """The value of CUDA_VISIBLE_DEVICES that each learner has got; at the end those who came in the place of others."""
    path = os.pathsep.join([str(HERE.parent / "support"), str(HERE.parents[1])])
    env = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    done = subprocess.run(
        [sys.executable, HERE / "a_class.py", folder, *map(str, numbers)],
        env={**env, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def first(orders: list[str], ranks: int, num_gpus: int) -> Counter[str]:
    """How many learners have each GPU for their first ranks."""
    unchanged = ",".join(f"GPU-{n}-" for n in range(num_gpus))
    return Counter(gpu for order in orders for gpu in order.replace("as it was", unchanged).split(",")[:ranks])


@pytest.mark.parametrize(
    ("learners", "num_gpus", "ranks"),
    [
        (30, 8, 4),
        pytest.param(31, 8, 3, marks=pytest.mark.long),
        pytest.param(7, 4, 1, marks=pytest.mark.long),
    ],
)
def test_a_class_that_starts_at_the_same_moment_is_spread_evenly(tmp_path, learners, num_gpus, ranks):
    told = a_class(tmp_path / "seats", learners, num_gpus, ranks)
    orders, newcomers = told[:learners], told[learners:]
    counts = first(orders, ranks, num_gpus).values()
    assert len(counts) == num_gpus
    assert max(counts) - min(counts) <= 1, counts
    assert all(len(set(order.split(","))) == num_gpus for order in orders if order != "as it was")
    # Half of them were killed, and as many came: they take what has become free.
    counts = first(orders[1::2] + newcomers, ranks, num_gpus).values()
    assert max(counts) - min(counts) <= 1, counts


def test_a_class_is_spread_over_slices_of_which_a_process_sees_one(tmp_path):
    told = a_class(tmp_path / "seats", 8, 1, 4, 4)[:8]
    counts = Counter(order.replace("as it was", "MIG-0") for order in told)
    assert counts == {f"MIG-{n}": 2 for n in range(4)}


# -- one process -----------------------------------------------------------------------------------------------------


def test_alone_nothing_changes(room):
    machine_with().sit(2)
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    assert claimed() == ["GPU-a", "GPU-b"]
    assert survey().others == Others()


def test_the_least_used_come_first_and_stay_when_others_leave(room):
    early = [room("GPU-a", "GPU-b"), room("GPU-a"), room("GPU-c")]
    here = machine_with()
    here.sit(2)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-d,GPU-b,GPU-c,GPU-a"
    assert claimed() == ["GPU-d", "GPU-b"]
    after = machine_with()
    assert [(gpu.index, gpu.uuid, gpu.board) for gpu in after.devices][:2] == [
        (0, "GPU-d", 3),
        (1, "GPU-b", 1),
    ]
    for file in early:
        file.close()
    after.sit(3)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-d,GPU-b,GPU-c,GPU-a"
    assert claimed() == ["GPU-d", "GPU-b", "GPU-c"]
    after.sit(1)
    assert claimed() == ["GPU-d", "GPU-b", "GPU-c"], "a smaller cluster does not free what a larger one uses"


def test_ranks_on_the_cpu_claim_no_gpu_and_the_first_that_want_one_take_the_least_used(room):
    here = machine_with()
    here.sit(0)  # as the rank that checks answers does
    assert claimed() == []
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    room("GPU-a")
    here.sit(2)
    assert claimed() == ["GPU-b", "GPU-c"]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-b,GPU-c,GPU-d,GPU-a"
    room("GPU-b")
    machine_with().sit(3)
    assert claimed() == ["GPU-b", "GPU-c", "GPU-d"], "what is claimed keeps its place"


def test_where_cuda_has_begun_a_late_claim_changes_no_order(room, monkeypatch):
    here = machine_with()
    here.sit(0)
    room("GPU-a")
    monkeypatch.setattr(seats, "_cuda_has_begun", lambda: True)
    here.sit(1)
    assert claimed() == ["GPU-a"]
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_the_machine_is_looked_at_again_when_its_gpus_have_other_numbers(room, monkeypatch):
    room("GPU-a")
    monkeypatch.setattr(this_machine, "look", machine_with)
    this_machine._cached_machine.cache_clear()
    assert [gpu.uuid[-1] for gpu in this_machine.machine().devices] == list("abcd")
    assert [gpu.uuid[-1] for gpu in this_machine.seated(1).devices] == list("bcda")
    assert str(this_machine.machine().device_for(0)) == "cuda:0"


def test_two_of_many_are_the_least_used_two(room):
    room("GPU-a", "GPU-c")
    os.environ["COURSE_GPUS"] = "2"
    machine_with().sit(4)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-b,GPU-d"
    assert claimed() == ["GPU-b", "GPU-d"]
    again = machine_with()
    assert [gpu.uuid for gpu in again.devices] == ["GPU-b", "GPU-d"]
    assert not again.is_narrowed


def test_a_list_of_numbers_is_not_counted_anew_among_what_it_left(room):
    room("GPU-b")
    os.environ["COURSE_GPUS"] = "1,3"
    machine_with().sit(4)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-d,GPU-b"
    again = machine_with()
    assert [gpu.uuid for gpu in again.devices] == ["GPU-d", "GPU-b"]
    assert again.refused_choice == ""


def test_none_hides_every_gpu_from_ranks_and_programs(room):
    os.environ["COURSE_GPUS"] = "none"
    machine_with().sit(4)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    assert machine_with().tier == "cpu"


def test_a_choice_holds_without_lock_files(room):
    os.environ |= {"COURSE_SEATS": "off", "COURSE_GPUS": "3,1"}
    machine_with().sit(4)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-d,GPU-b"
    assert "COURSE_SEAT" not in os.environ


def test_where_cuda_has_begun_the_order_stays_and_the_claim_tells_it(room, monkeypatch):
    room("GPU-a")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: True)))
    machine_with().sit(1)
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    assert claimed() == ["GPU-a"]


def test_a_process_with_an_open_handle_of_the_driver_has_begun_cuda(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not seats._cuda_has_begun()
    monkeypatch.setattr(seats, "_leads_to", lambda link: "/dev/nvidia-uvm")
    assert seats._cuda_has_begun() == os.path.isdir("/proc/self/fd")


def test_a_program_that_a_notebook_starts_shares_its_seat(room):
    machine_with().sit(1)
    code = (
        "from course_lib.devices import seats; seats.take((), (), num_gpus=0, is_narrowed=False); "
        "print(len(seats.survey().others))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "0", done.stderr
    assert survey().others == Others(), "and it is no other to the notebook"
    del os.environ["COURSE_SEAT"]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "1", "one that was started elsewhere sees it"


def test_a_fork_does_not_hold_the_seat_of_a_notebook_that_has_ended(room):
    machine_with().sit(1)
    name = os.environ["COURSE_SEAT"]
    wait, go = os.pipe()
    there, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go)
        os.write(tell, b"x")
        os.read(wait, 1)
        os._exit(0)
    os.read(there, 1)
    seats._here.seat.file.forget()  # as the end of a killed notebook does
    folder = Folder(Path(os.environ["COURSE_SEATS"]))
    is_held = folder.is_held(name)
    os.close(go)
    os.waitpid(pid, 0)
    for end in (wait, there, tell):
        os.close(end)
    folder.close()
    assert not is_held


def test_files_that_say_nonsense_are_others_without_a_gpu(room):
    for text in ("", "{", "[1, 2]", '{"kind": 3}', '{"kind": "notebook", "gpus": 7}', "[" * 5000, "\0\xff"):
        room(text=text)
    machine_with().sit(1)
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    assert survey().others.seats == (("program", frozenset()),) * 7


def test_a_text_that_a_parser_would_think_about_is_given_to_none(room, monkeypatch):
    """Thousands of such files, locked by another user, once kept every start of a cluster waiting for a minute."""
    nested = "[" * 450 + "]" * 450
    for many in (", ".join([nested] * 8), "1," * 4000 + "1"):
        room(text=NOTEBOOK % many)
    room("GPU-a", "MIG-GPU-b/1/0")
    parsed = []
    plain = json.loads
    monkeypatch.setattr(seats.json, "loads", lambda text: parsed.append(text) or plain(text))
    nobody = ("program", frozenset())
    assert sorted(survey().others.seats) == [("notebook", frozenset({"GPU-a", "MIG-GPU-b/1/0"})), nobody, nobody]
    assert len(parsed) == 1


def test_a_disk_that_is_full_costs_the_spreading_and_nothing_else(room, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    room("GPU-a")
    monkeypatch.setattr(Folder, "hold", full)
    machine_with().sit(1)
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    assert survey() == Survey(None, reason=f"{os.environ['COURSE_SEATS']}: No space left on device")


def test_a_cell_that_imports_the_cluster_takes_the_seat_before_anything_asks_cuda(room, monkeypatch):
    room("GPU-a")
    shell = SimpleNamespace(kernel=object(), user_ns={})
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr(notebook, "_a_cell_imports", lambda _: True)
    monkeypatch.setattr("course_lib.cluster.api.magic.register", lambda _: None)
    monkeypatch.setattr("course_lib.cluster.process.processes.warm", lambda: None)
    monkeypatch.setattr(this_machine, "look", machine_with)
    this_machine._cached_machine.cache_clear()
    notebook.prepare()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-b,GPU-c,GPU-d,GPU-a"
    assert claimed() == ["GPU-b"]
    monkeypatch.setattr(notebook, "seated", lambda num_gpus: machine_with().device_for(-1))
    notebook.prepare()  # what is wrong is said by the first cluster, and fails no import


# -- what is said ----------------------------------------------------------------------------------------------------

GPUS = tuple(Device(i, "A100", 1, f"GPU-{n}", board=n) for i, n in enumerate((3, 5, 6)))
ON_THREE = ("notebook", frozenset({"GPU-3"}))
PROGRAM = ("program", frozenset({"GPU-9"}))


@pytest.mark.parametrize(
    ("num_ranks", "gpus", "others", "said"),
    [
        (4, 0, (), ""),
        (
            4,
            0,
            (PROGRAM,),
            "4 ranks on 2 cores; 1 other program of this course is open here, so timings are of a",
        ),
        (
            1,
            0,
            (ON_THREE,) * 5,
            "1 rank on 2 cores; 5 other notebooks of this course are open here, so timings",
        ),
        (
            4,
            1,
            (ON_THREE,) * 2,
            "4 ranks share GPU 3 (A100); 2 other notebooks of this course use it, so timings are of",
        ),
        (1, 1, (PROGRAM,), "1 rank on GPU 3 (A100); no other notebook of this course uses it."),
        (
            2,
            2,
            (ON_THREE, PROGRAM),
            "2 ranks on GPUs 3 and 5 (A100); 1 other notebook of this course uses some of them",
        ),
        (4, 3, (), "4 ranks share GPUs 3, 5 and 6 (A100); no other notebook of this course uses them."),
    ],
)
def test_the_sentence_says_what_the_lock_files_show(num_ranks, gpus, others, said):
    text = where(num_ranks, GPUS[:gpus], cores=2, seen=Survey(Others(others)))
    assert text.startswith(said)
    assert bool(text) == bool(said)


def test_the_sentence_says_where_nothing_is_known():
    unknown = Survey(None, reason="this system has no flock")
    assert where(2, (), cores=2, seen=unknown) == ""
    said = "1 rank on GPU 3 (A100); whether other notebooks use it is not known here (this system has no flock)."
    assert where(1, GPUS[:1], cores=2, seen=unknown) == said
    assert where(1, GPUS[:1], cores=2, seen=Survey(None, reason="COURSE_SEATS=off")) == ""


def test_notebooks_and_programs_are_told_apart():
    assert str(Others((ON_THREE, ON_THREE, PROGRAM))) == "2 other notebooks and 1 program"
    assert str(Others((PROGRAM, PROGRAM))) == "2 other programs"


@pytest.mark.parametrize(
    ("asked", "num_ranks", "cores", "others", "threads"),
    [
        (8, 2, 2, None, 8),  # nobody is known to be here: what was asked for
        (8, 2, 2, 0, 8),
        (8, 2, 16, 1, 4),
        (1, 4, 2, 5, 1),
        (8, 4, 64, 1, 8),
    ],
)
def test_a_notebook_takes_no_more_threads_than_its_share(asked, num_ranks, cores, others, threads):
    there = None if others is None else Others((ON_THREE,) * others)
    assert threads_each(asked, num_ranks=num_ranks, cores=cores, others=there) == threads


def test_a_new_cluster_says_once_where_it_is(room, monkeypatch, capsys):
    room("GPU-a")
    monkeypatch.setattr(this_machine, "look", machine_with)
    monkeypatch.setattr(placement, "in_a_notebook", lambda: True)
    this_machine._cached_machine.cache_clear()
    assert placement.choose_devices(2, on_cpu=False, num_threads=1) == (4, 1)
    assert placement.choose_devices(2, on_cpu=False, num_threads=1) == (4, 1)
    said = "2 ranks on GPUs 1 and 2 (NVIDIA A100-SXM4-80GB); no other notebook of this course uses them.\n"
    assert capsys.readouterr().out == said
    assert placement.choose_devices(9, on_cpu=False, num_threads=1) == (4, 1)
    assert "9 ranks share GPUs 1, 2, 3 and 0 (" in capsys.readouterr().out
    assert placement.choose_devices(4, on_cpu=True, num_threads=1) == (0, 1)
    assert re.search(r"cores?; 1 other notebook of this course is open here", capsys.readouterr().out)


def test_threads_that_are_held_back_are_said(room, monkeypatch):
    room()
    monkeypatch.setattr(this_machine, "look", lambda: replace(machine_with(""), cores=8))
    this_machine._cached_machine.cache_clear()
    with pytest.warns(CrowdedWarning, match="gets 2 of the 6 threads asked for: with 1 other notebook .* 8 cores"):
        assert placement.choose_devices(2, on_cpu=False, num_threads=6) == (0, 2)


def test_a_script_on_a_quiet_machine_is_told_nothing(room, monkeypatch, capsys):
    monkeypatch.setattr(this_machine, "look", lambda: machine_with(""))
    monkeypatch.setattr(placement, "in_a_notebook", lambda: True)
    this_machine._cached_machine.cache_clear()
    placement.choose_devices(1, on_cpu=False, num_threads=1)
    assert capsys.readouterr().out == ""
    assert "also here" not in machine_with("").summary()
    room()
    assert "also here  1 other notebook of this course" in machine_with("").summary()


# -- the doctor ------------------------------------------------------------------------------------------------------


def test_the_doctor_counts_who_is_on_each_gpu(room):
    room("GPU-a", "GPU-b")
    room("GPU-b")
    found = check_seats(machine_with("abc"))
    assert found.status == "ok"
    assert found.detail.startswith("2 other notebooks of this course are here now, by the lock files in /")
    assert found.detail.endswith("; GPU 0: 1, GPU 1: 2, GPU 2: 0")


def test_the_doctor_tells_of_more_files_than_are_looked_at(room, monkeypatch):
    monkeypatch.setattr("course_lib.devices.lock_files.MOST_FILES", 2)
    for _ in range(3):
        room("GPU-a")
    found = check_seats(machine_with("ab"))
    assert found.status == "warning"
    assert "holds more than" in found.remedy
    assert "COURSE_SEATS=off none" in found.remedy


@pytest.mark.parametrize(
    ("letters", "env", "status", "words"),
    [
        ("ab", {}, "ok", "no other notebook of this course is here now"),
        ("ab", {"COURSE_SEATS": "here"}, "warning", "no lock files (COURSE_SEATS=here is no absolute path)"),
        ("a", {"COURSE_SEATS": "here"}, "ok", "notebooks do not know of each other"),
        ("ab", {"COURSE_SEATS": "off"}, "ok", "COURSE_SEATS=off: notebooks do not know of each other"),
        ("ab", {"COURSE_GPUS": "7"}, "ok", "no other notebook"),
        ("ab", {"COURSE_GPUS": "7,"}, "blocked", "there is no GPU 7 here"),
    ],
)
def test_the_doctor_on_seats(room, letters, env, status, words):
    os.environ |= env
    found = check_seats(machine_with(letters))
    assert (found.status, words in found.detail) == (status, True), found
    assert bool(found.remedy) == (status != "ok")


def test_a_seat_that_is_taken_within_a_check_is_no_change_by_the_answer(room):
    import torch  # noqa: F401 - without it the check looks after nothing

    from course_lib.devices import seated
    from course_lib.learn.sandbox.state_guard import put_back

    with put_back() as said:
        seated(1)
    assert said == []
    assert seats.survey().reason == ""
    assert os.environ["COURSE_SEAT"] == seats._here.seat.file.name
