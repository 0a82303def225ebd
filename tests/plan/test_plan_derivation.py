"""A layout taken apart: every line's terms give what the planner says, and the lines together are the whole."""

from __future__ import annotations

import re
from dataclasses import asdict

import pytest

from course_lib.plan import Constants, Job, Layout, Software, cluster_of, decoder, memory_parts, step_parts
from course_lib.plan.output.derived import Derived, Factor, Term, quantity
from course_lib.plan.output.memory_derivation import MemoryDerivation
from course_lib.plan.output.report import memory_word, time_word
from course_lib.plan.output.time_derivation import TimeDerivation

LLAMA, MIXTRAL, GPT2 = decoder("llama-3-8b"), decoder("mixtral-8x7b"), decoder("gpt-2-xl")
PROGRAMS = {
    "as it is": Software(),
    "no buckets, overlaps": Software(bucket_bytes=0, overlaps=True),
    "overlaps, in buckets": Software(overlaps=True, attention_share=0.51, loss_bytes=52),
    "takes turns with the host": Software(blocks=True, fused_gate=False, gathers_ahead=True),
    "unfused": Software(fused_attention=False, dropout=True, reads_sizes=True),
    "by cost": Software(layers_by_cost=True, selective_products=True, prefetches=False),
}
LAYOUTS = [
    (LLAMA, Layout(dp=64)),
    (LLAMA, Layout(dp=64, sharding=1)),
    (LLAMA, Layout(dp=64, sharding=2, micro_batch=2)),
    (LLAMA, Layout(dp=64, sharding=3, recompute="full")),
    (LLAMA, Layout(dp=64, sharding=3, shard_size=8)),
    (LLAMA, Layout(tp=8, pp=4, dp=2, sequence_parallel=True, sharding=1)),
    (LLAMA, Layout(tp=2, pp=4, dp=8, chunks=2, recompute="selective")),
    (LLAMA, Layout(tp=4, cp=4, dp=4, sequence_parallel=True, sharding=3)),
    (LLAMA, Layout(tp=8, pp=5, dp=1, sequence_parallel=True)),  # layers that stages do not divide
    (LLAMA, Layout(tp=8, dp=8, sequence_parallel=True, offload=True, sharding=1)),
    (MIXTRAL, Layout(dp=64, ep=8, sharding=3)),
    (MIXTRAL, Layout(tp=4, pp=2, dp=8, ep=4, sharding=1, sequence_parallel=True)),
    (MIXTRAL, Layout(tp=4, pp=2, dp=8, ep=8, etp=2, sharding=3, sequence_parallel=True)),
    (MIXTRAL, Layout(tp=8, ep=4, etp=1, sharding=1, sequence_parallel=True)),  # copies, and no data axis
    (GPT2, Layout(dp=1)),
    (GPT2, Layout(dp=512)),  # fewer sequences than data ranks
]


def apart(model, layout, software):
    job, cluster = Job(model, 1024, 256), cluster_of("8xh100", gpus=layout.gpus)
    constants = Constants()
    return (
        list(TimeDerivation(job, layout, cluster, constants, software).lines()),
        list(MemoryDerivation(job, layout, constants, software).lines()),
        step_parts(job, layout, cluster, constants, software),
        memory_parts(job, layout, cluster, constants, software),
    )


@pytest.mark.parametrize("software", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize(("model", "layout"), LAYOUTS, ids=[f"{m.name} {one}" for m, one in LAYOUTS])
def test_every_line_gives_what_the_planner_says(model, layout, software):
    times, memories, step, memory = apart(model, layout, software)
    for line in (*times, *memories):
        if line.terms:
            assert line.worked == pytest.approx(line.value, rel=1e-12), line
    for lines, parts, word in ((times, asdict(step), time_word), (memories, asdict(memory), memory_word)):
        shown = {line.what: line.value for line in lines if line.depth == 0}
        for name, value in parts.items():
            assert shown.get(word(name), 0.0) == pytest.approx(value, rel=1e-12), name


def test_what_a_part_is_made_of_adds_up_to_it():
    times, *_ = apart(LLAMA, Layout(dp=64, sharding=3, shard_size=8), Software())
    data = next(number for number, line in enumerate(times) if line.what == "data axis, exposed")
    made_of = [line for line in times[data + 1 :] if line.depth == 1]
    assert {line.what for line in made_of} == {"gradients", "weights"}
    assert sum(line.value for line in made_of) == pytest.approx(sum(one.value for one in times[data].terms[:2]))


def test_a_printed_line_can_be_worked_by_hand():
    line = Derived(
        "layers", 16.6, "s", (Term((Factor(256, "micro-batches"), Factor(17, "layers"), Factor(3.81e-3, "s"))),)
    )
    (text,) = line.lines()
    found = re.fullmatch(r"  layers +16\.6 s  = (\d+) micro-batches x (\d+) layers x ([\d.]+) ms", text)
    assert found is not None, text
    assert int(found[1]) * int(found[2]) * float(found[3]) / 1e3 == pytest.approx(16.6, rel=0.01)


def test_what_is_taken_off_is_told_so():
    hidden = Term((Factor(0.5, "hidden"), Factor(2.0, "s")), what="behind computing", is_taken_off=True)
    line = Derived("data axis", 2.0, "s", (Term((Factor(3.0, "s"),), what="gradients"), hidden), "a note")
    assert line.worked == 2.0
    first, second, third = line.lines()
    assert first.endswith("= 3 s (gradients)")
    assert second.strip() == "- 0.500 hidden x 2 s (behind computing)"
    assert third.strip() == "(a note)"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.00125, "s", "1.25 ms"),
        (1.0, "s", "1 s"),
        (0.0, "s", "0 us"),
        (16e9, "bytes", "16 GB"),
        (6, "bytes", "6 bytes"),
        (989e12, "FLOP/s", "989 TFLOP/s"),
        (1, "micro-batches", "1 micro-batch"),
        (1, "passes", "1 pass"),
        (84.7, "calls", "84.7 calls"),
        (8192, "tokens", "8,192 tokens"),
    ],
)
def test_a_quantity_has_its_unit_at_a_scale_that_can_be_read(value, unit, text):
    assert quantity(value, unit) == text
