"""The look at a cluster before a job: each judgement with planted facts, and the whole on two ranks."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from launches import ENVIRONMENT, taken_home

from course_lib.cluster import Cluster
from course_lib.examples.preflight import check, measure
from course_lib.examples.preflight.check import examine, exit_code, parse_arguments
from course_lib.examples.preflight.gpus import FIELDS, gpus_of_this_machine, read_smi
from course_lib.examples.preflight.judge_machines import judge_clocks, judge_gpus, judge_machines, ranks_text
from course_lib.examples.preflight.judge_speed import judge_links, judge_products, judge_reduce, slow_links
from course_lib.examples.preflight.machine import QUIET, _variables, facts_of_this_process
from course_lib.examples.preflight.measure import Place, pairs_to_measure
from course_lib.examples.preflight.report import COULD_NOT, LOOK, OK, Finding, Report

GPU = "0, NVIDIA H100 80GB HBM3, 570.86, 41, 0, 0x0000000000000000, 1980, 1980, 4, 16, 16"
NODE_OF = (0, 0, 1, 1)
GIB = 2**30


def facts() -> list[dict]:
    """Of two ranks on each of two nodes, as they should be."""
    versions = {"python": "3.12.1", "torch": "2.13.0", "CUDA": "13.0", "NCCL": "2.29.7"}
    one = {
        "versions": versions, "variables": {"NCCL_DEBUG": "WARN"}, "open_files": 65536, "locked_memory": -1,
        "cores": 96, "device": "H100", "measured_on": "cuda",
        "memory_bytes": 1024 * GIB, "free_bytes": 1000 * GIB, "shm_bytes": 512 * GIB,
        "has_rdma": True, "gpus": read_smi(GPU), "unreachable": [], "xid": [],
    }  # fmt: skip
    return [{**copy.deepcopy(one), "host": f"node{node + 1}", "node": str(node)} for node in NODE_OF]


def judged(change=lambda all_facts: None) -> Report:
    all_facts = facts()
    change(all_facts)
    nodes = [all_facts[0], all_facts[2]]
    return Report((*judge_machines(all_facts, NODE_OF), *judge_gpus(nodes)))


def test_machines_as_they_should_be():
    report = judged()
    assert {one.verdict for one in report.findings} == {OK}, str(report)
    assert report.exit_code == 0


@pytest.mark.parametrize(
    ("what", "change", "said"),
    [
        ("ranks", lambda f: f[3].update(device="A100"), "H100 on ranks 0, 1 and 2 and A100 on rank 3"),
        ("ranks", lambda f: [one.update(host="same") for one in f], "two nodes are the same host"),
        ("versions", lambda f: f[2]["versions"].update(torch="2.12.0"),
         "torch is 2.13.0 on ranks 0, 1 and 3 and 2.12.0 on rank 2"),
        ("variables", lambda f: f[1]["variables"].update(NCCL_ALGO="Ring"),
         "NCCL_ALGO is unset on ranks 0, 2 and 3 and Ring on rank 1"),
        ("variables", lambda f: [one["variables"].update(NCCL_P2P_DISABLE="1") for one in f],
         "NCCL_P2P_DISABLE: good for a search"),
        ("memory", lambda f: f[2].update(memory_bytes=512 * GIB, free_bytes=500 * GIB), "nodes of different size"),
        ("memory", lambda f: f[2].update(free_bytes=100 * GIB), "more than half of it is taken"),
        ("/dev/shm", lambda f: f[2].update(shm_bytes=2**26), "node2 0.06 GiB"),
        ("open files", lambda f: f[1].update(open_files=1024), "only 1024"),
        ("locked memory", lambda f: f[1].update(locked_memory=65536), "limited"),
        ("GPUs", lambda f: f[2]["gpus"][0].update(reasons=0x40), "GPU 0 of node2: slowed down for its heat (hard"),
        ("GPUs", lambda f: f[2]["gpus"][0].update(reasons=0x80), "slowed down by the power supply"),
        ("GPUs", lambda f: f[0]["gpus"][0].update(uncorrected=3), "GPU 0 of node1: 3 errors in memory"),
        ("GPUs", lambda f: f[0]["gpus"][0].update(temperature_c=91), "91 degrees"),
        ("GPUs", lambda f: f[0]["gpus"][0].update(link_width=8), "PCIe with 8 lanes of 16"),
        ("GPUs", lambda f: f[2].update(gpus=None), "node2 has no GPU that nvidia-smi knows of"),
        ("GPU to GPU", lambda f: f[0].update(unreachable=[(0, 5)]), "0 and 5 of node1"),
        ("driver's errors", lambda f: f[2].update(xid=["NVRM: Xid (PCI:0000:1b:00): 79"]), "node2: NVRM: Xid"),
    ],
)  # fmt: skip
def test_a_planted_fault_of_a_machine_is_named(what, change, said):
    report = judged(change)
    assert report.of(what).verdict == LOOK
    assert said in report.of(what).text
    assert [one.what for one in report.findings if one.verdict == LOOK] == [what]
    assert report.exit_code == 1


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("memory", lambda f: f[0].update(memory_bytes=None)),
        ("/dev/shm", lambda f: f[0].update(shm_bytes=None)),
        ("open files", lambda f: f[0].update(open_files=None)),
        ("locked memory", lambda f: [one.update(has_rdma=False) for one in f]),
        ("GPUs", lambda f: [one.update(gpus=None) for one in f]),
        ("GPU to GPU", lambda f: [one.update(unreachable=None) for one in f]),
        ("driver's errors", lambda f: f[0].update(xid=None)),
    ],
)
def test_what_could_not_be_checked_is_said(what, change):
    found = judged(change).of(what)
    assert found.verdict == COULD_NOT
    assert found.text


def test_nodes_with_fewer_ranks_are_told():
    found = judge_machines(facts()[:3], NODE_OF[:3])[0]
    assert found == Finding("ranks", LOOK, "not as many on every node: node1: 2 ranks, node2: 1 rank")


def test_no_limit_of_files_is_good():
    report = judged(lambda f: [one.update(open_files=-1) for one in f])
    assert report.of("open files") == Finding("open files", OK, "no limit")


# -- clocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "verdict", "said"),
    [
        ((0.2, 0.001), LOOK, "node2 is 0.200 s ahead, beside node1"),
        ((-3.0, 0.001), LOOK, "node2 is 3.000 s behind"),
        ((0.010, 0.001), OK, "10.0 ms apart at most, give or take 1.0 ms"),
        ((0.2, 0.19), OK, "200.0 ms apart at most, give or take 190.0 ms"),  # a slow answer proves nothing
    ],
)
def test_clocks_that_are_apart_are_named(offset, verdict, said):
    found = judge_clocks({1: offset}, ["node1", "node2"])
    assert found.verdict == verdict
    assert said in found.text


def test_an_answer_is_taken_to_be_of_half_way():
    assert measure.offset_of(10.0, 15.5, 11.0) == (5.0, 0.5)
    assert measure.offset_of(10.0, 10.5, 11.0) == (0.0, 0.5)


def test_one_machine_has_one_clock():
    assert judge_clocks({1: (0.0, 0.1)}, ["node1", "node1"]).verdict == COULD_NOT
    assert judge_clocks({}, ["node1"]).verdict == COULD_NOT


# -- speed -----------------------------------------------------------------------------------------------------------

NO_SHEET = {"within": None, "between": None}
GOOD = (20e-6, 40e9)
ALL_PAIRS = pairs_to_measure((0,) * 4)


def test_which_pairs_are_measured():
    assert ALL_PAIRS == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    many = pairs_to_measure([rank // 8 for rank in range(32)])
    assert set(many) == {*((rank, rank + 1) for rank in range(31)), (0, 8), (8, 16), (16, 24), (0, 24)}
    assert pairs_to_measure([0]) == []


def test_a_message_that_takes_no_longer_than_an_empty_one_has_no_endless_bandwidth(monkeypatch):
    monkeypatch.setattr(measure, "_one_way_s", lambda place, pair, size_bytes, rounds: 0.001)
    monkeypatch.setattr(measure.dist, "barrier", lambda: None)
    place = SimpleNamespace(rank=0, from_all=lambda value: [value])
    assert measure.links(place, [(0, 1)], 1_000_000) == {(0, 1): (0.001, 2e9)}


def test_links_alike_are_ok():
    (within, between) = judge_links(dict.fromkeys(ALL_PAIRS, GOOD), (0,) * 4, NO_SHEET)
    assert within == Finding(
        "links within nodes", OK, "40 GB/s to 40 GB/s, latency 20 to 20 us, 6 pairs; no data sheet given"
    )
    assert between == Finding("links between nodes", COULD_NOT, "one node")


def test_a_rank_whose_links_are_all_slow_is_named():
    measured = {pair: (20e-6, 8e9) if 2 in pair else GOOD for pair in ALL_PAIRS}
    assert slow_links(measured) in ([(0, 2), (1, 2), (2, 3)], [])  # the median lies between the two kinds
    five = {pair: (20e-6, 8e9) if 2 in pair else GOOD for pair in pairs_to_measure((0,) * 5)}
    found = judge_links(five, (0,) * 5, NO_SHEET)[0]
    assert found.verdict == LOOK
    assert found.text.startswith("every link of rank 2 is slow; 8 GB/s to 40 GB/s")


def test_a_pair_that_is_slow_is_named_and_nobody_else():
    measured = dict.fromkeys(ALL_PAIRS, GOOD) | {(1, 3): (20e-6, 4e8)}
    found = judge_links(measured, (0,) * 4, NO_SHEET)[0]
    assert found.text.startswith("rank 1 to rank 3 is slow (400 MB/s); ")
    late = dict.fromkeys(ALL_PAIRS, GOOD) | {(1, 3): (500e-6, 40e9)}
    assert judge_links(late, (0,) * 4, NO_SHEET)[0].text.startswith("rank 1 to rank 3 is slow")


def test_links_are_compared_with_their_kind():
    measured = {pair: GOOD if NODE_OF[pair[0]] == NODE_OF[pair[1]] else (50e-6, 2e9) for pair in ALL_PAIRS}
    within, between = judge_links(measured, NODE_OF, NO_SHEET)
    assert within.verdict == COULD_NOT
    assert "fewer than three to compare" in within.text
    assert between.verdict == OK
    assert "2 GB/s to 2 GB/s, latency 50 to 50 us, 4 pairs" in between.text


def test_a_data_sheet_finds_what_is_slow_everywhere():
    measured = dict.fromkeys(ALL_PAIRS, GOOD)
    sheet = {"within": 450e9, "between": 50e9}
    within, _ = judge_links(measured, (0,) * 4, sheet)
    assert within.verdict == LOOK
    assert within.text.startswith("9% of the 450 GB/s that are sold; 40 GB/s")
    _, between = judge_links(measured, (0, 1, 2, 3), sheet)
    assert between.verdict == OK


def test_all_reduce_beside_the_data_sheet():
    rates = {"within": [300e9, 310e9], "between": [45e9], "all": [40e9]}
    sheet = {"within": 450e9, "between": 50e9}
    assert [one.verdict for one in judge_reduce(rates, sheet, 4)] == [OK, OK, OK]
    slow = judge_reduce({**rates, "between": [20e9]}, sheet, 4)[1]
    assert (slow.verdict, slow.text) == (LOOK, "40% of the 50 GB/s sold; bus bandwidth 20 GB/s")
    node = judge_reduce({**rates, "within": [300e9, 100e9]}, NO_SHEET, 4)[0]
    assert node.text == "node 1 is slower than others; bus bandwidth 100 GB/s to 300 GB/s"
    assert [one.verdict for one in judge_reduce(rates, NO_SHEET, 4)] == [COULD_NOT, COULD_NOT, OK]
    assert [one.text for one in judge_reduce({}, NO_SHEET, 1)] == ["one rank"] * 3


def test_a_slow_rank_is_named():
    found = judge_products([9e12, 9.1e12, 4e12, 9e12])
    assert (found.verdict, found.text) == (LOOK, "rank 2 computes at 44% of the fastest; 4 to 9.1 TFLOP/s")
    assert judge_products([9e12, 8e12]).verdict == OK
    assert judge_products([9e12]).verdict == COULD_NOT
    assert judge_products([9e12, 1e12, 1e12]).text.startswith("ranks 1 and 2 compute at 11%")


def test_many_ranks_are_counted():
    assert ranks_text([3]) == "rank 3"
    assert ranks_text(range(20)) == "20 ranks, 0 the first of them"


# -- facts -----------------------------------------------------------------------------------------------------------


def test_what_nvidia_smi_says_is_read():
    (gpu,) = read_smi(GPU)
    assert set(gpu) == set(FIELDS)
    assert (gpu["name"], gpu["temperature_c"], gpu["reasons"], gpu["link_width"]) == (
        "NVIDIA H100 80GB HBM3",
        41,
        0,
        16,
    )
    (other,) = read_smi("1, T4, 550.1, 60, [N/A], 0x0000000000000040, 585, 1590, 0, 8, 16")
    assert (other["uncorrected"], other["reasons"]) == (None, 0x40)


SMI = """#!/bin/sh
for word in {known}; do
  case "$1" in *",$word,"*) echo "{gpu}"; exit 0;; esac
done
echo 'Field "clocks...reasons.active" is not a valid field to query.'
exit 2
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a script of the shell")
@pytest.mark.parametrize(
    "known",
    [
        ["clocks_throttle_reasons.active"],
        ["clocks_event_reasons.active"],
        ["clocks_event_reasons.active", "clocks_throttle_reasons.active"],
        ["neither"],
    ],
)
def test_drivers_that_know_one_name_of_the_reasons_or_the_other_are_read(tmp_path, monkeypatch, known):
    """With a stand-in for nvidia-smi, which refuses the whole query for one name that it does not know."""
    program = tmp_path / "nvidia-smi"
    program.write_text(SMI.format(known=" ".join(known), gpu=GPU))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus_of_this_machine() == (None if known == ["neither"] else read_smi(GPU))


def test_no_secret_is_gathered():
    found = _variables(
        {
            "NCCL_DEBUG": "INFO",
            "NCCL_PSK": "x" * 40,
            "HF_TOKEN": "y",
            "TORCHELASTIC_RUN_ID": "z",
            QUIET: "false",
        }
    )
    assert found == {"NCCL_DEBUG": "INFO"}


def test_facts_of_this_machine_travel():
    found = facts_of_this_process(is_first_on_node=True)
    assert json.loads(json.dumps(found))["versions"]["torch"] == torch.__version__
    assert "gpus" not in facts_of_this_process(is_first_on_node=False)


# -- the whole -------------------------------------------------------------------------------------------------------


def whole(me):
    args = parse_arguments(["--message-mb", "0.05", "--machine", "h100"])
    report, measured = examine(args, torch.device("cpu"), node=f"node{me.rank}")

    def late_clock():
        return 5.0 + measure.time.time() if me.rank else measure.time.time()

    place = Place(me.rank, (0, 1), torch.device("cpu"))
    skew = measure.clock_offsets(place, rounds=3, now=late_clock)

    return str(report), report.to_json(), measured, skew, rates_of_a_slow_rank(place)


def rates_of_a_slow_rank(place):
    """Rank 1 takes ten seconds for a product, and the others one; now and then a machine takes a hundred besides."""
    products = iter(range(100))

    class OnAClock(Place):
        passed_s = 0.0

        def now_s(self):
            return self.passed_s

    def multiply(a, b):
        slowest = 100.0 if next(products) % 3 == 0 else 0.0
        OnAClock.passed_s += (10.0 if place.rank else 1.0) + slowest
        return torch.mm(a, b)

    return measure.product_rates(OnAClock(*vars(place).values()), 64, 20, multiply)


@pytest.fixture(scope="module")
def run():
    with Cluster(2, backend="gloo") as cluster:
        return cluster.run(whole)


def test_two_ranks_see_the_same(run):
    (text, as_json, measured, *_), other = run
    assert (as_json, measured) == (other[1], other[2])
    found = {one["what"]: one for one in json.loads(as_json)["findings"]}
    assert found["GPUs"]["verdict"] == COULD_NOT or torch.cuda.is_available()
    assert found["clocks"]["text"] == "one machine has one clock"
    assert found["links within nodes"]["text"] == "one rank on each node"
    assert found["all-reduce within nodes"]["verdict"] == COULD_NOT
    assert set(measured["links"]) == {(0, 1)}
    assert set(measured["all_reduce"]) == {"between", "all"}
    assert measured["node_of"] == (0, 1)
    latency_s, rate = measured["links"][0, 1]
    assert latency_s > 0
    assert rate > 0
    assert all(rate > 0 for rate in measured["flops_per_s"])
    for one in found.values():
        assert f"{one['verdict']:<16} {one['what']}" in text


def test_a_planted_clock_is_found_by_both(run):
    for *_, skew, _ in run:
        ((node, (ahead_s, unsure_s)),) = skew.items()
        assert node == 1
        assert abs(ahead_s - 5.0) <= unsure_s + 1e-6
        assert judge_clocks(skew, ["a", "b"]).verdict == LOOK or unsure_s > 4.9


def test_a_planted_slow_rank_is_found(run):
    for *_, rates in run:
        assert rates == [2 * 64**3, 2 * 64**3 / 10]
        assert judge_products(rates).text.startswith("rank 1 computes at ")


def test_the_table_says_what_it_counts():
    report = Report((Finding("links", OK, "word " * 60), Finding("GPUs", COULD_NOT, "none")))
    lines = str(report).splitlines()
    assert lines[-1] == "1 ok, 0 look, 1 could not check"
    assert all(len(line) <= 100 for line in lines)
    with pytest.raises(KeyError, match="'clocks' was not looked at; there are links, GPUs"):
        report.of("clocks")


def test_torchrun_hears_of_it_only_if_asked():
    odd = Report((Finding("links", LOOK, ""),))
    assert exit_code(odd, is_strict=False, under_torchrun=False) == 1
    assert exit_code(odd, is_strict=False, under_torchrun=True) == 0
    assert exit_code(odd, is_strict=True, under_torchrun=True) == 1
    assert exit_code(Report((Finding("links", OK, ""),)), is_strict=True, under_torchrun=True) == 0


@pytest.mark.long
def test_it_stands_alone(tmp_path):
    """One process, from a copy beside which there is no course; a variable that was left is odd."""
    taken_home("preflight", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "preflight", "--device", "cpu", "--json", "out.json"],
        cwd=tmp_path,
        env={**ENVIRONMENT, "NCCL_ALGO": "Ring"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    kept = json.loads((tmp_path / "out.json").read_text())
    assert kept["exit_code"] == 1
    odd = [one for one in kept["findings"] if one["verdict"] == LOOK]
    assert "NCCL_ALGO: good for a search" in next(one["text"] for one in odd if one["what"] == "variables")
    assert "look             variables" in done.stdout


def alone(folder, *words, **environment):
    """What one process of a copy says, on the CPU."""
    taken_home("preflight", folder)
    return subprocess.run(
        [sys.executable, "-m", "preflight", *words], cwd=folder, env={**ENVIRONMENT, **environment},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def test_findings_that_cannot_be_written_are_printed_all_the_same(tmp_path):
    done = alone(tmp_path, "--device", "cpu", "--json", "no/where.json")
    assert done.returncode == 1
    assert "could not check  clocks" in done.stdout
    assert "--json: no/where.json could not be written: No such file" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2"}, "MASTER_ADDR and MASTER_PORT not set, others are"),
        ({"GLOO_SOCKET_IFNAME": "no_such_card"}, "The ranks could not meet: "),
    ],
)
def test_ranks_that_cannot_meet_end_with_a_sentence(tmp_path, environment, said):
    done = alone(tmp_path, "--device", "cpu", **environment)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("device", "num_gpus", "said"),
    [
        ("cuda", 0, "4 ranks on a machine with 0 GPUs"),
        ("auto", 1, "4 ranks on a machine with 1 GPU; each needs"),
    ],
)
def test_more_ranks_than_gpus_are_refused(monkeypatch, device, num_gpus, said):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: num_gpus)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    with pytest.raises(SystemExit, match=said):
        check._begin(device)


@pytest.mark.parametrize("asked", [None, "true"])
def test_ranks_on_gpus_are_quiet_about_their_first_messages(monkeypatch, asked):
    """Before the group is made, which reads it once; who asked for the warning is given it."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(QUIET, asked or "")
    if asked is None:
        monkeypatch.delenv(QUIET)
    told = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(check.dist, "init_process_group", lambda *_, **__: told.append(os.environ.get(QUIET)))
    assert check._begin("cuda") == torch.device("cuda", 0)
    assert told == [asked or "false"]


def test_one_rank_without_a_gpu_takes_all_to_the_cpu():
    store = torch.distributed.HashStore()
    store.set("preflight/gpus/0", "1")
    assert not check._all_have_gpus(store, 1, 2, has_gpus=False)
    store.set("preflight/gpus/1", "1")
    assert check._all_have_gpus(store, 0, 2, has_gpus=True)


def test_gpus_that_were_left_alone_are_not_called_measured():
    report = judged(lambda f: [one.update(measured_on="cpu") for one in f])
    assert report.of("ranks").text.endswith("on cpu, as asked; their GPUs (H100) were left alone")


@pytest.mark.parametrize("words", [["--between-gbit", "0"], ["--machine", "abacus"], ["--message-mb", "nan"]])
def test_settings_that_cannot_be_end_with_a_sentence(words, capsys):
    with pytest.raises(SystemExit) as ended:
        parse_arguments(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err
