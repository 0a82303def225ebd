"""What a whole training takes: days, energy and cost of a number of tokens."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import above_zero
from course_lib.cost.collectives.machines import MACHINES
from course_lib.plan.search.listing import Listing, Option

__all__ = ["Budget", "watts_of"]

_DAY_S, _HOUR_S = 86400.0, 3600.0


def watts_of(machine: str) -> float | None:
    """Watts of one GPU of a machine, by a name that holds the GPU's, as "8x H100"; None where they are not known."""
    by_gpu = {name.split()[-1].upper(): spec.device_watts for name, spec in MACHINES.items()}
    return next((by_gpu[word] for word in reversed(machine.upper().split()) if word in by_gpu), None)


@checked
@dataclass(frozen=True)
class Budget:
    """``tokens`` to be seen, a price by GPU and hour, watts of a GPU, and days that it may take; None: not asked."""

    tokens: float | None = None
    price_per_gpu_hour: float | None = None
    watts: float | None = None
    days: float | None = None

    def __post_init__(self) -> None:
        asked = {name: value for name, value in vars(self).items() if value is not None}
        above_zero(**asked)

    def of(self, listing: Listing, option: Option) -> dict[str, float]:
        """Days, energy in MWh and cost of the whole training; empty where no tokens were named."""
        if self.tokens is None:
            return {}
        seconds = self.tokens / listing.job.tokens * option.step_s
        gpu_hours = seconds / _HOUR_S * listing.cluster.gpus
        found = {"days": seconds / _DAY_S}
        if self.watts is not None:
            found["energy_mwh"] = gpu_hours * self.watts / 1e6
        if self.price_per_gpu_hour is not None:
            found["cost"] = gpu_hours * self.price_per_gpu_hour
        return found

    def is_in_time(self, listing: Listing) -> bool:
        """Whether the fastest layout ends within the days; True where none were asked for."""
        if self.tokens is None or self.days is None or listing.best is None:
            return True
        return self.of(listing, listing.best)["days"] <= self.days
