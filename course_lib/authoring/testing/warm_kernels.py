"""A plugin of pytest: kernels of notebooks begin as forks of one process that has imported what all of them need.

It is nbval's own run otherwise: the same kernel, in a process of its own with its own folder and environment, asked
over the same sockets. For notebooks that ``--cold-start`` names a kernel starts by itself.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from course_lib.kernels import modules
from course_lib.kernels.provisioner import ForkProvisioner
from course_lib.kernels.server import KernelForkServer
from course_lib.lessons.kernel_sockets import take_no_ports

__all__ = ["WarmProvisioner"]


class WarmProvisioner(ForkProvisioner):
    """Begins kernels as forks of the server of this run."""

    folder: Path | None = None  # of the fork server to ask; for all kernels of this process
    is_cold = False  # whether the next kernel is to start by itself

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Have the kernel listen at files beside the fork server's socket, not at ports.

        A port is chosen while it is free, and taken a second later: by then it may be that of a rank of another kernel.
        """
        manager = self.parent
        if manager is not None and self.folder is not None and self.folder.is_dir():
            take_no_ports(manager, self.folder / f"kernel-{self.kernel_id}")
        return await super().pre_launch(**kwargs)

    async def folder_to_ask(self, env: dict[str, str]) -> Path | None:
        return None if self.is_cold else self.folder


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cold-start",
        action="append",
        default=[],
        metavar="NOTEBOOK",
        help="its kernel imports everything itself",
    )
    parser.addoption(
        "--warm-modules",
        type=lambda text: tuple(text.split(",")),
        default=modules.NAMES,
        metavar="NAMES",
        help="what the others have imported when they begin, with commas between",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin the server in the process that hands out the tests; its workers, or it itself, ask that for kernels."""
    if sys.platform != "linux":
        return
    workerinput = getattr(config, "workerinput", None)
    if workerinput is None:
        fork_server = KernelForkServer(config.getoption("--warm-modules"))
        config.add_cleanup(fork_server.close)
        _ask(fork_server.folder)
    else:
        _ask(Path(workerinput["course_kernels"]))


def _ask(folder: Path) -> None:
    WarmProvisioner.folder = folder
    WarmProvisioner.install()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist where the fork server listens."""
    node.workerinput["course_kernels"] = str(WarmProvisioner.folder)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    WarmProvisioner.is_cold = item.path.name in item.config.getoption("--cold-start")
