"""Checkpoints of one process: whole or not at all, and nothing else is ever taken for one."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from course_lib.models import SmallCNN
from course_lib.parallel.data import CheckpointError, load_checkpoint, save_checkpoint

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
            r"it holds numpy.*; tensors, numbers, strings, lists and dicts of them are allowed",
        ),
        (Stranger(), "it holds builtins.setattr, .*Stranger; tensors"),
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
    with pytest.raises(
        CheckpointError, match=r"theirs.pt was not loaded: it holds builtins.setattr, .*Stranger;"
    ):
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
    message = (
        r"is damaged: .*/data/0 in it does not match its checksum\. The newest other one .* is before\.pt\."
    )
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(path)


def test_a_missing_file_names_what_there_is(tmp_path):
    with pytest.raises(CheckpointError, match=r"there is no checkpoint .*new\.pt\.$"):
        load_checkpoint(tmp_path / "new.pt")
    for age, name in enumerate(["step-20.pt", "step-10.pt", "notes.txt", ".new.pt.77.draft"]):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (100 - age, 100 - age))
    message = (
        r"The newest other one in its folder is step-20\.pt\. Beside it lies \.new\.pt\.77\.draft, left by"
    )
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(tmp_path / "new.pt")
    with pytest.raises(CheckpointError, match="could not be read: Is a directory"):
        load_checkpoint(tmp_path)


def test_a_place_that_cannot_be_written_gets_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    with pytest.raises(
        CheckpointError, match=r"no folder .*runs/a/b\. Make it first; what exists is .*runs$"
    ):
        save_checkpoint(tmp_path / "runs" / "a" / "b" / "last.pt", STATE)
    with pytest.raises(
        CheckpointError, match=r"is a folder; give the name of a file in it, such as .*runs/last\.pt"
    ):
        save_checkpoint(tmp_path / "runs", STATE)

    def refuse(*args):
        raise PermissionError(errno.EACCES, "Permission denied", ".last.pt.1.draft")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CheckpointError, match=r"last\.pt could not be written: Permission denied$"):
        save_checkpoint(tmp_path / "last.pt", STATE)
