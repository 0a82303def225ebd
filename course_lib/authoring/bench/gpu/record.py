"""The one file that ``course bench gpu`` writes: machine, versions, and what every step found, in the table's order.

A run of some steps adds to the file of an earlier one, where both are of one machine with the same versions.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from course_lib.authoring.bench.gpu.stand_ins import COURSE_PACKAGES, missing
from course_lib.authoring.bench.gpu.steps import STEPS
from course_lib.authoring.bench.gpu.task import FAILED, NOT_RUN, PASSED, written
from course_lib.base.paths import is_installed, project_root
from course_lib.devices import machine
from course_lib.meter.origin import origin

__all__ = ["GpuRecord", "default_path", "outcome_of", "short_of"]

COMMAND = "course bench gpu"
SHORT = "short of a target"


def default_path(on_gpu: bool) -> Path:
    """``assets/measured/gpu_NAME.json`` of the clone, by the GPUs of this machine; of a package, in this folder."""
    folder = Path.cwd() if is_installed() else project_root() / "assets" / "measured"
    if not on_gpu:
        return folder / "gpu_tried_on_cpu.json"
    gpus = machine().devices
    name = re.sub(r"[^a-z0-9]+", "_", gpus[0].name.lower()).strip("_")
    return folder / f"gpu_{len(gpus)}x_{name}.json"


def short_of(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows whose median misses its target."""
    judged = (row for row in rows if row["target"] is not None)
    return [
        row
        for row in judged
        if (row["median"] < row["target"] if row.get("at_least") else row["median"] > row["target"])
    ]


def outcome_of(found: Mapping[str, Any]) -> str:
    """How a step that came to its end went, by its worst part and its rows."""
    outcomes = [part["outcome"] for part in found["parts"]]
    if FAILED in outcomes:
        return FAILED
    if short_of(found["rows"]):
        return SHORT
    if found["rows"] or PASSED in outcomes:
        return PASSED
    return NOT_RUN


class GpuRecord:
    """The file, and what is in it. Raises ValueError for a file that another command, or machine, has written."""

    def __init__(self, path: Path, *, on_gpu: bool) -> None:
        self.path = path
        lacking = missing()
        self.content: dict[str, Any] = {
            **origin(COMMAND),
            "on": "gpu" if on_gpu else "cpu",
            "missing_packages": list(lacking),
            "steps": {},
        }
        self.content["versions"] |= _versions(lacking)
        self.content["machine"] |= _gpus()
        if path.exists():
            self._take_over(_read(path))
        _check_place(path.parent)

    def _take_over(self, old: Mapping[str, Any]) -> None:
        if old.get("command") != COMMAND or "steps" not in old:
            raise ValueError(f"{self.path} was not written by `{COMMAND}`; name another file: --json FILE.")
        for what in ("on", "machine", "versions"):
            if old.get(what) != self.content[what]:
                raise ValueError(
                    f"{self.path} holds results of another {'device' if what == 'on' else what}; one file is for one "
                    "machine with one set of versions. Name another file, --json FILE, or move that one away."
                )
        self.content["steps"] = dict(old["steps"])

    def add(self, name: str, found: Mapping[str, Any]) -> None:
        """Enter a step's result in place of an earlier one, and write the file."""
        steps = {**self.content["steps"], name: {"date": origin(COMMAND)["date"], **found}}
        order = [step.name for step in STEPS]
        place = {key: order.index(key) if key in order else len(order) for key in steps}
        self.content["steps"] = dict(sorted(steps.items(), key=lambda item: place[item[0]]))
        written(self.path, self.content)


def _read(path: Path) -> Any:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as JSON ({error}); name another file: --json FILE.") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} was not written by `{COMMAND}`; name another file: --json FILE.")
    return found


def _check_place(folder: Path) -> None:
    """Nothing is measured that could not be kept."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{folder} cannot be made ({error}); name a file elsewhere: --json FILE.") from None
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{folder} cannot be written to; name a file elsewhere: --json FILE.")


def _versions(lacking: Iterable[str]) -> dict[str, str]:
    """The versions of the packages that are here and take part."""
    found = {}
    for name in COURSE_PACKAGES:
        if name not in lacking and name != "torch":
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                found[name] = "unknown"
    return found


def _gpus() -> dict[str, Any]:
    here = machine()
    if not here.devices:
        return {}
    return {
        "gpu_memory_bytes": [device.memory_bytes for device in here.devices],
        "gpu_links": [f"{link.a}-{link.b}: {link.kind}" for link in here.links],
        "driver": here.driver,
        "cuda_of_torch": here.torch_cuda,
    }
