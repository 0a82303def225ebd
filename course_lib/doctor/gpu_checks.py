"""The GPUs, the links between them, and those that PyTorch cannot use, with what to install."""

from __future__ import annotations

import sys

from course_lib.devices import Machine
from course_lib.devices.torch_builds import INDEX_URL, build_for
from course_lib.doctor.finding import Finding
from course_lib.meter.units import bytes_text

__all__ = ["check_gpus", "install_advice"]


def check_gpus(here: Machine) -> list[Finding]:
    """The GPUs that can be used, the links between them, and the GPUs that torch cannot use."""
    findings = [
        Finding(f"GPU {gpu.index}", "ok", f"{gpu.name}, {bytes_text(gpu.memory_bytes)}") for gpu in here.devices
    ]
    for link in here.links:
        detail = f"{link.kind}, {link.detail}" if link.detail else link.kind
        findings.append(Finding(f"GPU {link.a} - GPU {link.b}", "ok", detail))
    if here.unusable_devices:
        names = ", ".join(gpu.name for gpu in here.unusable_devices)
        findings.append(Finding("GPU", "warning", f"{names}: {here.gpu_note}", install_advice(here)))
    elif here.gpu_note:
        findings.append(Finding("GPU", "warning", here.gpu_note, _driver_advice(here)))
    elif not here.devices:
        findings.append(
            Finding("GPU", "ok", "none: the ranks are processes on the CPU, and every lesson runs that way")
        )
    if len({gpu.name for gpu in here.devices}) > 1:
        advice = "Set CUDA_DEVICE_ORDER=PCI_BUS_ID, so that numbers mean the same GPU everywhere."
        findings.append(Finding("GPU order", "warning", "the GPUs are of different kinds", advice))
    return findings


def install_advice(here: Machine) -> str:
    """Which build of torch to install for the GPUs that it cannot use now, or which driver."""
    build = build_for(here.driver_cuda, here.unusable_devices[0].capability)
    if build is None:
        return (
            f"Install a newer NVIDIA driver: this one knows CUDA {here.driver_cuda} at most, and no "
            "PyTorch build for that runs on this GPU."
        )
    release = (here.torch_version or "2.13.0").split("+")[0]
    command = f"{sys.executable} -m pip install --force-reinstall torch=={release}"
    return f"{command} --index-url {INDEX_URL}/{build}"


def _driver_advice(here: Machine) -> str:
    note = here.gpu_note
    if "COURSE_GPUS" in note:
        return "Unset COURSE_GPUS to use every GPU that CUDA shows, or choose others by it."
    if "CUDA_VISIBLE_DEVICES" in note:
        return "Unset CUDA_VISIBLE_DEVICES, or name GPUs of this machine, to use them."
    if "no GPU has a slice" in note:
        return "Cut a slice (nvidia-smi mig -cgi) or switch MIG off (nvidia-smi -mig 0), as an administrator."
    if "MIG" in note:
        return "One GPU needs no change. For whole GPUs, if nobody uses the slices: sudo nvidia-smi -mig 0"
    if "nvidia-ml-py" in note:
        return f"{sys.executable} -m pip install nvidia-ml-py"
    if here.devices:
        return "The course uses the other GPUs. See what nvidia-smi says of this one."
    return "See whether nvidia-smi answers; start a container with --gpus all. Until then the CPU is used."
