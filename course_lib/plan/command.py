"""What ``course plan`` does with its options: lists, advises, prints, keeps."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from course_lib.checks import known
from course_lib.plan.advice import advise
from course_lib.plan.candidates import candidates
from course_lib.plan.cluster import Cluster, cluster_of
from course_lib.plan.constants import Constants
from course_lib.plan.job import Job
from course_lib.plan.layout import Layout
from course_lib.plan.listing import Listing, list_layouts
from course_lib.plan.model import decoder
from course_lib.plan.profiles import load_profiles, typical_constants
from course_lib.plan.report import Budget, as_json, table, words
from course_lib.plan.software import Software

__all__ = ["plan"]

_REASONS = 6  # told of the refusals
_ASKED = {
    "tp": "tp",
    "cp": "cp",
    "pp": "pp",
    "dp": "dp",
    "ep": "ep",
    "mb": "micro_batch",
    "v": "chunks",
    "zero": "sharding",
}
# Of one GPU, by its maker's data sheet.
_WATTS = {
    "V100": 300,
    "A100": 400,
    "H100": 700,
    "H200": 700,
    "B200": 1000,
    "GB200": 1200,
    "MI300X": 750,
    "4090": 450,
}


def plan(options: argparse.Namespace) -> int:
    """Print the plan; 0 where something runs, 1 where nothing does. ValueError for what cannot be understood."""
    job = Job(decoder(options.model), options.seq, options.batch)
    cluster = cluster_of(options.machine, nodes=options.nodes, gpus=options.gpus)
    constants, asked = _constants(options.profile, cluster), _asked(options.layout)
    budget = _budget(options, cluster)
    memory_bytes = _positive("--memory", options.memory, 1e9)

    def lister(on: Cluster, offload: bool) -> Listing:
        layouts = [
            one for one in candidates(job, on, offload=offload or options.offload) if _is_like(one, asked)
        ]
        return list_layouts(job, on, constants, Software(), memory_bytes=memory_bytes, layouts=layouts)

    listing = lister(cluster, False)
    advice = advise(listing, lister) + _too_long(listing, budget, options.days)
    _print(listing, budget, advice, max(1, options.top))
    if options.json is not None:
        text = json.dumps(as_json(listing, budget, advice, top=max(1, options.top)), indent=1)
        try:
            options.json.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise ValueError(f"--json {options.json} cannot be written: {error.strerror}.") from None
    return 0 if listing.best else 1


def _print(listing: Listing, budget: Budget, advice: Sequence[str], top: int) -> None:
    job, cluster = listing.job, listing.cluster
    print(
        f"{job.model.name}, {job.model.parameters / 1e9:.2f} billion parameters; {job.batch} sequences of {job.seq} "
        f"tokens a step; {cluster.gpus} GPUs of {cluster.name}"
    )
    print(f"{len(listing.options)} layouts run, {len(listing.refusals)} do not\n")
    if listing.best is not None:
        print(table(listing, budget, top=top))
        print(f"\n{words(listing, listing.best)}")
    if listing.refusals:
        print("\nWhy not the others")
        for reason, count in listing.reasons()[:_REASONS]:
            print(f"  {count:6}  {reason}")
        if listing.nearest is not None and listing.best is not None:
            print(f"  as {listing.nearest.layout}: {listing.nearest.why}; {listing.nearest.instead}")
    if advice:
        print("\n" + "\n".join(advice))


def _constants(profile: str | None, cluster: Cluster) -> Constants:
    """Those of a cluster by name; else typical of clusters with the same GPU, by its peak; else typical of all."""
    profiles = load_profiles()
    if profile is not None:
        name = known("--profile", profile, dict.fromkeys(name for name, _ in profiles))
        return typical_constants([one for (own, _), one in profiles.items() if own == name])
    alike = [one for one in profiles.values() if one.gpu.peak_flops_per_s == cluster.peak_flops_per_s]
    return typical_constants(alike or list(profiles.values()))


def _budget(options: argparse.Namespace, cluster: Cluster) -> Budget:
    if options.tokens is None and (options.days is not None or options.price is not None):
        raise ValueError(
            "--days and --price are of a whole training: give its --tokens, such as --tokens 1e12."
        )
    watts = next((float(watts) for name, watts in _WATTS.items() if cluster.name.endswith(name)), None)
    price = _positive("--price", options.price, 1.0)
    _positive("--days", options.days, 1.0)
    return Budget(_positive("--tokens", options.tokens, 1.0), price, watts)


def _positive(name: str, value: float | None, unit: float) -> float | None:
    if value is not None and not 0 < value < float("inf"):
        raise ValueError(f"{name} is {value:g}; it is a number above zero, if ever so small.")
    return None if value is None else value * unit


def _asked(text: str | None) -> dict[str, int]:
    """Names and sizes of ``--layout``, as in "tp=8 mb=1"."""
    found = {}
    for word in (text or "").replace(",", " ").split():
        name, _, size = word.partition("=")
        field = _ASKED[known("--layout", name, _ASKED)]
        if not size.isdigit():
            raise ValueError(f"--layout says {word!r}; a size is a whole number, as in {name}=2.")
        found[field] = int(size)
    return found


def _is_like(layout: Layout, asked: dict[str, int]) -> bool:
    return all(getattr(layout, name) == size for name, size in asked.items())


def _too_long(listing: Listing, budget: Budget, days: float | None) -> list[str]:
    if days is None or listing.best is None:
        return []
    took = budget.of(listing, listing.best)["days"]
    if took <= days:
        return []
    gpus = listing.cluster.gpus * took / days
    return [
        f"The fastest takes {took:,.1f} days, and {days:g} were asked for: {gpus:,.0f} GPUs that lose nothing by "
        "being more would do it."
    ]
