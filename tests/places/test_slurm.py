"""A real Slurm with two nodes on this machine: a learner's JupyterLab as a job, and a program on both nodes."""

from __future__ import annotations

import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from shared_course import why_not
from slurm_here import SlurmHere, slurm_here, why_no_slurm
from waiting import all_ended, wait_until
from web_kernel import Server, first_cells, kernel_of

from course_lib.authoring.bench.class_of_users.users import User, processes_of, unix_users
from course_lib.lab.folder import FIRST_LESSON

WHY_NOT = why_no_slurm() or why_not()
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "never"),
    pytest.mark.xdist_group("slurm"),
    pytest.mark.limit_s(2000),
]
SLOW_S = 1200  # a job that starts torch, on a machine with other work


@pytest.fixture(scope="module")
def course(course: Path) -> Path:
    """With torchrun among its programs, which the environment of the shared course has not."""
    torchrun = course / ".venv" / "bin" / "torchrun"
    torchrun.write_text(f'#!/bin/sh\nexec {course}/.venv/bin/python -m torch.distributed.run "$@"\n')
    torchrun.chmod(0o755)
    return course


@pytest.fixture(scope="module")
def without_gpus(folder: Path) -> Iterator[SlurmHere]:
    (folder / "cluster").mkdir()
    with slurm_here(folder / "cluster") as slurm:
        yield slurm


@pytest.fixture
def ada(folder: Path) -> Iterator[User]:
    with unix_users(1, folder) as users:
        yield users[0]


def take_along(course: Path, user: User) -> dict[str, str]:
    """What a learner copies out of the course to train on a cluster; the variables of a shell that has the course."""
    for name in ("train_ddp", "launch/slurm.sbatch"):
        path = course / "course_lib" / "examples" / name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, user.home / path.name)
    for path in (user.home, *user.home.rglob("*")):
        shutil.chown(path, user.number, user.group)
    return {"PATH": f"{course}/.venv/bin:{user.as_them()['env']['PATH']}"}


def log_of(user: User, job: int) -> str:
    (path,) = user.home.glob(f"*-{job}.log")
    return path.read_text()


# -- course-lab.sbatch -----------------------------------------------------------------------------------------------


def address_told(user: User, job: int) -> Server | None:
    """Where JupyterLab answers, once the job's log says it."""
    logs = list(user.home.glob(f"course-{job}.log"))
    found = logs and re.search(r"(http://127\.0\.0\.1:\d+)/\S*[?&]token=(\w+)", logs[0].read_text())
    return Server(found[1], found[2]) if found else None


def test_a_learners_lab_is_a_job_and_lesson_00_runs_in_it(without_gpus: SlurmHere, course: Path, ada: User) -> None:
    script = course / "docs" / "instructor" / "hub" / "course-lab.sbatch"
    job = without_gpus.submit(ada, str(script), COURSE=str(course))
    wait_until(
        lambda: address_told(ada, job) or without_gpus.state(job) not in ("PENDING", "RUNNING"),
        "start",
        SLOW_S,
    )
    lab = address_told(ada, job)
    assert lab is not None, log_of(ada, job)
    log = ada.home / f"course-{job}.log"
    assert (stat.S_IMODE(log.stat().st_mode), log.owner()) == (0o600, ada.name)
    assert f"scancel {job}" in log.read_text()
    lesson = lab.notebook(FIRST_LESSON)
    with kernel_of(lab, FIRST_LESSON) as kernel:
        shown = [kernel.run(cell) for cell in first_cells(lesson)]
        assert kernel.run("import os; print(os.environ['SLURM_JOB_ID'])").strip() == str(job)
    assert shown[-1].count("00") == 4, shown
    assert all(f"I am rank {rank} of 4" in "".join(shown) for rank in range(4))
    started = processes_of(ada)
    assert started
    assert without_gpus.told("scancel", str(job), user=ada).returncode == 0
    without_gpus.exit_code(job)  # of a server that was told to end: it is over, that is all
    assert without_gpus.state(job) == "CANCELLED"
    assert all_ended([process.pid for process in started])
    assert processes_of(ada) == []


def test_a_job_without_a_course_ends_with_a_sentence(without_gpus: SlurmHere, course: Path, ada: User) -> None:
    script = course / "docs" / "instructor" / "hub" / "course-lab.sbatch"
    job = without_gpus.submit(ada, str(script), COURSE="/nowhere")
    assert without_gpus.exit_code(job) == "2:0"
    assert "There is no /nowhere/course. Say where the course is" in log_of(ada, job)


# -- slurm.sbatch ----------------------------------------------------------------------------------------------------

# Six steps: where ranks stand in line for cores, each step is many waits for the others.
LIGHT = ("--batch-size", "240", "--width", "4", "--warmup", "1")
TRAIN = ("-m", "train_ddp", "--epochs", "1", "--device", "cpu", "--out", "run", *LIGHT)


def is_trained(user: User, job: int, ranks: int) -> None:
    said = log_of(user, job)
    assert f"world size {ranks}, cpu" in said, said
    assert "epoch 1/1  accuracy" in said, said
    assert (user.home / "run" / "best.pt").is_file(), said


def test_a_cluster_without_gpus_is_told_how_to_ask_for_none(without_gpus: SlurmHere, course: Path, ada: User) -> None:
    """As it is, Slurm refuses the file; the file names that sentence, and the line below it works on two nodes."""
    shell = take_along(course, ada)
    refused = without_gpus.told("sbatch", "slurm.sbatch", *TRAIN, user=ada, **shell)
    sentence = "Invalid generic resource (gres) specification"
    assert (refused.returncode, sentence in refused.stderr) == (1, True)
    head = (ada.home / "slurm.sbatch").read_text().partition("#SBATCH")[0]
    assert sentence in head
    (told,) = re.findall(r"RANKS_PER_NODE=4 sbatch (.*) slurm.sbatch -m train_ddp$", head, re.MULTILINE)
    job = without_gpus.submit(ada, *told.split(), "slurm.sbatch", *TRAIN, RANKS_PER_NODE="2", **shell)
    assert without_gpus.exit_code(job, SLOW_S) == "0:0", log_of(ada, job)
    is_trained(ada, job, 4)


def test_a_job_without_gpus_or_ranks_says_what_to_type(without_gpus: SlurmHere, course: Path, ada: User) -> None:
    words = ("--gpus-per-node=0", "--cpus-per-task=1", "slurm.sbatch", *TRAIN)
    job = without_gpus.submit(ada, *words, **take_along(course, ada))
    assert without_gpus.exit_code(job) == "2:0"
    assert "RANKS_PER_NODE=4 sbatch --gpus-per-node=0" in log_of(ada, job)


def test_gpus_that_slurm_gives_are_ranks_on_both_nodes(folder: Path, course: Path, ada: User) -> None:
    """Two GPUs a node, by their number alone: the ranks themselves compute on the CPU, where NUMA= is empty."""
    (folder / "with-gpus").mkdir()
    with slurm_here(folder / "with-gpus", gpus=2) as slurm:
        words = ("--gpus-per-node=2", "--cpus-per-task=2", "slurm.sbatch", *TRAIN)
        job = slurm.submit(ada, *words, NUMA="", **take_along(course, ada))
        assert slurm.exit_code(job, SLOW_S) == "0:0", log_of(ada, job)
        is_trained(ada, job, 4)
        assert slurm.processes() != []
    assert slurm.processes() == []
