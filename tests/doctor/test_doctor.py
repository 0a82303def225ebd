"""``course doctor``: each line's verdict and remedy, the report, JSON, and the exit code."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from dataclasses import replace

import pytest
import torch.distributed
from fake_nvml import FakeGpu, FakeNvml, NVMLError

from course_lib import doctor
from course_lib.devices import Machine, look
from course_lib.devices.torch_builds import TorchBuild
from course_lib.doctor import Finding, examine, main, report, run_check
from course_lib.doctor.gpu_checks import check_gpus
from course_lib.doctor.resources import check_cores, check_folder, check_memory, check_shared_memory
from course_lib.doctor.software import (
    check_course_files,
    check_packages,
    check_python,
    check_system,
    check_torch,
    check_whole,
)
from course_lib.doctor.trials import check_all_reduce, check_backends

GIB = 1 << 30
PLAIN = Machine(
    cores=8,
    memory_bytes=16 * GIB,
    cpu_name="a chip",
    system="Linux x86_64",
    python_version="3.11.7",
    torch_version="2.13.0",
    shared_memory_bytes=8 * GIB,
)
CUDA_BUILD = TorchBuild(version="2.13.0", cuda="13.0")


def with_gpus(*gpus: FakeGpu, build: TorchBuild = CUDA_BUILD, env: dict[str, str] | None = None, **nvml) -> Machine:
    return look(env=env or {}, nvml=FakeNvml(gpus=gpus, **nvml), build=build)


# --- software ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "status"), [((3, 10, 14), "blocked"), ((3, 11, 0), "ok"), ((3, 14, 1), "ok")])
def test_python(version, status):
    assert check_python(version).status == status


@pytest.mark.parametrize(("system", "status"), [("linux", "ok"), ("darwin", "ok"), ("win32", "blocked")])
def test_system(system, status):
    found = check_system(system)
    assert found.status == status
    assert ("WSL" in found.remedy) == (status == "blocked")


@pytest.mark.parametrize(
    ("version", "status"),
    [
        (None, "blocked"),
        ("2.10.1", "blocked"),
        ("2.11.0", "ok"),
        ("2.13.0+cpu", "ok"),
        ("3.0.0a0", "ok"),
        ("2.13.0+rocm7.2", "warning"),
    ],
)
def test_torch(version, status):
    found = check_torch(replace(PLAIN, torch_version=version))
    assert found.status == status
    assert bool(found.remedy) == (status != "ok")


def test_packages():
    by_name = {found.name: found for found in check_packages(lambda package: "99.0")}
    assert {name: found.status for name, found in by_name.items()} == {
        "jupyterlab": "ok",
        "ipywidgets": "ok",
        "packages": "ok",
    }
    assert by_name["jupyterlab"].detail == "99.0"


@pytest.mark.parametrize(
    ("package", "version", "line", "status"),
    [
        ("jupyterlab", None, "jupyterlab", "blocked"),
        ("jupyterlab", "4.1.9", "jupyterlab", "warning"),
        ("ipywidgets", "7.8.0", "ipywidgets", "warning"),
        ("cloudpickle", None, "packages", "blocked"),
        ("nbval", "0.10", "packages", "warning"),
    ],
)
def test_a_package_that_is_missing_or_old(package, version, line, status):
    def version_of(name: str) -> str:
        if name == package:
            if version is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return version
        return "99.0"

    troubled = [found for found in check_packages(version_of) if found.status != "ok"]
    assert [(found.name, found.status) for found in troubled] == [(line, status)]
    assert f"pip install '{package}>=" in troubled[0].remedy


def test_a_package_of_which_files_have_gone(monkeypatch, tmp_path):
    assert check_whole().status == "ok"
    info = tmp_path / "halved-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: halved\nVersion: 1.0\n")
    (info / "RECORD").write_text("halved/__init__.py,,\nhalved/other.py,,\nhalved/data.txt,,\n")
    (tmp_path / "halved").mkdir()
    (tmp_path / "halved" / "other.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    found = check_whole(["halved", "none-such"])
    assert (found.status, found.detail) == ("blocked", "halved lacks 1, such as halved/__init__.py")
    assert "makes it again" in found.remedy


def test_course_files(tmp_path):
    assert check_course_files(tmp_path).status == "blocked"
    for folder in ("src", "solutions"):
        (tmp_path / "notebooks" / folder).mkdir(parents=True)
    for name in (
        "src/00_a.py",
        "00_a.ipynb",
        "solutions/00_a.ipynb",
        "src/01_b.py",
        "01_b.ipynb",
        "src/02a_first_part.py",
        "src/02b_second_part.py",
        "02a_first_part.ipynb",
        "02b_second_part.ipynb",
        "solutions/02a_first_part.ipynb",
        "src/notes.py",
    ):
        (tmp_path / "notebooks" / name).write_text("")
    found = check_course_files(tmp_path)
    assert found.status == "blocked"
    assert "solutions/01_b.ipynb" in found.detail
    assert "solutions/02b_second_part.ipynb" in found.detail
    assert "00_a" not in found.detail
    assert found.remedy == "./course build"
    for name in ("01_b", "02b_second_part"):
        (tmp_path / "notebooks" / "solutions" / f"{name}.ipynb").write_text("")
    assert check_course_files(tmp_path) == Finding("course files", "ok", "4 lessons, each with its solution")


# --- resources --------------------------------------------------------------------------------------------------


def test_one_core_is_a_warning():
    assert check_cores(replace(PLAIN, cores=1)).status == "warning"
    assert check_cores(PLAIN) == Finding("cores", "ok", "8 usable, a chip")


@pytest.mark.parametrize(("free", "status"), [(GIB // 4, "blocked"), (GIB, "warning"), (3 * GIB, "ok")])
def test_memory(free, status):
    assert check_memory(PLAIN, free).status == status


def test_memory_is_asked_of_the_system():
    assert check_memory(PLAIN).status in ("ok", "warning", "blocked")


@pytest.mark.parametrize(("size", "status"), [(64 << 20, "warning"), (2 * GIB, "ok"), (None, "ok")])
def test_shared_memory(size, status):
    found = check_shared_memory(replace(PLAIN, shared_memory_bytes=size), size)
    assert found.status == status
    assert ("--shm-size" in found.remedy) == (status == "warning")


def test_shared_memory_that_is_full():
    found = check_shared_memory(replace(PLAIN, shared_memory_bytes=2 * GIB), 0)
    assert (found.status, found.detail) == ("warning", "/dev/shm holds 2 GiB, 0 B free")
    assert "ls -l /dev/shm" in found.remedy


@pytest.mark.parametrize(("free", "status"), [(50 << 20, "blocked"), (GIB // 2, "warning"), (2 * GIB, "ok")])
def test_free_disk(tmp_path, free, status):
    assert check_folder("course folder", tmp_path, free).status == status


def test_a_folder_that_will_be_made_is_judged_by_where_it_will_stand(tmp_path):
    found = check_folder("course's own folders", tmp_path / "a" / "b", 2 * GIB)
    assert found.status == "ok"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "word"),
    [("temporary folder", "TMPDIR"), ("course's own folders", "COURSE_HOME"), ("course folder", "Copy")],
)
def test_a_folder_that_takes_no_file_is_blocked(tmp_path, name, word):
    file = tmp_path / "file"
    file.write_text("")
    found = check_folder(name, file, 2 * GIB)
    assert found.status == "blocked"
    assert word in found.remedy


# --- GPUs -------------------------------------------------------------------------------------------------------


def test_no_gpu_is_fine():
    (found,) = check_gpus(PLAIN)
    assert found.status == "ok"
    assert "CPU" in found.detail


def test_gpus_and_links_each_have_a_line():
    here = with_gpus(FakeGpu(), FakeGpu(uuid="GPU-b", bus="0000:02:00.0"))
    found = check_gpus(here)
    assert [(line.name, line.status) for line in found] == [
        ("GPU 0", "ok"),
        ("GPU 1", "ok"),
        ("GPU 0 - GPU 1", "ok"),
    ]
    assert "80 GiB" in found[0].detail
    assert found[2].detail.startswith("PCIe")


@pytest.mark.parametrize(
    ("cuda", "capability", "build", "advice"),
    [
        (12040, (8, 0), CUDA_BUILD, "torch==2.13.0 --index-url https://download.pytorch.org/whl/cu126"),
        (
            13000,
            (8, 0),
            TorchBuild("2.13.0+cpu"),
            "torch==2.13.0 --index-url https://download.pytorch.org/whl/cu130",
        ),
        (13000, (7, 0), CUDA_BUILD, "whl/cu126"),
        (12080, (12, 0), TorchBuild("2.13.0+cu126", "12.6"), "newer NVIDIA driver"),
        (11080, (8, 0), CUDA_BUILD, "newer NVIDIA driver"),
    ],
)
def test_a_gpu_that_torch_cannot_use_gets_the_build_to_install(cuda, capability, build, advice):
    here = with_gpus(FakeGpu(capability=capability), cuda=cuda, build=build)
    (found,) = check_gpus(here)
    assert found.status == "warning"
    assert advice in found.remedy


@pytest.mark.parametrize(
    ("env", "nvml", "word"),
    [
        ({"CUDA_VISIBLE_DEVICES": ""}, {}, "CUDA_VISIBLE_DEVICES"),
        ({}, {"init_error": NVMLError(4, "Insufficient Permissions")}, "nvidia-smi"),
        ({}, {"init_error": NVMLError(9, "Driver Not Loaded")}, "nvidia-smi"),
    ],
)
def test_gpus_out_of_reach_are_a_warning(env, nvml, word):
    (found,) = check_gpus(with_gpus(FakeGpu(), env=env, **nvml))
    assert found.status == "warning"
    assert word in found.remedy


def test_a_gpu_that_cannot_be_read_leaves_the_others():
    here = replace(with_gpus(FakeGpu()), gpu_note="GPU 1 of nvidia-smi cannot be read, and is left out: lost.")
    line = check_gpus(here)[-1]
    assert (line.status, "The course uses the other GPUs." in line.remedy) == ("warning", True)
    assert "the CPU is used" in check_gpus(replace(here, devices=()))[-1].remedy


def test_mig_is_mentioned():
    piece = FakeGpu(name="NVIDIA A100 MIG 1g.10gb", uuid="MIG-1", memory_bytes=10 * GIB)
    lines = check_gpus(with_gpus(FakeGpu(mig=(piece,), mig_on=True)))
    assert [line.status for line in lines] == ["ok", "warning"]
    assert "MIG is on" in lines[1].detail
    assert "-mig 0" in lines[1].remedy


def test_mig_without_slices_has_its_own_advice():
    (line,) = check_gpus(with_gpus(FakeGpu(mig_on=True)))
    assert "-cgi" in line.remedy


def test_gpus_of_different_kinds_are_told_about_order():
    here = with_gpus(FakeGpu(), FakeGpu(name="NVIDIA RTX A2000", uuid="GPU-b", bus="0000:02:00.0"))
    assert any("PCI_BUS_ID" in found.remedy for found in check_gpus(here))


# --- ranks ------------------------------------------------------------------------------------------------------


class FakeRun(list):
    time_s = 0.01


class FakeCluster:
    """Stands for a cluster whose ranks return what the test asks, or raise it."""

    answer: object = None

    def __init__(self, world_size, **settings):
        assert (world_size, settings["backend"]) == (2, "gloo")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def run(self, function):
        if isinstance(self.answer, Exception):
            raise self.answer
        return FakeRun(self.answer)


@pytest.mark.parametrize(
    ("answer", "status", "detail"),
    [
        ([(3.0, "cpu"), (3.0, "cpu")], "ok", "2 ranks on cpu, 10 ms"),
        ([(3.0, "cpu"), (1.0, "cpu")], "blocked", "ranks summed 1 + 2 to [3.0, 1.0]"),
        (RuntimeError("rank 1 never came\nlong story"), "blocked", "RuntimeError: rank 1 never came"),
        (RuntimeError(), "blocked", "RuntimeError: "),
    ],
)
def test_the_verdict_on_an_all_reduce(monkeypatch, answer, status, detail):
    monkeypatch.setattr("course_lib.cluster.api.cluster.Cluster", FakeCluster)
    monkeypatch.setattr(FakeCluster, "answer", answer)
    found = check_all_reduce("gloo")
    assert (found.status, found.detail) == (status, detail)
    assert bool(found.remedy) == (status == "blocked")


def test_a_cluster_that_cannot_be_loaded_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "course_lib.cluster.api.cluster", None)
    found = check_all_reduce("gloo")
    assert found.status == "blocked"
    assert "cannot be loaded" in found.detail


def test_a_torch_that_cannot_be_imported_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.distributed", None)  # what import finds when a module is broken
    monkeypatch.delattr(torch, "distributed")
    found = check_backends(PLAIN)
    assert found.status == "blocked"
    assert "cannot be imported" in found.detail


def test_a_torch_without_gloo_is_blocked(monkeypatch):
    monkeypatch.setattr("torch.distributed.is_gloo_available", lambda: False)
    assert check_backends(PLAIN).status == "blocked"


def test_many_gpus_without_nccl_is_a_warning(monkeypatch):
    monkeypatch.setattr("torch.distributed.is_nccl_available", lambda: False)
    two = with_gpus(FakeGpu(), FakeGpu(uuid="GPU-b", bus="0000:02:00.0"))
    assert check_backends(two).status == "warning"
    assert check_backends(PLAIN) == Finding("back ends", "ok", "gloo")


# --- the whole --------------------------------------------------------------------------------------------------


def test_everything_is_examined_with_real_ranks(tmp_path):
    by_name = {found.name: found for found in examine(replace(PLAIN, torch_version="2.13.0"), root=tmp_path)}
    assert list(by_name) == [
        "system",
        "Python",
        "PyTorch",
        "jupyterlab",
        "ipywidgets",
        "packages",
        "package files",
        "course files",
        "cores",
        "memory",
        "shared memory",
        "course folder",
        "course's own folders",
        "temporary folder",
        "GPU",
        "seats",
        "back ends",
        "all-reduce, gloo",
    ]
    assert by_name["all-reduce, gloo"].status == "ok"
    assert by_name["course files"].status == "blocked"  # the empty folder given as the course's


def test_nccl_is_tried_where_there_are_two_gpus(monkeypatch, tmp_path):
    tried = []

    def trial(backend: str) -> Finding:
        tried.append(backend)
        return Finding(f"all-reduce, {backend}", "ok", "")

    monkeypatch.setattr("course_lib.doctor.trials.check_all_reduce", trial)
    examine(with_gpus(FakeGpu(), FakeGpu(uuid="GPU-b", bus="0000:02:00.0")), root=tmp_path)
    assert tried == ["gloo", "nccl"]


def test_a_check_that_crashes_becomes_a_line():
    def crash() -> Finding:
        raise KeyError("surprise\nand more")

    (found,) = run_check("memory", crash)
    assert (found.name, found.status) == ("memory", "warning")
    assert "KeyError" in found.detail
    assert "\n" not in found.detail


def test_the_report_is_aligned_and_keeps_commands_whole():
    long_word = "https://" + "x" * 120
    text = report(
        [
            Finding("Python", "ok", "3.11.7"),
            Finding("shared memory", "warning", "small " * 30, f"install {long_word}"),
            Finding("GPU", "blocked", "gone", "buy one"),
        ]
    )
    lines = text.splitlines()
    assert lines[0] == "Python         ok       3.11.7"
    assert lines[1].startswith("shared memory  warning  small")
    assert lines[2].startswith(" " * 24 + "small")
    assert long_word in text
    assert all(len(line) <= 100 for line in lines if long_word not in line)
    assert "remedy: buy one" in text
    assert lines[-1].startswith("Blocked: GPU.")


def test_the_last_line_sums_up():
    fine, odd = Finding("a", "ok", ""), Finding("b", "warning", "")
    assert report([fine]).endswith("The course runs here.")
    assert report([fine, odd]).endswith("Worth a look: b.")


@pytest.mark.parametrize(("statuses", "code"), [(["ok"], 0), (["ok", "warning"], 0), (["warning", "blocked"], 1)])
def test_the_exit_code(monkeypatch, capsys, statuses, code):
    findings = tuple(Finding(f"line {i}", status, "found") for i, status in enumerate(statuses))
    monkeypatch.setattr(doctor, "examine", lambda: findings)
    assert main([]) == code
    assert statuses[-1] in capsys.readouterr().out
    assert main(["--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] == (code == 0)
    assert told["tier"] in ("cpu", "one gpu", "many gpus")
    assert [found["status"] for found in told["findings"]] == statuses
    assert set(told["findings"][0]) == {"name", "status", "detail", "remedy"}
