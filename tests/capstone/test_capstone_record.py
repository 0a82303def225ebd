"""Searches: every mesh that may fit, what a record says of this very job and of no other, and the bench's lines."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest
from test_capstone_attempts import FOUR

from course_lib.authoring.bench.strategies import capstone
from course_lib.authoring.bench.table import Table
from course_lib.capstone.attempts import record, searching
from course_lib.capstone.attempts.record import MeshRun, mark_of, recorded, recorded_run, row_name
from course_lib.capstone.attempts.searching import candidates, search, search_s
from course_lib.capstone.jobs.expected import between_bytes
from course_lib.capstone.jobs.job import job_for
from course_lib.capstone.jobs.planning import best_expected, best_plan
from course_lib.layouts.mesh import Mesh


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A record of two meshes of a job."""
    job = job_for(2, 4)
    rows = [
        {"what": row_name(job, "pp=4"), "unit": "s", "samples": [0.5, 0.4]},
        {"what": row_name(job, "pp=2 tp=2"), "unit": "s", "samples": [0.3, 0.35]},
        {"what": row_name(replace(job, memory_bytes=1), "tp=4"), "unit": "s", "samples": [0.1]},
        {"what": "level 2, seed 4: regret of the planner's best", "unit": "%", "samples": [3.0]},
    ]
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"date": "2026-11-22", "rows": rows}))
    monkeypatch.setattr(record, "RECORD", path)
    return job


def test_the_best_of_a_record_is_that_of_this_very_job(kept):
    best = recorded(kept)
    assert (best.mesh, best.step_s, best.source) == ("pp=2 tp=2", 0.3, "recorded on 2026-11-22")
    assert best.between_bytes == between_bytes(kept.job, Mesh.of(pp=2, tp=2))
    assert recorded_run(kept, Mesh.of(pp=4)).step_s == 0.4
    assert recorded_run(kept, Mesh.of(dp_shard=4)) is None


def test_the_best_is_so_in_computing_and_messages_whatever_the_clock_showed(kept):
    rows = [
        {"what": row_name(kept, "pp=4"), "unit": "s", "samples": [0.2]},
        {"what": row_name(kept, "pp=4", paced=True), "unit": "s", "samples": [0.19]},
        {"what": row_name(kept, "pp=2 tp=2"), "unit": "s", "samples": [0.9]},
        {"what": row_name(kept, "pp=2 tp=2", paced=True), "unit": "s", "samples": [0.18]},
    ]
    record.RECORD.write_text(json.dumps({"date": "2026-11-24", "rows": rows}))
    record._record.cache_clear()
    best = recorded(kept)
    assert (best.mesh, best.step_s) == ("pp=2 tp=2", 0.9)


def test_another_job_has_no_record(kept):
    assert recorded(job_for(2, 5)) is None
    assert recorded(replace(kept, memory_bytes=kept.memory_bytes + 1)) is None
    assert mark_of(kept) != mark_of(replace(kept, job=replace(kept.job, forward_s=0.5)))


def test_a_class_that_gets_another_name_leaves_the_mark(kept):
    class Renamed(type(kept.job)):
        pass

    job = kept.job
    renamed = Renamed(**{field.name: getattr(job, field.name) for field in fields(job)})
    assert mark_of(replace(kept, job=renamed)) == mark_of(kept)


def test_all_that_is_recorded_is_of_jobs_that_the_course_sets():
    """What `recorded` looks for: another mark than today's would hide the runs from every page."""
    rows = json.loads(record.RECORD.read_text(encoding="utf-8"))["rows"]
    found = set(re.findall(r"level (\d), seed (\d+) \((\w+)\)", str(rows)))
    assert len(found) == 30
    assert found == {(level, seed, mark_of(job_for(int(level), int(seed)))) for level, seed, _ in found}
    assert recorded(job_for(1, 7)).mesh == "pp=4"


def test_without_a_file_nothing_is_recorded(monkeypatch, tmp_path):
    monkeypatch.setattr(record, "RECORD", tmp_path / "none.json")
    assert recorded(job_for(1, 1)) is None


def test_candidates_are_all_that_fit_and_some_that_may():
    job = job_for(2, 4)
    found = {str(one.mesh): one.peak_bytes for one in candidates(job)}
    assert {str(best_plan(job).mesh), str(best_expected(job))} <= set(found)
    assert max(found.values()) <= 1.15 * job.memory_bytes
    assert 5 < search_s(job) < 300


def test_what_came_of_each_mesh_is_told_and_the_quickest_stands_first(monkeypatch):
    def came(paced_s, **changes):
        usual = {"ended": "", "faults": [], "values": SimpleNamespace(are_equal=True), "steps_s": (1.0,)}
        sent = SimpleNamespace(between_bytes=7)
        return SimpleNamespace(**{**usual, "sent": sent, "peak_bytes": 5, "paced_s": paced_s, **changes})

    outcomes = {
        "pp=4": came(0.3),
        "tp=4": came(0.1),
        "dp_shard=4": came(0.2, values=SimpleNamespace(are_equal=False)),
        "pp=2 tp=2": came(0.2, faults=[SimpleNamespace(sentence="It sends too much.")]),
        "dp_replicate=4": came(None, ended="out of memory"),
    }
    few = [one for one in candidates(FOUR) if str(one.mesh) in outcomes]
    monkeypatch.setattr(searching, "candidates", lambda _: iter(few))
    monkeypatch.setattr(searching, "assemble_on", str)
    monkeypatch.setattr(searching, "attempt", lambda job, mesh, *_, **__: outcomes[mesh])
    said = []
    runs = {run.mesh: run for run in search(FOUR, None, say=said.append)}
    assert runs.keys() == outcomes.keys()
    assert next(iter(runs)) == "tp=4"
    assert [run.counted_s for run in runs.values()] == sorted(run.counted_s for run in runs.values())
    assert (runs["tp=4"].ended, runs["tp=4"].peak_bytes, runs["tp=4"].between_bytes) == ("", 5, 7)
    for mesh, words in {
        "dp_shard=4": "not those of one device",
        "pp=2 tp=2": "sends too much",
        "dp_replicate=4": "memory",
    }.items():
        assert words in runs[mesh].ended
        assert any(f"{mesh} " in line and words in line for line in said)


# The test above asks the same in every run, of stand-ins for ranks and clocks.
@pytest.mark.long
def test_a_search_says_how_long_it_takes_and_puts_the_quickest_first(clusters, monkeypatch):
    few = [one for one in candidates(FOUR) if str(one.mesh) in ("pp=4", "dp_shard=4")]
    monkeypatch.setattr(searching, "candidates", lambda _: iter(few))
    said = []
    runs = search(FOUR, clusters(4), say=said.append)
    assert said[0].startswith("2 meshes may fit; running them all takes about ")
    assert {run.mesh for run in runs} == {"pp=4", "dp_shard=4"}
    assert runs[0].counted_s <= runs[1].counted_s  # by the clock it may be the other way round
    assert not any(run.ended for run in runs)
    assert len(said) == 3


def test_the_bench_adds_a_line_for_each_mesh_and_the_regrets(monkeypatch, capsys):
    job = job_for(3, 3)
    planned, best = str(best_plan(job).mesh), str(best_expected(job))
    runs = [
        MeshRun(planned, (0.3, 0.4), 1, 1, paced_s=0.15),
        MeshRun(best, (0.5,), 1, 1, paced_s=0.1),
        MeshRun("tp=8", (), 1, 1, "too much"),
    ]
    monkeypatch.setattr(capstone, "searching", lambda *_, **__: iter(runs))
    table = Table("course bench capstone")
    capstone.add_job(table, job, None, 2)
    by_name = {row.what: row for row in table.rows}
    assert by_name[row_name(job, planned)].samples == (0.3, 0.4)
    assert by_name["level 3, seed 3: regret of the planner's best"].median == pytest.approx(50)
    assert by_name["level 3, seed 3: regret of the expected best"].median == pytest.approx(0)
    assert by_name[row_name(job, best, paced=True)].samples == (0.1,)
    assert len(table.rows) == 6
    assert "tp=8 ended: too much" in capsys.readouterr().out
