"""Has Jupyter begin kernels of this interpreter as forks; any other starts as Jupyter starts it.

Where there is no fork server (on another system than Linux, before it has imported all, or when it has ended), a kernel
starts as it does everywhere.
"""

from __future__ import annotations

import contextlib
import os
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, cast

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

from course_lib.kernels.forked_kernel import ForkedKernel

__all__ = ["ForkProvisioner"]

_NAME = "course-forks"
_JUPYTERS = "local-provisioner"


class ForkProvisioner(LocalProvisioner):
    """Asks the fork server whose socket lies in ``folder_to_ask()``; a subclass says which that is."""

    @classmethod
    def install(cls, factory: KernelProvisionerFactory | None = None) -> None:
        """Have Jupyter start kernels in this process by this class, where nobody has named another."""
        factory = factory or KernelProvisionerFactory.instance()
        if factory.default_provisioner_name not in (_JUPYTERS, _NAME):
            return
        factory.provisioners[_NAME] = EntryPoint(_NAME, f"{cls.__module__}:{cls.__name__}", factory.GROUP_NAME)
        factory.default_provisioner_name = _NAME

    async def folder_to_ask(self, env: dict[str, str]) -> Path | None:
        """The folder of a fork server that is to begin a kernel with this environment; None where it starts alone."""
        raise NotImplementedError

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Begin the kernel, and say where it listens."""
        env = dict(kwargs.get("env") or os.environ)
        is_ours = cmd[:3] == [sys.executable, "-m", "ipykernel_launcher"]
        folder = await self.folder_to_ask(env) if is_ours else None
        if folder is not None:
            with contextlib.suppress(OSError), open(os.devnull, "rb") as nothing:
                fds = [nothing.fileno(), _number(kwargs.get("stdout"), 1), _number(kwargs.get("stderr"), 2)]
                cwd = str(kwargs.get("cwd") or Path.cwd())
                kernel = ForkedKernel(folder, cmd[2:], env=env, cwd=cwd, fds=fds)
                self.process, self.pid, self.pgid = cast(Any, kernel), kernel.pid, kernel.pid
                self.cwd = cwd
                return self.connection_info
        return await super().launch_kernel(cmd, **kwargs)


def _number(file: Any, otherwise: int) -> int:
    """The number of an open file; ``otherwise`` for None, as for a ``subprocess.Popen``."""
    return otherwise if file is None else file if isinstance(file, int) else file.fileno()
