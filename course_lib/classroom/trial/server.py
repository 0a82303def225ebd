"""What one learner's JupyterLab takes: it is started, asked until it answers, looked at, and ended."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path

from course_lib.classroom.trial.trial_user import TrialUser
from course_lib.classroom.trial.watch import ProcessSample, ResourceWatch

__all__ = ["measured_server"]

_LIMIT_S = 120.0
_SETTLED_S = 2.0
_END_LIMIT_S = 10.0
_PAGES = ("/lab", "/lab/api/settings", "/api/contents")


def measured_server(seat: TrialUser, watch: ResourceWatch) -> ProcessSample | None:
    """A JupyterLab of this seat on a socket in its folder, no port; None where none can be had.

    It has given its page and its settings when it is looked at, and runs no kernel.
    """
    address, token = seat.folder / "s", secrets.token_hex(24)
    options = [f"--ServerApp.sock={address}", "--ServerApp.open_browser=False", "--log-level=ERROR"]
    options += [f"--ServerApp.root_dir={seat.notebooks}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-root")
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options],
        # Not on a command line, which all can read.
        env={**os.environ, **seat.environment("server"), "JUPYTER_TOKEN": token},
        cwd=seat.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        if not all(_answers(address, page, token, process) for page in _PAGES):
            return None
        time.sleep(_SETTLED_S)
        look = watch.look_at(seat.number, "server")
        return look if look.processes else None
    finally:
        process.terminate()
        try:
            process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(address: Path, page: str, token: str, process: subprocess.Popen[bytes]) -> bool:
    """Whether the page was given before the time was over, and before the process ended."""
    asked = f"GET {page} HTTP/1.0\r\nHost: localhost\r\nAuthorization: token {token}\r\n\r\n"
    ends_s = time.monotonic() + _LIMIT_S
    while time.monotonic() < ends_s and process.poll() is None:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as line:
            line.settimeout(_LIMIT_S)
            line.connect(str(address))
            line.sendall(asked.encode())
            if b" 200 " in line.recv(32):
                while line.recv(1 << 16):
                    pass
                return True
        time.sleep(0.2)
    return False
