"""A file that a person names: its bytes, or a sentence, and nobody waits."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from course_lib.base.named_file import MOST_BYTES, NotPlainError, bytes_of, json_of, text_of


def test_a_plain_file_is_read_and_a_link_to_one(tmp_path):
    (tmp_path / "a").write_text("words")
    (tmp_path / "b").symlink_to("a")
    assert bytes_of(tmp_path / "b") == b"words"
    assert text_of(tmp_path / "a") == "words"
    with pytest.raises(NotPlainError, match="links are not followed"):
        bytes_of(tmp_path / "b", links=False)


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def listening(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


def folder(path):
    path.mkdir()


def giant(path):
    with path.open("wb") as file:
        file.truncate(3 << 30)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (pipe, "it is a pipe, and only plain files"), (device, "it is a device"), (listening, "it is a socket"),
        (folder, "it is a folder"), (giant, "it has 3,072 MiB, and 16 MiB are the most"),
    ],
)  # fmt: skip
def test_nothing_else_is_waited_for_or_read(tmp_path, monkeypatch, make, why):
    monkeypatch.chdir(tmp_path)  # a socket's name is short
    make(path := Path("it"))
    with pytest.raises(NotPlainError, match=why):
        bytes_of(path)


def test_the_kernel_s_endless_files_are_bounded():
    with pytest.raises(NotPlainError, match="most that is read"):
        bytes_of(Path("/proc/self/maps"), most_bytes=10)


@pytest.mark.parametrize("name", ["no\0name", "x" * 5000], ids=["with a zero", "long"])
def test_a_name_that_no_file_can_have(tmp_path, name):
    with pytest.raises(OSError, match=r"can have this name|too long"):
        bytes_of(tmp_path / name)


@pytest.mark.parametrize(
    "text",
    ["[" * 300_000, '{"a":' * 300_000, "{", "\udcff", "9" * 5000],
    ids=["deep lists", "deep objects", "open", "bytes", "digits"],
)
def test_what_is_no_json(tmp_path, text):
    (tmp_path / "a").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=r"deeper|Expecting|decode|digits"):
        json_of(tmp_path / "a")


def test_the_most_is_read_whole(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 10)
    assert len(bytes_of(tmp_path / "a", most_bytes=10)) == 10
    with pytest.raises(NotPlainError, match="it has 10 bytes, and 9 bytes are the most"):
        bytes_of(tmp_path / "a", most_bytes=9)
    assert MOST_BYTES == 1 << 24
