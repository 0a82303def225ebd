"""Whoever breaks a rule of the capstone is told which; a run by hand that breaks none is believed."""

from __future__ import annotations

from dataclasses import replace

import cheats
import pytest

from course_lib.capstone.attempts.attempting import attempt
from course_lib.capstone.attempts.rule_violations import FAULTS
from course_lib.capstone.jobs.job import CapstoneJob, job_for
from course_lib.cost.mesh.layout_step import NodeShape
from course_lib.cost.mesh.scaled_job import ScaledJob
from course_lib.layouts.link import Link
from course_lib.models import TransformerConfig

# Two ranks on a node each, quick links and short waits; room for replicas, since nearly all cheats begin with them.
CONFIG = TransformerConfig(vocab_size=16, context_length=8, num_layers=2, width=32, num_heads=2)
JOB = CapstoneJob(
    level=1,
    seed=0,
    job=ScaledJob(
        config=CONFIG, batch_size=8, forward_s=0.02, nodes=NodeShape(1, within=Link(), between=Link(0.0, 1e8))
    ),
    ranks=2,
    nodes=2,
    memory_bytes=1_500_000,
    budget_s=10.0,
)

TOLD = {  # the rules first, each by one: `first_cases` keeps those for every run
    "OneRank": ("fewer ranks", "rank 1 computed nothing and sent nothing"),
    "InArrays": ("hidden memory", "in objects of type ndarray"),
    "FewerLayers": ("smaller model", "blocks.1 was computed on no rank"),
    "HalfPrecision": ("lower precision", "in fewer than 32 bits a number"),
    "SmallerBatch": ("smaller batch", "4 of 8 sequences went through the layers"),
    "PatchedWait": ("no waiting", "of computing took"),
    "StoredWeights": ("foreign weights", "no rank held"),
    "FewerSteps": ("fewer steps", "no rank computed anything"),
    "ReplacedCollective": ("past the meter", "torch.distributed.all_reduce"),
    "WhenWeighed": ("hidden memory", "after a weighed step, and "),
    "InNumbers": ("hidden memory", "in objects of type list of numbers"),
    "InAnotherProcess": ("hidden memory", "has started the process"),
    "NoPacedBlocks": ("no waiting", "no rank has spent the paced time of a computation"),
    "ByFiles": ("hidden memory", "writes the file /dev/shm/c14-"),
    "BySharedMemory": ("past the meter", "of tensors that other processes see"),
    "InTexts": ("hidden memory", "in objects of type bytes"),
    "InAFileInMemory": ("hidden memory", "in objects of type BytesIO"),
    "InAStorage": ("hidden memory", "in objects of type UntypedStorage"),
    "InAText": ("hidden memory", "in objects of type str"),
    "InANumber": ("hidden memory", "in objects of type int"),
    "InRows": ("hidden memory", "in objects of type float"),
    "InAMap": ("hidden memory", "maps 1,048,576 bytes"),
    "Narrower": ("smaller model", "head.w_vocab.weight has shape (16, 16) and not (16, 32)"),
    "OnePlainBlock": ("no waiting", "blocks.1 took its paced time on no rank, and yet the weights are right"),
    "PatchedSleep": ("no waiting", "of computing took"),
    "ByAStore": ("past the meter", "puts 80,000 bytes into a store"),
}


def run_of(name):
    def assemble(me, task):
        return getattr(cheats, name)(me, task)

    return assemble


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("name", TOLD)
def test_a_cheat_is_told_by_name(clusters, name):
    result = attempt(JOB, run_of(name), clusters(2), num_timed=1, show=False)
    fault, said = TOLD[name]
    assert not result.ended, result.story
    assert any(one.name == fault and said in one.sentence for one in result.faults), result.faults
    assert result.total == 0
    assert not result.passed
    assert fault in str(result)


def test_who_changes_the_job_that_it_was_handed_changes_no_rule(clusters):
    small = replace(JOB, memory_bytes=300_000)
    result = attempt(small, run_of("OtherRules"), clusters(2), num_timed=1, show=False)
    assert "may hold 300,000" in result.ended
    assert job_for(1, 7).job is not job_for(1, 7).job, "in the learner's own process neither"


def test_every_rule_has_a_cheat():
    assert {fault for fault, _ in TOLD.values()} == set(FAULTS) - {"not your own"}, "that has `test_all_yours.py`"


def test_an_honest_run_by_hand_is_told_nothing(clusters):
    result = attempt(JOB, run_of("Honest"), clusters(2), num_timed=2, show=False)
    assert (result.faults, result.ended) == ((), "")
    assert result.values.share < 1e-4 < result.values.tolerance
    assert result.values.losses == pytest.approx(result.values.expected_losses, rel=1e-4)
    assert result.passed
    assert {part.part: part.points for part in result.points}["values"] == 40
