"""The search for the fastest layout alone: it finds what the whole listing has first, and asks few layouts in full."""

from __future__ import annotations

import pytest

from course_lib.plan.estimate.memo import Memo
from course_lib.plan.estimate.memory import memory_parts
from course_lib.plan.estimate.step_time import StepParts, least_step_s
from course_lib.plan.inputs.cluster import cluster_of
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.models import MODELS
from course_lib.plan.inputs.profiles import load_profiles
from course_lib.plan.inputs.software import Software
from course_lib.plan.search import fastest
from course_lib.plan.search.fastest import list_fastest
from course_lib.plan.search.listing import list_layouts
from course_lib.plan.search.search_space import candidates

CONSTANTS = next(iter(load_profiles().values())).constants
JOBS = [
    ("llama-3-8b", "8xh100", 16, 64, 8192),
    ("llama-3-70b", "8xa100", 64, 128, 4096),
    ("mixtral-8x7b", "8xh100", 32, 64, 4096),
    ("llama-3.2-1b", "4x RTX 4090", 4, 16, 2048),
    ("megatron-530b", "8xa100", 280, 280, 2048),
]
SOFTWARE = [Software(), Software(layers_by_cost=True, fused_attention=False), Software(overlaps=True)]
READS_SIZES = Software(reads_sizes=True, gathers_again=True)


def _job(model, machine, gpus, batch, seq):
    return Job(model=MODELS[model], batch=batch, seq=seq), cluster_of(machine, gpus=gpus)


@pytest.mark.parametrize("software", SOFTWARE, ids=["usual", "layers by cost", "overlaps"])
@pytest.mark.parametrize("job", JOBS, ids=[name for name, *_ in JOBS])
def test_it_finds_the_first_of_the_whole_listing(job, software):
    job, cluster = _job(*job)
    whole = list_layouts(job, cluster, CONSTANTS, software)
    alone = list_fastest(job, cluster, CONSTANTS, software, layouts=candidates(job, cluster))
    assert alone.best is not None
    assert alone.best == whole.best
    memo = Memo()
    for option in whole.options:
        least_s = least_step_s(job, option.layout, cluster, CONSTANTS, software, memo)
        assert 0 < least_s <= option.step_s * (1 + 1e-12), option.layout


def test_a_limit_of_memory_holds_there_too():
    job, cluster = _job(*JOBS[1])
    limit_bytes = 0.7 * list_layouts(job, cluster, CONSTANTS, Software()).options[0].memory.total_bytes
    whole = list_layouts(job, cluster, CONSTANTS, Software(), memory_bytes=limit_bytes)
    layouts = candidates(job, cluster)
    alone = list_fastest(job, cluster, CONSTANTS, Software(), layouts=layouts, memory_bytes=limit_bytes)
    assert alone.best == whole.best
    assert alone.best.memory.total_bytes <= limit_bytes


def test_where_nothing_runs_there_is_none():
    job, cluster = _job("llama-3-405b", "8xh100", 8, 8, 4096)
    assert list_fastest(job, cluster, CONSTANTS, Software(), layouts=candidates(job, cluster)).best is None
    assert list_fastest(job, cluster, CONSTANTS, Software(), layouts=()).best is None


def test_few_layouts_are_asked_in_full(monkeypatch):
    asked = []

    def counted(job, layout, *others):
        asked.append(layout)
        return step_parts(job, layout, *others)

    step_parts = fastest.step_parts
    monkeypatch.setattr(fastest, "step_parts", counted)
    job, cluster = _job(*JOBS[1])
    list_fastest(job, cluster, CONSTANTS, Software(), layouts=candidates(job, cluster))
    whole = list_layouts(job, cluster, CONSTANTS, Software())
    assert 1 <= len(asked) < len(whole.options) / 4


@pytest.mark.parametrize(
    "software", [*SOFTWARE, READS_SIZES], ids=["usual", "layers by cost", "overlaps", "reads sizes"]
)
@pytest.mark.parametrize("job", JOBS, ids=[name for name, *_ in JOBS])
def test_what_is_shared_is_what_each_layout_has_alone(job, software):
    """To the last bit: what neighbours share is worked out by the same sums."""
    job, cluster = _job(*job)
    whole = list_layouts(job, cluster, CONSTANTS, software)
    for option in whole.options[:: max(1, len(whole.options) // 300)]:
        assert option.step == fastest.step_parts(job, option.layout, cluster, CONSTANTS, software), option.layout
        assert option.memory == memory_parts(job, option.layout, cluster, CONSTANTS, software), option.layout
    for refusal in whole.refusals[:: max(1, len(whole.refusals) // 300)]:
        if refusal.memory is not None:
            assert refusal.memory == memory_parts(job, refusal.layout, cluster, CONSTANTS, software), refusal.layout


def test_the_parts_of_a_step_add_up():
    names = list(StepParts.__dataclass_fields__)
    parts = StepParts(**{name: 10.0**place for place, name in enumerate(names)})
    assert parts.total_s == pytest.approx(sum(10.0**place for place in range(len(names))), rel=1e-12)
