"""A table of single published numbers in a page, each beside what a formula of the course says of the same thing.

Where no published run shows a lesson's subject alone, a number does: the time of one all-reduce, the hours between two
failures. The formula is the lesson's, with numbers of data sheets alone: nothing here is fitted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from course_lib.authoring.notebooks.writing.replayed_box import off_text, table_box
from course_lib.cost import FAILURE_RATES, MACHINES, bus_factor, collective_cost
from course_lib.plan.inputs.models import MODELS

__all__ = ["FACTS", "MeasuredFact", "measured_box"]

_HEAD = ("what was measured", "measured", "formula", "says")
_GIB, _GB, _DAY_H = 2.0**30, 1e9, 24.0


@dataclass(frozen=True, kw_only=True)
class MeasuredFact:
    """A number that somebody published, in ``unit``, and what ``says`` makes of it by ``formula``, in the same unit."""

    what: str
    measured: float
    unit: str
    formula: str
    says: Callable[[], float]
    source: str

    @property
    def off(self) -> float:
        """How much too large (+) or too small the formula is, as a share of what was measured."""
        return self.says() / self.measured - 1


def _all_reduce_ms(machine: str, size_bytes: float) -> float:
    link = MACHINES[machine].intra
    return 1e3 * collective_cost("all_reduce", size_bytes, link, num_ranks=8, algorithm="ring").time_s


def _bus_gb_s(num_nodes: int) -> float:
    """256 MB around all ranks of so many nodes of 8 H100: size over time, times what a ring sends."""
    network, size_bytes = MACHINES["8x H100"].network(8 * num_nodes), 256e6
    time_s = collective_cost("all_reduce", size_bytes, network, algorithm="ring").time_s
    return bus_factor("all_reduce", 8 * num_nodes) * size_bytes / time_s / _GB


def _hours_between(rate: str, num_gpus: int) -> float:
    return FAILURE_RATES[rate].mean_time_between_s(num_gpus) / 3600


def _most_tokens_per_s() -> float:
    return MACHINES["8x H100"].matmul_flops_per_s["bfloat16"] / (6 * MODELS["llama-3-8b"].parameters)


_NCCL = "all_reduce_perf of nccl-tests"
_PLAYBOOK = "the runs behind Hugging Face's Ultra-Scale Playbook"
_TUTORIAL = "PyTorch's tutorial on model parallelism in one machine"
_HF = "Hugging Face, the page on training with several GPUs in the documentation of transformers"
_LLAMA = "The Llama 3 Herd of Models, 2024, arXiv 2407.21783"
_DEEPSEEK = "DeepSeek-V3 Technical Report, 2024, arXiv 2412.19437"

FACTS: dict[str, tuple[MeasuredFact, ...]] = {
    "one-device": (
        MeasuredFact(
            what="Llama 3 8B, 8 H100, selective recomputation: tokens/s and GPU",
            measured=5762,
            unit="",
            formula="the data sheet's rate / (6 × parameters)",
            says=_most_tokens_per_s,
            source="torchtitan's page of benchmarks",
        ),
    ),
    "collectives": (
        MeasuredFact(
            what="all-reduce of 1 GiB, 8 A100, NVLink",
            measured=8.2039,
            unit=" ms",
            formula="a ring, at the data sheet's rate of the links",
            says=lambda: _all_reduce_ms("8x A100", _GIB),
            source=_NCCL,
        ),
        MeasuredFact(
            what="all-reduce of 1 MiB, the same",
            measured=0.1019,
            unit=" ms",
            formula="the same",
            says=lambda: _all_reduce_ms("8x A100", 2.0**20),
            source=_NCCL,
        ),
        MeasuredFact(
            what="all-reduce of 1 GiB, 8 H200, the switch adds",
            measured=1e3 * _GIB / 264.9e9,
            unit=" ms",
            formula="a ring, at the data sheet's rate of the links",
            says=lambda: _all_reduce_ms("8x H100", _GIB),
            source=_NCCL,
        ),
        *(
            MeasuredFact(
                what=f"bus bandwidth of 256 MB, {num_nodes} nodes of 8 H100",
                measured=measured,
                unit=" GB/s",
                formula="a ring over all ranks, by data sheets",
                says=lambda num_nodes=num_nodes: _bus_gb_s(num_nodes),
                source=_PLAYBOOK,
            )
            for num_nodes, measured in ((2, 362), (8, 99.6), (64, 32.9))
        ),
    ),
    "one-process": (
        MeasuredFact(
            what="GPT-2, two GPUs: `DataParallel`'s time over DDP's",
            measured=110.5948 / 101.9003,
            unit="",
            formula="as much arithmetic on each GPU, copies cost nothing",
            says=lambda: 1.0,
            source=_HF,
        ),
    ),
    "model-parallel": (
        MeasuredFact(
            what="ResNet-50 on two GPUs: time over that of one GPU",
            measured=4.02 / 3.75,
            unit="",
            formula="one GPU works at a time, copies cost nothing",
            says=lambda: 1.0,
            source=_TUTORIAL,
        ),
        MeasuredFact(
            what="the same, the batch in 6 micro-batches",
            measured=2.51 / 3.75,
            unit="",
            formula="(m + p − 1) / (m p), copies cost nothing",
            says=lambda: (6 + 2 - 1) / (6 * 2),
            source=_TUTORIAL,
        ),
    ),
    "long-and-many": (
        MeasuredFact(
            what="Llama 3 405B: TFLOP/s and GPU with a context axis of 16, over those without",
            measured=380 / 400,
            unit="",
            formula="the ring hides",
            says=lambda: 1.0,
            source=f"{_LLAMA}, table 4",
        ),
        MeasuredFact(
            what="DeepSeek-V3: H800 GPU hours for a trillion tokens",
            measured=180_000,
            unit=" h",
            formula="6 × 37 billion active parameters, at the data sheet's rate in bfloat16",
            says=lambda: 6 * 37e9 * 1e12 / MACHINES["8x H100"].matmul_flops_per_s["bfloat16"] / 3600,
            source=f"{_DEEPSEEK}, section 1",
        ),
    ),
    "failures": (
        MeasuredFact(
            what="from one failure to the next, Llama 3 405B on 16,384 H100",
            measured=54 * _DAY_H / 419,
            unit=" h",
            formula="the rate of RSC-1, a research cluster of A100, for as many GPUs",
            says=lambda: _hours_between("RSC-1", 16_384),
            source=f"{_LLAMA}, section 3.3.4",
        ),
        MeasuredFact(
            what="the same, a node of 8 A100 in RSC-1",
            measured=1000 * _DAY_H / 6.5,
            unit=" h",
            formula="the rate of Llama 3 405B, for 8 GPUs",
            says=lambda: _hours_between("Llama 3 405B", 8),
            source="Kokolis et al., 2024, arXiv 2410.21680",
        ),
    ),
}


def measured_box(words: str) -> str:
    """The box of ``collectives failures``: the facts under these names.

    Raises:
        ValueError: A name that there is not.
    """
    if unknown := [word for word in words.split() if word not in FACTS]:
        raise ValueError(f"there are no published numbers {unknown[0]!r}; there are {', '.join(FACTS)}.")
    facts = [fact for word in words.split() for fact in FACTS[word]]
    return table_box(f"measured: {words}", [_HEAD, *map(_row, facts)], [fact.source for fact in facts])


def _row(fact: MeasuredFact) -> tuple[str, ...]:
    says = f"{_said(fact.says())}{fact.unit} ({off_text(1 + fact.off)})"
    return fact.what, _said(fact.measured) + fact.unit, fact.formula, says


def _said(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
