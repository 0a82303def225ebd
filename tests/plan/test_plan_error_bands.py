"""Bands of the planner's errors: how they are made, kept, and told."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from published_rows import ROW, write

from course_lib.authoring.bench.published_runs import published
from course_lib.authoring.bench.published_runs.missing_facts import missing_facts, report_missing
from course_lib.plan import (
    Constants,
    Job,
    Layout,
    Software,
    cluster_of,
    decoder,
    list_layouts,
    profile_of,
    read_runs,
    typical_constants,
)
from course_lib.plan.inputs.error_bands import (
    ALL_KINDS,
    CASES,
    ErrorBand,
    ErrorBands,
    band_of_clusters,
    error_bands,
    kind_of,
    save_bands,
    tie_of_pairs,
    widened,
)
from course_lib.plan.inputs.numbers import three_digits
from course_lib.plan.output.certainty import certainty, how_sure
from course_lib.plan.runs.bands import bands_of, in_their_bands
from course_lib.plan.runs.kept_apart import KeptApart, elsewhere, fitted_on_few
from course_lib.plan.runs.predict_run import Prepared, prepared


def test_a_band_holds_eight_of_ten_to_come() -> None:
    draw = random.Random(0)
    band = band_of_clusters([[draw.lognormvariate(0.1, 0.3) for _ in range(400)]])
    held = sum(band.holds(2.0, 2.0 * draw.lognormvariate(0.1, 0.3)) for _ in range(2000))
    assert 0.77 < held / 2000 < 0.84
    assert band.low < 1 < band.high


def test_each_cluster_counts_as_much_as_any_other() -> None:
    many, few = [1 + 0.001 * place for place in range(1000)], [3.0]
    assert band_of_clusters([many, few], 0.1).high == 3.0
    assert band_of_clusters([many, few], 0.1) == replace(band_of_clusters([many[::10], few], 0.1), runs=1001)
    assert band_of_clusters([[1.3, 0.8, 1.0]], 0.0) == ErrorBand(0.8, 1.3, 3, 1)
    assert band_of_clusters([[0.5, 1.0, 1.1, 2.0]], 0.25) == ErrorBand(1.0, 1.1, 4, 1)
    with pytest.raises(ValueError, match="at least"):
        band_of_clusters([[], []])
    for tail in (-0.1, 0.5):
        with pytest.raises(ValueError, match="tail is"):
            band_of_clusters([[1.0]], tail)


def test_a_tie_is_where_eight_of_ten_pairs_lie_closer() -> None:
    pairs = [(1.0, 1 + 0.01 * percent) for percent in range(1, 100)]
    assert tie_of_pairs(pairs) == pytest.approx(1.8)
    assert tie_of_pairs([(two, one) for one, two in pairs]) == pytest.approx(1.8)
    with pytest.raises(ValueError, match="at least one pair"):
        tie_of_pairs([])


@pytest.mark.parametrize(
    ("layout", "kind"),
    [
        (Layout(tp=4, dp=2), "one NVLink domain"),
        (Layout(dp=32, sharding=3), "weights sharded over nodes"),
        (Layout(tp=16, dp=2, sharding=1), "tensor axis over nodes"),
        (Layout(tp=16, dp=4, sharding=3), "tensor axis over nodes"),
        (Layout(tp=8, pp=4), "pipeline over nodes"),
        (Layout(tp=8, dp=4, sharding=1), "gradients over nodes"),
    ],
)
def test_the_kind_of_a_layout_is_what_leaves_the_domain(layout: Layout, kind: str) -> None:
    assert kind_of(cluster_of("8xh100", gpus=layout.gpus), layout) == kind


def test_a_kind_of_few_clusters_is_at_least_as_wide_as_all() -> None:
    wide, narrow = ErrorBand(0.5, 2.0, 100, 12), ErrorBand(0.9, 2.5, 90, 3)
    made = widened({ALL_KINDS: wide, "one NVLink domain": narrow, "pipeline over nodes": replace(narrow, clusters=4)})
    bands = ErrorBands(made, wide, 1.2)
    cluster = cluster_of("8xh100", nodes=2)
    assert bands.time_band(cluster, Layout(dp=8)) == ErrorBand(0.5, 2.5, 90, 3)
    assert bands.time_band(cluster, Layout(tp=8, pp=2)).low == 0.9
    assert bands.time_band(cluster, Layout(dp=16)) == wide  # none of this kind was judged
    assert bands.judged_kind(cluster, Layout(dp=16)) == ALL_KINDS


def rows(tmp_path, slower: float = 1.0) -> list[Prepared]:
    """On 8 to 128 GPUs of one cluster, each as long as the planner says, and on many ``slower`` times that."""
    told = [
        {**ROW, "tp": "1", "gpus": str(gpus), "dp": str(gpus), "batch": str(batch)}
        for gpus in (8, 16, 32, 64, 128)
        for batch in (256, 512)
    ]
    runs, _ = read_runs(write(tmp_path / "told.csv", *told))
    profile = profile_of("Nowhere", "A100-80GB")
    for row, run in zip(told, runs, strict=True):
        seconds = prepared(run, profile).step_s(Constants())
        row["iter_s"] = str(seconds * (slower if run.gpus > 32 else 1.0))
    runs, _ = read_runs(write(tmp_path / "runs.csv", *told))
    return [prepared(run, profile) for run in runs]


def test_many_gpus_are_judged_by_what_few_tell(tmp_path) -> None:
    said: list[str] = []
    judged = fitted_on_few(rows(tmp_path, slower=1.5), said.append)
    assert {one.run.run.gpus for one in judged} == {64, 128}
    assert all("at most 32 GPUs" in one for one in said)
    for one in judged:  # a fit that had seen them would be nearer
        assert one.run.run.step_s / one.told_s == pytest.approx(1.5, rel=0.1)


def test_elsewhere_is_told_by_other_clusters_alone(tmp_path) -> None:
    ready = rows(tmp_path)
    other, own = profile_of("Selene", "A100-80GB"), replace(profile_of("vTrain", "A100-80GB"), cluster="Nowhere")
    profiles = {("Selene", "A100-80GB"): other, ("Nowhere", "A100-80GB"): own}
    found = {one.constants for one in elsewhere(ready, profiles)}
    assert len(found) == 1
    assert found.pop() == typical_constants([other], [other])


def on(cluster: str, ready: list[Prepared], slower: float, spread: float = 0.0) -> list[KeptApart]:
    """The runs as if of this cluster, ``slower`` times as long as predicted, and a little more from run to run."""
    judged = []
    for place, one in enumerate(ready):
        step_s = KeptApart(one, Constants()).told_s * slower * (1 + spread * place)
        judged.append(KeptApart(replace(one, run=replace(one.run, cluster=cluster, step_s=step_s)), Constants()))
    return judged


def test_runs_are_held_by_the_bands_of_other_clusters_alone(tmp_path) -> None:
    ready = rows(tmp_path)
    alike = [one for name in "abcde" for one in on(name, ready, 1.1)]
    assert in_their_bands(alike) == {ROW["table"]: (50, 50)}
    apart = in_their_bands([*alike, *on("f", ready, 2.0, 0.01)])
    assert apart == {ROW["table"]: (50, 60)}  # no other cluster was that slow, and its own runs do not count
    assert in_their_bands(on("a", ready, 1.1)) == {ROW["table"]: (10, 10)}


def test_bands_are_as_wide_as_clusters_that_are_left_out_need(tmp_path) -> None:
    """Clusters that differ more than their own runs do need more than the middle 80 % of all runs."""
    ready = rows(tmp_path)
    draw = random.Random(1)
    offsets = [draw.lognormvariate(0, 0.2) for _ in range(12)]
    judged = [one for place, offset in enumerate(offsets) for one in on(str(place), ready, offset, 0.001)]
    plain = band_of_clusters([[1 / one.told_s * one.run.run.step_s for one in judged]])
    found = bands_of(judged).time[ALL_KINDS]
    assert found.low < plain.low < plain.high < found.high
    ((count, among),) = in_their_bands(judged).values()
    assert count / among >= 0.75


def test_bands_are_kept_and_read(tmp_path) -> None:
    bands = bands_of([KeptApart(one, Constants()) for one in rows(tmp_path, slower=1.3)] * 2)
    file = tmp_path / "bands.json"
    save_bands(dict.fromkeys(CASES, bands), {"command": "a test"}, file)
    kept = error_bands("more", file)
    assert kept.time[ALL_KINDS].high == pytest.approx(1.3)
    assert kept.time[ALL_KINDS].runs == 20
    with pytest.raises(ValueError, match="case"):
        error_bands("nowhere")
    file.write_text("{}")
    with pytest.raises(ValueError, match="no bands"):
        error_bands("more", tmp_path / "absent.json")


@pytest.mark.parametrize("case", CASES)
def test_the_bands_of_the_course_are_bands(case: str) -> None:
    bands = error_bands(case)
    for band in (*bands.time.values(), bands.memory):
        assert 0.3 < band.low < 1 < band.high < 3
    assert bands.time[ALL_KINDS].runs > 100
    assert 1 < bands.tie < 2


def test_certainty_names_the_band_the_ties_and_the_easiest_of_them() -> None:
    cluster, job = cluster_of("8xh100"), Job(decoder("llama-3-8b"), 4096, 64)
    listing = list_layouts(job, cluster, Constants(), Software())
    bands = ErrorBands({ALL_KINDS: ErrorBand(0.5, 2.0, 40, 7)}, ErrorBand(0.9, 1.1, 30, 3), 1.25)
    how_sure, ties = certainty(listing, listing.options[0], bands)
    step_s = listing.options[0].step_s
    assert f"({ALL_KINDS}; 40 runs on 7 clusters)" in how_sure
    assert f"{three_digits(step_s / 2)}-{three_digits(2 * step_s)} s" in how_sure
    tied = [one for one in listing.options if one.step_s <= 1.25 * step_s]
    assert ties.startswith(f"{len(tied)} layouts are a tie")
    easiest = min(tied, key=lambda one: one.effort)
    assert easiest.effort[0] == min(one.effort[0] for one in tied)
    assert str(easiest.layout) in ties or "the first" in ties
    alone = list_layouts(job, cluster, Constants(), Software(), layouts=[listing.options[0].layout])
    assert len(certainty(alone, alone.options[0], bands)) == 1


def test_how_sure_is_certainty_of_a_case_in_short_lines() -> None:
    cluster, job = cluster_of("8xh100", nodes=2), Job(decoder("llama-3-8b"), 4096, 64)
    listing = list_layouts(job, cluster, Constants(), Software())
    second = listing.options[1]
    for case in CASES:
        said = how_sure(listing, second, case)
        assert said.split() == " ".join(certainty(listing, second, error_bands(case))).split()
        assert max(map(len, said.splitlines())) <= 104
    assert how_sure(listing) == how_sure(listing, listing.options[0], "elsewhere")
    nothing = list_layouts(job, cluster, Constants(), Software(), layouts=[Layout(dp=3)])
    with pytest.raises(ValueError, match="No layout of this listing runs"):
        how_sure(nothing)


def test_the_bench_reports_bands_and_keeps_them_with_its_tables(tmp_path, capsys) -> None:
    judged = [one for one in rows(tmp_path) if one.run.gpus > 32]
    kept = tmp_path / "kept.json"
    assert published.main([str(tmp_path / "runs.csv"), "--few", "--json", str(kept)]) == 0
    out, record = capsys.readouterr().out, json.loads(kept.read_text())
    assert out.count("bands of 80 %") == 2
    assert record["command"] == "course bench published runs.csv --few"
    assert record["bands"]["more"]["in_band"]["t"]["runs"] == len(judged)
    assert record["bands"]["more"]["time"][ALL_KINDS]["low"] == pytest.approx(1, abs=0.1)


def test_the_easiest_of_a_tie_is_no_kind_that_may_take_much_longer() -> None:
    """One axis is little to set up; a tensor axis over nodes is of a kind whose runs took up to twice as long."""
    job, cluster = Job(decoder("llama-3-8b"), 4096, 64), cluster_of("8xh100", nodes=2)
    layouts = [
        Layout(tp=4, pp=2, dp=2, sequence_parallel=True, sharding=1),
        Layout(tp=16, sequence_parallel=True),
    ]
    listing = list_layouts(job, cluster, Constants(), Software(), layouts=layouts)
    assert str(listing.options[0].layout) == str(layouts[0])
    narrow, wide = ErrorBand(0.9, 1.1, 50, 9), ErrorBand(0.8, 2.2, 10, 4)
    tie = 1.01 * listing.options[1].step_s / listing.options[0].step_s
    for of_tensor, easiest in ((narrow, str(layouts[1])), (wide, "the first")):
        bands = ErrorBands({ALL_KINDS: narrow, "tensor axis over nodes": of_tensor}, narrow, tie)
        assert f"The easiest of them to set up is {easiest}" in certainty(listing, listing.options[0], bands)[1]


def test_what_is_missing_is_the_constant_that_makes_the_error_small(tmp_path, capsys) -> None:
    """Runs of a cluster whose matrices are half as fast as elsewhere: that share alone is what a plan lacks."""
    ready, slow = rows(tmp_path), replace(Constants(), matmul_share=0.36)
    own = [replace(one, profile=replace(one.profile, constants=slow)) for one in ready]
    timed = [replace(one, run=replace(one.run, step_s=one.step_s(slow))) for one in own]
    judged = [KeptApart(one, Constants()) for one in timed]
    (missing,) = missing_facts(judged).values()
    assert missing.typical > 0.2
    assert min(missing.known, key=missing.known.__getitem__) == "matmul_share"
    assert missing.known["matmul_share"] == pytest.approx(missing.own, abs=1e-9) == 0
    report_missing(judged)
    assert "with matmul_share 0.0%" in capsys.readouterr().out
    assert missing_facts([KeptApart(one, slow) for one in timed]) == {}
