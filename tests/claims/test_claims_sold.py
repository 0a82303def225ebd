"""Claims that are decided on machines as they are sold: other machines, other verdicts; and what is sent is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course_lib import claims
from course_lib.claims.models_and_machines import catalogue_machines, placing
from course_lib.cost import MACHINES, MeshStep
from course_lib.layouts.link import Link
from course_lib.layouts.mesh import Mesh

FREE, CRAWLING = Link(0.0, float("inf")), Link(1e-3, 1e6)
AS_SOLD = dict(MACHINES)


@pytest.fixture(scope="module")
def ranks(cluster2, cluster4):
    return {2: cluster2, 4: cluster4}.__getitem__


def all_with(**links):
    return {name: replace(machine, **links) for name, machine in AS_SOLD.items()}


ONE_CRAWLS = AS_SOLD | {"4x RTX 4090": replace(AS_SOLD["4x RTX 4090"], inter=CRAWLING)}


@pytest.mark.parametrize(
    ("name", "machines", "verdict"),
    [
        ("B2", AS_SOLD, "misleading"),
        ("B2", ONE_CRAWLS, "holds with conditions"),
        ("B2", all_with(intra=CRAWLING, inter=CRAWLING), "holds"),
        ("C3", AS_SOLD, "holds with conditions"),
        ("C3", all_with(intra=FREE), "false"),
        ("C3", all_with(intra=CRAWLING), "holds"),
        ("C12", AS_SOLD, "holds"),
        ("C12", all_with(intra=FREE), "false"),
        ("C12", all_with(intra=CRAWLING), "holds with conditions"),
    ],
)
def test_other_machines_give_another_verdict(name, machines, verdict, ranks, monkeypatch):
    monkeypatch.setattr(catalogue_machines, "MACHINES", machines)
    evidence = claims.trial(name).run(ranks)
    assert evidence.verdict == verdict, str(evidence)
    assert evidence.turns_if
    assert not evidence.timings, "no clock decides here"


def test_activations_move_there_and_back_at_each_cut(ranks):
    assert catalogue_machines._moves(ranks(4)) == 6


def test_at_the_bandwidth_where_b2_turns_moving_takes_as_long_as_waiting(ranks, monkeypatch):
    said = claims.trial("B2").run(ranks).turns_if
    turns_at = 1e9 * float(said.split("below ")[1].split(" GB/s")[0])
    for factor, severe in ((0.8, 1), (1.2, 0)):
        link = Link(0.0, factor * turns_at)
        machines = AS_SOLD | {"8x H100": replace(AS_SOLD["8x H100"], intra=link)}
        monkeypatch.setattr(catalogue_machines, "MACHINES", machines)
        facts = claims.trial("B2").run(ranks).facts
        assert facts["of these, where moving costs more than waiting"] == severe


def test_at_the_batch_where_c12_turns_two_gpus_win():
    enough = 262_144  # as it says
    assert catalogue_machines._wins(MACHINES["8x H100"], enough)
    assert not catalogue_machines._wins(MACHINES["8x H100"], enough // 2)


# -- which cut from node to node ---------------------------------------------------------------------------------


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("length", [placing._LONG, placing._SHORT])
@pytest.mark.parametrize("axis", ["tp", "pp", "dp_replicate"])
def test_what_passes_between_nodes_is_what_the_cost_model_counts(axis, length, ranks):
    step = MeshStep(config=placing._SMALL, mesh=Mesh.parse(placing._CROSSING[axis]), batch_size=8, length=length)
    assert placing._between_bytes(ranks, axis, length) == step.by_link().between_bytes


def always(**by_axis):
    return lambda _, axis, length: by_axis[axis]


def by_length(axes_of):
    return lambda _, axis, length: axes_of[length in (placing._LONG, placing._LONG_TEXT)][axis]


USUAL = {"tp": 3, "dp_replicate": 2, "pp": 1}
TURNED = {"tp": 2, "dp_replicate": 3, "pp": 1}


def seconds(found, joined):
    """In place of ``_large_step_s``: these numbers on two nodes, and those where one domain holds all."""
    return lambda machine, axis, length: (found if machine == "8x H100" else joined)(None, axis, length)


@pytest.mark.parametrize(
    ("sent", "step_s", "verdict"),
    [
        (
            by_length({True: USUAL, False: TURNED}),
            by_length({True: USUAL, False: TURNED}),
            "holds with conditions",
        ),
        (always(**USUAL), always(**USUAL), "holds"),
        (always(**TURNED), always(**USUAL), "false"),
        (always(**USUAL), always(**TURNED), "false"),
        (always(tp=1, dp_replicate=2, pp=3), always(**USUAL), "false"),
    ],
)
def test_where_a_cut_belongs_follows_the_bytes_and_the_times(sent, step_s, verdict, ranks, monkeypatch):
    monkeypatch.setattr(placing, "_between_bytes", sent)
    monkeypatch.setattr(placing, "_large_step_s", seconds(step_s, step_s))
    assert claims.trial("E12").run(ranks).verdict == verdict


def test_one_domain_for_all_is_a_condition_too(ranks, monkeypatch):
    monkeypatch.setattr(placing, "_between_bytes", always(**USUAL))
    monkeypatch.setattr(placing, "_large_step_s", seconds(always(**USUAL), lambda *_: 1))
    assert claims.trial("E12").run(ranks).verdict == "holds with conditions"
