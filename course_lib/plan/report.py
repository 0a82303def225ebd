"""A listing in words and numbers: the ranked table, the parts of one layout with bars; and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from course_lib.plan.listing import Listing, Option

__all__ = ["Budget", "as_json", "table", "words"]

_GB = 1e9
_DAY_S = 86400.0
_BAR = 30  # characters of the longest bar


@dataclass(frozen=True)
class Budget:
    """What a whole training costs: ``tokens`` to be seen, a price by GPU and hour, watts of a GPU; None: not asked."""

    tokens: float | None = None
    price_per_gpu_hour: float | None = None
    watts: float | None = None

    def of(self, listing: Listing, option: Option) -> dict[str, float]:
        """Days, energy in MWh and cost of the whole training."""
        if self.tokens is None:
            return {}
        seconds = self.tokens / listing.job.tokens * option.step_s
        found = {"days": seconds / _DAY_S}
        gpu_hours = seconds / 3600 * listing.cluster.gpus
        if self.watts is not None:
            found["energy_mwh"] = gpu_hours * self.watts / 1e6
        if self.price_per_gpu_hour is not None:
            found["cost"] = gpu_hours * self.price_per_gpu_hour
        return found


def _rates(listing: Listing, option: Option) -> dict[str, float]:
    job, cluster = listing.job, listing.cluster
    flops = job.batch * job.seq * 3 * job.model.forward_flops(job.seq, causal=True)
    return {
        "step_s": option.step_s,
        "tokens_per_s": job.tokens / option.step_s,
        "tokens_per_s_per_gpu": job.tokens / option.step_s / cluster.gpus,
        "share_of_peak": flops / (option.step_s * cluster.gpus * cluster.peak_flops_per_s),
    }


def table(listing: Listing, budget: Budget, *, top: int) -> str:
    """The fastest ``top`` layouts, a line each."""
    head = f"{'':3} {'step':>9} {'tokens/s':>11} {'a GPU':>8} {'of peak':>8} {'memory':>9}"
    extra = list(budget.of(listing, listing.options[0])) if listing.options else []
    lines = [head + "".join(f" {name.replace('_mwh', ', MWh'):>12}" for name in extra) + "  layout"]
    for place, option in enumerate(listing.options[:top], start=1):
        rates, more = _rates(listing, option), budget.of(listing, option)
        lines.append(
            f"{place:3} {option.step_s:7.3g} s {rates['tokens_per_s']:11,.0f} {rates['tokens_per_s_per_gpu']:8,.0f} "
            f"{rates['share_of_peak']:8.1%} {option.memory.total_bytes / _GB:6.1f} GB"
            + "".join(f" {more[name]:12,.1f}" for name in extra)
            + f"  {option.layout}"
        )
    return "\n".join(lines)


def words(listing: Listing, option: Option) -> str:
    """Where the time and the memory of one layout go, each part with a bar."""
    lines = [f"Time of a step with {option.layout}"]
    lines += _bars({name: 1e3 * part for name, part in asdict(option.step).items()}, "_s", "ms")
    lines += ["", "Memory of its fullest GPU"]
    lines += _bars({name: part / _GB for name, part in asdict(option.memory).items()}, "_bytes", "GB")
    return "\n".join(lines)


def _bars(parts: dict[str, float], ending: str, unit: str) -> list[str]:
    total, largest = sum(parts.values()), max(parts.values())
    lines = []
    for name, part in parts.items():
        if part > 0:
            bar = "#" * round(_BAR * part / largest)
            lines.append(
                f"  {name.removesuffix(ending):12} {part:10,.1f} {unit} {part / total:6.1%}  {bar}".rstrip()
            )
    return lines


def as_json(listing: Listing, budget: Budget, advice: list[str], *, top: int) -> dict[str, Any]:
    """The listing for other programs: the job, the ``top`` layouts by part, and the reasons with their counts."""
    options = [
        {
            "layout": asdict(option.layout),
            **_rates(listing, option),
            **budget.of(listing, option),
            "time": asdict(option.step),
            "memory": asdict(option.memory),
        }
        for option in listing.options[:top]
    ]
    return {
        "job": asdict(listing.job),
        "cluster": asdict(listing.cluster),
        "layouts": len(listing.options),
        "options": options,
        "refused": dict(listing.reasons()),
        "advice": advice,
    }
