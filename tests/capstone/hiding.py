"""Runs that keep 4 MiB where no object of Python's is, and runs that change what judges them.

Each keeps them from before its first step to its end. What is named ``HIDING`` says how it is told.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import sqlite3
import ssl
import tempfile
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import cheats
import numpy as np
import torch
import torch.distributed as dist

import course_lib.capstone.running.emulated_compute
import course_lib.capstone.running.steps
from course_lib.capstone.running.emulated_compute import WorkBlock

SIZE = 4 << 20
PIECE = 60_000  # of what waits in a pipe, or a socket
NUM_PIECES = 4


def noise(size_bytes=SIZE):
    """Bytes that no system can keep in less room."""
    return np.random.default_rng(0).bytes(size_bytes)


class InADeviceOfMemory(cheats.Honest):
    """A file in /dev/shm, by descriptors and not by ``open``."""

    def prepare(self):
        path = f"/dev/shm/c14-hidden-{self.me.rank}"
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.unlink(path)
        os.write(self.fd, noise())

    def close(self):
        os.close(self.fd)


class InAMemoryFile(cheats.Honest):
    def prepare(self):
        self.fd = os.memfd_create("hidden")
        os.write(self.fd, noise())

    def close(self):
        os.close(self.fd)


class InPipes(cheats.Honest):
    def prepare(self):
        self.pipes = [os.pipe() for _ in range(NUM_PIECES)]
        for _, into in self.pipes:
            os.write(into, noise(PIECE))

    def close(self):
        for ends in self.pipes:
            for end in ends:
                os.close(end)


class InSockets(cheats.Honest):
    """Of this machine, a pair each."""

    def prepare(self):
        self.pairs = [socket.socketpair() for _ in range(NUM_PIECES)]
        for one, _ in self.pairs:
            one.sendall(noise(PIECE))


class InACMalloc(cheats.Honest):
    def prepare(self):
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        self.place = libc.malloc(ctypes.c_size_t(SIZE))
        ctypes.memmove(self.place, noise(), SIZE)


class InACMap(cheats.Honest):
    """Memory that nobody else sees, and that C's heap knows nothing of."""

    def prepare(self):
        libc = ctypes.CDLL(None)
        libc.mmap.restype = ctypes.c_void_p
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.place = libc.mmap(None, ctypes.c_size_t(SIZE), mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        ctypes.memmove(self.place, noise(), SIZE)


class InSystemV(cheats.Honest):
    def prepare(self):
        libc = ctypes.CDLL(None)
        libc.shmat.restype = ctypes.c_void_p
        self.segment = libc.shmget(0, SIZE, 0o1600)
        self.place = libc.shmat(self.segment, None, 0)
        ctypes.memmove(self.place, noise(), SIZE)
        libc.shmctl(self.segment, 0, None)  # gone with the last that uses it


class InAnArrayOfObjects(cheats.Honest):
    """The collector does not look into it."""

    def prepare(self):
        self.kept = np.array([noise()[at : at + 500] for at in range(0, 1 << 20, 500)], dtype=object)


class InADatabase(cheats.Honest):
    def prepare(self):
        self.kept = sqlite3.connect(":memory:")
        self.kept.execute("create table kept (what blob)")
        self.kept.execute("insert into kept values (?)", (noise(),))


class InAnOrphan(cheats.Honest):
    """A grandchild in a session of its own, whose parent has ended."""

    def prepare(self):
        child = os.fork()
        if child == 0:
            os.setsid()
            if os.fork() == 0:
                kept = noise()
                time.sleep(60)
                assert kept
            os._exit(0)
        os.waitpid(child, 0)


class ByAStoreInPieces(cheats.Honest):
    """No piece is longer than a word of a kilobyte."""

    def average(self):
        store, piece = dist.distributed_c10d._get_default_store(), noise(1000)
        for number in range(40):
            store.set(f"piece-{self.me.rank}-{number}", piece)
        super().average()


class ByManyOfAStore(cheats.Honest):
    def average(self):
        store = dist.distributed_c10d._get_default_store()
        store.multi_set([f"{self.me.rank}-{number}" for number in range(3)], [str(noise(9000))] * 3)
        super().average()


class InAttributesOfFiles(cheats.Honest):
    def prepare(self):
        with tempfile.NamedTemporaryFile() as file:
            for number in range(40):
                with suppress(OSError):  # a file system may have no room
                    os.setxattr(file.name, f"user.kept{number}", noise(2000))


class InTheEnvironment(cheats.Honest):
    def prepare(self):
        os.environ["KEPT"] = noise(50_000).hex()


class InAFileWithoutAName(cheats.Honest):
    def prepare(self):
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 - kept to the end
        self.file.write(noise())
        self.file.flush()


class InAMapOfAMemoryFile(cheats.Honest):
    """The descriptor is closed; the map stays."""

    def prepare(self):
        fd = os.memfd_create("hidden")
        os.truncate(fd, SIZE)
        self.map = mmap.mmap(fd, SIZE)
        os.close(fd)


class InAThread(cheats.Honest):
    """On the stack of a function that waits."""

    def prepare(self):
        self.over = threading.Event()

        def wait():
            kept = noise()
            self.over.wait()
            assert kept

        threading.Thread(target=wait, daemon=True).start()

    def close(self):
        self.over.set()


class InAPipeOfOpenSsl(cheats.Honest):
    """Memory of a library of C, by no function that is listened to."""

    def prepare(self):
        self.kept = ssl.MemoryBIO()
        self.kept.write(noise())


class InALibrary(cheats.Honest):
    """Behind a name of a module that was there before."""

    def prepare(self):
        torch.kept = noise()


class WhenWeighedByC(cheats.Honest):
    """Lets go of it as long as a ledger is open."""

    kept = None

    def step(self):
        is_weighed = torch._C._len_torch_dispatch_stack() > 0
        if not is_weighed:
            self.kept = self.kept or ssl.MemoryBIO()
            self.kept.write(noise())
        else:
            self.kept = None
        return super().step()


class OtherWaitOfAllBlocks(cheats.Honest):
    """Says that it has waited."""

    def prepare(self):
        def wait(block, way, rows):
            block.tally.note(way, block.layer, rows, rows * block.row_s * 2)

        WorkBlock.wait = wait


class OtherPace(cheats.Honest):
    def prepare(self):
        course_lib.capstone.running.emulated_compute.pace = lambda me, time_s: None


class OtherTimeOfTheJudge(cheats.Honest):
    """Its seconds are shorter."""

    def prepare(self):
        shorter = SimpleNamespace(perf_counter=lambda: time.perf_counter() / 2)
        course_lib.capstone.running.steps.time = shorter


class OtherScales(cheats.Honest):
    def prepare(self):
        from course_lib.capstone.memory.memory_limit import _LimitedBook
        from course_lib.meter.memory.storages import StorageBook

        _LimitedBook.see = StorageBook.see


class OtherCensus(cheats.Honest):
    """A name of Python's own, in the judge's module."""

    def prepare(self):
        from course_lib.capstone.memory import memory_inventory

        memory_inventory.sum = lambda numbers: 0


class OtherFloat(cheats.Honest):
    def prepare(self):
        course_lib.capstone.running.steps.float = lambda loss: 0.1


HIDING = {  # one of each kind first: `first_cases` keeps those for every run
    "InAMemoryFile": ("hidden memory", "4 MiB in open files, by the system's count"),
    "InPipes": ("hidden memory", "in pipes, by the system's count"),
    "InAnOrphan": ("hidden memory", "has started the process"),
    "InAPipeOfOpenSsl": ("hidden memory", "of C's heap outside tensors"),
    "OtherWaitOfAllBlocks": (
        "no waiting",
        "has changed a part of the judge: capstone.running.emulated_compute.WorkBlock.wait",
    ),
    "InACMalloc": ("hidden memory", "calls malloc of C"),
    "InADeviceOfMemory": ("hidden memory", "writes the file /dev/shm/c14-hidden"),
    "InSockets": ("hidden memory", "in sockets, by the system's count"),
    "InACMap": ("hidden memory", "calls mmap of C"),
    "InSystemV": ("hidden memory", "4 MiB in System V, by the system's count"),
    "InAnArrayOfObjects": ("hidden memory", "in objects of type bytes"),
    "InADatabase": ("hidden memory", "opens the database :memory:"),
    "ByAStoreInPieces": ("past the meter", "into a store, word by word"),
    "ByManyOfAStore": ("past the meter", "bytes into a store"),
    "InAttributesOfFiles": ("hidden memory", "in attributes of files"),
    "InTheEnvironment": ("hidden memory", "in the environment"),
    "InAFileWithoutAName": ("hidden memory", "4 MiB in open files"),
    "InAMapOfAMemoryFile": ("hidden memory", "4 MiB in shared memory, by the system's count"),
    "InAThread": ("hidden memory", "in objects of type bytes"),
    "InALibrary": ("hidden memory", "of C's heap outside tensors"),
    "WhenWeighedByC": ("hidden memory", "after every step that is timed"),
    "OtherPace": ("no waiting", "has changed a part of the judge: capstone.running.emulated_compute.pace"),
    "OtherTimeOfTheJudge": ("no waiting", "has changed a part of the judge: capstone.running.steps.time"),
    "OtherScales": ("hidden memory", "capstone.memory.memory_limit._LimitedBook.see"),
    "OtherCensus": ("hidden memory", "capstone.memory.memory_inventory.sum"),
    "OtherFloat": ("no waiting", "capstone.running.steps.float"),
}
