"""Which GPUs a process may use: CUDA_VISIBLE_DEVICES, then COURSE_GPUS, then what Slurm gave; on machines of fakes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from fake_nvml import FakeGpu, FakeNvml

from course_lib import cli
from course_lib.devices import container_limits, look
from course_lib.devices.gpu_choice import RefusedChoice
from course_lib.devices.torch_builds import TorchBuild

BUILD = TorchBuild(version="2.13.0", cuda="13.0")


def machine_with(num_gpus: int, *, sliced: int = 0, **env: str):
    """A machine of GPU-a, GPU-b and so on, or one whose only GPU is cut into MIG-0, MIG-1 and so on."""
    slices = tuple(FakeGpu(uuid=f"MIG-{n}") for n in range(sliced))
    gpus = tuple(FakeGpu(uuid=f"GPU-{letter}", bus=f"0000:0{letter}:00.0") for letter in "abcdefgh"[:num_gpus])
    nvml = FakeNvml(gpus=(FakeGpu(mig=slices, mig_on=True),) if sliced else gpus)
    return look(env=env, nvml=nvml, build=BUILD)


def letters(devices) -> str:
    return "".join(device.uuid[4:] for device in devices)


@pytest.mark.parametrize(
    ("env", "used", "spare", "is_narrowed"),
    [
        ({}, "abcd", "", False),
        ({"COURSE_GPUS": ""}, "abcd", "", False),
        ({"COURSE_GPUS": "0,2"}, "ac", "", True),
        ({"COURSE_GPUS": "2, 0"}, "ca", "", True),
        ({"COURSE_GPUS": "2,"}, "c", "", True),
        ({"COURSE_GPUS": "0,1,2,3"}, "abcd", "", False),
        ({"COURSE_GPUS": "2"}, "ab", "cd", True),
        ({"COURSE_GPUS": "99"}, "abcd", "", False),
        ({"COURSE_GPUS": "GPU-d,GPU-b"}, "db", "", True),
        ({"COURSE_GPUS": "0"}, "", "", True),
        ({"COURSE_GPUS": "None"}, "", "", True),
        ({"CUDA_VISIBLE_DEVICES": "3,1,0", "COURSE_GPUS": "0,2"}, "da", "", True),
        ({"CUDA_VISIBLE_DEVICES": "GPU-c,GPU-b", "COURSE_GPUS": "1"}, "c", "b", True),
        ({"CUDA_VISIBLE_DEVICES": "", "COURSE_GPUS": "0,2"}, "", "", False),
        ({"SLURM_JOB_GPUS": "1,3"}, "bd", "", True),
        ({"SLURM_JOB_GPUS": "0-2", "SLURM_STEP_GPUS": "2"}, "c", "", True),
        ({"SLURM_JOB_GPUS": "1,3", "COURSE_GPUS": "1,"}, "d", "", True),
        ({"SLURM_JOB_GPUS": "1,3", "CUDA_VISIBLE_DEVICES": "0"}, "a", "", False),
        ({"SLURM_JOB_GPUS": "4,5,6,7"}, "abcd", "", False),  # a control group shows these four, and no others
        ({"SLURM_JOB_GPUS": "0,5,6,7"}, "abcd", "", False),
        ({"SLURM_JOB_GPUS": "6,7"}, "abcd", "", False),  # numbers of something else
        ({"SLURM_JOB_GPUS": "gpu:2"}, "abcd", "", False),
    ],
)
def test_what_is_left_of_four_gpus(env, used, spare, is_narrowed):
    found = machine_with(4, **env)
    assert (letters(found.devices), letters(found.spare_devices)) == (used, spare)
    assert found.is_narrowed == is_narrowed
    assert [device.index for device in found.devices] == list(range(len(used)))
    assert [device.board for device in found.devices] == ["abcd".index(letter) for letter in used]
    assert [(link.a, link.b) for link in found.links] == [
        (i, j) for i in range(len(used)) for j in range(i + 1, len(used))
    ]


@pytest.mark.parametrize(
    ("env", "used", "spare"),
    [
        ({}, "0", "12"),
        ({"CUDA_VISIBLE_DEVICES": "0"}, "0", "12"),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1"}, "1", ""),
        ({"CUDA_VISIBLE_DEVICES": "MIG-2,MIG-1,MIG-9"}, "2", "1"),
        ({"COURSE_GPUS": "1,2"}, "1", "2"),
        ({"COURSE_GPUS": "MIG-2"}, "2", ""),
        ({"COURSE_GPUS": "3"}, "0", "12"),
        ({"COURSE_GPUS": "none"}, "", ""),
        ({"SLURM_JOB_GPUS": "1"}, "0", "12"),  # numbers of boards say nothing about slices
    ],
)
def test_one_slice_is_used_and_the_others_may_be_taken_in_its_place(env, used, spare):
    found = machine_with(1, sliced=3, **env)
    assert (letters(found.devices), letters(found.spare_devices)) == (used, spare)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("all", r"COURSE_GPUS='all': 'all' is no GPU\. Write numbers of GPUs \(COURSE_GPUS=0,2\), how many"),
        ("-1", "'-1' is no GPU"),
        ("0,,2", "'' is no GPU"),
        ("²", "is no GPU"),
        ("0,4", "there is no GPU 4 here; CUDA shows 4, and the highest number is 3"),
        ("1,1", "names 1 twice"),
        ("0,GPU-a", "names GPU-a twice"),
        ("GPU-", "4 of the GPUs here have a UUID that begins with GPU-; one must"),
        ("GPU-z", "0 of the GPUs here"),
    ],
)
def test_a_choice_that_cannot_be_obeyed_gets_a_sentence_before_ranks_start(value, sentence):
    found = machine_with(4, COURSE_GPUS=value)
    assert found.tier == "cpu"
    assert found.refused_choice == found.gpu_note
    for use in (lambda: found.sit(1), lambda: found.device_for(0)):
        with pytest.raises(ValueError, match=sentence):
            use()


def test_the_setting_of_a_class_changes_nothing_on_a_machine_without_gpus():
    for value in ("0,2", "2", "none", "GPU-a"):
        found = machine_with(0, COURSE_GPUS=value)
        assert (found.tier, found.gpu_note, found.is_narrowed, found.refused_choice) == ("cpu", "", False, "")
    assert "is no GPU" in machine_with(0, COURSE_GPUS="two").refused_choice


def test_that_the_course_keeps_to_the_cpu_is_said_before_and_after_the_seat():
    for env in ({}, {"CUDA_VISIBLE_DEVICES": ""}):
        assert machine_with(2, COURSE_GPUS="none", **env).gpu_note == "COURSE_GPUS=none keeps the course on the CPU."


def test_a_gpu_that_torch_cannot_use_is_passed_over():
    gpus = (FakeGpu(uuid="GPU-old", capability=(7, 0)), FakeGpu(uuid="GPU-b", bus="0000:02:00.0"))
    found = look(env={}, nvml=FakeNvml(gpus=gpus), build=BUILD)
    assert [(gpu.uuid, gpu.index, gpu.board) for gpu in found.devices] == [("GPU-b", 0, 1)]
    assert found.is_narrowed, "else cuda:0 would be the old one"
    assert "GPU 1 of nvidia-smi" in found.summary()


@pytest.mark.parametrize(
    ("env", "cores"),
    [
        ({}, 8),
        ({"SLURM_CPUS_PER_TASK": "3"}, 3),
        ({"SLURM_CPUS_PER_TASK": "3", "SLURM_NTASKS": "1"}, 3),
        ({"SLURM_CPUS_PER_TASK": "2", "SLURM_NTASKS": "3", "SLURM_CPUS_ON_NODE": "6"}, 6),  # the job's script
        ({"SLURM_CPUS_PER_TASK": "2", "SLURM_NTASKS": "3", "SLURM_STEP_ID": "0"}, 2),  # one of its tasks
        ({"SLURM_CPUS_PER_TASK": "2", "SLURM_NTASKS": "3"}, 8),
        ({"SLURM_CPUS_ON_NODE": "4"}, 4),
        ({"SLURM_CPUS_PER_TASK": "64"}, 8),
        ({"SLURM_CPUS_PER_TASK": "many"}, 8),
        ({"SLURM_CPUS_PER_TASK": "0"}, 8),
    ],
)
def test_a_job_of_slurm_uses_the_cores_that_it_was_given(tmp_path, env, cores):
    where = {"proc": tmp_path / "cgroup", "root": tmp_path}
    assert container_limits.usable_cores(**where, affinity_cores=8, env=env) == cores


def test_a_choice_that_cannot_be_obeyed_is_a_sentence_and_no_stack(monkeypatch, capsys):
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # put back
    bad = machine_with(2, COURSE_GPUS="banana")
    with pytest.raises(RefusedChoice, match="'banana' is no GPU"):
        bad.device_for(0)
    shell = InteractiveShell()
    shell.user_ns["bad"] = bad
    shell.run_cell("bad.device_for(0)")
    shown = capsys.readouterr().out
    assert shown.strip().startswith("COURSE_GPUS='banana'")
    assert "Traceback" not in shown
    monkeypatch.setattr("course_lib.authoring.bench.main", lambda argv: bad.sit(1))
    assert cli.main(["bench"]) == 2
    assert capsys.readouterr().err.startswith("course bench: COURSE_GPUS='banana': 'banana' is no GPU.")


OF_A_SCRIPT = """
import sys
{before}
from course_lib.devices import machine
try:
    machine().device_for(0)
except ValueError as error:
    {then}
"""


def shown_by_a_script(then: str, before: str = "") -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", OF_A_SCRIPT.format(before=before, then=then)],
        env={**os.environ, "COURSE_GPUS": "banana"},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr


def test_a_script_shows_the_sentence_alone():
    code, shown = shown_by_a_script("raise")
    assert code == 1
    assert shown.startswith("COURSE_GPUS='banana': 'banana' is no GPU. Write numbers of GPUs")
    assert shown.count("\n") == 1


def test_other_errors_of_that_script_keep_their_stack():
    code, shown = shown_by_a_script("raise KeyError('another') from None")
    assert code == 1
    assert shown.startswith("Traceback (most recent call last):")
    assert shown.endswith("KeyError: 'another'\n")


def test_somebody_elses_way_to_show_errors_stays():
    _, shown = shown_by_a_script(
        "raise", before="sys.excepthook = lambda *told: print('own:', told[1], file=sys.stderr)"
    )
    assert shown.startswith("own: COURSE_GPUS='banana'")
