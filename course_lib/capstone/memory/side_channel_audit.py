"""What a process does beside the meter: files that it writes, sockets and shared memory that it opens, C that it calls.

Python tells its audit hooks. A hook stays for the life of a process; this one listens while somebody asks. A store is
no matter of Python's: its methods are listened to by others in their place.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

import torch
from torch._C._distributed_c10d import Store

from course_lib.cluster.base.failure import is_user_code

__all__ = ["heard"]

_SOCKETS = frozenset({"socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg"})
_STORING = ("set", "multi_set", "append", "compare_set", "queue_push")  # methods that put values there
_LEAST_BYTES = 1024  # through a store: below, it is a word
_MANY_BYTES = 16 * 1024  # of all words: below, ranks have said when they are ready
_OF_C = frozenset(  # functions that get memory, files or processes past Python, and what stands behind all of them
    {
        *("malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign", "memalign", "valloc", "strdup"),
        *("mmap", "mmap64", "mremap", "sbrk", "brk", "memfd_create", "shm_open", "shmget", "shmat", "msgget"),
        *("open", "open64", "openat", "creat", "fopen", "pipe", "pipe2", "socketpair", "mq_open"),
        *("fork", "vfork", "clone", "clone3", "posix_spawn", "system", "popen", "syscall"),
        *("PyMem_Malloc", "PyMem_RawMalloc", "PyMem_Calloc", "PyMem_RawCalloc", "PyObject_Malloc"),
        *("VirtualAlloc", "HeapAlloc", "vm_allocate", "mach_vm_allocate"),
    }
)


class _Heard:
    """Sentences' ends, each once, and sums of what is said in words."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._sums: Counter[str] = Counter()

    def note(self, words: str) -> None:
        if words and words not in self.notes:
            self.notes.append(words)

    def add(self, size_bytes: int, words: str) -> None:
        """So many bytes more; told as soon as they are many together. ``words`` has a place for the number."""
        before = self._sums[words]
        self._sums[words] += size_bytes
        if before < _MANY_BYTES <= before + size_bytes:
            self.note(words.format(f"{before + size_bytes:,} bytes"))


_listening: list[_Heard] = []  # the one place that the hook can reach
_hooked: list[bool] = []


@contextmanager
def heard() -> Iterator[list[str]]:
    """In this block: sentences' ends, as "writes the file /tmp/x", in the list that is given."""
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked.append(True)
    one, plain_save = _Heard(), torch.save

    def save(what: Any, where: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(where, (str, os.PathLike)):
            one.note(f"writes the file {os.fspath(where)}")
        return plain_save(what, where, *args, **kwargs)

    with ExitStack() as stack:
        for name in _STORING:
            plain = vars(Store).get(name)
            if plain is not None:
                setattr(Store, name, _listened_to(plain, one))
                stack.callback(setattr, Store, name, plain)
        torch.save = save  # type: ignore[assignment]
        stack.callback(setattr, torch, "save", plain_save)
        _listening.append(one)
        stack.callback(_listening.remove, one)
        yield one.notes


def _listened_to(plain: Callable[..., Any], one: _Heard) -> Callable[..., Any]:
    """A method of a store that tells how much was given to it."""

    def method(store: Any, *args: Any, **kwargs: Any) -> Any:
        size_bytes = sum(map(_length, (*args[1:], *kwargs.values())))
        if size_bytes and _is_asked_for(sys._getframe(1)):
            if size_bytes >= _LEAST_BYTES:
                one.note(f"puts {size_bytes:,} bytes into a store")
            else:
                one.add(size_bytes, "puts {} into a store, word by word")
        return plain(store, *args, **kwargs)

    return method


def _length(value: Any) -> int:
    """Of a text, or of all texts of a list."""
    if isinstance(value, (str, bytes, bytearray)):
        return len(value)
    return sum(map(_length, value)) if isinstance(value, (list, tuple)) else 0


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _listening or event in _OFTEN:
        return
    try:
        one = _listening[-1]
        words, size_bytes = _note(event, arguments), _size_bytes(event, arguments)
        if (words or size_bytes) and words not in one.notes and _is_asked_for(sys._getframe(1)):
            one.add(size_bytes, words) if size_bytes else one.note(words)
    except Exception:  # a hook that raises would end what it listens to
        return


_OFTEN = frozenset({"object.__getattr__", "object.__setattr__", "sys._getframe", "compile", "exec", "marshal.loads"})


def _size_bytes(event: str, arguments: tuple[Any, ...]) -> int:
    """Of what is said in words, and counts together."""
    if event == "os.putenv":
        return len(os.fsencode(arguments[0])) + len(os.fsencode(arguments[1]))
    return len(arguments[2]) if event == "os.setxattr" else 0


def _note(event: str, arguments: tuple[Any, ...]) -> str:
    """What an event comes to, in words; empty for what does no harm."""
    if event in _SOCKETS:
        return "opens a socket of its own"
    if event == "mmap.__new__" and arguments[1] >= _LEAST_BYTES:
        return f"maps {arguments[1]:,} bytes of memory that others can see"
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        path = os.fsdecode(arguments[0])
        if _is_written(arguments[1], arguments[2]) and not path.endswith(".pyc") and ".pyc." not in path:
            return f"writes the file {path}" if path != os.devnull else ""
    if event == "os.setxattr":
        return "keeps {} in attributes of files"
    if event == "os.putenv":
        return "keeps {} in the environment"
    if event == "sqlite3.connect":
        return f"opens the database {os.fsdecode(arguments[0])}"
    if event == "sys.settrace":
        return "listens to Python's calls in place of the judge (sys.settrace)"
    if event == "ctypes.dlsym" and arguments[1] in _OF_C:
        return f"calls the C function {arguments[1]} by ctypes"
    return ""


def _is_written(mode: str | None, flags: int) -> bool:
    """``os.open`` has no mode, and says by its flags."""
    if mode is not None:
        return any(letter in mode for letter in "wax+")
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND))


def _is_asked_for(frame: FrameType | None) -> bool:
    """Whether somebody's own code is behind it, and no import; shaped links and caught text have files of their own."""
    own = False
    while frame is not None:
        name = frame.f_code.co_filename.replace("\\", "/")
        if "importlib" in name or ("/course_lib/cluster/" in name and not own and "rank_process" not in name):
            return False
        own = own or is_user_code(frame.f_code.co_filename)
        frame = frame.f_back
    return own
