"""What changes on the way between a notebook and a rank of another machine: files, folder, environment."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from course_lib.base.paths import library_folder
from course_lib.cluster.process.caller_context import Context
from course_lib.cluster.process.serialization import Payload, carried, laid_down

__all__ = ["context_here_from", "request_from_afar", "to_carry"]

# Variables that go along with the notebook although the node has such a one; all others of the node's own stay.
_GO_ALONG = ("COURSE_", "OMP_", "MKL_", "TORCH", "PYTORCH_", "NCCL_", "GLOO_")
_STAY = ("COURSE_HOME", "COURSE_NODES")


def to_carry(parts: tuple[Any, ...], *, discard: bool = False) -> tuple[Any, ...]:
    """A request or an answer as it is sent: what lies in a file of this machine goes along.

    ``discard``: the file is gone then.
    """
    return tuple(carried(part, discard=discard) if isinstance(part, Payload) else part for part in parts)


def request_from_afar(request: tuple[Any, ...], folder: Path) -> tuple[Any, ...]:
    """A request as a rank of this node gets it: large values lie in a file, and the context is that of this node."""
    own = []
    for detail in request:
        if isinstance(detail, Payload):
            detail = laid_down(detail, folder)
        elif isinstance(detail, Context):
            detail = context_here_from(detail)
        own.append(detail)
    return tuple(own)


def context_here_from(context: Context) -> Context:
    """The notebook's context on this node: its folder where there is one of this name, else this user's own."""
    env = dict(os.environ)
    for name, value in context.env:
        if name not in _STAY and (name not in env or name.startswith(_GO_ALONG)):
            env[name] = value
    own_path = [path for path in context.sys_path if path and os.path.exists(path)]
    own_path += [path for path in (str(library_folder()), *sys.path) if path and path not in own_path]
    cwd = context.cwd if os.path.isdir(context.cwd) else os.path.expanduser("~")
    return replace(context, cwd=cwd, sys_path=tuple(own_path), env=tuple(env.items()))
