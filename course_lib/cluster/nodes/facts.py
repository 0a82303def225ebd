"""What a machine says of itself to those that want to work with it."""

from __future__ import annotations

import os
import platform
import socket
import sys
from dataclasses import dataclass

from course_lib.cluster.ports.own_sockets import can_shut_ports
from course_lib.devices import machine

__all__ = ["NodeFacts", "facts_here"]


@dataclass(frozen=True)
class NodeFacts:
    """What a node is, and what it has."""

    host: str
    python: str
    torch: str
    course: str
    cores: int
    num_gpus: int
    has_folder: bool  # whether the notebook's folder is there under the same name
    shuts_ports: bool = True  # of its ranks, once they have met
    course_folders: tuple[str, ...] = ()  # with the course in them, of those where Python looks, in its order

    @property
    def versions(self) -> dict[str, str]:
        """What has to be the same where ranks exchange tensors and functions, by its name."""
        python = ".".join(self.python.split(".")[:2])
        return {"Python": python, "PyTorch": self.torch, "this course": self.course}


def facts_here(folder: str) -> NodeFacts:
    """The facts of this machine, for a notebook that works in ``folder``."""
    import torch

    import course_lib

    here = machine()
    return NodeFacts(
        host=socket.gethostname(),
        python=platform.python_version(),
        torch=torch.__version__,
        course=getattr(course_lib, "__version__", ""),
        cores=here.cores,
        num_gpus=len(here.devices),
        has_folder=os.path.isdir(folder),
        shuts_ports=can_shut_ports(),
        course_folders=tuple(one for one in sys.path if os.path.isdir(os.path.join(one, course_lib.__name__))),
    )
