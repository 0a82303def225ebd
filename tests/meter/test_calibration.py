"""Calibration: the fit of a link, the experiments, and how the result is kept and measured again."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from one_process import InOneProcess

from course_lib import cluster
from course_lib.devices import machine
from course_lib.devices.gpus import Device
from course_lib.meter.calibration import calibration
from course_lib.meter.calibration.calibration import Calibration, calibrate, machine_key
from course_lib.meter.calibration.curve import Curve
from course_lib.meter.calibration.link_fit import LinkFit, fit_link
from course_lib.meter.calibration.probes import (
    DTYPES,
    MESSAGE_SIZES,
    Rates,
    copy_size_bytes,
    repeat_times,
    spread,
)
from course_lib.meter.calibration.together import Together

SIZES = (1, 100, 10_000, 1_000_000, 10_000_000)


def made_up(**changes) -> Calibration:
    rates = Rates("1 core", dict.fromkeys(DTYPES, 2e9), 5e9, 0.01)
    usual = Calibration(
        key=machine_key(machine()),
        one_core=rates,
        all_cores=replace(rates, device="2 cores"),
        gpu=None,
        link=fit_link([(size, 1e-5 + size / 1e9) for size in SIZES]),
        backend="gloo",
        spread=0.01,
        measured_at="2026-11-20 10:00 UTC",
        took_s=3.0,
    )
    return replace(usual, **changes)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A cache folder of its own, and a ``measure`` that counts its calls instead of starting ranks."""
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    calls = []

    def measure(here):
        calls.append(here)
        return made_up(key=machine_key(here), took_s=float(len(calls)))

    monkeypatch.setattr(calibration, "measure", measure)
    return calls, tmp_path / "cache" / "calibration.json"


# --- the fit ----------------------------------------------------------------------------------------------------


def test_the_fit_finds_the_line_that_made_the_times():
    fit = fit_link([(size, 3e-5 + size / 4e9) for size in SIZES])
    assert fit.latency_s == pytest.approx(3e-5)
    assert fit.bandwidth_bytes_per_s == pytest.approx(4e9)
    assert fit.relative_error == pytest.approx(0, abs=1e-9)
    assert fit.time_s(4e9) == pytest.approx(1 + 3e-5)


def test_a_slow_large_message_does_not_drown_the_latency():
    samples = [(size, 3e-5 + size / 4e9) for size in SIZES]
    samples[-1] = (SIZES[-1], samples[-1][1] * 1.5)  # the largest left the cache
    assert fit_link(samples).latency_s == pytest.approx(3e-5, rel=0.05)


def test_the_error_is_the_median_distance_over_the_measured_time():
    samples = [(1, 1.0), (2, 2.2), (3, 3.0), (4, 3.6), (5, 5.0)]
    fit = fit_link(samples)
    distances = sorted(abs(fit.time_s(size) - time) / time for size, time in samples)
    assert fit.relative_error == pytest.approx(distances[2])
    assert fit.relative_error > 0


@pytest.mark.parametrize(
    "samples",
    [
        [(1000, 1e-6), (2000, 3e-6), (4000, 7e-6)],
        [(1000, 1e-6), (2000, 2e-6), (4000, 4e-6)],  # a line through zero
    ],
)
def test_latency_is_above_zero(samples):
    """Lesson 00 divides by it: six users beside other work met a ZeroDivisionError there."""
    fit = fit_link(samples)
    assert fit.latency_s == pytest.approx(min(time for _, time in samples))
    assert 0 < fit.bandwidth_bytes_per_s < math.inf


def test_a_kept_link_without_latency_is_measured_anew(home):
    calls, file = home
    calibrate()
    kept = json.loads(file.read_text())
    (entry,) = kept.values()
    entry["link"]["latency_s"] = 0.0
    file.write_text(json.dumps(kept))
    with pytest.warns(UserWarning, match="take no time"):
        assert calibrate().link.latency_s > 0
    assert len(calls) == 2


def test_time_that_does_not_grow_has_no_bandwidth():
    fit = fit_link([(1, 2e-5), (1000, 2e-5), (2000, 1e-5)])
    assert fit.bandwidth_bytes_per_s == math.inf
    best_constant_s = (1 / 2e-5 + 1 / 2e-5 + 1 / 1e-5) / (1 / 2e-5**2 + 1 / 2e-5**2 + 1 / 1e-5**2)
    assert fit.time_s(10**9) == pytest.approx(best_constant_s)


@pytest.mark.parametrize(
    ("samples", "reason"),
    [([], "two different"), ([(8, 1e-5), (8, 2e-5)], "two different"), ([(1, 0.0), (2, 1.0)], "above 0 s")],
)
def test_what_cannot_be_fitted_is_refused(samples, reason):
    with pytest.raises(ValueError, match=reason):
        fit_link(samples)


def test_a_message_of_negative_size_is_refused():
    with pytest.raises(ValueError, match="smallest size is 0"):
        LinkFit(1e-5, 1e9, 0.0).time_s(-1)


# --- the experiments --------------------------------------------------------------------------------------------


def test_repeats_until_the_budget_and_at_least_three_times():
    calls = []
    times = repeat_times(lambda: calls.append(1), torch.device("cpu"), budget_s=0.0)
    assert len(times) == 3
    assert len(calls) == 4  # one is not counted
    assert len(repeat_times(lambda: None, torch.device("cpu"), budget_s=1e-4)) > 3


def test_spread_is_relative():
    assert spread([1.0, 1.0, 1.0, 1.0]) == 0
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 3)
    assert spread([10.0, 20.0, 30.0, 40.0, 50.0]) == pytest.approx(2 / 3)


def test_the_copy_is_larger_than_the_last_cache(tmp_path):
    for index, text in enumerate(["48K", "1024K", "32768K"]):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(text + "\n")
    cpu = torch.device("cpu")
    assert copy_size_bytes(cpu, tmp_path) == 128 << 20
    (tmp_path / "index2" / "size").write_text("300M")
    assert copy_size_bytes(cpu, tmp_path) == 256 << 20
    assert copy_size_bytes(cpu, tmp_path / "nothing") == 64 << 20


def test_each_number_stands_where_it_belongs(monkeypatch):
    def rates(me, *, threads=1, on_gpu=False):
        return Rates("GPU" if on_gpu else f"{threads} of CPU", {"float32": 1e9}, 1e9, 0.3 if on_gpu else 0.1 * threads)

    samples = [(size, 1e-5 + size / 1e9) for size in SIZES]
    monkeypatch.setattr(cluster, "Cluster", InOneProcess)
    monkeypatch.setattr(calibration, "measure_rates", rates)
    monkeypatch.setattr(calibration, "measure_message_times", lambda me: samples)
    here = replace(machine(), cores=2, devices=())
    found = calibration.measure(here)
    assert (found.one_core.device, found.all_cores.device, found.gpu) == ("1 of CPU", "2 of CPU", None)
    assert found.link.samples == tuple(samples)
    assert (found.key, found.backend, found.together) == (machine_key(here), "gloo", ())
    assert found.spread == 0.2
    with_gpu = calibration.measure(replace(here, cores=1, devices=(Device(0, "a GPU", 1 << 30, "GPU-1"),)))
    assert (with_gpu.all_cores.device, with_gpu.gpu.device, with_gpu.spread) == ("1 of CPU", "GPU", 0.3)


# The test above asks the same in every run, of stand-ins for ranks and clocks.
@pytest.mark.long
def test_a_real_calibration(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    here = machine()
    found = calibrate()
    assert found.key == machine_key(here)
    for rates in (found.one_core, found.all_cores):
        assert set(rates.matmul_flops_per_s) == set(DTYPES)
        assert all(rate > 0 for rate in rates.matmul_flops_per_s.values())
        assert rates.memory_bandwidth_bytes_per_s > 0
    assert found.one_core.device == "1 core"
    assert [size for size, _ in found.link.samples] == list(MESSAGE_SIZES)
    assert all(time_s > 0 for _, time_s in found.link.samples)
    assert found.link.bandwidth_bytes_per_s > 0  # infinite on a machine too busy to tell
    assert (found.gpu is None) == (not here.devices)
    assert found.backend == ("nccl" if len(here.devices) > 1 else "gloo")
    assert found.together == ()
    monkeypatch.setattr(calibration, "measure", lambda here: pytest.fail("it was kept, and measured again"))
    assert calibrate() == found


def test_what_busy_ranks_get_is_measured_when_it_is_asked_for_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    curve = Curve(((1, 1e-6), (1000, 2e-6)))
    busy = Together(2, 1e-6, 1e-6, 0.1, curve, curve, curve, curve, curve)
    asked = []
    monkeypatch.setattr(calibration, "measure", lambda here: replace(made_up(), key=machine_key(here)))
    monkeypatch.setattr(calibration, "measure_all_together", lambda: asked.append(1) or (busy,))
    assert calibrate().together == ()
    assert calibrate(together=True).together == (busy,)
    assert calibrate().together == (busy,), "kept with the rest"
    assert calibrate(together=True).together == (busy,)
    assert len(asked) == 1


# --- keeping ----------------------------------------------------------------------------------------------------


def test_json_gives_back_what_it_was_given():
    gpu = Rates("NVIDIA A100", {"float32": 1.9e13}, 1.5e12, 0.02)
    for original in (made_up(), made_up(gpu=gpu)):
        assert Calibration.from_json(json.loads(json.dumps(original.to_json()))) == original


def test_a_kept_calibration_is_read_and_refresh_measures(home):
    calls, _ = home
    first = calibrate()
    assert calibrate() == first
    assert len(calls) == 1
    assert calibrate(refresh=True).took_s == 2
    assert calibrate().took_s == 2


@pytest.mark.parametrize(
    "change",
    [
        {"torch_version": "9.9"},
        {"cores": 99},
        {"cpu_name": "another"},
        {"devices": (Device(0, "GPU of a kind", 1, "GPU-1"),)},
    ],
)
def test_a_changed_machine_is_measured_again_and_both_are_kept(home, monkeypatch, change):
    calls, file = home
    calibrate()
    monkeypatch.setattr(calibration, "machine", lambda: replace(machine(), **change))
    calibrate()
    assert len(calls) == 2
    assert len(json.loads(file.read_text())) == 2


def test_a_new_format_is_measured_again(home, monkeypatch):
    calls, _ = home
    calibrate()
    monkeypatch.setattr(calibration, "FORMAT", calibration.FORMAT + 1)
    calibrate()
    assert len(calls) == 2


@pytest.mark.parametrize("text", ["{ cut short", "[1, 2]", "\x00\x01"])
def test_a_damaged_file_is_set_aside_and_measured_anew(home, text):
    calls, file = home
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.warns(UserWarning, match="set aside as calibration.damaged.json"):
        calibrate()
    assert file.with_name("calibration.damaged.json").read_text() == text
    assert calibrate().took_s == 1
    assert len(calls) == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: record.pop("link"),
        lambda record: record.update(surprise=1),
        lambda record: record.update(took_s="three"),
        lambda record: record["one_core"].update(matmul_flops_per_s={"float32": "fast"}),
        lambda record: record["link"].update(samples=[[1]]),
        lambda record: record.update(one_core=None),
    ],
)
def test_a_damaged_record_is_measured_anew(home, spoil):
    _, file = home
    calibrate()
    kept = json.loads(file.read_text())
    spoil(kept[machine_key(machine())])
    file.write_text(json.dumps(kept))
    with pytest.warns(UserWarning, match="measured anew"):
        assert calibrate().took_s == 2
    assert calibrate().took_s == 2


def test_a_cache_that_cannot_be_written_costs_only_the_keeping(home, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="next start measures again") as caught:
        assert calibrate().took_s == 1
    assert len(caught) == 1


def test_nothing_is_left_beside_the_file(home):
    _, file = home
    calibrate()
    assert [path.name for path in file.parent.iterdir()] == ["calibration.json"]


# --- what is shown ----------------------------------------------------------------------------------------------


def test_the_summary_has_units_and_no_line_twice():
    text = made_up().summary()
    for part in ("float32 2 GFLOP/s", "5 GB/s", "latency 10 us", "bandwidth 1 GB/s", "2 cores", "gloo"):
        assert part in text
    one = made_up(all_cores=made_up().one_core).summary()
    assert one.count("matmul") == 1


def test_a_busy_machine_is_told():
    assert "busy" not in made_up().summary()
    noisy = made_up(spread=0.8)
    assert noisy.is_noisy
    assert "busy" in noisy.summary()
    assert "80%" in noisy.summary()


def test_html_shows_the_rows():
    page = made_up(backend="<gloo>")._repr_html_()
    assert "&lt;gloo&gt;" in page
    assert page.count("<tr>") == len(made_up().rows())
