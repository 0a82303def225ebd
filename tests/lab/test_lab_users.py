"""Real users of the system and one installation that they can only read: six begin at once, from cold."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from shared_course import LIMIT_S, why_not

from course_lib.authoring.bench.class_of_users import hold_class
from course_lib.authoring.bench.class_of_users.users import User, unix_users
from course_lib.lab.folder import FIRST_LESSON

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "never"),
    pytest.mark.xdist_group("lab_users"),
]
LESSONS = ("00_start_here", "02a_collectives", "04a_distributed_data_parallel")


@pytest.fixture
def user(folder: Path) -> Iterator[User]:
    with unix_users(1, folder) as users:
        yield users[0]


def start(course: Path, user: User, *argv: str) -> subprocess.CompletedProcess[str]:
    command = [str(course / "course"), *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, **user.as_them())


@pytest.mark.limit_s(1500)
def test_six_users_work_through_three_lessons_at_once(course: Path) -> None:
    before = sorted(path for path in course.rglob("*"))
    told = hold_class(course, 6, LESSONS)
    assert told.errors == []
    assert [sorted(outcome.times_s) for outcome in told.outcomes] == [sorted(LESSONS)] * 6
    for outcome in told.outcomes:
        assert outcome.transports == {"ipc"}
        for noise in ("font cache", "without encryption", "Address already in use", "Traceback"):
            assert noise not in outcome.stderr
    assert sorted(path for path in course.rglob("*")) == before


def test_doctor_accepts_it(course: Path, user: User) -> None:
    done = start(course, user, "doctor", "--json")
    by_name = {found["name"]: found for found in json.loads(done.stdout)["findings"]}
    assert by_name["course folder"]["status"] == "ok"
    assert "kept by root" in by_name["course folder"]["detail"]
    assert by_name["your lessons"]["status"] == "ok"
    assert str(user.home) in by_name["your lessons"]["detail"]
    assert by_name.get("compiled files") is None
    assert by_name["all-reduce, gloo"]["status"] == "ok"


def test_a_users_reset_and_share(course: Path, user: User) -> None:
    assert "was not there, and is now" in start(course, user, "lab", "--reset", "00").stdout
    mine = user.home / "one-model-many-gpus" / FIRST_LESSON
    assert mine.owner() == user.name
    assert start(course, user, "lab", "--share").returncode == 2
    refused = start(course, user, "lab", "--folder", str(course))
    assert refused.returncode == 2
    assert "kept by root" in refused.stderr or "which root keeps" in refused.stderr


def test_an_installation_that_is_not_ready_names_its_keeper(course: Path, user: User) -> None:
    ready = course / ".venv" / "course-ready"
    kept = ready.with_name("kept")
    shutil.move(ready, kept)
    try:
        done = start(course, user, "lab", "--no-browser")
    finally:
        shutil.move(kept, ready)
    assert done.returncode == 1
    assert "is kept by root" in done.stderr
    assert "Traceback" not in done.stderr
