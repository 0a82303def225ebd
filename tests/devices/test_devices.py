"""What the course finds on a machine: cores, memory, GPUs, links, tier; on machines described by fakes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fake_nvml import FakeGpu, FakeNvml, NVMLError

from course_lib.devices import Machine, container_limits, look, machine
from course_lib.devices.gpus import find_gpus
from course_lib.devices.torch_builds import TorchBuild, build_for, installed_build, why_unusable

CUDA_BUILD = TorchBuild(version="2.13.0", cuda="13.0")
CPU_BUILD = TorchBuild(version="2.13.0+cpu")


def four_gpus(**settings) -> FakeNvml:
    buses = [f"0000:0{i}:00.0" for i in range(4)]
    gpus = []
    for letter, bus in zip("abcd", buses, strict=True):
        others = tuple(other for other in buses if other != bus)
        gpus.append(FakeGpu(uuid=f"GPU-{letter}{letter}", bus=bus, nvlinks=others * 2))
    return FakeNvml(gpus=tuple(gpus), peers_over_nvlink=True, **settings)


def two_pcie_gpus(**settings) -> FakeNvml:
    gpus = (FakeGpu(uuid="GPU-a", bus="0000:01:00.0"), FakeGpu(uuid="GPU-b", bus="0000:02:00.0"))
    return FakeNvml(gpus=gpus, **settings)


def group(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")
    return folder


# --- cores and memory
# -------------------------------------------------------------------------------------------


def test_a_version_2_quota_cuts_the_cores(tmp_path):
    (tmp_path / "cgroup").write_text("0::/job\n")
    group(tmp_path / "fs" / "job", cpu__max="250000 100000")
    cores = container_limits.usable_cores(proc=tmp_path / "cgroup", root=tmp_path / "fs", affinity_cores=8)
    assert cores == 2


def test_a_quota_above_the_affinity_gives_no_more_cores(tmp_path):
    (tmp_path / "cgroup").write_text("0::/\n")
    group(tmp_path / "fs", cpu__max="1600000 100000")
    cores = container_limits.usable_cores(proc=tmp_path / "cgroup", root=tmp_path / "fs", affinity_cores=4)
    assert cores == 4


def test_the_tightest_level_wins(tmp_path):
    (tmp_path / "cgroup").write_text("0::/a/b\n")
    group(tmp_path / "fs" / "a", cpu__max="300000 100000", memory__max="1000")
    group(tmp_path / "fs" / "a" / "b", cpu__max="max 100000", memory__max="4000")
    where = {"proc": tmp_path / "cgroup", "root": tmp_path / "fs"}
    assert container_limits.usable_cores(**where, affinity_cores=8) == 3
    assert container_limits.memory_bytes(**where, host_bytes=9000) == 1000


def test_version_1_groups_are_read(tmp_path):
    (tmp_path / "cgroup").write_text("4:cpu,cpuacct:/job\n3:memory:/job\n")
    group(tmp_path / "fs" / "cpu,cpuacct" / "job", cpu__cfs_quota_us="400000", cpu__cfs_period_us="100000")
    group(tmp_path / "fs" / "memory" / "job", memory__limit_in_bytes="5000", memory__usage_in_bytes="2000")
    where = {"proc": tmp_path / "cgroup", "root": tmp_path / "fs"}
    assert container_limits.usable_cores(**where, affinity_cores=16) == 4
    assert container_limits.memory_bytes(**where, host_bytes=9000) == 5000
    assert container_limits.available_memory_bytes(**where, host_bytes=9000) == 3000


def test_version_1_without_a_quota_keeps_the_affinity(tmp_path):
    (tmp_path / "cgroup").write_text("4:cpu:/\n")
    group(tmp_path / "fs" / "cpu", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    cores = container_limits.usable_cores(proc=tmp_path / "cgroup", root=tmp_path / "fs", affinity_cores=6)
    assert cores == 6


def test_a_container_that_sees_its_group_as_the_mount(tmp_path):
    (tmp_path / "cgroup").write_text("0::/docker/0123\n")  # a path of the host's tree, not mounted here
    group(tmp_path / "fs", cpu__max="100000 100000")
    cores = container_limits.usable_cores(proc=tmp_path / "cgroup", root=tmp_path / "fs", affinity_cores=8)
    assert cores == 1


def test_a_quota_under_one_core_is_one_core(tmp_path):
    (tmp_path / "cgroup").write_text("0::/\n")
    group(tmp_path / "fs", cpu__max="50000 100000")
    cores = container_limits.usable_cores(proc=tmp_path / "cgroup", root=tmp_path / "fs", affinity_cores=8)
    assert cores == 1


def test_cache_that_can_be_dropped_counts_as_free(tmp_path):
    (tmp_path / "cgroup").write_text("0::/\n")
    stat = "anon 100\ninactive_file 700"
    group(tmp_path / "fs", memory__max="1000", memory__current="900", memory__stat=stat)
    where = {"proc": tmp_path / "cgroup", "root": tmp_path / "fs"}
    assert container_limits.available_memory_bytes(**where, host_bytes=9999) == 1000 - (900 - 700)


def test_the_tightest_limit_of_tasks_wins(tmp_path):
    (tmp_path / "cgroup").write_text("0::/a/b\n")
    for folder, limit, used in (("a", "500", "450"), ("a/b", "100", "20")):
        (tmp_path / "fs" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "fs" / folder / "pids.max").write_text(f"{limit}\n")
        (tmp_path / "fs" / folder / "pids.current").write_text(f"{used}\n")
    where = {"proc": tmp_path / "cgroup", "root": tmp_path / "fs"}
    assert container_limits.task_limit(**where) == (500, 450)
    (tmp_path / "fs" / "a" / "pids.max").write_text("max\n")
    assert container_limits.task_limit(**where) == (100, 20)
    (tmp_path / "fs" / "a" / "b" / "pids.max").write_text("max\n")
    assert container_limits.task_limit(**where) is None


@pytest.mark.parametrize("text", ["", "no colons\n", "0::/gone\n", "x:y:z\n"])
def test_odd_cgroup_files_change_nothing(tmp_path, text):
    (tmp_path / "cgroup").write_text(text)
    where = {"proc": tmp_path / "cgroup", "root": tmp_path / "fs"}
    assert container_limits.usable_cores(**where, affinity_cores=5) == 5
    assert container_limits.memory_bytes(**where, host_bytes=7) == 7


def test_no_shared_memory_folder_is_none(tmp_path):
    assert container_limits.shared_memory_bytes(tmp_path / "shm") is None


# --- GPUs
# -------------------------------------------------------------------------------------------------------


def test_no_driver_is_no_gpu_and_no_complaint():
    nvml = FakeNvml(init_error=NVMLError(12, "NVML Shared Library Not Found"))
    found = look(env={}, nvml=nvml, build=CUDA_BUILD)
    assert (found.tier, found.devices, found.gpu_note) == ("cpu", (), "")


@pytest.mark.parametrize("where", ["init_error", "count_error"])
def test_a_driver_that_refuses_is_reported(where):
    nvml = FakeNvml(**{where: NVMLError(4, "Insufficient Permissions")})
    found = look(env={}, nvml=nvml, build=CUDA_BUILD)
    assert found.tier == "cpu"
    assert "Insufficient Permissions" in found.gpu_note
    assert nvml.open_calls == 0  # what was opened was closed


def test_one_gpu():
    nvml = FakeNvml(gpus=(FakeGpu(),))
    found = look(env={}, nvml=nvml, build=CUDA_BUILD)
    assert found.tier == "one gpu"
    assert found.links == ()
    device = found.devices[0]
    assert (device.index, device.uuid, device.memory_bytes) == (0, "GPU-a", 80 * 2**30)
    assert (device.capability, device.pcie) == ((8, 0), "PCIe 4 x16")
    assert (found.driver, found.driver_cuda) == ("580.65.06", "13.0")
    assert nvml.open_calls == 0


def test_four_gpus_with_direct_nvlinks():
    found = look(env={}, nvml=four_gpus(), build=CUDA_BUILD)
    assert found.tier == "many gpus"
    assert [(n.a, n.b) for n in found.links] == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert {(n.kind, n.detail) for n in found.links} == {("NVLink", "2 links")}


def test_nvlinks_that_meet_in_a_switch_count_by_the_smaller_side():
    switch = "0000:99:00.0"
    gpus = (
        FakeGpu(bus="0000:01:00.0", nvlinks=(switch,) * 18),
        FakeGpu(uuid="GPU-b", bus="0000:02:00.0", nvlinks=(switch,) * 12),
    )
    gpu_links = find_gpus({}, FakeNvml(gpus=gpus, peers_over_nvlink=True)).links
    assert (gpu_links[0].kind, gpu_links[0].detail) == ("NVLink", "12 links")


def test_two_gpus_over_pcie():
    link = find_gpus({}, two_pcie_gpus(ancestor=50)).links[0]
    assert (link.kind, link.detail) == ("PCIe", "PCIe 4 x16, across CPU sockets")


def test_gpus_that_cannot_read_each_other_have_no_link():
    link = find_gpus({}, two_pcie_gpus(peers_over_pcie=False)).links[0]
    assert link.kind == "none"
    assert "main memory" in link.detail


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [
        (None, ["GPU-aa", "GPU-bb", "GPU-cc", "GPU-dd"]),
        ("2,0", ["GPU-cc", "GPU-aa"]),
        ("1, 3", ["GPU-bb", "GPU-dd"]),
        ("0,9,1", ["GPU-aa"]),  # CUDA stops at the first entry that names nothing
        ("1,1", []),
        ("", []),
        ("-1", []),
        ("0,-1,1", ["GPU-aa"]),
        ("NoDevFiles", []),
        ("GPU-cc,GPU-a", ["GPU-cc", "GPU-aa"]),
        ("GPU-", []),  # names four at once
        ("GPU-zz,GPU-aa", []),
        ("MIG-1234", []),
    ],
)
def test_cuda_visible_devices_is_obeyed(visible, uuids):
    env = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    found = find_gpus(env, four_gpus())
    assert [d.uuid for d in found.devices] == uuids
    assert [d.index for d in found.devices] == list(range(len(uuids)))
    assert bool(found.note) == (not uuids)
    assert len(found.links) == len(uuids) * (len(uuids) - 1) // 2


def mig_machine() -> FakeNvml:
    pieces = tuple(FakeGpu(name="NVIDIA A100 MIG 3g.40gb", uuid=f"MIG-{n}", memory_bytes=40 * 2**30) for n in (1, 2))
    return FakeNvml(gpus=(FakeGpu(mig=pieces, mig_on=True),))


@pytest.mark.parametrize(
    ("env", "uuid"),
    [
        ({}, "MIG-1"),
        ({"CUDA_VISIBLE_DEVICES": "0"}, "MIG-1"),
        ({"CUDA_VISIBLE_DEVICES": "MIG-2,MIG-1"}, "MIG-2"),
    ],
)
def test_mig_shows_one_slice(env, uuid):
    found = look(env=env, nvml=mig_machine(), build=CUDA_BUILD)
    assert found.tier == "one gpu"
    assert (found.devices[0].uuid, found.devices[0].is_mig_slice) == (uuid, True)
    assert found.devices[0].memory_bytes == 40 * 2**30


def test_mig_without_a_choice_says_so():
    assert "MIG is on" in look(env={}, nvml=mig_machine(), build=CUDA_BUILD).gpu_note


def test_mig_without_slices_shows_no_gpu():
    found = look(env={}, nvml=FakeNvml(gpus=(FakeGpu(mig_on=True),)), build=CUDA_BUILD)
    assert found.tier == "cpu"
    assert "no GPU has a slice" in found.gpu_note


def test_mig_leaves_a_whole_gpu_beside_it():
    cut, whole = FakeGpu(mig=(FakeGpu(uuid="MIG-1"),), mig_on=True), FakeGpu(uuid="GPU-b")
    assert [d.uuid for d in find_gpus({}, FakeNvml(gpus=(cut, whole))).devices] == ["GPU-b"]


def test_a_cpu_build_beside_a_gpu_is_the_cpu_tier():
    found = look(env={}, nvml=two_pcie_gpus(), build=CPU_BUILD)
    assert found.tier == "cpu"
    assert len(found.unusable_devices) == 2
    assert found.links == ()
    assert "CPU only" in found.gpu_note


def test_a_driver_too_old_for_the_build_is_the_cpu_tier():
    found = look(env={}, nvml=FakeNvml(gpus=(FakeGpu(),), cuda=12040), build=CUDA_BUILD)
    assert found.tier == "cpu"
    assert found.driver_cuda == "12.4"
    assert "CUDA 12.4" in found.gpu_note
    assert "CUDA 13.0" in found.gpu_note


# --- builds of torch
# --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "driver_cuda", "capability", "usable"),
    [
        (CUDA_BUILD, "13.0", (8, 0), True),
        (CUDA_BUILD, "13.2", (9, 0), True),
        (CUDA_BUILD, "12.9", (9, 0), False),
        (CUDA_BUILD, None, None, True),
        (CUDA_BUILD, "13.0", (7, 0), False),  # Volta left with CUDA 13
        (TorchBuild("2.13.0+cu126", "12.6"), "12.2", (7, 0), True),  # minor version compatibility
        (TorchBuild("2.13.0+cu126", "12.6"), "13.0", (12, 0), False),
        (TorchBuild("2.11.0+cu128", "12.8"), "12.8", (12, 0), True),
        (TorchBuild("2.13.0+rocm7.2", None, "7.2"), "13.0", (8, 0), False),
        (TorchBuild(), "13.0", (8, 0), False),
    ],
)
def test_which_build_runs_where(build, driver_cuda, capability, usable):
    reason = why_unusable(build, driver_cuda, capability)
    assert (reason == "") == usable
    assert usable or reason.endswith(".")


@pytest.mark.parametrize(
    ("driver_cuda", "capability", "name"),
    [
        ("13.0", (9, 0), "cu130"),
        ("13.4", (12, 0), "cu130"),
        ("13.0", (7, 0), "cu126"),
        ("12.4", (9, 0), "cu126"),
        ("12.8", (12, 0), None),
        ("11.8", (8, 0), None),
        (None, None, "cu130"),
    ],
)
def test_the_build_to_install(driver_cuda, capability, name):
    assert build_for(driver_cuda, capability) == name


def test_the_build_is_read_without_importing_torch(tmp_path):
    file = tmp_path / "version.py"
    file.write_text("__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n")
    assert installed_build(file) == TorchBuild("2.13.0+cu130", "13.0", None)
    assert installed_build(tmp_path / "gone.py") == TorchBuild()


# --- the machine
# ------------------------------------------------------------------------------------------------


def test_ranks_share_gpus_when_there_are_too_few():
    two = look(env={}, nvml=two_pcie_gpus(), build=CUDA_BUILD)
    assert [str(two.device_for(rank)) for rank in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    none = look(env={}, nvml=FakeNvml(), build=CUDA_BUILD)
    assert str(none.device_for(5)) == "cpu"


@pytest.mark.parametrize("rank", [-1, 1.0, "0", True])
def test_a_rank_that_is_none_is_refused(rank):
    with pytest.raises(ValueError, match="whole number from 0"):
        look(env={}, nvml=FakeNvml(), build=CUDA_BUILD).device_for(rank)


def test_the_summary_names_what_was_found():
    text = look(env={}, nvml=two_pcie_gpus(), build=CUDA_BUILD).summary()
    for part in ("many gpus", "80 GiB", "GPU 0 - GPU 1", "PCIe 4 x16", "up to CUDA 13.0", "PyTorch 2.13.0"):
        assert part in text
    assert max(len(line) for line in text.splitlines() if "processor" not in line) < 110


def test_the_html_escapes_what_it_shows():
    odd = Machine(1, 1, cpu_name="<b>chip</b>", system="Linux", python_version="3.11", torch_version=None)
    assert "&lt;b&gt;chip" in odd._repr_html_()
    assert "PyTorch missing" in odd.summary()


def test_this_machine_is_looked_at_once():
    first = machine()
    assert machine() is first
    assert machine(refresh=True) is not first
    assert first.cores >= 1
    assert first.memory_bytes > 2**20


def test_looking_imports_no_torch():
    code = "import sys; from course_lib.devices import machine; machine(); print('torch' in sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    assert done.stdout.strip() == "False"
