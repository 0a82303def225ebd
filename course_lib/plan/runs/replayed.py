"""The published runs of lesson 11: what was measured, and what the planner says of it, twice.

``replayed.csv`` has the columns of ``published.py``. Of ``GROUPS``, "chosen" are tables of runs that their authors show
with pride, and "tried" is every layout of one job, good or bad, that one author measured; the rest is to be compared.
All runs whose weights are sharded over nodes are here, for which ``error_bands`` has a band.
``predicted_s`` uses constants fitted to runs of the same cluster, these among them, so its error flatters;
``elsewhere_s`` uses what a cluster gets that nobody has measured: constants typical of others with the same GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from course_lib.base.checked import checked
from course_lib.base.checks import known
from course_lib.plan.estimate.data_sizes import DataSizes, data_sizes
from course_lib.plan.estimate.step_time import StepParts
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.error_bands import kind_of
from course_lib.plan.inputs.profiles import constants_elsewhere, load_profiles, profile_of
from course_lib.plan.runs.predict_run import Prepared, prepared
from course_lib.plan.runs.published import read_runs

__all__ = ["GROUPS", "REPLAYED_FILE", "SOURCES", "Replayed", "replayed_runs"]

REPLAYED_FILE = Path(__file__).with_name("replayed.csv")

SOURCES = {
    "megatron-2021-t1": "Narayanan et al., 2021, arXiv 2104.04473, table 1",
    "megatron-2021-t2-ptd": "Narayanan et al., 2021, arXiv 2104.04473, table 2, three axes",
    "megatron-2021-t2-zero3": "Narayanan et al., 2021, arXiv 2104.04473, table 2, ZeRO-3",
    "megatron-core-h100": "the table in Megatron-LM's repository",
    "korthikanti-t5": "Korthikanti et al., 2022, arXiv 2205.05198, table 5",
    "mt-nlg-530b": "Smith et al., 2022, arXiv 2201.11990",
    "megascale-megatron": "Jiang et al., 2024, arXiv 2402.15627, Megatron-LM's rows",
    "llama3-405b": "Llama 3 herd of models, 2024, arXiv 2407.21783, table 4",
    "torchtitan": "torchtitan's page of benchmarks",
    "bloom-prequel": "BigScience's chronicle of early 2022: the layout that was taken in the end",
    "vtrain-multi": "VIA-Research/vTrain's measured runs (MIT licence)",
    "ultra-scale": "the runs behind Hugging Face's Ultra-Scale Playbook (Apache-2.0)",
    "foundry-h100": "llm-foundry's page of benchmarks: seconds from its MFU, and our sizes of its models",
    "foundry-a100": "llm-foundry's page of benchmarks: seconds from its MFU, and our sizes of its models",
}
GROUPS = {
    "chosen": (
        "megatron-2021-t1",
        "megatron-2021-t2-ptd",
        "megatron-core-h100",
        "korthikanti-t5",
        "mt-nlg-530b",
        "megascale-megatron",
        "llama3-405b",
        "torchtitan",
        "bloom-prequel",
    ),
    "tried": ("vtrain-multi",),
}


@dataclass(frozen=True)
class Replayed:
    """A published run beside what the planner says of it. ``elsewhere``: constants of other clusters."""

    of: Prepared
    elsewhere: Constants

    @property
    def table(self) -> str:
        """Which table it stands in, a key of ``SOURCES``."""
        return self.of.run.table

    @property
    def source(self) -> str:
        """Who published it, and where."""
        return SOURCES[self.table]

    @property
    def gpus(self) -> int:
        """How many GPUs it ran on."""
        return self.of.run.gpus

    @property
    def name(self) -> str:
        """Model, GPUs and layout, as in "405B, 8,192 H100-80GB, tp8 pp16 dp64 mb1 zero1 sp"."""
        run = self.of.run
        return f"{run.job.model.name}, {run.gpus:,} {run.gpu}, {run.layout}"

    @property
    def measured_s(self) -> float:
        """A step, as published or as follows from what is published."""
        assert self.of.run.step_s is not None  # a test holds that every row has one
        return self.of.run.step_s

    @cached_property
    def predicted_s(self) -> float:
        """The planner's step, with the constants of its cluster."""
        return self.of.step_s(self.of.profile.constants)

    @cached_property
    def elsewhere_s(self) -> float:
        """The planner's step, had nobody ever measured this cluster."""
        return self.of.step_s(self.elsewhere)

    @property
    def kind(self) -> str:
        """The kind of its layout, as ``error_bands`` has a band for each."""
        return kind_of(self.of.profile.machines(self.gpus, self.of.run.node_size), self.of.run.layout)

    @cached_property
    def elsewhere_parts(self) -> StepParts:
        """That step by part."""
        return self.of.parts(self.elsewhere)

    @cached_property
    def elsewhere_sizes(self) -> DataSizes:
        """What its data axis has to send, with the same constants, if its source tells the micro-batch.

        ValueError for a layout of another kind than ``data_sizes`` takes.
        """
        run, profile = self.of.run, self.of.profile
        cluster = profile.machines(self.gpus, run.node_size)
        return data_sizes(run.job, self.of.layouts[0], cluster, self.elsewhere, profile.software(run.dtype))

    @property
    def at_peak_s(self) -> float:
        """The step if every FLOP that is executed ran at the data sheet's rate, and nothing else took time."""
        return self.of.one_share_s

    @property
    def hfu(self) -> float:
        """Share of the peak, counting what is executed: recomputation too, and all scores of attention."""
        return self.at_peak_s / self.measured_s

    @property
    def mfu(self) -> float:
        """Share of the peak, counting what the model needs: no recomputation, and half the scores (they are causal)."""
        job, peak = self.of.run.job, self.of.profile.gpu.peak_flops_per_s
        flops = 3 * job.tokens * job.model.forward_flops(job.seq, causal=True)
        return flops / (self.measured_s * self.gpus * peak)

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """What a GPU gets done."""
        return self.of.run.job.tokens / self.measured_s / self.gpus


@lru_cache(maxsize=1)
def _all_runs() -> tuple[Replayed, ...]:
    runs, refused = read_runs(REPLAYED_FILE)
    if refused:
        raise ValueError(f"{REPLAYED_FILE} has rows that cannot be read: {refused}")
    profiles, found = load_profiles(), []
    for run in runs:
        own = profile_of(run.cluster, run.gpu, profiles)
        found.append(Replayed(prepared(run, own), constants_elsewhere(own, profiles)))
    return tuple(found)


@checked
def replayed_runs(*tables: str) -> tuple[Replayed, ...]:
    """The runs of these tables or groups, of all where none is named. ValueError for a name that there is not."""
    wanted: set[str] = set()
    for table in tables:
        wanted.update(GROUPS.get(table) or {known("table", table, {**SOURCES, **GROUPS})})
    return tuple(run for run in _all_runs() if not tables or run.table in wanted)
