"""Where a learner works, what a shared installation prepares, and what is said where it is not fit for others."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from small_lessons import small_course

from course_lib.base import paths
from course_lib.doctor import keeper
from course_lib.environment.set_up import Target, _explain
from course_lib.lab import command, edition, folder, share
from course_lib.lab.folder import LessonFolder, find_place
from course_lib.lab.left_bar import close_left_bar
from course_lib.lab.options import idle_minutes

pytestmark = pytest.mark.usefixtures("no_kernels_are_prepared")


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    course = small_course(tmp_path / "course")
    monkeypatch.setattr(paths, "project_root", lambda: course)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("COURSE_FOLDER", "COURSE_HOME", "COURSE_IDLE_MINUTES"):
        monkeypatch.delenv(name, raising=False)
    return course


@pytest.fixture
def read_only(course: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same course as another user's; by hand, since root may write everywhere."""
    monkeypatch.setattr(folder, "may_write", lambda place: place != course)
    for module in (share, keeper):
        monkeypatch.setattr(module, "may_write", lambda place: place != course)
    monkeypatch.setattr("course_lib.lab.welcome.may_write", lambda place: place != course)
    return course


# --- Which folder ---------------------------------------------------------------------------------------------------


def test_in_a_clone_of_ones_own_one_works_in_the_clone(course: Path) -> None:
    place = find_place()
    assert place == LessonFolder(course, course)
    assert place.is_clone
    assert not place.is_shared


def test_beside_a_course_that_others_keep_one_works_at_home(
    read_only: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_place() == LessonFolder(read_only, tmp_path / "home" / "one-model-many-gpus")
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "seat3"))  # learners of one account
    assert find_place().folder == tmp_path / "seat3" / "one-model-many-gpus"
    monkeypatch.setenv("COURSE_FOLDER", "~/lessons")
    assert find_place().folder == tmp_path / "home" / "lessons"
    assert find_place(str(tmp_path / "b" / ".." / "c")).folder == tmp_path / "c"
    assert find_place().is_shared


def test_a_link_to_the_clone_is_the_clone(course: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(course)
    assert find_place(str(tmp_path / "link")).is_clone


def test_folders_that_cannot_be_ones_own(course: Path, tmp_path: Path) -> None:
    other = small_course(tmp_path / "other")
    (tmp_path / "file").touch()
    for asked, says in [
        (" ", "--folder is empty"),
        (str(other), "is a clone of the course"),
        (str(tmp_path / "file"), "file-lessons say"),
    ]:
        with pytest.raises(ValueError, match=says):
            find_place(asked)


def test_the_course_itself_is_no_folder_where_it_is_read_only(read_only: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="you cannot write") as told:
        find_place(str(read_only))
    assert str(tmp_path / "home" / "one-model-many-gpus") in str(told.value)


def test_a_read_only_folder_is_seen_by_who_is_not_root(tmp_path: Path) -> None:
    if os.name != "posix" or os.geteuid() == 0:
        pytest.skip("root may write everywhere; tests/lab/test_lab_users.py asks as others")
    course = small_course(tmp_path / "closed")
    (course / "notebooks").chmod(0o555)
    assert not folder.may_write(course)


# --- The command line -----------------------------------------------------------------------------------------------


def test_lessons_come_before_jupyterlab_does(
    read_only: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[list[str]] = []
    monkeypatch.setattr(command, "_serve", lambda options, no_browser: served.append(options) or 0)
    monkeypatch.delenv("JUPYTER_PREFER_ENV_PATH", raising=False)
    mine = tmp_path / "home" / "one-model-many-gpus"
    assert command.main(["--no-browser", "--port=9000"]) == 0
    assert (mine / folder.FIRST_LESSON).is_file()
    assert (mine / "assets" / "00_loop.png").is_file()
    out = capsys.readouterr().out
    assert f"Your lessons lie in {mine}" in out
    assert "3 lesson parts came into it" in out
    assert "60 minutes" in out
    (options,) = served
    assert f"--ServerApp.root_dir={mine}" in options
    assert "--MappingKernelManager.cull_idle_timeout=3600" in options
    assert "--MappingKernelManager.cull_connected=True" in options
    assert "--port=9000" in options
    assert os.environ["JUPYTER_PREFER_ENV_PATH"] == "1"  # the kernel is this environment's
    command.main(["--no-browser", "--folder", str(tmp_path / "x"), "--MappingKernelManager.cull_idle_timeout=7"])
    assert not [option for option in served[1] if option.startswith("--folder") or option.endswith("timeout=3600")]
    assert (tmp_path / "x" / folder.FIRST_LESSON).is_file()


def test_in_a_clone_nothing_is_copied_and_kernels_stay(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[list[str]] = []
    monkeypatch.setattr(command, "_serve", lambda options, no_browser: served.append(options) or 0)
    before = sorted(course.rglob("*"))
    assert command.main(["--no-browser"]) == 0
    assert sorted(course.rglob("*")) == before
    assert capsys.readouterr().out == ""
    assert not [option for option in served[0] if "cull" in option]
    monkeypatch.setenv("COURSE_IDLE_MINUTES", "5")
    assert command.main(["--no-browser"]) == 0
    assert "--MappingKernelManager.cull_idle_timeout=300" in served[1]
    assert "--MappingKernelManager.cull_interval=100" in served[1]


def test_a_hub_has_the_lessons_brought_and_opens_the_rest_itself(
    read_only: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "_serve", lambda options, no_browser: pytest.fail("it is the hub's to open"))
    assert command.main(["--prepare"]) == 0
    assert (tmp_path / "home" / "one-model-many-gpus" / folder.FIRST_LESSON).is_file()
    assert "3 lesson parts came into it" in capsys.readouterr().out


def test_in_a_clone_there_is_nothing_to_bring(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--prepare"]) == 0
    assert "nothing to copy" in capsys.readouterr().out


def test_who_names_the_root_gets_no_copies(read_only: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_serve", lambda options, no_browser: 0)
    assert command.main(["--no-browser", f"--ServerApp.root_dir={tmp_path}"]) == 0
    assert not (tmp_path / "home").exists()


def test_a_folder_that_cannot_be_written_is_told_in_a_sentence(
    read_only: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").write_text("a file, in which no folder can be made")
    assert command.main(["--no-browser"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("course lab: ")
    assert "`course lab --folder DIR`" in err


@pytest.mark.parametrize("argv", [["--reset"], ["--reset", "99"], ["--folder"], ["--folder="]])
def test_words_without_sense_get_a_sentence(course: Path, argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(argv) == 2
    assert capsys.readouterr().err.startswith("course lab: ")


def test_a_reset_from_the_command_line(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fresh = (course / folder.FIRST_LESSON).read_bytes()
    (course / folder.FIRST_LESSON).write_bytes(b"work")
    assert command.main(["--reset", "00"]) == 0
    assert "is kept as" in capsys.readouterr().out
    assert (course / folder.FIRST_LESSON).read_bytes() == fresh


@pytest.mark.parametrize("text", ["soon", "-1", "1.5", "²"])
def test_minutes_that_are_none(course: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURSE_IDLE_MINUTES", text)
    with pytest.raises(ValueError, match="whole number of minutes"):
        idle_minutes(is_shared=True)
    monkeypatch.setenv("COURSE_IDLE_MINUTES", "0")
    assert idle_minutes(is_shared=True) == 0


# --- One installation -----------------------------------------------------------------------------------------------


def library(course: Path) -> Path:
    (course / "course_lib").mkdir()
    file = course / "course_lib" / "one.py"
    file.write_text("x = 1\n")
    return file


def test_what_is_shared_is_compiled_and_a_change_is_seen(
    course: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = library(course)
    monkeypatch.setattr(share, "_kept_fonts", lambda: tmp_path / "fonts")
    monkeypatch.setattr(edition, "_prints_file", lambda: tmp_path / "prints.json")
    monkeypatch.setattr(share, "closed_to_others", lambda course: [])
    assert share.not_compiled(course) == [file]
    assert command.main(["--share"]) == 0
    assert f"{course / 'course'} lab" in capsys.readouterr().out
    assert share.not_compiled(course) == []
    file.write_text("x = 12\n")
    assert share.not_compiled(course) == [file]
    monkeypatch.setattr(share, "closed_to_others", lambda course: ["Not everybody can enter /root"])
    assert command.main(["--share"]) == 1
    assert "Not everybody" in capsys.readouterr().out


def test_the_list_of_fonts_reaches_a_user_who_has_none(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, own = tmp_path / "kept", tmp_path / "own"
    assert share._keep_fonts(kept) == "matplotlib's list of fonts is kept"
    (name,) = [path.name for path in kept.iterdir()]
    assert json.loads((kept / name).read_text())["ttflist"]
    own.mkdir()
    monkeypatch.setattr("matplotlib.get_cachedir", lambda: str(own))
    share.take_fonts(kept)
    assert (own / name).read_bytes() == (kept / name).read_bytes()
    (own / name).write_text("my own")
    share.take_fonts(kept)
    assert (own / name).read_text() == "my own"


def test_what_others_cannot_read_is_named(course: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    modes = {path: path.stat().st_mode for path in tmp_path.parents}
    monkeypatch.setattr(
        share, "_mode", lambda path: modes.get(path, 0) | 0o001 if path in modes else path.stat().st_mode
    )
    monkeypatch.setattr(sys, "prefix", str(course))
    monkeypatch.setattr(sys, "executable", str(course / "course"))
    tmp_path.chmod(0o755)
    (course / "course").touch()
    assert share.closed_to_others(course) == []
    (course / "course").chmod(0o700)
    (said,) = share.closed_to_others(course)
    assert "chmod -R a+rX" in said
    assert str(course / "course") in said
    (course / "course").chmod(0o755)
    tmp_path.chmod(0o700)
    said = share.closed_to_others(course)
    assert f"Not everybody can enter {tmp_path}: {course} must lie elsewhere" in said[0]
    assert "/usr/bin/python3" in said[1]


def test_only_its_keeper_prepares_a_course(read_only: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--share"]) == 2
    assert "--share is for the user who keeps the course" in capsys.readouterr().err


def test_doctor_accepts_a_course_that_others_keep(read_only: Path, tmp_path: Path) -> None:
    file = library(read_only)
    (tmp_path / "home").mkdir()
    by_name = {found.name: found for found in keeper.check_course_folder(read_only)}
    assert {name: found.status for name, found in by_name.items()} == {
        "course folder": "ok", "compiled files": "warning", "your lessons": "ok",
    }  # fmt: skip
    assert str(tmp_path / "home" / "one-model-many-gpus") in by_name["your lessons"].detail
    assert "lab --share" in by_name["compiled files"].remedy
    file.unlink()
    assert [found.name for found in keeper.check_course_folder(read_only)] == [
        "course folder",
        "your lessons",
    ]


def test_doctor_names_a_folder_that_was_chosen(course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [found.name for found in keeper.check_course_folder(course)] == ["course folder"]
    monkeypatch.setenv("COURSE_FOLDER", str(tmp_path / "lessons"))
    assert [found.name for found in keeper.check_course_folder(course)] == ["course folder", "your lessons"]
    (tmp_path / "lessons").touch()
    (found,) = keeper.check_course_folder(course)
    assert found.status == "blocked"


def test_another_users_course_that_is_not_ready_says_whom_to_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """./course of a user who may not write, in a course whose environment is not made."""
    target = Target(str(tmp_path), str(tmp_path / ".venv"), "", str, str, str, bool, bool)
    error = PermissionError(13, "Permission denied", str(tmp_path / ".venv.lock"))
    assert "folder of your own" in _explain(error, target)
    assert "lab --share" not in _explain(error, target)
    if not hasattr(os, "getuid"):
        return
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    text = _explain(error, target)
    assert f"kept by {tmp_path.owner()}" in text
    assert "lab --share" in text


def test_modes_are_of_the_file_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "to nowhere").symlink_to(tmp_path / "nowhere")
    assert share._mode(tmp_path / "to nowhere") & stat.S_IROTH


def test_the_list_of_fonts_of_a_new_home_is_gathered_beside_the_start(tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setattr("matplotlib.get_cachedir", lambda: str(cache))
    began = []
    real = share.subprocess.Popen

    def noted(command, **options):
        began.append(command)
        return real([command[0], "-c", "pass"], **options)

    monkeypatch.setattr(share.subprocess, "Popen", noted)
    maker = share.make_fonts()
    assert maker is not None
    assert maker.wait() == 0
    assert began == [[sys.executable, "-c", "import matplotlib.font_manager"]]
    (cache / "fontlist-v390.json").write_text("{}")
    assert share.make_fonts() is None
    assert len(began) == 1


def test_a_new_home_opens_with_the_left_bar_closed_and_an_own_layout_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", str(tmp_path))
    assert close_left_bar()
    (kept,) = tmp_path.iterdir()
    layout = json.loads(kept.read_text())["data"]["layout-restorer:data"]
    assert layout["left"]["collapsed"]
    kept.write_text(kept.read_text().replace('"collapsed": true', '"collapsed": false'))
    assert not close_left_bar()
    assert '"collapsed": false' in kept.read_text()
    monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", str(kept))  # a file: nothing can be kept there
    assert not close_left_bar()
