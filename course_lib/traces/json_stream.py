"""A trace's JSON, event by event, so that a file of gigabytes needs no more memory than what is kept of it.

Chrome's trace format is an object with the list ``traceEvents``, or that list alone (Chromium's "Trace Event Format").
A file may be compressed by gzip. So many bytes of text are read at most, whatever a few compressed ones unfold to.
"""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from course_lib.base.named_file import opened

__all__ = ["MOST_TEXT_BYTES", "TraceFileError", "events_of"]

MOST_TEXT_BYTES = 1 << 31  # 2 GiB of JSON
_CHUNK_BYTES = 1 << 20
_MOST_OF_ONE = 1 << 24  # of one event, or one value beside the events
_GZIP = b"\x1f\x8b"
_DECODER = json.JSONDecoder()
_EVENTS = "traceEvents"


class TraceFileError(ValueError):
    """A file that is no trace, or more than is read; the message is a sentence without the file's name."""


def events_of(path: Path, *, most_bytes: int = MOST_TEXT_BYTES) -> Iterator[tuple[str, Any]]:
    """(name, value) of what stands beside the events, and ("traceEvents", event) for each event, in the file's order.

    Raises:
        TraceFileError: It is empty, no trace, damaged, or has more than ``most_bytes``.
        OSError: It cannot be read; ``NotPlainError`` for a pipe, a device or a folder.
    """
    with opened(path) as file:
        head = file.read(2)
        file.seek(0)
        stream: Any = gzip.GzipFile(fileobj=file) if head == _GZIP else file
        try:
            yield from _Reader(stream, most_bytes).pairs()
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TraceFileError(f"its gzip is damaged ({error}); copy it again") from None
        except RecursionError:
            raise TraceFileError("its brackets are nested deeper than can be read") from None


class _Reader:
    """A window of text that moves over the file."""

    def __init__(self, stream: BinaryIO, most_bytes: int) -> None:
        self._stream = stream
        self._left = self._most = most_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")  # kernels may have any name
        self._text, self._at, self._before, self._is_over = "", 0, 0, False
        self._num_events, self._is_empty = 0, True

    def pairs(self) -> Iterator[tuple[str, Any]]:
        opening = self._sign()
        if opening == "":
            raise TraceFileError("it is empty")
        if opening == "[":
            yield from self._list()
        elif opening == "{":
            yield from self._object()
        else:
            raise TraceFileError("it is no trace: a trace's JSON begins with { or [, as torch.profiler writes it")
        if not self._num_events:
            raise TraceFileError(f"it holds no event: a trace has a list {_EVENTS} with what happened")

    def _object(self) -> Iterator[tuple[str, Any]]:
        self._at += 1
        while (sign := self._sign()) != "}":
            if sign == ",":
                self._at += 1
                continue
            name = self._value()
            if not isinstance(name, str) or self._sign() != ":":
                raise self._damaged()
            self._at += 1
            if name == _EVENTS and self._sign() == "[":
                yield from self._list()
            else:
                yield name, self._value()

    def _list(self) -> Iterator[tuple[str, Any]]:
        self._at += 1
        while (sign := self._sign()) != "]":
            if sign == ",":
                self._at += 1
                continue
            event = self._value()
            self._num_events += 1
            yield _EVENTS, event
        self._at += 1

    def _sign(self) -> str:
        """The next sign that is no blank, which stays; "" at the end of an empty file."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text):
                self._is_empty = False
                return self._text[self._at]
            if not self._more():
                if self._is_empty:
                    return ""
                raise self._cut_short()

    def _value(self) -> Any:
        self._sign()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError:
                end = None
            if end is not None and (end < len(self._text) or self._is_over):
                self._at = end
                return value
            if len(self._text) - self._at > _MOST_OF_ONE:
                raise self._damaged()
            if not self._more():
                raise self._cut_short() if end is None else self._damaged()

    def _more(self) -> bool:
        """Read on; False at the file's end."""
        if self._is_over:
            return False
        data = self._stream.read(_CHUNK_BYTES)
        self._left -= len(data)
        if self._left < 0:
            raise TraceFileError(
                f"it has more than {self._most >> 20:,} MiB of JSON, the most that is read; record fewer steps, or "
                "leave with_stack and record_shapes off"
            )
        self._is_over = not data
        self._before += self._at
        self._text = self._text[self._at :] + self._decoder.decode(data, final=self._is_over)
        self._at = 0
        return True

    def _damaged(self) -> TraceFileError:
        where = f"after {self._num_events:,} events" if self._num_events else "at its beginning"
        return TraceFileError(f"it is damaged, or no trace: {where}, near sign {self._before + self._at:,}, is no JSON")

    def _cut_short(self) -> TraceFileError:
        return TraceFileError(
            f"it ends in the middle, after {self._num_events:,} events, or is no JSON there: was the job stopped while "
            "it was written?"
        )
