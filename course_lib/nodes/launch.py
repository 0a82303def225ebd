"""What a rank does around the learner's program: says that it began, runs it, keeps what came of it or how it failed.

torchrun starts this module as it would start ``train.py``; a program that is a file needs none of it, and runs as it
would without. A function of a ``Rank`` finds its process group made, and what it returns is kept.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import json
import os
import pickle
import runpy
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from course_lib.nodes import records
from course_lib.nodes.records import AttemptStart
from course_lib.nodes.supervisor import process_tree
from course_lib.nodes.supervisor.counters import INTERFACE

__all__ = ["main", "path_of"]


def path_of(folder: Path, kind: str, began: AttemptStart) -> Path:
    """Where a rank keeps one ``kind`` of thing: stdout, stderr, its result or failure, the stacks it is asked for."""
    rendezvous = began.rendezvous.replace(":", "-").replace("/", "-")
    return folder / kind / f"{rendezvous}-{began.rank}-{began.pid}"


def main() -> None:
    """``python -m course_lib.nodes.launch FOLDER [PROGRAM ARGUMENTS]``, in the environment that torchrun gives."""
    _end_with_the_agent()
    folder, program = Path(sys.argv[1]), sys.argv[2:]
    began = records.note(folder, os.environ)
    _write_text_to(folder, began)
    stacks = open(path_of(folder, "stacks", began), "w")  # noqa: SIM115 - open as long as the rank is
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=False)
    spec = json.loads((folder / "job.json").read_text())
    sys.path[:] = [path for path in spec["sys_path"] if path not in sys.path] + sys.path
    _run(folder, began, spec, program)
    _leave()


def _run(folder: Path, began: AttemptStart, spec: dict[str, Any], program: list[str]) -> None:
    try:
        with _slowed(folder, began, spec):
            if spec["is_function"]:
                _run_function(folder, began)
            else:
                _run_file(program)
    except BaseException as error:
        if not isinstance(error, SystemExit) or error.code not in (0, None):
            _keep_failure(error, folder, began)
        if isinstance(error, Exception) and "torch" in sys.modules:  # as ``record`` does, which imports it
            from torch.distributed.elastic.multiprocessing.errors import get_error_handler

            get_error_handler().record_exception(error)
        if isinstance(error, Exception):
            error.__traceback__ = _of_the_program(error.__traceback__)
            sys.excepthook(type(error), error, error.__traceback__)
            raise SystemExit(1) from None
        raise


def _of_the_program(trace: TracebackType | None) -> TracebackType | None:
    """The way to an error from where the program begins: what stands around it is no news."""
    ours = os.path.dirname(__file__)
    entry = trace
    while entry is not None:
        name = entry.tb_frame.f_code.co_filename
        if not name.startswith((ours, "<frozen")) and os.path.basename(name) != "runpy.py":
            return entry
        entry = entry.tb_next
    return trace


def _run_file(program: list[str]) -> None:
    sys.argv = program
    sys.path.insert(0, os.path.dirname(os.path.abspath(program[0])))
    runpy.run_path(program[0], run_name="__main__")


def _run_function(folder: Path, began: AttemptStart) -> None:
    import torch
    import torch.distributed as dist

    from course_lib.cluster.launch import rank_from_env
    from course_lib.cluster.process.serialization import pack, unpack

    function, arguments = unpack(pickle.loads((folder / "function").read_bytes()))
    me = rank_from_env(os.environ)
    torch.set_num_threads(1)
    dist.init_process_group(me.backend)
    result = function(me, *arguments)
    payload = pack(result, folder=folder, what=f"the result of rank {me.rank}")
    _write(path_of(folder, "result", began), pickle.dumps(payload))
    sys.stdout.flush()
    dist.destroy_process_group()  # not after a failure: objects that its frames hold may wait for messages


@contextlib.contextmanager
def _slowed(folder: Path, began: AttemptStart, spec: dict[str, Any]) -> Iterator[None]:
    """On loopback, messages between nodes take as long as the link says: by the course's own shaped links."""
    if spec["link"] is None or os.environ.get("COURSE_LINK") == INTERFACE:
        yield
        return
    from course_lib.cluster.links.emulation import ShapedLinks
    from course_lib.cluster.links.links import Links
    from course_lib.layouts.link import Link

    per_node = int(os.environ["LOCAL_WORLD_SIZE"])
    links = Links.nodes(per_node, inside=Link(), across=Link(*spec["link"]))
    path = folder / f"links-{began.rendezvous.replace(':', '-').replace('/', '-')}"
    shaped = ShapedLinks(links, path=path, world_size=began.world_size)
    shaped.open()
    try:
        yield
        shaped.raise_failure()
    finally:
        shaped.close()  # its threads would keep the process


def _write_text_to(folder: Path, began: AttemptStart) -> None:
    """From now on. Under torchrun's own ``--redirects`` a rank that begins anew may write over what it wrote before:

    where another node has joined, its attempt has the same number.
    """
    for number, kind in ((1, "stdout"), (2, "stderr")):
        with open(path_of(folder, kind, began), "w") as file:
            os.dup2(file.fileno(), number)


def _keep_failure(error: BaseException, folder: Path, began: AttemptStart) -> None:
    from course_lib.cluster.base.failure import describe

    failure = describe(error, rank=began.rank)
    with contextlib.suppress(Exception):  # the error itself is worth more than its record
        _write(path_of(folder, "failure", began), pickle.dumps((time.time(), failure)))


def _write(path: Path, body: bytes) -> None:
    draft = path.with_name(f".{path.name}")
    draft.write_bytes(body)
    draft.rename(path)


def _leave() -> None:
    """End as Python does, but for taking torch apart, module by module: a third of what importing it costs."""
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(0)


def _end_with_the_agent() -> None:
    """However the agent ends, this rank does too: by the kernel on Linux, elsewhere by a thread that looks."""
    parent = os.getppid()
    process_tree.die_with_parent()
    if sys.platform != "linux":

        def follow_the_parent() -> None:
            while os.getppid() == parent:
                time.sleep(0.5)
            os._exit(1)

        threading.Thread(target=follow_the_parent, daemon=True).start()


if __name__ == "__main__":
    main()
