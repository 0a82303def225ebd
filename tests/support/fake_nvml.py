"""A stand-in for the module ``pynvml``: a machine with the GPUs that a test describes."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """NVML's error, with its number."""

    def __init__(self, value: int, text: str = "Not Supported") -> None:
        super().__init__(text)
        self.value = value


@dataclass
class FakeGpu:
    """One board. ``mig`` holds its slices; ``nvlinks`` the PCI bus of what each of its NVLinks leads to."""

    name: str = "NVIDIA A100-SXM4-80GB"
    uuid: str = "GPU-a"
    bus: str = "0000:01:00.0"
    memory_bytes: int = 80 * 2**30
    capability: tuple[int, int] = (8, 0)
    nvlinks: tuple[str, ...] = ()
    mig: tuple[FakeGpu, ...] = ()
    mig_on: bool = False


@dataclass
class FakeNvml:
    """The functions of ``pynvml`` that the course calls; ``init_error`` is what starting it raises."""

    gpus: tuple[FakeGpu, ...] = ()
    cuda: int = 13000
    init_error: NVMLError | None = None
    count_error: NVMLError | None = None
    peers_over_nvlink: bool = False
    peers_over_pcie: bool = True
    ancestor: int = 30
    open_calls: int = 0

    NVMLError = NVMLError
    NVML_ERROR_LIBRARY_NOT_FOUND = 12
    NVML_NVLINK_MAX_LINKS = 18

    def nvmlInit(self) -> None:  # noqa: N802 - the names are NVML's
        if self.init_error is not None:
            raise self.init_error
        self.open_calls += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open_calls -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        if self.count_error is not None:
            raise self.count_error
        return len(self.gpus)

    def __getattr__(self, name: str) -> Any:
        answers: dict[str, Any] = {
            "nvmlSystemGetDriverVersion": lambda: "580.65.06",
            "nvmlSystemGetCudaDriverVersion_v2": lambda: self.cuda,
            "nvmlDeviceGetHandleByIndex": lambda i: self.gpus[i],
            "nvmlDeviceGetName": lambda gpu: gpu.name,
            "nvmlDeviceGetUUID": lambda gpu: gpu.uuid.encode(),  # older bindings answer with bytes
            "nvmlDeviceGetMemoryInfo": lambda gpu: SimpleNamespace(total=gpu.memory_bytes),
            "nvmlDeviceGetCudaComputeCapability": lambda gpu: gpu.capability,
            "nvmlDeviceGetMaxPcieLinkGeneration": lambda gpu: 4,
            "nvmlDeviceGetMaxPcieLinkWidth": lambda gpu: 16,
            "nvmlDeviceGetMigMode": lambda gpu: (int(gpu.mig_on), int(gpu.mig_on)),
            "nvmlDeviceGetMaxMigDeviceCount": lambda gpu: 7,
            "nvmlDeviceGetMigDeviceHandleByIndex": self._mig_slice,
            "nvmlDeviceGetPciInfo": lambda gpu: SimpleNamespace(busId=gpu.bus),
            "nvmlDeviceGetNvLinkState": self._nvlink_state,
            "nvmlDeviceGetNvLinkRemotePciInfo": lambda gpu, i: SimpleNamespace(busId=gpu.nvlinks[i]),
            "nvmlDeviceGetTopologyCommonAncestor": lambda a, b: self.ancestor,
            "nvmlDeviceGetP2PStatus": self._p2p,
        }
        if name not in answers:
            raise AttributeError(name)
        return answers[name]

    def _mig_slice(self, gpu: FakeGpu, i: int) -> FakeGpu:
        if i >= len(gpu.mig):
            raise NVMLError(6, "Not Found")
        return gpu.mig[i]

    def _nvlink_state(self, gpu: FakeGpu, i: int) -> int:
        if not gpu.nvlinks:
            raise NVMLError(3)
        return int(i < len(gpu.nvlinks))

    def _p2p(self, a: FakeGpu, b: FakeGpu, caps: int) -> int:
        over = {0: self.peers_over_pcie, 2: self.peers_over_nvlink}
        return 0 if over[caps] else 1
