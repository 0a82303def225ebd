"""From words that people type to a job, a cluster and its constants; and a sentence for each wish that cannot be."""

from __future__ import annotations

import argparse
import difflib
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from course_lib.base.checks import at_least, known
from course_lib.cost.collectives.machines import MACHINES
from course_lib.plan.inputs.calibrated import read_calibrated
from course_lib.plan.inputs.cluster import ClusterSpec, cluster_of
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.error_bands import ErrorBands, error_bands
from course_lib.plan.inputs.hf_config import decoder_of_file
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.model import Decoder
from course_lib.plan.inputs.models import MODELS, decoder, decoder_of_words
from course_lib.plan.inputs.profiles import (
    load_profiles,
    typical_constants,
    typical_of_gpu,
)
from course_lib.plan.inputs.software import Software
from course_lib.plan.search.advice import Lister
from course_lib.plan.search.budget import Budget, watts_of
from course_lib.plan.search.fastest import list_fastest
from course_lib.plan.search.listing import Listing, list_layouts
from course_lib.plan_command.from_trace import constants_from
from course_lib.plan_command.layout_words import asked_candidates, asked_words, check_axes

__all__ = ["PlanRequest", "request_of"]

_GB, _BYTES_PER_GBIT = 1e9, 1.25e8
_FASTEST_GBIT = 100_000  # of a node; ten times what a node of 72 GPUs has today
_LONGEST_SEQ, _LARGEST_BATCH = 1 << 30, 1 << 40
_DTYPES = ("bfloat16", "float8")


@dataclass(frozen=True)
class PlanRequest:
    """What was asked, understood. ``remarks``: what to know about the constants; ``bands``: how wrong they may be."""

    job: Job
    cluster: ClusterSpec
    constants: Constants
    budget: Budget
    asked: dict[str, int | str]
    memory_bytes: float | None
    offload: bool
    remarks: tuple[str, ...]
    bands: ErrorBands = field(default_factory=error_bands)

    def lister(self, *, fastest_alone: bool = False) -> Lister:
        """Lists the job on any cluster, and each cluster once. ``fastest_alone``: no layout but the first of each."""
        found: dict[tuple[ClusterSpec, bool], Listing] = {}

        def listed(cluster: ClusterSpec, offload: bool) -> Listing:
            offload = offload or self.offload
            if (cluster, offload) not in found:
                search = list_fastest if fastest_alone else list_layouts
                found[cluster, offload] = search(
                    self.job,
                    cluster,
                    self.constants,
                    Software(),
                    memory_bytes=self.memory_bytes,
                    layouts=asked_candidates(self.job, cluster, self.asked, offload),
                )
            return found[cluster, offload]

        return listed


def request_of(options: argparse.Namespace) -> PlanRequest:
    """What the options ask for; ValueError with a sentence for what cannot be."""
    model = _model(options)
    at_least(1, batch=options.batch, seq=options.seq)
    for name, most in (("seq", _LONGEST_SEQ), ("batch", _LARGEST_BATCH)):
        if getattr(options, name) > most:
            raise ValueError(f"--{name} is {getattr(options, name):,}; it is at most {most:,}.")
    if model.positions and options.seq > model.positions:
        raise ValueError(
            f"--seq is {options.seq}; {model.name} has {model.positions} positions. The nearest is {model.positions}."
        )
    cluster, constants, remarks = _cluster(options)
    asked = asked_words(options.layout)
    if options.max_gpus is None:
        check_axes(asked, cluster.gpus)
    return PlanRequest(
        job=Job(model, options.seq, options.batch),
        cluster=cluster,
        constants=constants,
        budget=_budget(options, cluster),
        asked=asked,
        memory_bytes=_memory_bytes(options.memory, cluster),
        offload=options.offload,
        remarks=remarks,
        bands=error_bands("elsewhere" if options.profile is None else "more"),
    )


def _model(options: argparse.Namespace) -> Decoder:
    if options.config is not None and options.model is not None:
        raise ValueError("--model and --config both name a model; give one of them.")
    if options.config is not None:
        path = Path(options.config)
        base: Decoder | None = decoder_of_file(path / "config.json" if path.is_dir() else path)
    else:
        base = None if options.model is None else decoder(options.model)
    if options.sizes is not None:
        return decoder_of_words(options.sizes, base=base)
    if base is None:
        raise ValueError(
            f"there is no model. Give --model, one of {', '.join(MODELS)}; or --config FILE; or --sizes WORDS."
        )
    return base


# -- the cluster ----------------------------------------------------------------------------------------------------


def _cluster(options: argparse.Namespace) -> tuple[ClusterSpec, Constants, tuple[str, ...]]:
    """The cluster, its constants, and what to say about them."""
    if options.nodes is not None and options.gpus is not None:
        raise ValueError("--nodes and --gpus both say how many GPUs there are; give one of them.")
    if options.max_gpus is not None and (options.nodes is not None or options.gpus is not None):
        raise ValueError("--max-gpus searches for the number of GPUs; leave out --nodes and --gpus.")
    path = Path(options.machine)
    if path.suffix == ".json" or (path.exists() and not path.is_dir()):
        if options.network_gbit is not None:
            raise ValueError(
                "--network-gbit is for the network between nodes, and a calibration covers one machine. "
                "Leave out --network-gbit."
            )
        if options.own_file is not None:
            raise ValueError("--from and --machine both give a machine's file. With --from, --machine must be a name.")
        if options.nodes not in (None, 1):
            raise ValueError(f"--nodes is {options.nodes}; a calibration covers one machine. The nearest is 1.")
        measured = read_calibrated(path)
        gpus = options.gpus if options.max_gpus is None else min(options.max_gpus, measured.devices)
        memory_bytes = None if options.memory is None else options.memory * _GB
        typical, remark = _typical(options.profile, None)
        here = measured.cluster(gpus, memory_bytes=memory_bytes)
        return here, measured.constants(typical), (str(measured), *remark)
    name = _machine(options.machine)
    at_least(1, nodes=1 if options.nodes is None else options.nodes)
    _check_dtype(options.dtype, name)
    cluster = cluster_of(name, nodes=options.nodes or 1, gpus=options.gpus, dtype=options.dtype)
    constants, remarks = _typical(options.profile, cluster)
    cluster, network = _with_network(cluster, options.network_gbit)
    if options.own_file is not None:
        constants, remarks = constants_from(options.own_file, cluster, constants)
    return cluster, constants, (*network, *_half(cluster), *remarks)


def _with_network(cluster: ClusterSpec, gbit: float | None) -> tuple[ClusterSpec, tuple[str, ...]]:
    """The cluster with another network, and what to say of it. Latencies stay those of the machine's own."""
    if gbit is None:
        return cluster, ()
    if gbit > _FASTEST_GBIT:  # that it is above 0 was seen when it was read
        raise ValueError(
            f"--network-gbit is {gbit:g}; it is above 0 and at most {_FASTEST_GBIT:,}. The nearest is "
            f"{_FASTEST_GBIT:,}."
        )
    own_gbit = cluster.node_bandwidth_bytes_per_s / _BYTES_PER_GBIT
    return replace(cluster, node_bandwidth_bytes_per_s=gbit * _BYTES_PER_GBIT), (
        f"A node sends {gbit:g} Gbit/s to others. A node of {cluster.name} as its maker builds it has "
        f"{own_gbit:,.0f} Gbit/s.",
    )


def _half(cluster: ClusterSpec) -> tuple[str, ...]:
    if cluster.has_bfloat16:
        return ()
    return (
        f"A GPU of {cluster.name} has no bfloat16: times are for float16, whose gradients need a scaler "
        "(torch.amp.GradScaler).",
    )


def _check_dtype(dtype: str, machine: str) -> None:
    """Memory and messages are counted for matrices of two bytes, or of one beside them: no other type is planned."""
    known("--dtype", dtype, _DTYPES)
    if dtype == "float8" and dtype not in MACHINES[machine].matmul_flops_per_s:
        raise ValueError(f"--dtype is 'float8', and a GPU of {machine} has no rate for it. The nearest is 'bfloat16'.")


def _machine(word: str) -> str:
    """The name of a machine as people type it: 8xh100, "8x H100", h100."""
    wanted = _plain(word)
    names = {_plain(name): name for name in MACHINES}
    also = {_plain(word): name for name, spec in MACHINES.items() for word in spec.also_called}
    wanted = _plain(also.get(wanted, wanted))
    if wanted in names:
        return names[wanted]
    by_gpu = {_plain(name.split(" ", 1)[1]): name for name in MACHINES} | {
        _plain(name.split()[-1]): name for name in MACHINES
    }
    if wanted in by_gpu:
        return by_gpu[wanted]
    count = re.fullmatch(r"(\d+)x(.+)", wanted)
    if count and count.group(2) in by_gpu:
        name = by_gpu[count.group(2)]
        raise ValueError(
            f"machine is {word!r}; the one with this GPU is {_plain(name)}. For {count.group(1)} of its GPUs give "
            f"--machine {_plain(name)} --gpus {count.group(1)}."
        )
    near = difflib.get_close_matches(wanted, [*names, *by_gpu], n=1, cutoff=0.4)
    guess = f" Did you mean {_plain((names | by_gpu)[near[0]])!r}?" if near else ""
    raise ValueError(
        f"machine is {word!r}; it is one of {', '.join(names)}, or the file that calibrate() keeps.{guess}"
    )


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name.lower())


def _typical(profile: str | None, cluster: ClusterSpec | None) -> tuple[Constants, tuple[str, ...]]:
    """Constants of a cluster by name; else typical of clusters with the same GPU, or the nearest to it."""
    profiles = load_profiles()
    if profile is not None:
        name = known("--profile", profile, dict.fromkeys(name for name, _ in profiles))
        own = [one for (cluster_name, _), one in profiles.items() if cluster_name == name]
        peak = own[0].gpu.peak_flops_per_s if cluster is None else cluster.peak_flops_per_s
        return min(own, key=lambda one: abs(one.gpu.peak_flops_per_s / peak - 1)).constants, ()
    if cluster is None:
        return typical_constants(list(profiles.values())), ()
    peak = cluster.peak_flops_per_s
    is_measured = any(one.fitted_on > 1 and one.gpu.peak_flops_per_s == peak for one in profiles.values())
    remark = () if is_measured else (
        f"No published run is from {cluster.name}. Its shares of the peaks are those of other GPUs, so expect an "
        "error of more than 10 %.",
    )  # fmt: skip
    return typical_of_gpu(peak, cluster.memory_bandwidth_bytes_per_s), remark


# -- limits ---------------------------------------------------------------------------------------------------------


def _memory_bytes(memory_gb: float | None, cluster: ClusterSpec) -> float | None:
    if memory_gb is None:
        return None
    if memory_gb * _GB > cluster.memory_bytes * 1.0000001:
        has = cluster.memory_bytes / _GB
        raise ValueError(
            f"--memory is {memory_gb:g} GB; a GPU of {cluster.name} has {has:.1f} GB. "
            f"The nearest is {int(has * 10) / 10}."
        )
    return memory_gb * _GB


def _budget(options: argparse.Namespace, cluster: ClusterSpec) -> Budget:
    asked = {
        "--days": options.days,
        "--price-per-gpu-hour": options.price_per_gpu_hour,
        "--watts": options.watts,
    }
    named = [name for name, value in asked.items() if value is not None]
    if options.tokens is None and named:
        raise ValueError(f"{named[0]} is about a whole training: give its --tokens too, such as --tokens 1T.")
    watts = options.watts or watts_of(cluster.name)
    return Budget(options.tokens, options.price_per_gpu_hour, watts, options.days)
