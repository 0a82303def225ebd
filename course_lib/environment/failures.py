"""What the output of a failed step means, in sentences for the learner: the true reason, where it can be told."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["AGAIN", "SetupError", "StepFailed", "disk_full", "meaning_of"]

AGAIN = "Run the same command again to go on; what was fetched is kept in a cache."
_BUILDS = (
    "The course's packages are built for 64-bit Linux with glibc 2.28 or newer, macOS 14 or newer on Apple silicon, "
    "and 64-bit Windows, each with Python 3.11 to 3.14."
)
_ROOT = Path(__file__).resolve().parent.parent.parent


class SetupError(Exception):
    """The set-up cannot go on; the text says why and what to do, in sentences for the learner."""


class StepFailed(SetupError):
    """A step has ended with an error. `is_final`: another tool for the same work would fare no better."""

    def __init__(self, text: str, *, reason: str, is_final: bool) -> None:
        super().__init__(text)
        self.reason, self.is_final = reason, is_final


@dataclass(frozen=True)
class Meaning:
    """Why a step failed, in a sentence or two (empty: not known), and whether that would stop any tool."""

    text: str
    is_final: bool


def meaning_of(code: int, lines: Sequence[str]) -> Meaning:
    """Read the output of a step that ended with exit code `code` (negative: by a signal)."""
    output = re.sub(r"\s+", " ", " ".join(lines))  # uv lays a sentence out over several lines
    for find, is_final in _READERS:
        text = find(output)
        if text:
            return Meaning(text, is_final)
    if code < 0:
        return Meaning(f"It was ended by signal {-code}; 9 is often the system running out of memory.", True)
    return Meaning("", False)


def disk_full(_output: str = "") -> str:
    folders = {str(_ROOT), tempfile.gettempdir()}
    free = ", ".join(f"{shutil.disk_usage(folder).free / 1e9:.1f} GB in {folder}" for folder in sorted(folders))
    return (
        f"The disk is full, or your quota of it: free now {free}. The course takes 2 GB with torch for CPU "
        "and 8 GB with CUDA, and pip needs room for temporary files (TMPDIR names their folder). "
        "Free some space, then run the same command again."
    )


# --- Readers: each returns its sentence where it knows the output, "" where it does not ---------------------


def _full(output: str) -> str:
    full = "No space left on device" in output or "Disk quota exceeded" in output
    return disk_full() if full else ""


def _network(output: str) -> str:
    """The index was not reached. pip then adds that it found no such package, which is not the reason."""
    signs = (
        r"Failed to establish a new connection|NewConnectionError|Name or service not known|dns error|"
        r"Temporary failure in name resolution|nodename nor servname|getaddrinfo failed|failed to lookup address|"
        r"Connection refused|Network is unreachable|No route to host|ConnectTimeout|ReadTimeout|"
        r"[Oo]peration timed out|error sending request|[Cc]onnection reset"
    )
    if not re.search(signs, output):
        return ""
    return (
        "The index of packages could not be reached: is the network up? Behind a proxy, set HTTPS_PROXY; where "
        "only a mirror can be reached, name it in pip's settings (`pip config set global.index-url ADDRESS`)."
    )


def _certificate(output: str) -> str:
    if not re.search(r"CERTIFICATE_VERIFY_FAILED|invalid peer certificate|UnknownIssuer|SSLError", output):
        return ""
    return (
        "The index's certificate is not trusted here, as happens behind a proxy that reads along. Name the "
        "file with your network's certificates in pip's settings (`pip config set global.cert FILE`)."
    )


def _password(output: str) -> str:
    found = re.search(
        r"\b(401|403|407)\b[^.]{0,40}?(Unauthorized|Forbidden|Proxy Authentication)", output, re.IGNORECASE
    )
    if found is None:
        return ""
    who = "proxy" if found[1] == "407" else "index of packages"
    return f"The {who} refused the request ({found[1]} {found[2]}): does it need a name and a password?"


def _python_version(output: str) -> str:
    """A pinned release that says itself which Pythons it is for."""
    by_uv = re.search(r"does not satisfy Python *([<>=!~][^ ]*) and ([\w.-]+)==([\w.+-]+) depends on", output)
    if by_uv is not None:
        return _needs_python(name=by_uv[2], version=by_uv[3], needed=by_uv[1])
    by_pip = re.search(r"Package '?([\w.-]+)'? requires a different Python: \S+ not in '([^']+)'", output)
    if by_pip is not None:
        return _needs_python(name=by_pip[1], version="", needed=by_pip[2])
    wanted = re.search(r"No matching distribution found for ([\w.-]+)==([\w.+]+)", output)
    if wanted is None:
        return ""
    listed = re.search(rf"(?:[:;]|^) *{re.escape(wanted[2])} Requires-Python ([<>=!~][^;E]*)", output)
    return "" if listed is None else _needs_python(name=wanted[1], version=wanted[2], needed=listed[1].strip())


def _needs_python(*, name: str, version: str, needed: str) -> str:
    release = f"{name} {version}".strip()
    return (
        f"{release} needs Python {needed}, and this is Python {_python()} ({sys.executable}). Install a Python "
        f"that fits, then start the course with it: PYTHON {_ROOT / 'course'}"
    )


def _no_build(output: str) -> str:
    """The release exists, and uv says that none of its builds is for this system or Python."""
    found = re.search(r"Because ([\w.-]+)==([\w.+-]+) has no (?:usable )?wheels", output)
    if found is None:
        return ""
    return f"The index has no build of {found[1]} {found[2]} for this system ({_system()}). {_BUILDS}"


def _not_there(output: str) -> str:
    found = re.search(
        r"No matching distribution found for (\S+)|Because ([\w.-]+) was not found|no version of (\S+)",
        output,
    )
    if found is None:
        return ""
    name = found[1] or found[2] or found[3]
    return (
        f"No index that was asked has {name} for this system ({_system()}). `pip config list` shows which are "
        f"asked; a mirror may lag behind PyPI. {_BUILDS}"
    )


def _permission(output: str) -> str:
    if "Permission denied" not in output:
        return ""
    return "A file named above is not yours to write or to read. Does it stem from a start with sudo?"


def _compiled(output: str) -> str:
    found = re.search(r"Failed(?: to build| building wheel for) `?([\w.-]+)", output)
    if found is None:
        return ""
    return (
        f"There is no ready build of {found[1]} for this system, so it was to be compiled here, and that failed: "
        f"the lines above say why. This system: {_system()}. {_BUILDS}"
    )


_READERS: tuple[tuple[Callable[[str], str], bool], ...] = (
    (_full, True),
    (_python_version, True),
    (_certificate, False),
    (_password, False),
    (_network, False),
    (_no_build, True),
    (_compiled, False),
    (_not_there, False),
    (_permission, False),
)


def _python() -> str:
    return ".".join(map(str, sys.version_info[:3]))


def _system() -> str:
    machine = os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "?")
    return f"{sys.platform}, {machine}, Python {_python()}"
