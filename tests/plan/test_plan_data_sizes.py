"""The sizes of a data axis' term: what they make is the planner's; and the family that lesson 11b tries it on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course_lib.plan import Layout, error_bands, replayed_runs
from course_lib.plan.estimate.data_sizes import data_sizes, waits_s
from course_lib.plan.estimate.dp_comm_time import data_axis
from course_lib.plan.inputs.error_bands import band_of_clusters
from course_lib.plan.inputs.stages import output_layers, stage_layers

SHARDED = "weights sharded over nodes"
BEHIND_NEXT = ("megatron-core-h100", "llama3-405b")  # gather weights behind the next forward pass
ALONG_DATA = [run for run in replayed_runs() if run.of.run.layout.dp > 1 and run.table not in BEHIND_NEXT]
FAMILY = [run for run in replayed_runs() if run.kind == SHARDED]


@pytest.mark.parametrize("run", ALONG_DATA, ids=lambda run: run.name)
def test_the_term_is_the_planners_for_every_published_run(run):
    """Each with the layout that is taken first where its source leaves some open."""
    ran, profile, layout = run.of.run, run.of.profile, run.of.layouts[0]
    cluster, software = profile.machines(run.gpus, ran.node_size), profile.software(ran.dtype)
    sizes = run.elsewhere_sizes
    layers = max(stage_layers(ran.job.model.layers, layout.pp, output_layers(ran.job.model), software.layers_by_cost))
    found = data_axis(
        ran.job.model,
        layout,
        cluster,
        run.elsewhere,
        software,
        layers,
        sizes.computing_s / layers,
        sizes.micro_batches,
    )
    assert waits_s(sizes, sizes.hiding_share) == pytest.approx(found.exposed_s - found.copied_s, rel=1e-9)
    told_s = sizes.rest_s + waits_s(sizes, sizes.hiding_share)
    if len(run.of.layouts) == 1:
        assert told_s == pytest.approx(run.elsewhere_s, rel=1e-9)
        assert run.elsewhere_parts.total_s == run.elsewhere_s


def test_the_page_counts_the_family_and_its_band_is_made_of_these_runs():
    band = error_bands("elsewhere").time[SHARDED]
    assert len(FAMILY) == band.runs == 18
    clusters: dict[tuple[str, str], list[float]] = {}
    for run in FAMILY:
        clusters.setdefault((run.of.run.cluster, run.of.run.gpu), []).append(run.measured_s / run.elsewhere_s)
    assert len(clusters) == band.clusters
    made = [band_of_clusters(list(clusters.values()), 0.01 * percent) for percent in range(21)]
    assert any((one.low, one.high) == pytest.approx((band.low, band.high), abs=0.002) for one in made)


@pytest.mark.parametrize(
    "changed",
    [{"sharding": 2}, {"dp": 1, "sharding": 0}, {"sharding": 3, "shard_size": 8}],
    ids=["stage 2", "one rank", "hybrid"],
)
def test_a_layout_of_another_kind_gets_a_sentence(changed):
    run = FAMILY[0]
    cluster, software = run.of.profile.machines(run.gpus, 8), run.of.profile.software("float16")
    layout = replace(Layout(dp=16), **changed)
    with pytest.raises(ValueError, match=r"The nearest layout has .*shard_size=0"):
        data_sizes(run.of.run.job, layout, cluster, run.elsewhere, software)


@pytest.mark.parametrize("table", BEHIND_NEXT)
def test_a_program_with_two_things_to_hide_behind_gets_a_sentence(table):
    for run in replayed_runs(table):
        with pytest.raises(ValueError, match="gathers weights during the next forward pass"):
            _ = run.elsewhere_sizes


@pytest.mark.parametrize("hidden", [-0.1, 1.5])
def test_a_share_beyond_one_gets_a_sentence(hidden):
    with pytest.raises(ValueError, match=r"it is a share from 0 to 1. The nearest is [01]"):
        waits_s(FAMILY[0].elsewhere_sizes, hidden)
