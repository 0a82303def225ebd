"""The folder of lock files: what counts, what does not, and what other users of the machine may try."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from course_lib.devices import lock_files
from course_lib.devices.lock_files import Folder, LockFile, UnavailableError, folder_for

pytest.importorskip("fcntl")
OLD_S = time.time() - 3600
NOBODY = 65534


@pytest.fixture
def folder(tmp_path):
    found = Folder(tmp_path / "seats")
    yield found
    found.close()


_forks: set[int] = set()


@pytest.fixture(autouse=True)
def _no_fork_is_left():
    yield
    for pid in list(_forks):
        end(pid)


def in_a_process(work) -> int:
    """Do ``work`` in a fork, which keeps what it returns and waits to be killed; its number, once it is done."""
    done, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            kept = work()  # noqa: F841 - a lock goes with its object
            os.write(tell, b"x")
            signal.alarm(120)  # its end, if nobody is left to end it
            signal.pause()
        finally:
            os._exit(1)
    _forks.add(pid)
    os.close(tell)
    assert os.read(done, 1) == b"x", "the fork has failed"
    os.close(done)
    return pid


def end(pid: int) -> None:
    _forks.discard(pid)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_file_counts_while_it_is_held_and_says_what_was_written_last(folder):
    held = folder.hold("first")
    assert list(folder.held_by_others().values()) == ["first"]
    held.write("now")
    assert folder.held_by_others() == {held.name: "now"}
    assert folder.held_by_others(own=held.name) == {}
    assert folder.is_held(held.name)
    held.close()
    held.close()
    assert folder.held_by_others() == {}
    assert not folder.is_held(held.name)


def test_the_file_of_a_process_that_was_killed_counts_for_nothing_at_once(folder):
    pid = in_a_process(lambda: folder.hold("here"))
    assert list(folder.held_by_others().values()) == ["here"]
    end(pid)
    assert folder.held_by_others() == {}
    (left,) = folder.path.glob("seat-*")
    os.utime(left, (OLD_S, OLD_S))
    folder.held_by_others()
    assert not list(folder.path.glob("seat-*")), "its owner's next process removes it"


def test_a_young_file_without_a_lock_is_left_since_it_may_be_about_to_get_one(folder):
    young = folder.path / "seat-1-young"
    young.write_text("not yet")
    assert folder.held_by_others() == {}
    assert young.exists()


def test_everybody_may_add_a_file_and_read_the_others_whatever_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        folder = Folder(tmp_path / "seats")
        held = folder.hold("x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o1777
    assert stat.S_IMODE((folder.path / held.name).stat().st_mode) == 0o644
    assert stat.S_IMODE((folder.path / "README").stat().st_mode) == 0o644
    assert {path.name for path in tmp_path.iterdir()} == {"seats"}, "a draft was left"
    held.close()
    folder.close()


def test_many_that_make_the_folder_at_once_meet_in_one(tmp_path):
    def hold() -> LockFile:
        return Folder(tmp_path / "seats").hold(str(os.getpid()))

    pids = [in_a_process(hold) for _ in range(6)]
    folder = Folder(tmp_path / "seats")
    assert sorted(folder.held_by_others().values()) == sorted(map(str, pids))
    for pid in pids:
        end(pid)
    folder.close()


def test_a_draft_that_comes_second_leaves_the_first_as_it_is(tmp_path):
    first = Folder(tmp_path / "seats")
    held = first.hold("x")
    lock_files._made(tmp_path / "seats")
    assert first.is_held(held.name)
    assert {path.name for path in tmp_path.iterdir()} == {"seats"}


def test_one_chooses_at_a_time_and_nobody_waits_for_ever(tmp_path, folder):
    def stay():
        other = Folder(folder.path)
        block = other.alone()
        block.__enter__()
        return block

    pid = in_a_process(stay)
    with folder.alone(wait_s=0.05) as is_alone:
        assert not is_alone
    end(pid)
    with folder.alone(wait_s=0.05) as is_alone:
        assert is_alone
    with folder.alone(wait_s=0.05) as is_alone:
        assert is_alone, "it was given back"


def test_who_keeps_the_folder_locked_is_waited_for_once(folder, monkeypatch):
    slept = []
    monkeypatch.setattr(lock_files.time, "sleep", slept.append)
    other = in_a_process(lambda: keep_alone(folder.path))
    with folder.alone(wait_s=0.01) as is_alone:
        assert not is_alone
    assert folder.keeps_waiting
    assert slept
    slept.clear()
    with folder.alone(wait_s=60) as is_alone:  # nobody lets go
        assert not is_alone
    assert not slept
    end(other)
    with folder.alone() as is_alone:
        assert is_alone
    assert not folder.keeps_waiting


def keep_alone(path):
    other = Folder(path)
    block = other.alone()
    block.__enter__()
    return other, block


# -- what others may try ---------------------------------------------------------------------------------------------


def test_links_pipes_and_folders_in_place_of_a_file_are_passed_over(folder, tmp_path):
    elsewhere = Folder(tmp_path / "elsewhere")
    secret = tmp_path / "elsewhere" / elsewhere.hold("secret").name
    (folder.path / "seat-1-link").symlink_to(secret)
    os.mkfifo(folder.path / "seat-2-pipe")
    (folder.path / "seat-3-folder").mkdir()
    held = folder.hold("real")
    assert folder.held_by_others() == {held.name: "real"}
    assert secret.read_text() == "secret"
    elsewhere.close()


def test_a_name_that_leads_out_of_the_folder_is_held_by_nobody(folder, tmp_path):
    pid = in_a_process(lambda: Folder(tmp_path / "elsewhere").hold("x"))
    (name,) = [path.name for path in (tmp_path / "elsewhere").glob("seat-*")]
    assert not folder.is_held(f"../elsewhere/{name}")
    end(pid)


def test_a_long_file_is_read_in_part(folder):
    held = folder.hold("x" * 100_000)
    (text,) = folder.held_by_others().values()
    assert len(text) == 8192
    held.close()


def test_of_more_files_than_a_machine_has_notebooks_some_are_not_looked_at(folder, monkeypatch):
    """Each takes its time, and anybody can make as many as there is room for."""
    monkeypatch.setattr(lock_files, "MOST_FILES", 3)
    mine, *others = [folder.hold(str(number)) for number in range(4)]
    assert len(folder.held_by_others(own=mine.name)) == 3
    assert not folder.is_crowded
    others.append(folder.hold("one more"))
    asked = []
    monkeypatch.setattr(folder, "_text_if_held", lambda name: asked.append(name) or "held")
    assert len(folder.held_by_others(own=mine.name)) == len(asked) == 3
    assert mine.name not in asked
    assert folder.is_crowded
    for file in (mine, *others):
        file.close()


def test_a_link_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "seats").symlink_to(tmp_path / "mine")
    with pytest.raises(UnavailableError, match="seats: "):
        folder_for({"COURSE_SEATS": str(tmp_path / "seats")})
    assert not list((tmp_path / "mine").iterdir())


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root, to be two users")
def test_a_file_of_another_user_counts_and_stays_theirs():
    place = Path(tempfile.mkdtemp(prefix="two-users-"))
    place.chmod(0o755)
    try:
        folder = Folder(place / "seats")
        mine = folder.hold("of root")

        def as_nobody() -> None:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            other = folder_for({"COURSE_SEATS": str(place / "seats")})
            assert other.held_by_others() == {mine.name: "of root"}
            other.remove(mine.name)
            other.hold("of nobody")

        pid = in_a_process(as_nobody)
        assert sorted(folder.held_by_others().values()) == ["of nobody", "of root"]
        end(pid)
        assert list(folder.held_by_others()) == [mine.name]
        os.utime(next(path for path in folder.path.glob("seat-*") if path.name != mine.name), (OLD_S, OLD_S))
        folder.held_by_others()
        assert len(list(folder.path.glob("seat-*"))) == 2, "whose it is removes it"
    finally:
        shutil.rmtree(place)


# -- where there is none ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("off", "COURSE_SEATS=off"),
        ("OFF", "COURSE_SEATS=off"),
        ("seats", "COURSE_SEATS=seats is no absolute path"),
        ("/proc/no/such/place", "/proc/no/such/place: "),
        ("/dev/null", "/dev/null: Not a directory"),
    ],
)
def test_a_place_that_cannot_be_had_gives_the_reason(value, reason):
    with pytest.raises(UnavailableError, match=f"^{reason}"):
        folder_for({"COURSE_SEATS": value})


def test_a_folder_that_takes_no_file_gives_the_reason(tmp_path, monkeypatch):
    (tmp_path / "seats").mkdir()
    monkeypatch.setattr(os, "access", lambda *_: False)  # as for a user who may not; root may always
    with pytest.raises(UnavailableError, match="seats takes no file from this user"):
        folder_for({"COURSE_SEATS": str(tmp_path / "seats")})


def test_the_second_shared_place_is_taken_where_the_first_fails(tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one" / lock_files._NAME).write_text("a file is in the way")
    monkeypatch.setattr(lock_files, "_SHARED", (str(tmp_path / "one"), str(tmp_path / "two"), "/no/such"))
    folder = folder_for({})
    assert folder.path == tmp_path / "two" / lock_files._NAME
    folder.close()
    monkeypatch.setattr(lock_files, "_SHARED", ())
    with pytest.raises(UnavailableError, match="no folder that all users share"):
        folder_for({})


def test_a_system_without_flock_gives_the_reason(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(UnavailableError, match="this system has no flock"):
        folder_for({"COURSE_SEATS": str(tmp_path / "seats")})


def test_the_library_loads_where_nothing_of_posix_is_there():
    code = (
        "import os, secrets, sys; sys.modules['fcntl'] = None; del os.register_at_fork, os.getuid, os.O_DIRECTORY; "
        "from course_lib.devices import seated; from course_lib.devices.seats import survey; "
        "seated(1); print(survey().reason)"
    )
    command = [sys.executable, "-c", code]
    env = {name: value for name, value in os.environ.items() if name != "COURSE_SEATS"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=env)
    assert done.stdout.strip() == "this system has no flock", done.stderr
