"""A cluster from the file that ``calibrate()`` keeps: what of it counts, and what must be asked for."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from course_lib import cli
from course_lib.meter.calibration.calibration import Calibration, LinkFit, Rates
from course_lib.plan import Constants, read_calibrated

RATES = {"float32": 1.0e11, "bfloat16": 2.0e11, "float64": 4.0e10}
CORE = Rates("cpu, 1 thread", RATES, 1.2e10, 0.05)
GPU = Rates("cuda:0", {"float32": 5e13, "bfloat16": 7.2e14}, 2.9e12, 0.01)
LINK = LinkFit(6e-6, 3.5e11, 0.1, ((1, 6e-6),))
GPUS = "Some CPU | 16 cores | {0} GPU-aa | {0} GPU-bb | torch 2.11.0 | format 2"
LINE = ["plan", "--model", "gpt-2", "--batch", "8", "--seq", "256"]


def kept(folder: Path, key: str, gpu: Rates | None, backend: str) -> Path:
    """A file as ``calibrate()`` writes it, with an older machine's entry before it."""
    entry = Calibration(key, CORE, CORE, gpu, LINK, backend, 0.05, "2026-01-01", 5.0)
    old = asdict(entry) | {"key": "old"}
    file = folder / "calibration.json"
    file.write_text(json.dumps({"Old CPU | 2 cores | torch 2.9 | format 2": old, key: entry.to_json()}))
    return file


def test_gpus_are_those_of_the_key_at_the_rates_of_the_file(tmp_path: Path) -> None:
    file = kept(tmp_path, GPUS.format("NVIDIA H100 80GB HBM3"), GPU, "nccl")
    found = read_calibrated(file)
    cluster = found.cluster()
    assert (cluster.gpus, cluster.node_size, cluster.domain_size) == (2, 2, 2)
    assert cluster.peak_flops_per_s == 7.2e14
    assert cluster.memory_bandwidth_bytes_per_s == 2.9e12
    assert cluster.domain_bandwidth_bytes_per_s == 3.5e11
    assert cluster.memory_bytes == 81559 * 2**20  # an H100's, known by its name
    constants = found.constants(Constants())
    assert constants.latency_s == 6e-6
    assert constants.matmul_share > Constants().matmul_share
    assert constants.inside_share == 1.0
    assert constants.outside_share == Constants().outside_share
    assert "720 TFLOP/s in bfloat16" in str(found)


def test_without_a_gpu_a_core_is_the_device(tmp_path: Path) -> None:
    found = read_calibrated(kept(tmp_path, "Some CPU | 4 cores | torch 2.11.0 | format 2", None, "gloo"))
    assert (found.devices, found.dtype, found.peak_flops_per_s) == (4, "bfloat16", 2.0e11)
    with pytest.raises(ValueError, match="Give --memory in GB"):
        found.cluster()
    assert found.cluster(2, memory_bytes=4e9).memory_bytes == 4_000_000_000
    with pytest.raises(ValueError, match=r"gpus is 8; .* The nearest is 4"):
        found.cluster(8, memory_bytes=4e9)


def test_an_unknown_gpu_needs_its_memory(tmp_path: Path) -> None:
    found = read_calibrated(kept(tmp_path, GPUS.format("NVIDIA Unheard 1"), GPU, "nccl"))
    with pytest.raises(ValueError, match="Give --memory"):
        found.cluster()


def test_the_command_takes_the_file_as_a_machine(tmp_path: Path, capsys) -> None:
    file = kept(tmp_path, GPUS.format("NVIDIA H100 80GB HBM3"), GPU, "nccl")
    words = [*LINE, "--machine", str(file), "--tokens", "1B"]
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    assert "2 GPUs of 2x NVIDIA H100 80GB HBM3" in out
    assert "From the calibration: 720 TFLOP/s" in out
    assert "MWh" in out  # an H100's watts
    assert cli.main([*words, "--nodes", "2"]) == 2
    assert "a calibration covers one machine. The nearest is 1" in capsys.readouterr().err
    assert cli.main([*words, "--network-gbit", "25"]) == 2
    assert "--network-gbit is for the network between nodes" in capsys.readouterr().err
    assert cli.main([*words, "--gpus", "3"]) == 2
    assert "The nearest is 2" in capsys.readouterr().err
    cpu = kept(tmp_path, "Some CPU | 4 cores | torch 2.11.0 | format 2", None, "gloo")
    assert cli.main([*LINE, "--machine", str(cpu), "--memory", "8"]) == 0
    assert "on 4 cores of Some CPU\n" in capsys.readouterr().out
    assert cli.main([*LINE, "--machine", str(cpu)]) == 2
    assert "Give --memory" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[]", "{}", '{"a": 1}', '{"A | 2 cores": {"gpu": null}}', "not"])
def test_what_is_no_calibration_is_said(text: str, tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    file.write_text(text)
    with pytest.raises(ValueError, match="is no"):
        read_calibrated(file)
    with pytest.raises(ValueError, match="cannot be read"):
        read_calibrated(tmp_path / "nowhere.json")
