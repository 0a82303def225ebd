"""A plan as JSON, and back: the job, the cluster, every layout by part, every refusal with its reason, and advice.

``plan.schema.json`` beside this file says what stands in it (JSON Schema). Times are in seconds, sizes in bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from course_lib.plan.estimate.memory import MemoryParts
from course_lib.plan.estimate.step_time import StepParts
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.error_bands import ErrorBands, error_bands
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.inputs.model import Decoder
from course_lib.plan.output.certainty import band_of
from course_lib.plan.output.exporters import PROGRAMS, to_type
from course_lib.plan.output.report import rates
from course_lib.plan.search.budget import Budget
from course_lib.plan.search.listing import Listing, Option, Refusal

__all__ = ["FORMAT", "Plan"]

FORMAT = 1  # raised when the meaning of what is kept changes


@dataclass(frozen=True)
class Plan:
    """What ``course plan`` found.

    ``chosen`` is the place, from 0 on, of the layout that it tells how to type; ``memory_limit_bytes`` what of a GPU
    was to be used at most, None for all of it; ``bands`` say how wrong it may be, and are not read back.
    """

    listing: Listing
    budget: Budget = field(default_factory=Budget)
    advice: tuple[str, ...] = ()
    chosen: int = 0
    memory_limit_bytes: float | None = None
    bands: ErrorBands = field(default_factory=error_bands)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, text, lists and dictionaries; ``from_json`` reads them back."""
        listing = self.listing
        return {
            "format": FORMAT,
            "job": asdict(listing.job),
            "cluster": asdict(listing.cluster),
            "memory_limit_bytes": self.memory_limit_bytes,
            "budget": asdict(self.budget),
            "options": [self._option(option) for option in listing.options],
            "refusals": [_refusal(one) for one in listing.refusals],
            "reasons": dict(listing.reasons()),
            "advice": list(self.advice),
            "tie_ratio": self.bands.tie,
            "chosen": self.chosen,
            "to_type": self._typed(),
        }

    def to_text(self) -> str:
        """The JSON as text, with a line for each layout."""
        lines = []
        for name, value in self.to_json().items():
            if isinstance(value, list) and value:
                items = ",\n".join(f"  {json.dumps(item)}" for item in value)
                lines.append(f' "{name}": [\n{items}\n ]')
            else:
                lines.append(f' "{name}": {json.dumps(value)}')
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Read what ``to_json`` gave. Raises ``ValueError`` where a part is missing or wrong."""
        try:
            if data["format"] != FORMAT:
                raise ValueError(f"its format is {data['format']!r}")
            job = Job(Decoder(**data["job"]["model"]), data["job"]["seq"], data["job"]["batch"])
            options = tuple(
                Option(Layout(**one["layout"]), MemoryParts(**one["memory"]), StepParts(**one["time"]))
                for one in data["options"]
            )
            refusals = tuple(
                Refusal(
                    Layout(**one["layout"]),
                    one["why"],
                    MemoryParts(**one["memory"]) if one["memory"] else None,
                )
                for one in data["refusals"]
            )
            listing = Listing(job, ClusterSpec(**data["cluster"]), options, refusals)
            budget, advice = Budget(**data["budget"]), tuple(data["advice"])
            return cls(listing, budget, advice, data["chosen"], data["memory_limit_bytes"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"This is not a plan of format {FORMAT}: {error!r}.") from error

    def _option(self, option: Option) -> dict[str, Any]:
        return {
            "name": str(option.layout),
            "layout": _layout(option.layout),
            **rates(self.listing, option),
            **self.budget.of(self.listing, option),
            "memory_bytes": option.memory.total_bytes,
            "step_band_s": list(band_of(self.listing, option, self.bands).around(option.step_s)),
            "memory_band_bytes": list(self.bands.memory.around(option.memory.total_bytes)),
            "time": asdict(option.step),
            "memory": asdict(option.memory),
        }

    def _typed(self) -> dict[str, Any]:
        """What to type for the chosen layout, by program; empty where nothing runs."""
        if not self.listing.options:
            return {}
        job, cluster = self.listing.job, self.listing.cluster
        layout = self.listing.options[self.chosen].layout
        return {name: [asdict(one) for one in to_type(name, job, layout, cluster)] for name in PROGRAMS}


def _layout(layout: Layout) -> dict[str, Any]:
    """Its sizes; ``etp`` only where experts have a mesh of their own, so that all else reads as it did before."""
    return {name: value for name, value in asdict(layout).items() if name != "etp" or value}


def _refusal(refusal: Refusal) -> dict[str, Any]:
    return {
        "name": str(refusal.layout),
        "layout": _layout(refusal.layout),
        "why": refusal.why,
        "instead": refusal.instead,
        "memory": None if refusal.memory is None else asdict(refusal.memory),
    }
