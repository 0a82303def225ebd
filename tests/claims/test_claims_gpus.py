"""The trials of pictures, of utilisation and of topology: their numbers put in by hand, and run where no GPU is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from course_lib import claims
from course_lib.claims.court import evidence
from course_lib.claims.data_parallel import images, utilisation
from course_lib.claims.data_parallel.utilisation import _Looks, _Seen
from course_lib.claims.models_and_machines import topology
from course_lib.cluster import Rank
from course_lib.devices import Device, GpuLink


def test_a_picture_behind_two_poolings():
    assert claims.trial("E3").run().facts == {
        "reaches the classifier": "32*56*56",
        "without padding of the convolutions": "32*54*54",
        "with 64 channels": "64*56*56",
        "images that give the same, pixels wide": "224 to 227",
    }


def test_another_picture_is_another_verdict(monkeypatch):
    real = images._features
    monkeypatch.setattr(images, "_features", lambda width=224, **rest: real(width, **{"padding": 0, **rest}))
    assert claims.trial("E3").run().verdict == "false"


MANY = _Looks(utilisation=1.0, free_memory=0.9, samples_per_s=50_000.0)


def tried(seen):
    """E4 with this in place of what a rank has seen on its GPU."""
    return claims.trial("E4").function(lambda size: SimpleNamespace(run=lambda function: [seen]))


def test_a_gpu_that_looks_so_without_communication_misleads():
    evidence = tried(_Seen(0.0, _Looks(0.99, 0.9, 1000.0), MANY))
    assert evidence.verdict == "misleading"
    assert evidence.timings["samples a second with 4096 a step, times those with 1"] == "50"


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ("NVMLError_NotSupported: Not Supported", "the driver does not report how busy.*Not Supported"),
        (_Seen(0.4, _Looks(0.99, 0.9, 1000.0), MANY), "something else runs on this GPU.*40%"),
        (_Seen(0.0, _Looks(0.5, 0.9, 1000.0), MANY), "busy for 50% of the time"),
        (_Seen(0.0, _Looks(0.99, 0.2, 1000.0), MANY), "20% of its memory free"),
        (_Seen(0.0, _Looks(0.99, 0.9, 10_000.0), MANY), "5 times slower"),
    ],
)
def test_a_gpu_that_does_not_look_so_decides_nothing(seen, why):
    evidence = tried(seen)
    assert evidence.is_blocked
    with pytest.raises(ValueError, match=why):
        raise ValueError(evidence.because)


def test_what_a_gpu_looks_like_is_read_while_a_model_trains(monkeypatch):
    """The same lines on the CPU, with a driver that counts how often it is asked."""
    asked = []
    monkeypatch.setattr(utilisation, "_READ_EVERY_S", 0.0)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (30, 40))
    monkeypatch.setattr(torch.cuda, "utilization", lambda device: asked.append(device) or 100 * (len(asked) > 1))
    me = Rank(0, 1, torch.device("cpu"), "gloo")
    seen = utilisation._look(me, width=8, num_samples=(1, 4), run_s=0.3)
    assert (seen.before, seen.few.utilisation, seen.many.utilisation) == (0.0, 1.0, 1.0)
    assert seen.few.free_memory == 0.75
    assert min(seen.few.samples_per_s, seen.many.samples_per_s) > 0
    assert len(asked) > 2


def test_a_driver_that_does_not_answer_is_said(monkeypatch):
    def refuses(device):
        raise RuntimeError("no permission")

    monkeypatch.setattr(torch.cuda, "utilization", refuses)
    seen = utilisation._look(Rank(0, 1, torch.device("cpu"), "gloo"))
    assert seen == "RuntimeError: no permission"


def with_link(monkeypatch, kind, direct_s, host_s):
    monkeypatch.setattr(topology, "machine", lambda: SimpleNamespace(links=(GpuLink(0, 1, kind),)))
    sizes = (topology._SMALL_BYTES, topology._LARGE_BYTES)
    monkeypatch.setattr(
        topology,
        "_times_s",
        lambda env, _: dict(zip(sizes, host_s if "NCCL_P2P_DISABLE" in env else direct_s, strict=True)),
    )
    return claims.trial("C11").function(lambda size: None)


@pytest.mark.parametrize(
    ("direct_s", "host_s", "verdict"),
    [
        ((30e-6, 1e-3), (33e-6, 20e-3), "holds with conditions"),
        ((10e-6, 1e-3), (33e-6, 20e-3), "holds"),
        ((30e-6, 1e-3), (33e-6, 1.1e-3), "false"),
    ],
)
def test_a_verdict_on_topology_follows_the_times(direct_s, host_s, verdict, monkeypatch):
    evidence = with_link(monkeypatch, "NVLink", direct_s, host_s)
    assert evidence.verdict == verdict
    assert evidence.turns_if


@pytest.mark.parametrize("kind", ["PCIe", "none"])
def test_without_nvlink_topology_cannot_be_told(kind, monkeypatch):
    evidence = with_link(monkeypatch, kind, (1.0, 1.0), (1.0, 1.0))
    assert evidence.is_blocked
    assert f"have no NVLink, by which to compare (the driver says '{kind}')" in evidence.because


def test_all_reduces_are_timed_on_ranks_with_the_switches_that_were_given():
    found = topology._times_s({"NCCL_P2P_DISABLE": "1"}, (8, 64))
    assert set(found) == {8, 64}
    assert min(found.values()) > 0


def test_what_needs_no_gpu_is_tried_on_the_cpu_of_a_node_with_gpus(monkeypatch):
    devices = tuple(Device(number, "a GPU", 1, f"GPU-{number}") for number in range(4))
    here = SimpleNamespace(devices=devices, cores=2)
    monkeypatch.setattr("course_lib.claims.court.evidence.machine", lambda: here)
    monkeypatch.setattr("course_lib.cluster.api.placement.seated", lambda num_gpus: here)
    monkeypatch.setattr(evidence, "_on_cpu", {})
    monkeypatch.setattr(evidence, "shared_cluster", lambda size: f"the notebook's {size}")
    seen = []

    def function(ranks):
        seen.append(ranks(2))
        return evidence.Evidence("holds", {"it": 1}, because="it is so", turns_if="it were not")

    for needs in ("cpu", "gpus"):
        claim = SimpleNamespace(needs=needs)
        evidence.Trial(claim, function).run()
    on_cpu, shared = seen
    assert "on cpu by gloo" in repr(on_cpu)
    on_cpu.close()
    assert shared == "the notebook's 2"
