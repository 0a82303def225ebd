"""Checkpoints of one process: whole or not at all, and nothing else is ever taken for one."""

from __future__ import annotations

import errno
import io
import os
import stat
import subprocess
import sys
import textwrap
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from course_lib.models import SmallCNN
from course_lib.parallel.data import CheckpointError, checkpoint, load_checkpoint, save_checkpoint

STATE = {"epoch": 3, "weights": {"a": torch.arange(6.0).reshape(2, 3)}, "losses": [0.5, float("inf")]}


def same(a, b) -> bool:
    """Equal states: tensors by bits, dicts and lists by what they hold."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_saved_is_loaded(tmp_path):
    model = SmallCNN(width=4)
    model.head.append(nn.Linear(10, 10))
    model.head[-1].weight = model.head[-2].weight  # tied
    optimizer = torch.optim.AdamW(model.parameters())
    model.stem(torch.ones(2, 1, 8, 8)).sum().backward()
    optimizer.step()
    state = {
        **STATE,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "rng": torch.get_rng_state(),
    }
    save_checkpoint(tmp_path / "last.pt", state)
    loaded = load_checkpoint(str(tmp_path / "last.pt"))
    assert same(state, loaded)
    one, other = (loaded["model"][f"head.{i}.weight"] for i in (2, 3))
    assert one.data_ptr() == other.data_ptr(), "tied weights are still tied"
    assert names(tmp_path) == ["last.pt"]
    mode = os.umask(0)
    os.umask(mode)
    assert stat.S_IMODE((tmp_path / "last.pt").stat().st_mode) == 0o666 & ~mode


def test_the_content_is_on_the_disk_before_the_name_is(tmp_path, monkeypatch):
    """Write, fsync the draft, rename, fsync the folder: each before the next."""
    done = []
    fsync, replace = os.fsync, os.replace

    def spy_fsync(descriptor):
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        done.append("folder" if is_folder else f"content of {os.fstat(descriptor).st_size} bytes")
        fsync(descriptor)

    def spy_replace(draft, path):
        assert Path(draft).parent == Path(path).parent
        done.append("rename")
        replace(draft, path)

    def save_through_the_buffer(state, file, save=torch.save):
        save(state, whole := io.BytesIO())
        file.write(whole.getvalue())

    monkeypatch.setattr(torch, "save", save_through_the_buffer)
    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(os, "replace", spy_replace)
    save_checkpoint(tmp_path / "last.pt", STATE)
    assert done == [f"content of {(tmp_path / 'last.pt').stat().st_size} bytes", "rename", "folder"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", ["fsync", "replace"])
def test_a_failure_while_writing_leaves_the_old_one_and_no_draft(tmp_path, monkeypatch, error, at):
    path = tmp_path / "last.pt"
    with monkeypatch.context() as patch:
        patch.setattr(os, at, lambda *args: (_ for _ in ()).throw(error))
        told = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else CheckpointError
        with pytest.raises(told) as first:
            save_checkpoint(path, STATE)
        assert names(tmp_path) == []
        patch.undo()
        save_checkpoint(path, STATE)
        patch.setattr(os, at, lambda *args: (_ for _ in ()).throw(error))
        with pytest.raises(told) as second:
            save_checkpoint(path, {"epoch": 9})
    assert same(load_checkpoint(path), STATE)
    assert names(tmp_path) == ["last.pt"]
    if told is CheckpointError:
        assert str(first.value) == f"{path} could not be written: No space left on device"
        assert str(second.value) == f"{first.value}; the checkpoint that was there is untouched"


class Stranger:
    ran = False

    def __reduce__(self):
        return setattr, (Stranger, "ran", True)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            np.float64(0.5),
            r"it holds numpy.*; allowed are tensors, numbers, strings, and lists and dicts of them",
        ),
        (Stranger(), "it holds builtins.setattr, .*Stranger; allowed are tensors"),
        (lambda: 1, "could not be written: .*lambda"),
    ],
)
def test_what_could_not_be_loaded_later_is_not_saved(tmp_path, value, message):
    path = tmp_path / "last.pt"
    save_checkpoint(path, STATE)
    with pytest.raises(CheckpointError, match=f"{message}.*; the checkpoint that was there is untouched"):
        save_checkpoint(path, {"loss": value})
    assert same(load_checkpoint(path), STATE)


def test_a_file_from_strangers_is_refused_and_nothing_in_it_runs(tmp_path):
    torch.save({"loss": Stranger()}, tmp_path / "theirs.pt")
    with pytest.raises(CheckpointError, match=r"theirs.pt was not loaded: it holds builtins.setattr, .*Stranger;"):
        load_checkpoint(tmp_path / "theirs.pt")
    assert not Stranger.ran


def test_a_damaged_file_is_never_taken_for_a_checkpoint(tmp_path):
    """Cut anywhere, or any byte changed: an error in words, or (where the byte means nothing) the same state."""
    path = tmp_path / "last.pt"
    save_checkpoint(path, STATE)
    whole = path.read_bytes()
    for length in range(0, len(whole), 61):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match="is no checkpoint, or was cut off, or damaged"):
            load_checkpoint(path)
    refused = 0
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        try:
            assert same(load_checkpoint(path), STATE), place
        except CheckpointError:
            refused += 1
    assert refused > 100
    spot = whole.index(STATE["weights"]["a"].numpy().tobytes())
    path.write_bytes(whole[:spot] + b"\x01" + whole[spot + 1 :])
    save_checkpoint(tmp_path / "before.pt", STATE)
    message = r"is damaged: .*/data/0 in it does not match its checksum\. The newest other one .* is before\.pt\."
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(path)


def test_a_missing_file_names_what_there_is(tmp_path):
    with pytest.raises(CheckpointError, match=r"there is no checkpoint .*new\.pt\.$"):
        load_checkpoint(tmp_path / "new.pt")
    for age, name in enumerate(["step-20.pt", "step-10.pt", "notes.txt", ".new.pt.77.draft"]):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (100 - age, 100 - age))
    message = r"The newest other one in its folder is step-20\.pt\. Beside it lies \.new\.pt\.77\.draft, left by"
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(tmp_path / "new.pt")
    with pytest.raises(CheckpointError, match="could not be read: Is a directory"):
        load_checkpoint(tmp_path)


def test_a_place_that_cannot_be_written_gets_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    with pytest.raises(CheckpointError, match=r"no folder .*runs/a/b\. Make it first; what exists is .*runs$"):
        save_checkpoint(tmp_path / "runs" / "a" / "b" / "last.pt", STATE)
    with pytest.raises(CheckpointError, match=r"is a folder; give the name of a file in it, such as .*runs/last\.pt"):
        save_checkpoint(tmp_path / "runs", STATE)

    def refuse(*args):
        raise PermissionError(errno.EACCES, "Permission denied", ".last.pt.1.draft")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CheckpointError, match=r"last\.pt could not be written: Permission denied$"):
        save_checkpoint(tmp_path / "last.pt", STATE)


# -- what is no plain file -------------------------------------------------------------------------------------------


def test_a_link_stays_a_link_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "disk").mkdir()
    link, target = tmp_path / "latest.pt", tmp_path / "disk" / "step-10.pt"
    link.symlink_to(target)
    for state in ({"epoch": 1}, STATE):  # first the target is not there
        save_checkpoint(link, state)
        assert link.is_symlink()
        assert same(load_checkpoint(target), state)
    assert names(tmp_path / "disk") == ["step-10.pt"]
    (tmp_path / "round.pt").symlink_to(tmp_path / "round.pt")
    with pytest.raises(CheckpointError, match=r"round\.pt is a link to itself"):
        save_checkpoint(tmp_path / "round.pt", STATE)
    assert (tmp_path / "round.pt").is_symlink()


def test_a_link_of_another_user_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "near.pt").symlink_to("precious")
    (tmp_path / "far.pt").symlink_to("near.pt")  # a link to a link
    owners = {"near.pt": os.geteuid() + 1, "far.pt": os.geteuid()}
    monkeypatch.setattr(checkpoint, "_owner", lambda link: owners[link.name])
    for name in ("near.pt", "far.pt"):
        with pytest.raises(CheckpointError, match=r"near\.pt is a link of another user, to precious: .*name of a file"):
            save_checkpoint(tmp_path / name, STATE)
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_device_is_not_replaced_by_a_file(tmp_path, monkeypatch):
    replaced = []
    monkeypatch.setattr(os, "replace", lambda *names: replaced.append(names))  # root could replace even this
    link = tmp_path / "latest.pt"
    link.symlink_to("/dev/null")
    for path in (Path("/dev/null"), link):
        with pytest.raises(CheckpointError, match=f"{path} is a device, and not a file; give the name of a file"):
            save_checkpoint(path, STATE)
        with pytest.raises(CheckpointError, match=f"{path} is a device, and no checkpoint"):
            load_checkpoint(path)
    assert not replaced


def test_a_pipe_is_refused_and_nobody_waits_for_its_other_end(tmp_path):
    os.mkfifo(tmp_path / "last.pt")
    with pytest.raises(CheckpointError, match=r"last\.pt is a pipe, and not a file"):
        save_checkpoint(tmp_path / "last.pt", STATE)
    with pytest.raises(CheckpointError, match=r"last\.pt is a pipe, and no checkpoint"):
        load_checkpoint(tmp_path / "last.pt")
    assert stat.S_ISFIFO((tmp_path / "last.pt").stat().st_mode)


# -- a good file that something else keeps from loading --------------------------------------------------------------


@pytest.mark.parametrize("device", ["cuda:77", "nowhere", "", "mps:3", None, 0.5])
def test_a_device_that_is_not_there_is_named_and_not_the_file(tmp_path, device):
    save_checkpoint(tmp_path / "last.pt", STATE)
    with pytest.raises(ValueError, match=r"map_location=.* is no device of this machine .*it has cpu") as told:
        load_checkpoint(tmp_path / "last.pt", map_location=device)
    assert repr(device) in str(told.value)
    assert "damaged" not in str(told.value)


def test_a_device_that_cannot_take_the_tensors_is_blamed_and_not_the_file(tmp_path, monkeypatch):
    save_checkpoint(tmp_path / "last.pt", STATE)
    plain = torch.load

    def full(file, *, map_location, weights_only):
        if map_location == "meta":
            raise RuntimeError("out of memory")
        return plain(file, map_location=map_location, weights_only=weights_only)

    monkeypatch.setattr(torch, "load", full)
    with pytest.raises(CheckpointError, match=r"is a good checkpoint, but .* could not be put on meta: out of memory"):
        load_checkpoint(tmp_path / "last.pt", map_location="meta")


# -- archives made to harm -------------------------------------------------------------------------------------------


def test_compressed_archives_are_refused_before_anything_is_unpacked(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/0", bytes(1 << 20))
    monkeypatch.setattr(zipfile.ZipFile, "testzip", lambda self: pytest.fail("it was unpacked"))
    with pytest.raises(CheckpointError, match=r"is damaged: it holds compressed data, which torch\.save never writes"):
        load_checkpoint(tmp_path / "bomb.pt")


def test_archives_whose_parts_overlap_are_refused_before_anything_is_read(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "bomb.pt", "w") as archive:
        archive.writestr("archive/data/0", bytes(1 << 16))
        archive.filelist *= 50  # fifty entries of the directory lead to the same bytes
    monkeypatch.setattr(zipfile.ZipFile, "testzip", lambda self: pytest.fail("it was read"))
    with pytest.raises(CheckpointError, match="is damaged: its parts are larger than the file"):
        load_checkpoint(tmp_path / "bomb.pt")


# -- several writers -------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_several_writers_of_one_name_all_succeed_and_the_file_is_always_whole(tmp_path):
    path = tmp_path / "last.pt"
    body = f"""
        import sys, torch
        from course_lib.parallel.data.checkpoint import load_checkpoint, save_checkpoint
        print("ready", flush=True)
        sys.stdin.readline()
        for step in range(20):
            save_checkpoint({str(path)!r}, {{"step": step, "weights": torch.full((100,), float(step))}})
            state = load_checkpoint({str(path)!r})
            assert (state["weights"] == state["step"]).all()
    """
    command = [sys.executable, "-c", textwrap.dedent(body)]
    writers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    told = [writer.communicate(timeout=100)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0], told
    assert names(tmp_path) == ["last.pt"]


def test_threads_of_one_process_may_save_under_one_name(tmp_path):
    def save(step: int) -> None:
        save_checkpoint(tmp_path / "last.pt", {"step": step})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(save, range(40)))
    assert load_checkpoint(tmp_path / "last.pt")["step"] in range(40)
    assert names(tmp_path) == ["last.pt"]
