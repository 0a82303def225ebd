"""Bands of the planner's errors: how they are made, kept, and told."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from published_rows import ROW, write

from course_lib.authoring.bench.published_runs import published
from course_lib.plan import Constants, Job, Layout, Software, cluster_of, decoder, list_layouts, profile_of, read_runs
from course_lib.plan.inputs.error_bands import (
    ALL_KINDS,
    CASES,
    ErrorBand,
    ErrorBands,
    band_of_ratios,
    error_bands,
    kind_of,
    save_bands,
    tie_of_pairs,
)
from course_lib.plan.inputs.numbers import three_digits
from course_lib.plan.output.certainty import certainty, how_sure
from course_lib.plan.runs.kept_apart import KeptApart, bands_of, elsewhere, fitted_on_few, in_their_bands
from course_lib.plan.runs.predict_run import Prepared, prepared


def test_a_band_holds_eight_of_ten_to_come() -> None:
    draw = random.Random(0)
    band = band_of_ratios([draw.lognormvariate(0.1, 0.3) for _ in range(400)])
    held = sum(band.holds(2.0, 2.0 * draw.lognormvariate(0.1, 0.3)) for _ in range(2000))
    assert 0.77 < held / 2000 < 0.84
    assert band.low < 1 < band.high


def test_a_band_of_few_runs_is_as_wide_as_they_lie() -> None:
    assert band_of_ratios([1.3, 0.8, 1.0]) == ErrorBand(0.8, 1.3, 3)
    with pytest.raises(ValueError, match="at least"):
        band_of_ratios([])


def test_a_tie_is_where_eight_of_ten_pairs_lie_closer() -> None:
    pairs = [(1.0, 1 + 0.01 * percent) for percent in range(1, 100)]
    assert tie_of_pairs(pairs) == pytest.approx(1.8)
    assert tie_of_pairs([(two, one) for one, two in pairs]) == pytest.approx(1.8)
    with pytest.raises(ValueError, match="a pair"):
        tie_of_pairs([])


@pytest.mark.parametrize(
    ("layout", "kind"),
    [
        (Layout(tp=4, dp=2), "one NVLink domain"),
        (Layout(dp=32, sharding=3), "weights sharded over nodes"),
        (Layout(tp=16, dp=2, sharding=1), "tensor axis over nodes"),
        (Layout(tp=8, pp=4), "pipeline over nodes"),
        (Layout(tp=8, dp=4, sharding=1), "gradients over nodes"),
    ],
)
def test_the_kind_of_a_layout_is_what_leaves_the_domain(layout: Layout, kind: str) -> None:
    assert kind_of(cluster_of("8xh100", gpus=layout.gpus), layout) == kind


def test_a_kind_with_few_runs_takes_the_band_of_all() -> None:
    wide, narrow = ErrorBand(0.5, 2.0, 100), ErrorBand(0.9, 1.1, 9)
    bands = ErrorBands({ALL_KINDS: wide, "one NVLink domain": narrow}, wide, 1.2)
    cluster = cluster_of("8xh100")
    assert bands.time_band(cluster, Layout(dp=8)) == wide
    enough = replace(bands, time={ALL_KINDS: wide, "one NVLink domain": replace(narrow, runs=10)})
    assert enough.time_band(cluster, Layout(dp=8)).high == 1.1


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
    assert found.pop().matmul_share == pytest.approx(other.constants.matmul_share)


def test_runs_are_held_by_the_bands_of_the_other_half(tmp_path) -> None:
    """Two kinds of error, one in each half: neither half's band holds the other's runs."""
    judged = [KeptApart(one, Constants()) for one in rows(tmp_path)]
    assert in_their_bands(judged) == {ROW["table"]: (10, 10)}
    apart = []
    for place, one in enumerate(judged):
        step_s = one.told_s * (2.0 + 0.01 * place if place % 2 else 1.0 + 0.01 * place)
        apart.append(KeptApart(replace(one.run, run=replace(one.run.run, step_s=step_s)), Constants()))
    assert in_their_bands(apart) == {ROW["table"]: (0, 10)}


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
    bands = ErrorBands({ALL_KINDS: ErrorBand(0.5, 2.0, 40)}, ErrorBand(0.9, 1.1, 30), 1.25)
    how_sure, ties = certainty(listing, listing.options[0], bands)
    step_s = listing.options[0].step_s
    assert f"40 published runs that the planner had not seen ({ALL_KINDS})" in how_sure
    assert f"{three_digits(step_s / 2)}-{three_digits(2 * step_s)} s here" in how_sure
    tied = [one for one in listing.options if one.step_s <= 1.25 * step_s]
    assert ties.startswith(f"{len(tied)} layouts are a tie")
    easiest = min(tied, key=lambda one: one.effort)
    assert easiest.effort[0] == min(one.effort[0] for one in tied)
    assert str(easiest.layout) in ties or "it is the first" in ties
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
