"""The failure of one rank as plain data: exceptions, frames, kind; it is sent to the parent, which reports it."""

from __future__ import annotations

import pickle
import re
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import cloudpickle

from course_lib.base.clock import now_s

__all__ = ["Cause", "Failure", "Frame", "describe", "file_of", "is_user_code"]

# What a rank hears when a peer has gone: true, but the cause lies with the peer.
_ECHO = re.compile(
    r"connection (closed|reset)|broken pipe|socket.*(closed|timeout)|remote (process|peer)|recvbytes|sendbytes"
    r"|ncclremoteerror|ranks? .* failed to pass monitored",
    re.IGNORECASE,
)
_LIBRARY = str(Path(__file__).resolve().parents[2]).replace("\\", "/")
# What stands around a learner's function: of no interest to who reads where it failed.
_MACHINERY = tuple(f"{_LIBRARY}/{room}/" for room in ("cluster", "meter", "learn"))
_LONGEST_MESSAGE = 2000  # characters: more than anybody reads
_LARGEST_EXCEPTION_BYTES = 1 << 20  # as it travels


@dataclass(frozen=True)
class Frame:
    filename: str
    line_number: int
    function: str
    line: str = ""  # the source; empty for a cell of the notebook until the parent fills it in


@dataclass(frozen=True)
class Cause:
    """One exception of a chain ("raised from")."""

    type_name: str
    message: str
    frames: tuple[Frame, ...]


@dataclass(frozen=True)
class Failure:
    """How one rank ended badly.

    ``kind``: "raised", "died" (its process is gone), "interrupted", or
    "unsendable" (its result cannot travel). ``time_s`` is on the clock that all processes of a machine share.
    """

    rank: int
    kind: str
    chain: tuple[Cause, ...]
    time_s: float
    pickled: bytes | None = None  # the exception itself, where it survives the journey

    @property
    def type_name(self) -> str:
        return self.chain[-1].type_name

    @property
    def message(self) -> str:
        return self.chain[-1].message

    @property
    def is_echo(self) -> bool:
        """True for what a rank hears of another's failure: its peer's connection closed."""
        network = self.type_name in (
            "RuntimeError",
            "DistBackendError",
            "DistNetworkError",
            "ConnectionError",
        )
        return self.kind == "raised" and network and bool(_ECHO.search(self.message))

    @property
    def exception(self) -> Exception | None:
        """The exception object, rebuilt in the parent; None where it could not be pickled."""
        try:
            return pickle.loads(self.pickled) if self.pickled else None
        except Exception:
            return None

    @property
    def where(self) -> Frame | None:
        """The innermost line of the user's own code."""
        frames = self.chain[-1].frames
        own = [frame for frame in frames if is_user_code(frame.filename)]
        return own[-1] if own else frames[-1] if frames else None


def describe(error: BaseException, *, rank: int, kind: str = "raised") -> Failure:
    """A ``Failure`` from an exception that was caught on ``rank``, without the frames of this package."""
    chain: list[Cause] = []
    current: BaseException | None = error
    while current is not None and len(chain) < 8:
        chain.append(Cause(type(current).__name__, _message(current), _frames(current.__traceback__)))
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return Failure(rank, kind, tuple(reversed(chain)), now_s(), _pickled(error))


def is_user_code(filename: str) -> bool:
    """Whether a line belongs to the learner: a cell, a script, a module beside it; not to Python, torch or us."""
    if filename.startswith("<") and not filename.startswith(("<cell", "<ipython")):
        return False
    path = filename.replace("\\", "/")
    if path.startswith(_LIBRARY):
        return _is_exercise(path)
    return not ("/site-packages/" in path or "/lib/python3" in path)


def file_of(frame: Frame) -> str:
    """The file as a person says it: "cell", "train.py"."""
    in_cell = "ipykernel_" in frame.filename or frame.filename.startswith(("<cell", "<ipython"))
    return "cell" if in_cell else frame.filename.replace("\\", "/").rpartition("/")[2]


def _frames(trace: TracebackType | None) -> tuple[Frame, ...]:
    """The way from the learner's function to where it failed, without the machinery around it and inside it."""
    summary = traceback.extract_tb(trace)
    frames = [Frame(f.filename, f.lineno or 0, f.name, f.line or "") for f in summary]
    frames = [frame for frame in frames if not _is_machinery(frame.filename)]
    own = [index for index, frame in enumerate(frames) if is_user_code(frame.filename)]
    theirs = [index for index in own if not _is_exercise(frames[index].filename)]
    if theirs:  # a judge of an exercise called it; inside torch.distributed it is always the same way
        frames = [
            frame
            for index, frame in enumerate(frames)
            if not _is_exercise(frame.filename)
            and not (index > theirs[-1] and "/torch/distributed/" in frame.filename.replace("\\", "/"))
        ]
    return tuple(frames)


def _is_machinery(filename: str) -> bool:
    return filename.replace("\\", "/").startswith(_MACHINERY) and not _is_exercise(filename)


def _is_exercise(filename: str) -> bool:
    """The judges of exercises, and their examples, which stand in for a learner's code."""
    return filename.replace("\\", "/").startswith(f"{_LIBRARY}/learn/exercises/")


def _pickled(error: BaseException) -> bytes | None:
    """The exception as bytes; None for one that would not come out whole at the other end."""
    if not isinstance(error, Exception):
        return None
    try:
        body = cloudpickle.dumps(error)
        if len(body) > _LARGEST_EXCEPTION_BYTES:
            return None
        pickle.loads(body)
    except Exception:
        return None
    return body


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        return "(its message could not be made)"
    if len(text) <= _LONGEST_MESSAGE:
        return text
    half = _LONGEST_MESSAGE // 2
    return f"{text[:half]} ... {len(text) - 2 * half:,} characters left out ... {text[-half:]}"
