"""A course that pip has installed: the lessons come out of the package, and nobody works in it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nbformat
import pytest
from small_lessons import LESSONS, small_course, write_lesson

from course_lib import cli
from course_lib.authoring import testing
from course_lib.authoring.notebooks import cli as build
from course_lib.authoring.pictures import cli as pictures
from course_lib.authoring.site import command as site
from course_lib.authoring.site.links import LinkTargets
from course_lib.base import paths
from course_lib.doctor import keeper, software
from course_lib.export.work import work_in
from course_lib.lab import command, edition, folder, share, welcome
from course_lib.lab.folder import FIRST_LESSON, LessonFolder, find_place

A = "notebooks/04a_one.ipynb"
SOLVED = "notebooks/solutions/00_start_here.ipynb"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a small course within a package, and an empty home."""
    library = tmp_path / "packages"
    course = small_course(library / "course_lib" / "_course")
    monkeypatch.setattr(paths, "library_folder", lambda: library)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("COURSE_FOLDER", "COURSE_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    return course


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return tmp_path / "home" / "one-model-many-gpus"


def ran(path: Path) -> None:
    notebook = json.loads(path.read_text())
    notebook["cells"][-1]["execution_count"] = 1
    path.write_text(json.dumps(notebook))


# --- The learner's folder -------------------------------------------------------------------------------------------


def test_one_works_in_a_folder_of_ones_own(package: Path, mine: Path, tmp_path: Path) -> None:
    place = find_place()
    assert place == LessonFolder(package, mine)
    assert place.is_installed
    assert not place.is_clone
    assert find_place(str(tmp_path / "other")).folder == tmp_path / "other"


@pytest.mark.parametrize("inner", ["", "notebooks"])
def test_the_package_itself_is_no_place_to_work(package: Path, mine: Path, inner: str) -> None:
    with pytest.raises(ValueError, match=f"belongs to the installed package.*{mine}, which is taken"):
        find_place(str(package / inner))


def test_lessons_are_never_handed_out_into_a_clone(package: Path, mine: Path) -> None:
    small_course(mine)
    with pytest.raises(ValueError, match=f"{mine} is a clone of the course.*{mine}-lessons say"):
        find_place()


def test_lessons_pictures_and_solutions_are_handed_out(
    package: Path, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--prepare"]) == 0
    said = capsys.readouterr().out
    assert f"Your lessons lie in {mine}; the course itself is the installed package, version " in said
    assert "3 lesson parts came into it." in said
    assert f"Programs to take home lie in {package.parent / 'examples'}." in said
    for name in (FIRST_LESSON, A, "notebooks/glossary.md", "assets/00_loop.png", SOLVED):
        assert (mine / name).read_bytes() == (package / name).read_bytes()
    assert command.main(["--prepare"]) == 0
    assert "came into it" not in capsys.readouterr().out


def test_what_is_typed_into_a_solution_stays_out_of_the_package(package: Path, mine: Path) -> None:
    (mine / "notebooks").mkdir(parents=True)
    (mine / SOLVED).parent.symlink_to(package / SOLVED.rpartition("/")[0])  # as beside a clone, earlier
    command._prepare(find_place())
    assert not (mine / SOLVED).parent.is_symlink()
    (mine / SOLVED).write_text("mine")
    command._prepare(find_place())
    assert (mine / SOLVED).read_text() == "mine"
    assert (package / SOLVED).read_text() == SOLVED


def test_solutions_of_a_package_that_others_keep_are_linked(
    package: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "may_write", lambda place: place != package)
    monkeypatch.setattr(welcome, "may_write", lambda place: place != package)
    monkeypatch.setattr(share, "take_fonts", lambda: None)
    monkeypatch.delenv("JUPYTER_PREFER_ENV_PATH", raising=False)
    command._prepare(find_place())
    assert (mine / SOLVED).parent.is_symlink()


def test_a_newer_package_renews_what_was_not_touched(package: Path, mine: Path) -> None:
    command._prepare(find_place())
    ran(mine / FIRST_LESSON)
    for stem in LESSONS:
        write_lesson(package, stem, "2")
        (package / f"notebooks/{stem}.ipynb").unlink()
        made = edition.pristine(package, f"notebooks/{stem}.ipynb")
        (package / f"notebooks/{stem}.ipynb").write_bytes(made)
    said = "\n".join(command._prepare(find_place()))
    assert "2 lesson parts that you had not touched: now the newer edition." in said
    assert "00_start_here.ipynb has a newer edition. Yours stays as it is" in said
    assert (mine / A).read_bytes() == (package / A).read_bytes()


def test_a_notebook_of_the_package_is_made_anew_only_where_it_was_run(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Making all of them takes seconds of each start. Whoever built the package may have worked in the clone."""
    clean = edition.pristine(package, A)
    ran(package / A)
    assert edition.pristine(package, A) == clean
    (package / A).write_bytes(clean)
    monkeypatch.setattr("course_lib.lessons.convert.learner_notebook", lambda *_: pytest.fail("made anew"))
    assert edition.pristine(package, A) == clean


# --- The verbs ------------------------------------------------------------------------------------------------------


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def test_what_needs_a_clone_says_so(
    package: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = f"needs a clone of the course; this one is a package in {package.parent.parent}."
    before = {path: path.read_bytes() for path in package.rglob("*") if path.is_file()}
    assert testing.main([]) == 2
    assert f"course test: A test {needs}" in told(capsys)
    assert pictures.main(["07"]) == 1
    assert f"course pictures: Drawing them again {needs}" in told(capsys)
    assert build.main(["00"]) == 1
    assert f"course build: Making notebooks {needs}" in told(capsys)
    from course_lib.authoring.bench import class_of_users

    with pytest.raises(SystemExit):
        class_of_users.main([])
    assert f"This bench {needs} `git clone` the course" in told(capsys)
    assert {path: path.read_bytes() for path in package.rglob("*") if path.is_file()} == before


def test_assignments_are_written_out_of_the_package(package: Path, tmp_path: Path) -> None:
    assert build.main(["--nbgrader", str(tmp_path / "assignments")]) == 0
    assert (tmp_path / "assignments" / "nbgrader_config.py").is_file()


def test_packages_that_lack_are_asked_of_pip(
    package: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("course_lib.authoring.site.settings.NEEDED", ("no_such_theme",))
    assert site.main([]) == 1
    assert "-m pip install 'one-model-many-gpus[site]'`" in told(capsys)
    assert cli._again() == (f"Install what the course asks for: {sys.executable} -m pip install one-model-many-gpus")


def test_export_looks_for_work_where_it_lies_and_not_in_the_package(package: Path, mine: Path) -> None:
    with pytest.raises(ValueError, match="--folder names the one where yours lie") as error:
        work_in()
    assert str(package) not in str(error.value)
    command._prepare(find_place())
    ran(mine / A)
    work = work_in()
    assert (work.folder, [name for name, _ in work.notebooks]) == (mine / "notebooks", ["04a_one"])
    assert isinstance(work.notebooks[0][1], nbformat.NotebookNode)


def test_the_doctor_knows_a_package(package: Path, mine: Path) -> None:
    found = {one.name: one for one in keeper.check_course_folder(package)}
    assert found["course folder"].status == "ok"
    assert "in the installed package; you work elsewhere" in found["course folder"].detail
    assert found["your lessons"].detail.startswith(str(mine))
    missing = software.check_course_files(package)
    assert missing.status == "blocked"
    assert "-m pip install --force-reinstall --no-deps one-model-many-gpus" in missing.remedy


def test_links_to_what_a_package_lacks_are_plain_text(package: Path) -> None:
    where = LinkTargets({}, "", package)
    assert where.moved("[a test](tests/test_x.py)", "README.md", "index.md") == "a test"
    assert LinkTargets({}, "", package / "elsewhere").moved("[a](b.md)", "README.md", "index.md") == "[a](b.md)"
