"""Profiles: what is known of a cluster (its GPUs, its ports, its program), and the constants fitted to its runs.

``profiles.json`` keeps them with their origin; ``course bench published FILE --fit`` writes the constants anew. A
cluster that nobody has measured gets those of others with the same GPU, else with a GPU of the same or nearest peak.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from math import exp, log
from pathlib import Path
from typing import Any

from course_lib.base.checked import checked
from course_lib.base.checks import above_zero, known
from course_lib.base.whole_file import write_whole
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.constants import KINDS, Constants
from course_lib.plan.inputs.software import LOGIT_BYTES, Software

__all__ = [
    "PROFILES_FILE",
    "Gpu",
    "Profile",
    "constants_elsewhere",
    "load_profiles",
    "profile_of",
    "profiles_alike",
    "save_constants",
    "typical_constants",
    "typical_of_gpu",
]

_OF_ALL = ("latency_s", "hidden_share")
PROFILES_FILE = Path(__file__).with_name("profiles.json")


@checked
@dataclass(frozen=True)
class Gpu:
    """A GPU by its data sheet; the link is NVLink in one direction."""

    name: str
    memory_bytes: float
    peak_flops_per_s: float  # of float16 and bfloat16, dense
    memory_bandwidth_bytes_per_s: float
    link_bandwidth_bytes_per_s: float
    node_bandwidth_bytes_per_s: float  # of the maker's own machine of eight, where a cluster does not say
    attention_share: float = 0.0  # of the peak that FlashAttention-2 reaches; 0: as much as large matrices


@checked
@dataclass(frozen=True)
class Profile:
    """One cluster: facts that its owners state, and constants that its runs tell. ``fitted_on``: how many runs."""

    cluster: str
    gpu: Gpu
    node_bandwidth_bytes_per_s: float
    constants: Constants
    fused_attention: bool = True
    layers_by_cost: bool = True
    dropout: bool = False
    sharded_calls_a_layer: int = 1
    selective_products: bool = False
    keeps_gathered: bool = False
    separate_gradients: bool = False  # in two bytes, beside their float32 sums
    prefetches: bool = True
    overlaps: bool = False
    reads_sizes: bool = False
    bucket_bytes: float = 25e6  # 0: in one call
    half_gradients: bool = False  # travel in two bytes, also with bfloat16
    fused_elements: bool = True
    gathers_again: bool = False
    copied_bytes: float = 0.0
    logit_bytes: int = LOGIT_BYTES
    buffer_bytes: float = 0.0
    loss_bytes: float = 36.0
    fused_gate: bool = True
    attention_share: float = 0.0
    blocks: bool = False
    gathers_ahead: bool = False
    ends_as_layers: bool = False
    sends_ahead: bool = False
    listed_s: float = 0.0
    gathered_buffers: int = 0
    chunks: int = 1  # of a rank of its pipelines, where a table does not say and the owners do
    domain_share: float = 0.0  # of NVLink that NCCL gets, where its owners have measured it; 0: they have not
    network_share: float = 0.0  # of its ports that NCCL gets, where its owners have measured it; 0: they have not
    clock_share: float = 1.0  # of the clock that a limit of power leaves, which the owners set below the GPU's
    programs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # other facts of a table's own program
    fitted_on: int = 0
    told: Mapping[str, float] = field(default_factory=dict)  # how much of each constant its runs tell, from 0 to 1
    source: str = ""

    def software(self, dtype: str) -> Software:
        """How its program works: with bfloat16, gradients are added up and sent in float32."""
        reduce_bytes = 2 if dtype == "float16" or self.half_gradients else 4
        return Software(
            fused_attention=self.fused_attention,
            layers_by_cost=self.layers_by_cost,
            dropout=self.dropout,
            gradient_bytes=reduce_bytes + (2 if self.separate_gradients else 0),
            reduce_bytes=reduce_bytes,
            sharded_calls_a_layer=self.sharded_calls_a_layer,
            selective_products=self.selective_products,
            keeps_gathered=self.keeps_gathered,
            prefetches=self.prefetches,
            overlaps=self.overlaps,
            reads_sizes=self.reads_sizes,
            bucket_bytes=self.bucket_bytes,
            fused_elements=self.fused_elements,
            gathers_again=self.gathers_again,
            copied_bytes=self.copied_bytes,
            logit_bytes=self.logit_bytes,
            buffer_bytes=self.buffer_bytes,
            loss_bytes=self.loss_bytes,
            fused_gate=self.fused_gate,
            attention_share=self.attention_share,
            blocks=self.blocks,
            gathers_ahead=self.gathers_ahead,
            ends_as_layers=self.ends_as_layers,
            sends_ahead=self.sends_ahead,
            listed_s=self.listed_s,
            gathered_buffers=self.gathered_buffers,
        )

    def of_table(self, table: str) -> Profile:
        """The same cluster with the program of a table's runs, where it is not the cluster's own."""
        return replace(self, **self.programs.get(table, {}))

    def machines(self, gpus: int, node_size: int) -> ClusterSpec:
        """``gpus`` of its GPUs in nodes of ``node_size``, each an NVLink domain."""
        return ClusterSpec(
            name=self.cluster,
            gpus=gpus,
            node_size=node_size,
            domain_size=node_size,
            memory_bytes=round(self.gpu.memory_bytes),
            peak_flops_per_s=self.gpu.peak_flops_per_s * self.clock_share,
            memory_bandwidth_bytes_per_s=self.gpu.memory_bandwidth_bytes_per_s,
            domain_bandwidth_bytes_per_s=self.gpu.link_bandwidth_bytes_per_s,
            node_bandwidth_bytes_per_s=self.node_bandwidth_bytes_per_s,
            attention_share=self.gpu.attention_share,
        )

    def tells(self, name: str) -> float:
        """How much its runs tell of a constant: 0 nothing, 1 all; 1 where nobody has asked.

        A host that waits for each kernel tells nothing of other clusters, nor does a network that its owners have
        measured. NVLink is the same in all: what its owners have measured of it tells all.
        """
        if (name == "host_layer_s" and self.blocks) or (name == "outside_share" and self.network_share):
            return 0.0
        return 1.0 if name == "inside_share" and self.domain_share else self.told.get(name, 1.0)

    def value_of(self, name: str) -> float:
        """A constant as others may take it: what the owners have measured of NVLink, else what the runs tell."""
        measured = self.domain_share if name == "inside_share" else 0.0
        return measured or getattr(self.constants, name)


@lru_cache(maxsize=4)
def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} holds no profiles: {error}") from None


def _gpus(path: Path) -> dict[str, Gpu]:
    return {name: Gpu(name, **numbers) for name, numbers in _read(path)["gpus"].items()}


@checked
def load_profiles(path: Path = PROFILES_FILE) -> dict[tuple[str, str], Profile]:
    """All profiles, by the names of cluster and GPU."""
    gpus, found = _gpus(path), {}
    for entry in _read(path)["clusters"]:
        facts = dict(entry)
        gpu = gpus[facts.pop("gpu")]
        constants = Constants(**facts.pop("constants", {}))
        profile = Profile(gpu=gpu, constants=constants, **facts)
        found[profile.cluster, gpu.name] = profile
    return found


@checked
def profile_of(cluster: str, gpu: str, profiles: Mapping[tuple[str, str], Profile] | None = None) -> Profile:
    """The profile of a cluster; one of typical constants where there is none. ValueError for an unknown GPU."""
    found = load_profiles() if profiles is None else profiles
    if (cluster, gpu) in found:
        return found[cluster, gpu]
    gpus = _gpus(PROFILES_FILE)
    spec = gpus[known("gpu", gpu, gpus)]
    alike = profiles_alike(spec.peak_flops_per_s, spec.memory_bandwidth_bytes_per_s, list(found.values()))
    source = "typical of clusters with this GPU, or with the most similar one"
    constants = typical_constants(alike, list(found.values()))
    return Profile(cluster, spec, spec.node_bandwidth_bytes_per_s, constants, source=source)


@checked
def typical_constants(profiles: Sequence[Profile], every: Sequence[Profile] | None = None) -> Constants:
    """What to expect of one more cluster like those that two runs or more tell; ``Constants()`` without any.

    Of each constant it is the geometric mean, where a cluster has as much weight as its runs tell of the constant. The
    typical value of ``KINDS`` has the weight of one cluster whose runs tell all. The latency of a call, and how much of
    it hides, are of NCCL and the program, and not of a GPU: they are those of ``every``, or of the course's profiles.
    """
    fitted = [profile for profile in profiles if profile.fitted_on > 1]
    if not fitted:
        return Constants()
    every = list(load_profiles().values()) if every is None else every
    others = [profile for profile in every if profile.fitted_on > 1]
    means = {name: _mean(name, others if name in _OF_ALL else fitted) for name in KINDS}
    return Constants(**{name: min(max(mean, KINDS[name].lowest), KINDS[name].highest) for name, mean in means.items()})


def _mean(name: str, profiles: Sequence[Profile]) -> float:
    weighed = [(1.0, KINDS[name].typical), *((one.tells(name), one.value_of(name)) for one in profiles)]
    return exp(sum(weight * log(value) for weight, value in weighed) / sum(weight for weight, _ in weighed))


@checked
def constants_elsewhere(own: Profile, profiles: Mapping[tuple[str, str], Profile] | None = None) -> Constants:
    """What to expect of a cluster by all others: typical constants, without any that its own runs tell.

    Its links have the shares that its owners have measured with NCCL alone, if they have.
    """
    found = load_profiles() if profiles is None else profiles
    others = {key: profile for key, profile in found.items() if key[0] != own.cluster}
    constants = profile_of("elsewhere", own.gpu.name, others).constants
    measured = {"inside_share": own.domain_share, "outside_share": own.network_share}
    return replace(constants, **{name: share for name, share in measured.items() if share})


@checked
def profiles_alike(
    peak_flops_per_s: float, memory_bandwidth_bytes_per_s: float, profiles: Sequence[Profile] | None = None
) -> list[Profile]:
    """Of the profiles that two runs or more tell, those whose GPU is like one with these rates.

    Both rates are the same; where no GPU has both, the peak is; where none has that, the peaks nearest to it are taken.
    ``profiles``: the course's own if none are given. ValueError for a rate that is not above 0.
    """
    above_zero(peak_flops_per_s=peak_flops_per_s, memory_bandwidth_bytes_per_s=memory_bandwidth_bytes_per_s)
    every = list(load_profiles().values()) if profiles is None else profiles
    fitted = [one for one in every if one.fitted_on > 1]
    apart = {one.gpu.peak_flops_per_s: abs(log(one.gpu.peak_flops_per_s / peak_flops_per_s)) for one in fitted}
    nearest = min(apart, key=apart.__getitem__, default=0.0)
    same_peak = [one for one in fitted if one.gpu.peak_flops_per_s == nearest]
    same = [one for one in same_peak if one.gpu.memory_bandwidth_bytes_per_s == memory_bandwidth_bytes_per_s]
    return same or same_peak


@checked
def typical_of_gpu(peak_flops_per_s: float, memory_bandwidth_bytes_per_s: float) -> Constants:
    """Typical of measured clusters with a GPU like this one. ValueError for a rate that is not above 0."""
    every = list(load_profiles().values())
    return typical_constants(profiles_alike(peak_flops_per_s, memory_bandwidth_bytes_per_s, every), every)


@checked
def save_constants(
    fitted: Mapping[tuple[str, str], tuple[Constants, int]],
    origin: Mapping[str, str],
    path: Path = PROFILES_FILE,
    told: Mapping[tuple[str, str], Mapping[str, float]] | None = None,
) -> None:
    """Write constants, and on how many runs each set was fitted, into the file; facts and other clusters stay.

    ``told``: how much of each constant a cluster's runs tell, as ``runs/fit.py`` finds it.
    """
    record = json.loads(json.dumps(_read(path)))
    record["origin"] = dict(origin)
    for entry in record["clusters"]:
        key = (entry["cluster"], entry["gpu"])
        if key in fitted:
            constants, count = fitted[key]
            entry["constants"] = {name: float(f"{value:.4g}") for name, value in asdict(constants).items()}
            entry["fitted_on"] = count
            if told and key in told:
                entry["told"] = {name: round(share, 2) for name, share in told[key].items()}
    write_whole(path, (json.dumps(record, indent=1) + "\n").encode())
    _read.cache_clear()


def with_constants(
    profiles: Mapping[tuple[str, str], Profile], fitted: Mapping[tuple[str, str], tuple[Constants, int]]
) -> dict[tuple[str, str], Profile]:
    """The same profiles with other constants, where there are some."""
    return {
        key: replace(profile, constants=fitted[key][0], fitted_on=fitted[key][1]) if key in fitted else profile
        for key, profile in profiles.items()
    }
