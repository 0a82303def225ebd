"""Which build of PyTorch is installed, and which one a GPU needs. Nothing here imports torch.

Two rules decide whether a build runs on a GPU. The driver must know the build's CUDA *major* version: a
driver for CUDA 12.x runs every CUDA 12 build, and one for CUDA 13.x runs builds of both. And the build must
hold code for the GPU's generation (its compute capability).

Sources: NVIDIA, "CUDA Compatibility" (minor version compatibility); PyTorch RELEASE.md, CUDA support matrix
for 2.12 and 2.13.
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["INDEX_URL", "TorchBuild", "build_for", "installed_build", "why_unusable"]

# For each CUDA version of a build: the lowest and the highest compute capability that it holds code for.
_CAPABILITIES = {
    "12.6": ((5, 0), (9, 9)),
    "12.8": ((7, 5), (12, 9)),
    "13.0": ((7, 5), (12, 9)),
    "13.2": ((7, 5), (12, 9)),
}
# The builds to recommend, the newest last: name in the package index, CUDA version.
_RECOMMENDED = {"cu126": "12.6", "cu130": "13.0"}
INDEX_URL = "https://download.pytorch.org/whl"


@dataclass(frozen=True)
class TorchBuild:
    """The installed PyTorch: its version ("2.13.0+cpu"), and the CUDA or ROCm version it was built for."""

    version: str | None = None
    cuda: str | None = None
    hip: str | None = None

    @property
    def wants(self) -> str:
        """What this build was made for, in words."""
        if self.version is None:
            return "no PyTorch"
        if self.cuda is not None:
            return f"CUDA {self.cuda}"
        return f"ROCm {self.hip}" if self.hip is not None else "CPU only"


def installed_build(version_file: Path | None = None) -> TorchBuild:
    """Read the installed build from torch's version file. Without torch, every field is None."""
    if version_file is None:
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.origin is None:
            return TorchBuild()
        version_file = Path(spec.origin).parent / "version.py"
    try:
        text = version_file.read_text()
    except OSError:
        return TorchBuild()
    return TorchBuild(*(_value(text, name) for name in ("__version__", "cuda", "hip")))


def why_unusable(build: TorchBuild, driver_cuda: str | None, capability: tuple[int, int] | None) -> str:
    """Why this build cannot use a GPU, as a sentence; "" where it can.

    ``driver_cuda`` is the newest CUDA version that the driver knows ("12.4"), None where it is unknown.
    """
    if build.version is None:
        return "PyTorch is not installed."
    if build.cuda is None:
        return f"PyTorch {build.version} was built for {build.wants}, so it cannot use an NVIDIA GPU."
    if driver_cuda is not None and _major(driver_cuda) < _major(build.cuda):
        return (
            f"The driver knows CUDA {driver_cuda} at most, and PyTorch {build.version} was built for CUDA {build.cuda}."
        )
    if capability is not None and not _holds_code_for(build.cuda, capability):
        lowest, highest = _CAPABILITIES[build.cuda]
        return (
            f"PyTorch builds for CUDA {build.cuda} hold code for compute capability {_dotted(lowest)} to "
            f"{highest[0]}.x, and this GPU has {_dotted(capability)}."
        )
    return ""


def build_for(driver_cuda: str | None, capability: tuple[int, int] | None) -> str | None:
    """The newest build ("cu130") that runs with this driver on this GPU, or None: it needs a newer driver."""
    for name, cuda in reversed(_RECOMMENDED.items()):
        if driver_cuda is not None and _major(driver_cuda) < _major(cuda):
            continue
        if capability is None or _holds_code_for(cuda, capability):
            return name
    return None


def _holds_code_for(cuda: str, capability: tuple[int, int]) -> bool:
    """True unless the build is known to lack code for the GPU."""
    lowest, highest = _CAPABILITIES.get(cuda, ((0, 0), (99, 9)))
    return lowest <= capability <= highest


def _value(text: str, name: str) -> str | None:
    found = re.search(rf"^{name}\b[^=\n]*=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return found.group(1) if found else None


def _major(version: str) -> int:
    return int(version.split(".")[0])


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
