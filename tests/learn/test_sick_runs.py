"""The six sick runs: settings and their sentences, what a run sends and keeps, what it shows, how it is scored."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from sick_evidence import made

from course_lib.layouts.mesh import Mesh
from course_lib.learn.sick.sick_runs import program
from course_lib.learn.sick.sick_runs.cases import CASES, HEALTHY, SUSPECTS
from course_lib.learn.sick.sick_runs.evidence import evidence_of, is_steady
from course_lib.learn.sick.sick_runs.job import LINKS, MIB, SickJob
from course_lib.learn.sick.sick_runs.program import SickStepRecord, train
from course_lib.learn.sick.sick_runs.reads import Reads
from course_lib.learn.sick.sick_runs.runs import Change, SickRuns
from course_lib.learn.sick.sick_runs.settings import MEANING, Settings, changed, legal_values
from course_lib.meter.clocks.timeline import Span
from course_lib.meter.communication.call import Call

PLAIN = Settings("dp_replicate=4")

# -- settings ----------------------------------------------------------------------------------------------------


def test_each_setting_has_its_line_and_the_best_change_is_legal():
    assert list(legal_values(PLAIN, 16)) == list(MEANING)
    assert [case.fault for case in CASES.values()] == list(dict.fromkeys(case.fault for case in CASES.values()))
    for case in CASES.values():
        assert case.fault in SUSPECTS
        assert changed(case.settings, case.job.num_rows, **case.best) != case.settings


def test_a_change_changes_one_setting():
    assert changed(PLAIN, 16, buckets=8) == replace(PLAIN, buckets=8)
    assert changed(Settings("tp=2 dp_replicate=2"), 16, mesh=" dp_replicate=2  tp=2 ").mesh == "dp_replicate=2 tp=2"
    assert changed(PLAIN, 16, spare_for=0).spare_for == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "0 settings were given (none); change exactly one, such as buckets=4"),
        ({"buckets": 8, "readers": 3}, "2 settings were given (buckets, readers); change exactly one"),
        ({"bucket": 8}, "there is no setting 'bucket'; .* The nearest is buckets."),
        ({"buckets": 5}, "buckets=5 does not work here: it may be 1, 2, 4, 8. The nearest is 4."),
        ({"buckets": 8.0}, "buckets=8.0 does not work here: .* The nearest is 8."),
        ({"buckets": True}, "buckets=True does not work here: .* The nearest is 1."),
        ({"micro_batches": 8}, "micro_batches=8 does not work here: it may be 1, 2, 4. The nearest is 4."),
        ({"spare_for": 4}, "spare_for=4 does not work here: it may be None, 0, 1, 2, 3. The nearest is 3."),
        ({"recompute": "some"}, "recompute='some' does not work here: it may be 'none', 'full'"),
        ({"recompute": False}, "recompute=False does not work here"),
        ({"mesh": "tp=4"}, "mesh='tp=4' does not work here: it may be 'dp_replicate=4'"),
        ({"buckets": 4}, "buckets=4 is what the run has already; give it another value"),
        ({"readers": float("nan")}, "readers=nan does not work here"),
    ],
)
def test_any_other_change_gets_a_sentence(change, said):
    with pytest.raises(ValueError, match=said.replace("(", r"\(").replace(")", r"\)")):
        changed(PLAIN, 16, **change)


# -- reading -----------------------------------------------------------------------------------------------------


def test_batches_are_read_ahead_and_in_turn(monkeypatch):
    read = []
    monkeypatch.setattr(time, "sleep", read.append)
    with Reads(0, 0.5) as reads:
        assert read == []
        reads.next()
        assert read == [0.5]
    read.clear()
    with Reads(3, 0.5) as reads:
        for _ in range(4):
            reads.next()
    assert len(read) >= 4, "a batch that was given has been read"


# -- what a run sends and keeps: real ranks, nothing paced ---------------------------------------------------------

QUICK = {"forward_s": 0.0, "call_s": 0.0, "update_s": 0.0, "read_s": 0.0}
STREAM = 8 * 49_152  # bytes of a sum of `tp`: the rows of a replica


def seen_by(cluster, settings, **sizes):
    job = SickJob(**QUICK, **sizes)
    return evidence_of("x", job, list(cluster.run(train, job, settings, 1)))


def test_a_run_with_replicas(clusters):
    seen = seen_by(clusters(4), PLAIN)
    assert seen.memory_bytes == (20 * MIB,) * 4  # 12 of states, 4 rows x 8 layers x 1/4
    assert seen.crossing_calls == (4,) * 4
    assert {sum(row) for row in seen.sent_bytes} == {2 * 8 * 150_000 * 3 // 4}
    one = seen_by(clusters(4), replace(PLAIN, buckets=1))
    assert one.crossing_calls == (1,) * 4
    assert one.sent_bytes == seen.sent_bytes


@pytest.mark.parametrize("buckets", [1, 4])
def test_the_last_bucket_has_nothing_beside_it(clusters, buckets):
    """Handing it over takes long on a busy machine, and is no part of the box of computing."""
    seen = seen_by(clusters(4), replace(PLAIN, buckets=buckets))
    for rank in range(4):
        mine = [span for span in seen.spans if span.rank == rank]
        sums = [span.start_s for span in mine if span.name == "all_reduce"]
        assert len(sums) == buckets
        assert max(sums) >= next(span.end_s for span in mine if span.name == "backward")


def test_recomputing_keeps_inputs_and_one_layer(clusters):
    seen = seen_by(clusters(4), replace(PLAIN, recompute="full"))
    assert seen.memory_bytes == (round(13.5 * MIB),) * 4  # 12, 4 x 8 / 4 / 16, and 1


@pytest.mark.parametrize("mesh", ["dp_replicate=2 tp=2", "tp=2 dp_replicate=2"])
def test_the_order_of_the_axes_says_what_leaves_the_node(clusters, mesh):
    seen = seen_by(clusters(4), Settings(mesh))
    both = 16 * STREAM, 8 * 150_000 // 2  # sums of layers, and half of the gradients
    tensor_inside = mesh.endswith("tp=2")
    assert {seen.node_bytes(rank) for rank in range(4)} == {both if tensor_inside else both[::-1]}
    assert seen.crossing_calls == ((4,) * 4 if tensor_inside else (16,) * 4)
    assert seen.memory_bytes == (14 * MIB,) * 4


def test_a_run_with_stages(clusters):
    seen = seen_by(clusters(4), Settings("pp=4", micro_batches=2))
    assert [size / MIB for size in seen.memory_bytes] == [11, 11, 11, 7]  # two in flight, and one on the last
    message = 8 * 49_152
    assert seen.sent_bytes[1] == (2 * message, 0, 2 * message, 0)
    assert seen.crossing_calls == (0, 4, 4, 0)
    assert {span.kind for span in seen.spans if span.rank == 0} == {"compute", "data", "recv"}


def test_stages_and_replicas_together(clusters):
    seen = seen_by(clusters(4), Settings("pp=2 dp_replicate=2", micro_batches=4))
    assert seen.sent_bytes[0] == (0, 4 * 150_000, 4 * 2 * 49_152, 0)
    assert len([span for span in seen.spans if (span.rank, span.name) == (3, "backward")]) == 4


def test_a_first_step_is_not_kept(clusters):
    assert [len(records) for records in clusters(4).run(train, SickJob(**QUICK), PLAIN, 2)] == [2] * 4


# -- how long a rank computes: one rank, no messages, nothing waited for ------------------------------------------


@pytest.mark.parametrize(
    ("settings", "forwards"),
    [({}, 3), ({"recompute": "full"}, 4), ({"micro_batches": 4}, 3)],
)
def test_a_backward_takes_two_forwards_and_three_where_one_is_done_again(monkeypatch, settings, forwards):
    paced_s = []
    monkeypatch.setattr(program, "pace", lambda me, time_s: paced_s.append(time_s))
    alone = SimpleNamespace(mesh=Mesh.of(dp_replicate=1), coordinates={"dp_replicate": 0})
    job, chosen = SickJob(read_s=0.0), Settings("dp_replicate=1", **settings)
    step = program._Step(SimpleNamespace(rank=0), job, chosen, alone)
    with Reads(0, 0.0) as reads:
        step.run(reads)
    calls = 8 * chosen.micro_batches * job.call_s
    assert sum(paced_s) == pytest.approx(forwards * (8 * 16 * job.forward_s + calls) + job.update_s)


def test_a_layer_cut_in_two_takes_half_and_what_a_call_costs():
    assert SickJob(forward_s=1.0, call_s=0.25).layer_s(8, 2) == 4.25


# -- evidence ----------------------------------------------------------------------------------------------------


def record(rank, start_s, time_s, calls=()):
    spans = (
        Span(rank, "data", "data", start_s, start_s),
        Span(rank, "forward", "compute", start_s, start_s + time_s / 2),
    )
    return SickStepRecord(start_s, start_s + time_s, spans, tuple(calls), (1 + rank) * MIB)


def call(rank, operation, start_s, end_s, sent, peer=None, group=(0, 1, 2, 3)):
    return Call(rank, 1, operation, group, 8, sent, 1, start_s, end_s, None, None, peer=peer)


def test_the_quickest_step_is_shown_from_its_first_begin():
    by_rank = [[record(rank, 10.0, 4.0), record(rank, 20.0 + rank / 4, 1.0)] for rank in range(4)]
    seen = evidence_of("A", SickJob(), by_rank)
    assert seen.step_s == 1.75
    assert [span.start_s for span in seen.spans] == [0.0, 0.25, 0.5, 0.75], "and spans of no length are left out"
    assert seen.memory_bytes == (MIB, 2 * MIB, 3 * MIB, 4 * MIB)
    assert seen.useful_share == pytest.approx(3 * 8 * 16 * 1e-3 / 4 / 1.75)


def test_calls_become_spans_and_bytes():
    calls = [
        call(0, "all_reduce", 0.4, 0.9, {1: 6}),
        call(0, "send", 0.1, 0.2, {2: 5}, peer=2),
        call(0, "recv", 0.5, 0.6, {}, peer=1),
        call(0, "all_reduce", 0.9, None, {1: 1}, group=(0, 1)),
    ]
    seen = evidence_of("A", SickJob(), [[record(0, 0.0, 1.0, calls)], *([record(r, 0.0, 1.0)] for r in (1, 2, 3))])
    assert seen.spans_of(0) == [
        (0.0, 0.5, "compute"),
        (0.4, 0.9, "communication"),
        (0.5, 0.6, "communication"),
    ]
    assert seen.node_bytes(0) == (7, 5)
    assert seen.crossing_calls == (2, 0, 0, 0)
    assert seen.shares(0) == pytest.approx((0.5, 0.4, 0.0, 0.1))


@pytest.mark.parametrize("name", ["0", *CASES])
def test_shares_are_of_one_step(name):
    for rank in range(4):
        shares = made(name).shares(rank)
        assert all(0 <= share <= 1 for share in shares)
        assert sum(shares) == pytest.approx(1, abs=1e-6)


def test_evidence_names_no_fault():
    words = repr(made("C")).casefold()
    assert not any(suspect in words for suspect in SUSPECTS)
    assert "recompute" not in words
    assert "13.5 MiB" in repr(made("C"))


# -- scores ------------------------------------------------------------------------------------------------------


def after(step_s):
    return replace(made("0"), step_s=step_s)


@pytest.mark.parametrize(
    ("after_s", "best_s", "score"),
    [(0.2, 0.2, 100), (0.3, 0.2, 50), (0.4, 0.2, 0), (0.6, 0.2, 0), (0.21, 0.2, 95), (0.39, 0.36, 0)],
)
def test_the_score_is_the_share_of_what_can_be_gained(after_s, best_s, score):
    change = Change("A", "x", 0.4, after(after_s), best_s)
    assert change.score == score
    assert ("that is it" in repr(change)) == (score >= 80)


@pytest.mark.parametrize(
    ("after_s", "said"),
    [
        (0.2, "that is it"),
        (0.3, "another change gains more"),
        (0.39, "no more than chance"),
        (0.42, "no more than"),
        (0.5, "costs time"),
    ],
)
def test_what_is_said_of_a_score(after_s, said):
    assert said in repr(Change("A", "x", 0.4, after(after_s), 0.2))


def test_where_not_even_the_best_gains_nothing_is_scored():
    change = Change("A", "x", 0.4, after(0.2), 0.39)
    assert change.gained is None
    assert "the machine was busy" in repr(change)


class FakeCluster:
    """Runs nothing: a step takes as long as ``time_s`` says for its settings."""

    world_size = 4

    def __init__(self, time_s):
        self.time_s, self.ran, self.slow = time_s, [], None

    @contextlib.contextmanager
    def shaped(self, *, links, slow):
        assert links is LINKS
        self.slow = slow
        yield self

    def run(self, function, job, settings, num_steps):
        assert function is train
        self.ran.append((settings, dict(self.slow)))
        time_s = self.time_s(settings)
        return [[record(rank, 0.0, time_s)] * num_steps for rank in range(4)]


def test_a_change_runs_before_after_and_the_best():
    cluster = FakeCluster(lambda settings: {1: 0.4, 2: 0.3, 4: 0.2, 8: 0.25}[settings.buckets])
    sick = SickRuns(cluster)
    assert sick.change("E", buckets=2).score == 50
    assert len(cluster.ran) == 4, "before, the best, after, and before once more"
    assert sick.change("E", buckets=8).score == 75
    assert len(cluster.ran) == 6
    assert sick.change("E", buckets=4).score == 100
    assert "run E: 100 of 100, by buckets=1 -> 4" in sick.scores()
    assert "1 of 6 runs changed; in all 17 of 100" in sick.scores()


def test_the_spare_device_takes_the_place_of_the_slow_one():
    cluster = FakeCluster(lambda settings: 0.2 if settings.spare_for == 2 else 0.4)
    assert SickRuns(cluster).change("F", spare_for=1).score == 0
    assert [slow for _, slow in cluster.ran] == [{2: 2.0}, {}, {2: 2.0}]


def test_better_than_the_best_known_is_the_best():
    cluster = FakeCluster(lambda settings: {1: 0.4, 4: 0.2, 8: 0.1}[settings.buckets])
    change = SickRuns(cluster).change("E", buckets=8)
    assert (change.score, change.best_s) == (100, 0.1)


def test_a_best_that_was_measured_in_a_busy_moment_is_measured_again():
    times_s = [0.4, 0.37, 0.3, 0.4, 0.2]
    sick = SickRuns(FakeCluster(lambda settings: times_s.pop(0)))
    assert sick.change("E", buckets=2).score == 50
    assert sick.change("E", buckets=4).best_s == 0.2, "and the quicker one is kept"


def test_a_change_that_comes_near_the_best_has_it_measured_again():
    times_s = [0.4, 0.29, 0.3, 0.4, 0.2]
    assert SickRuns(FakeCluster(lambda settings: times_s.pop(0))).change("E", buckets=2).score == 50


def test_a_best_that_is_slower_when_measured_again_is_not_kept():
    times_s = [0.4, 0.3, 0.25, 0.41, 0.35]
    sick = SickRuns(FakeCluster(lambda settings: times_s.pop(0)))
    assert sick.change("E", buckets=8).best_s == 0.25
    assert sick.change("E", buckets=4).best_s == 0.3


def test_a_run_that_was_seen_in_a_busy_moment_is_measured_again_before_a_change_gains():
    times_s = [0.379, 0.19, 0.286, 0.28]
    sick = SickRuns(FakeCluster(lambda settings: times_s.pop(0)))
    change = sick.change("D", buckets=8)
    assert (change.score, change.before_s) == (0, 0.28)
    assert "(Seen before: 379 ms, in a busy moment; it was measured again.)" in repr(change)
    assert "busy" not in repr(sick.change("D", mesh="dp_replicate=2 tp=2"))


def test_a_change_that_costs_time_is_measured_twice():
    times_s = [0.3, 0.2, 0.4, 0.3, 0.4, 0.41]
    sick = SickRuns(FakeCluster(lambda settings: times_s.pop(0)))
    assert "no more than chance" in repr(sick.change("D", buckets=8))
    assert "this costs time" in repr(sick.change("D", micro_batches=2))


def test_where_steps_differ_more_of_them_are_run():
    times_s = iter((0.4, 0.3, 0.35, 0.2, 0.201, 0.4))
    cluster = FakeCluster(None)
    cluster.run = lambda function, job, settings, num_steps: [
        [record(rank, 0.0, time_s) for time_s in lengths_s]
        for lengths_s in [[next(times_s) for _ in range(num_steps)]]
        for rank in range(4)
    ]
    assert SickRuns(cluster).evidence("E").step_s == 0.2
    assert next(times_s, None) is None


@pytest.mark.parametrize(("lengths_s", "steady"), [((1.0,), False), ((1.0, 2.0), False), ((2, 1.0, 1.04), True)])
def test_steps_are_steady_where_the_two_quickest_agree(lengths_s, steady):
    assert is_steady([[record(rank, 0.0, length_s) for length_s in lengths_s] for rank in range(4)]) == steady


def test_on_a_busy_machine_all_is_measured_anew_and_no_score_is_lost():
    times_s = [0.4, 0.2, 0.4, 0.2]
    sick = SickRuns(FakeCluster(lambda settings: times_s.pop(0)))
    assert sick.change("E", buckets=4).score == 100
    sick._seen.clear()
    times_s[:] = [0.3, 0.3, 0.4, 0.2]
    assert sick.change("E", buckets=4).gained is None
    assert "run E: 100 of 100" in sick.scores()
    assert sick.change("E", buckets=4).score == 100
    assert times_s == []


def test_without_a_change_one_is_told_what_can_be_set():
    sick = SickRuns(FakeCluster(lambda settings: 0.4))
    text = repr(sick.change("B"))
    assert "micro_batches = 2, or 1, 4, 8, 16" in text
    assert "mesh = 'pp=4', or nothing else" in text
    assert all(line in text for line in MEANING.values())
    assert sick.change("B").score == 0
    assert "0 of 6 runs changed" in sick.scores()


def test_runs_and_clusters_that_are_not_there():
    with pytest.raises(ValueError, match="the runs are for 4 ranks, and this cluster has 2"):
        SickRuns(type("Two", (), {"world_size": 2})())
    sick = SickRuns(FakeCluster(lambda settings: 0.4))
    with pytest.raises(ValueError, match="run is 'G'; it is one of A, B, C, D, E, F"):
        sick.evidence("G")
    with pytest.raises(ValueError, match=r"run 0 is in good health, .*; change one of A, B, C, D, E, F"):
        sick.change("0", buckets=8)
    assert HEALTHY.settings == PLAIN
