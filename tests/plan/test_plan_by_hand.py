"""The planner of one page: its memory beside ``stage_bytes``, its runs, and how far off it is on those kept back."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean

import pytest

from course_lib.plan import BytesEach, Job, Layout, cluster_of, decoder, load_profiles, replayed_runs, stage_bytes
from course_lib.plan.by_hand import Planner, kept_back_runs, machines_of, planned_job, shown_runs
from course_lib.plan.by_hand.timed_runs import KEPT_BACK_FILE
from course_lib.plan.runs.published import read_runs

LLAMA = Job(decoder("llama-3-8b"), seq=8192, batch=64)


def planner(gpus=8):
    constants = next(iter(load_profiles().values())).constants
    return Planner(planned_job(LLAMA), machines_of(cluster_of("8xh100", gpus=gpus), constants))


@pytest.mark.parametrize(
    ("layout", "stage"),
    [
        (Layout(), 0),
        (Layout(dp=8, sharding=3), 0),
        (Layout(dp=4, pp=2, sharding=1, recompute="full"), 1),
        (Layout(pp=8, micro_batch=2), 3),
    ],
)
def test_states_and_what_is_in_flight_are_those_of_the_formulas_by_axis(layout, stage):
    made = planner(layout.gpus)
    rows = layout.micro_batch * LLAMA.seq
    layer, thin = made.layer_bytes(layout) / rows, made.input_bytes(layout) / rows
    each = BytesEach(weight=2, gradient=2, optimizer=12, layer=layer, input=thin, logit=10)
    found, wanted = made.memory(layout, stage), stage_bytes(LLAMA, layout, stage, each)
    assert found == pytest.approx(wanted, rel=1e-9)


def test_a_pipeline_of_equal_stages_takes_its_slots():
    made = planner(4)
    made.job = replace(made.job, vocab=1)
    layout = Layout(pp=4, micro_batch=4)
    assert made.compute_s(layout) == pytest.approx(made.slots(layout) * made.slot_s(layout, 0), rel=1e-3)


def test_no_row_that_is_kept_back_is_one_that_a_page_shows():
    kept, refused = read_runs(KEPT_BACK_FILE)
    shown = {(run.of.run.job, run.of.run.layout, run.gpus) for run in replayed_runs()}
    assert not refused
    assert not {(run.job, run.layout, run.gpus) for run in kept} & shown


@pytest.mark.parametrize("table", ["vtrain-single", "ultra-scale"])
def test_it_is_near_the_runs_that_were_kept_back(table):
    given = kept_back_runs(table, "given") or shown_runs("vtrain-multi")[::4]
    judged = kept_back_runs(table, "judged")
    fitted = Planner(judged[0].job, judged[0].machines).fit(given)
    told = [Planner(run.job, replace(fitted, gpus=run.machines.gpus)).step_s(run.layout) for run in judged]
    assert mean(abs(one / run.step_s - 1) for one, run in zip(told, judged, strict=True)) < 0.17


def test_no_runs_fit_nothing():
    with pytest.raises(ValueError, match="fit got no runs"):
        planner().fit([])
