"""A class that hands out and in by nbgrader's exchange: a teacher and learners, each a Unix user of this machine.

Each has a home of their own, and nobody is root: what one user may not read or write is refused by the system.
"""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from planted_work import read, students_of
from shared_course import why_not as why_not_shared
from waiting import crowd

from course_lib.authoring.bench.class_of_users.users import User, unix_users

COURSE = "one-model-many-gpus"
LIMIT_S = 900


def why_no_exchange() -> str:
    """Why there can be no such class here; empty where there can."""
    if importlib.util.find_spec("nbgrader") is None:
        return "nbgrader is not installed: pip install -e .[grade]"
    return why_not_shared()


@dataclass
class ClassHere:
    """A teacher's folder of assignments, an exchange for everybody, and learners by the work that they hand in."""

    course: Path
    exchange: Path
    lesson: str
    teacher: User
    learners: Mapping[str, User]

    @property
    def assignments(self) -> Path:
        return self.teacher.home / "class"

    @property
    def inbound(self) -> Path:
        return self.exchange / COURSE / "inbound"

    def ran(self, user: User, cwd: Path, *command: str) -> subprocess.CompletedProcess[str]:
        """A command of a user's, with the course's programs on the PATH."""
        who = user.as_them() | {"cwd": cwd}
        path = f"{self.course / '.venv' / 'bin'}:{who['env']['PATH']}"
        who["env"] |= {"PATH": path, "JUPYTER_CONFIG_PATH": str(self.exchange.parent / "settings")}
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S * crowd(), **who)

    def told(self, user: User, cwd: Path, *command: str) -> str:
        """What a command says that works."""
        done = self.ran(user, cwd, *command)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def by_teacher(self, verb: str, *more: str) -> str:
        """``nbgrader VERB`` with the lesson, in the folder of assignments."""
        return self.told(self.teacher, self.assignments, "nbgrader", verb, self.lesson, *more)

    def by_learner(self, name: str, verb: str, *more: str) -> str:
        """``nbgrader VERB`` with the lesson, in a learner's home."""
        user = self.learners[name]
        return self.told(user, user.home, "nbgrader", verb, self.lesson, "--course", COURSE, *more)

    def hand_out(self) -> None:
        build = (str(self.course / "course"), "build", "--nbgrader", str(self.assignments), self.lesson)
        self.told(self.teacher, self.teacher.home, *build)
        self.told(self.teacher, self.teacher.home, "chmod", "700", str(self.assignments))
        for verb in ("generate_assignment", "release_assignment"):
            self.by_teacher(verb)

    def work_of(self, name: str) -> Path:
        return self.learners[name].home / self.lesson / f"{self.lesson}.ipynb"

    def do(self, name: str) -> None:
        """Write the work of this name into the notebook that its learner has fetched."""
        path = self.work_of(name)
        solved = read(self.assignments / "source" / self.lesson / path.name)
        work = students_of(self.lesson)[name](read(path), self.lesson, solved)
        path.write_text(json.dumps(work), encoding="utf-8")

    def mark(self, *more: str) -> None:
        for verb in ("autograde", "generate_feedback", "release_feedback"):
            self.by_teacher(verb, *more)

    def points(self) -> dict[str, float]:
        """What each learner has, by ``nbgrader export``."""
        self.told(self.teacher, self.assignments, "nbgrader", "export")
        with (self.assignments / "grades.csv").open(newline="") as file:
            return {row["student_id"]: float(row["score"] or 0) for row in csv.DictReader(file)}


@contextlib.contextmanager
def class_here(folder: Path, course: Path, lesson: str, work: Sequence[str]) -> Iterator[ClassHere]:
    """Such a class, in a folder that everybody can enter: new users, an empty exchange, settings that name it."""
    for name in ("nbgrader", "alembic"):  # the shared course takes packages from elsewhere, without their programs
        program = course / ".venv" / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {course}/.venv/bin/python -m {name} "$@"\n')
        program.chmod(0o755)
    exchange, settings = folder / "exchange", folder / "settings"
    for place, mode in ((exchange, 0o777), (settings, 0o755)):
        place.mkdir()
        place.chmod(mode)
    (settings / "nbgrader_config.py").write_text(f"c = get_config()\nc.Exchange.root = {str(exchange)!r}\n")
    with unix_users(1 + len(work), folder) as (teacher, *learners):
        yield ClassHere(course, exchange, lesson, teacher, dict(zip(work, learners, strict=True)))


if __name__ == "__main__":  # says why there can be none, and with which code
    sys.exit(why_no_exchange() or 0)
