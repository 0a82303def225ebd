"""GPUs that NVML counts and that do not answer, on machines described by fakes; and a Python without NVML's binding."""

from __future__ import annotations

from typing import ClassVar

import pytest
from fake_nvml import FakeGpu, FakeNvml, NVMLError

from course_lib.devices import gpus, look
from course_lib.devices.gpus import find_gpus
from course_lib.devices.torch_builds import TorchBuild

CUDA_BUILD = TorchBuild(version="2.13.0", cuda="13.0")
NO_PERMISSION, IS_LOST = NVMLError(4, "Insufficient Permissions"), NVMLError(15, "GPU is lost")


class Nvml(FakeNvml):
    """Some boards do not answer: one that may not be opened gives no handle, a lost one a handle and nothing more."""

    silent: ClassVar = {}

    def nvmlDeviceGetHandleByIndex(self, i):  # noqa: N802 - the names are NVML's
        if self.silent.get(i) is NO_PERMISSION:
            raise NO_PERMISSION
        return self.gpus[i]

    def nvmlDeviceGetName(self, gpu):  # noqa: N802
        if gpu in self.gpus and self.silent.get(self.gpus.index(gpu)) is IS_LOST:
            raise IS_LOST
        return gpu.name


def with_silent(silent, *, gpus=None):
    boards = gpus or tuple(
        FakeGpu(uuid=f"GPU-{letter}", bus=f"0000:0{number}:00.0", nvlinks=("0000:02:00.0", "0000:03:00.0"))
        for number, letter in enumerate("abcd")
    )
    nvml = Nvml(gpus=boards, peers_over_nvlink=True)
    nvml.silent = silent
    return nvml


@pytest.mark.parametrize("error", [NO_PERMISSION, IS_LOST])
def test_a_gpu_that_does_not_answer_is_left_out_and_told(error):
    nvml = with_silent({1: error})
    found = look(env={}, nvml=nvml, build=CUDA_BUILD)
    assert [(gpu.index, gpu.board, gpu.uuid) for gpu in found.devices] == [
        (0, 0, "GPU-a"),
        (1, 2, "GPU-c"),
        (2, 3, "GPU-d"),
    ]
    assert [(link.a, link.b, link.detail) for link in found.links] == [
        (0, 1, "1 link"),
        (0, 2, "1 link"),
        (1, 2, "1 link"),
    ], "each link is that of its own boards"
    assert found.gpu_note == f"GPU 1 of nvidia-smi cannot be read, and is left out: {error}."
    assert nvml.open_calls == 0


def test_numbers_in_cuda_visible_devices_count_the_gpus_that_answer():
    found = find_gpus({"CUDA_VISIBLE_DEVICES": "1,2"}, with_silent({0: NO_PERMISSION}))
    assert [(gpu.index, gpu.board) for gpu in found.devices] == [(0, 2), (1, 3)]


def test_where_no_gpu_answers_there_is_none_and_each_is_told():
    found = find_gpus({}, with_silent(dict.fromkeys(range(4), NO_PERMISSION)))
    assert found.devices == ()
    assert found.note.count("Insufficient Permissions") == 4
    assert found.driver is not None


def test_slices_bear_the_number_of_their_board_and_one_that_is_lost_is_left_out():
    pieces = tuple(FakeGpu(name="NVIDIA A100 MIG 3g.40gb", uuid=f"MIG-{number}") for number in (1, 2, 3))
    cut = FakeGpu(uuid="GPU-b", mig=pieces, mig_on=True)

    class OneSliceLost(Nvml):
        def nvmlDeviceGetUUID(self, gpu):  # noqa: N802
            if gpu is pieces[0]:
                raise IS_LOST
            return gpu.uuid

    nvml = OneSliceLost(gpus=(FakeGpu(), cut))
    nvml.silent = {0: NO_PERMISSION}
    found = find_gpus({}, nvml)
    assert [(gpu.index, gpu.board, gpu.uuid) for gpu in found.devices] == [(0, 1, "MIG-2")]
    assert [(gpu.board, gpu.uuid, gpu.is_mig_slice) for gpu in found.spare] == [(1, "MIG-3", True)]
    assert "MIG is on" in found.note
    assert "GPU 0 of nvidia-smi cannot be read" in found.note


def test_without_the_binding_the_note_says_what_to_install(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(gpus, "importlib", type("", (), {"import_module": staticmethod(absent)}))
    assert find_gpus({}).note.endswith("cannot be looked for: pip install nvidia-ml-py.")
