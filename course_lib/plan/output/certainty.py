"""How sure a listing is, in words: the band of a layout's step and memory, and which layouts are a tie."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from course_lib.base.checked import checked
from course_lib.plan.inputs.error_bands import ErrorBand, ErrorBands, error_bands
from course_lib.plan.inputs.numbers import three_digits
from course_lib.plan.search.listing import Listing, Option

__all__ = ["band_of", "certainty", "how_sure", "step_band"]

_GB = 1e9
_WIDTH = 104


@checked
def how_sure(listing: Listing, option: Option | None = None, case: str = "elsewhere") -> str:
    """``certainty`` as lines for a page, of the fastest layout if none is named.

    ``case``: one of ``error_bands.CASES``. ValueError for another, and for a listing in which nothing runs.
    """
    chosen = option or listing.best
    if chosen is None:
        raise ValueError("No layout of this listing runs. Only a layout that runs has an error band.")
    return "\n".join(textwrap.fill(said, _WIDTH) for said in certainty(listing, chosen, error_bands(case)))


def band_of(listing: Listing, option: Option, bands: ErrorBands) -> ErrorBand:
    """That of the layout's kind, and what a slower or a faster host would change."""
    return bands.time_band(listing.cluster, option.layout, listing.reach)


def step_band(listing: Listing, option: Option, bands: ErrorBands) -> str:
    """Between which times 8 of 10 runs of its kind lie, as in "14.1-21.7 s"."""
    low_s, high_s = band_of(listing, option, bands).around(option.step_s)
    return f"{three_digits(low_s)}-{three_digits(high_s)} s"


def certainty(listing: Listing, option: Option, bands: ErrorBands) -> list[str]:
    """Sentences on the errors to expect of ``option``, and on the layouts that are as good as the first."""
    band = bands.time_band(listing.cluster, option.layout)
    low_bytes, high_bytes = bands.memory.around(option.memory.total_bytes)
    kind = bands.judged_kind(listing.cluster, option.layout)
    said = [
        f"How sure: 8 in 10 published runs took {band.low:.2f} to {band.high:.2f} times the predicted time, here "
        f"{step_band(listing, option, bands)} ({kind}; {_judged(band)}). The planner predicted each without runs of "
        f"its cluster. 8 in 10 used {bands.memory.low:.2f} to {bands.memory.high:.2f} times the predicted memory, "
        f"here {low_bytes / _GB:.1f}-{high_bytes / _GB:.1f} GB ({_judged(bands.memory)})."
    ]
    if listing.reach(option.layout, bands.host) != (1.0, 1.0):
        said.append(
            "The host, the processor that starts the GPU's work, may set the pace here. So these times are of hosts "
            f"that take {1 / bands.host:.2f} to {bands.host:g} times as long for a layer as is typical."
        )
    tied = listing.tied(bands.tie)
    if len(tied) > 1:
        easiest = min(_no_less_sure(listing, tied, bands), key=lambda one: (one.effort, one.step_s))
        which = "the first" if easiest is tied[0] else f"{easiest.layout}, {three_digits(easiest.step_s)} s"
        said.append(
            f"{len(tied):,} layouts are a tie, and the first is one of them. One in ten pairs that the planner "
            f"predicts less than {bands.tie - 1:.0%} apart ran in the other order. The easiest of them to set up is "
            f"{which}. Run a few that differ before you choose."
        )
    return said


def _judged(band: ErrorBand) -> str:
    """As in "18 runs on 4 clusters"."""
    return f"{band.runs} runs on {band.clusters} cluster{'' if band.clusters == 1 else 's'}"


def _no_less_sure(listing: Listing, tied: Sequence[Option], bands: ErrorBands) -> list[Option]:
    """Those of a tie that are one at the far end of their bands too: kinds with wide bands may take much longer."""
    ends_s = [band_of(listing, one, bands).around(one.step_s)[1] for one in tied]
    return [one for one, end_s in zip(tied, ends_s, strict=True) if end_s <= bands.tie * ends_s[0]]
