"""What this machine can do, measured once and kept: matmul rates, memory bandwidth, a link.

``calibrate()`` takes a few seconds and keeps its result in the cache folder, one entry for each machine and
set of versions; ``calibrate(refresh=True)`` measures again. A damaged file is set aside and measured anew. What
several busy ranks get at once takes longer to measure and is added when it is asked for (``together=True``).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from course_lib.base.paths import cache_dir
from course_lib.cluster.base.rank import Rank
from course_lib.devices import Machine, machine, seats
from course_lib.devices.rows import ToldInRows
from course_lib.meter.calibration.link_fit import LinkFit, fit_link
from course_lib.meter.calibration.probes import Rates, measure_message_times, measure_rates
from course_lib.meter.calibration.together import Together, measure_together, together_from_json
from course_lib.meter.units import time_text

__all__ = ["Calibration", "LinkFit", "Rates", "calibrate"]

FORMAT = 3  # raised when the meaning of what is kept changes, so that old files are measured anew
NOISY_SPREAD = 0.3
_LIMIT_S = 60.0


@dataclass(frozen=True, repr=False)
class Calibration(ToldInRows):
    """What was measured on one machine.

    ``one_core`` is what one rank with one thread gets, ``all_cores`` a process that uses every core,
    ``gpu`` the first GPU (None without one). ``link`` is the fit of messages between two ranks over
    ``backend``. ``together`` is what 2 and 4 ranks get when all of them send, copy and add at once; empty until
    it is asked for, and where another back end than gloo carries the messages. ``spread`` is the largest relative
    spread met while measuring; above 0.3 the machine was busy and the rates are rough.
    """

    _caption = "What this machine can do"

    key: str
    one_core: Rates
    all_cores: Rates
    gpu: Rates | None
    link: LinkFit
    backend: str
    spread: float
    measured_at: str
    took_s: float
    together: tuple[Together, ...] = ()

    @property
    def is_noisy(self) -> bool:
        """True where other work on the machine disturbed the measurement."""
        return self.spread > NOISY_SPREAD

    def rows(self) -> list[tuple[str, str]]:
        """The calibration as (what, how much) pairs of text, for printing."""
        rows = []
        for rates in {rates.device: rates for rates in self._all_rates()}.values():  # one core may be all cores
            by_dtype = rates.matmul_flops_per_s.items()
            matmul = ", ".join(f"{dtype} {_rate_text(rate, 'FLOP/s')}" for dtype, rate in by_dtype)
            rows.append((f"matmul, {rates.device}", matmul))
            rows.append((f"memory copy, {rates.device}", _rate_text(rates.memory_bandwidth_bytes_per_s, "B/s")))
        bandwidth = _rate_text(self.link.bandwidth_bytes_per_s, "B/s")
        rows.append(
            (
                f"rank to rank, {self.backend}",
                f"latency {time_text(self.link.latency_s)}, bandwidth {bandwidth}, "
                f"fit within {self.link.relative_error:.0%} (median)",
            )
        )
        rows.append(("measured", f"{self.measured_at}, in {self.took_s:.1f} s"))
        if self.is_noisy:
            rows.append(
                (
                    "note",
                    f"the machine was busy (spread {self.spread:.0%}), so these rates are rough; "
                    "calibrate(refresh=True) measures again",
                )
            )
        return rows

    __repr__ = ToldInRows.summary

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, text, lists and dictionaries; ``from_json`` reads them back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Calibration:
        """Read what ``to_json`` gave. Raises ``ValueError`` where a part is missing or wrong."""
        try:
            link = dict(data["link"])
            link["samples"] = tuple((int(size), float(seconds)) for size, seconds in link["samples"])
            gpu = Rates(**data["gpu"]) if data["gpu"] is not None else None
            parts: dict[str, Any] = {key: Rates(**data[key]) for key in ("one_core", "all_cores")}
            together = tuple(together_from_json(part) for part in data["together"])
            parts |= {"gpu": gpu, "link": LinkFit(**link), "together": together}
            found = cls(**{**data, **parts})
            found.rows()  # every number is looked at once, so that text in its place is found now
            if found.link.latency_s <= 0:  # an older fit gave that, and models divide by it
                raise ValueError("its messages take no time")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"This is not a calibration of format {FORMAT}: {error!r}.") from error
        return found

    def _all_rates(self) -> list[Rates]:
        return [rates for rates in (self.one_core, self.all_cores, self.gpu) if rates is not None]


def calibrate(refresh: bool = False, *, together: bool = False) -> Calibration:
    """The calibration of this machine: read where it was kept, else measured now (a few seconds) and kept.

    ``refresh=True`` measures again; ``together=True`` also has what several busy ranks get at once. It is measured
    again by itself when the processor, the usable cores, the GPUs or the versions of PyTorch or of the course's
    format change.
    """
    here = machine()
    file = cache_dir() / "calibration.json"
    kept = _read(file)
    found = None if refresh else _usable(kept.get(machine_key(here)))
    if found is not None and (found.together or not together or found.backend != "gloo"):
        return found
    if found is None:
        _warn_of_others()
        found = measure(here)
    if together and found.backend == "gloo":
        found = replace(found, together=measure_all_together())
    _write(file, {**kept, found.key: found.to_json()})
    return found


def _warn_of_others() -> None:
    others = seats.survey().others
    if others:
        text = (
            f"Measured beside {others} of this course on this machine, so rates may be lower than it has alone. "
            "calibrate(refresh=True) measures again."
        )
        warnings.warn(text, stacklevel=3)


def _usable(kept: Any) -> Calibration | None:
    """A kept entry as a calibration; None, with a warning where there was one, when it cannot be."""
    if kept is None:
        return None
    try:
        return Calibration.from_json(kept)
    except ValueError as error:
        text = f"The kept calibration cannot be used, so it is measured anew. {error}"
        warnings.warn(text, stacklevel=3)
        return None


def machine_key(here: Machine) -> str:
    """What a calibration belongs to, as text: it is measured again when any of this changes."""
    devices = sorted(here.devices, key=lambda device: device.index if device.board is None else device.board)
    gpus = [f"{device.name} {device.uuid}" for device in devices]
    parts = [here.cpu_name, f"{here.cores} cores", *gpus, f"torch {here.torch_version}", f"format {FORMAT}"]
    return " | ".join(parts)


def measure(here: Machine) -> Calibration:
    """Measure now, on two ranks of a cluster of its own."""
    from course_lib.cluster.api.cluster import Cluster
    from course_lib.cluster.nodes.found import on_this_machine

    start_s = time.perf_counter()
    with on_this_machine(), Cluster(2, timeout_s=_LIMIT_S) as cluster:
        one_core = cluster.run(measure_rates)[0]
        all_cores = cluster.run(measure_rates, threads=here.cores)[0] if here.cores > 1 else one_core
        gpu = cluster.run(measure_rates, on_gpu=True)[0] if here.devices else None
        samples = cluster.run(measure_message_times)[0]
        backend = cluster.run(_backend_of)[0]
    return Calibration(
        key=machine_key(here),
        one_core=one_core,
        all_cores=all_cores,
        gpu=gpu,
        link=fit_link(samples),
        backend=backend,
        spread=max(rates.spread for rates in (one_core, all_cores, gpu) if rates is not None),
        measured_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        took_s=time.perf_counter() - start_s,
    )


def measure_all_together() -> tuple[Together, ...]:
    """What 2 and 4 busy ranks get; four crowd most laptops, and how much is what is measured."""
    from course_lib.cluster.api.arguments import CrowdedWarning
    from course_lib.cluster.api.cluster import Cluster
    from course_lib.cluster.nodes.found import on_this_machine

    found = []
    with warnings.catch_warnings(), on_this_machine():
        warnings.simplefilter("ignore", CrowdedWarning)
        for num_ranks in (2, 4):
            with Cluster(num_ranks, timeout_s=_LIMIT_S) as cluster:
                found.append(measure_together(cluster, num_ranks))
    return tuple(found)


def _backend_of(me: Rank) -> str:
    return me.backend


def _read(file: Path) -> dict[str, Any]:
    """The kept calibrations by machine; empty without a file; a damaged one is set aside."""
    try:
        kept = json.loads(file.read_text())
        if not isinstance(kept, dict):
            raise ValueError("it holds no JSON object")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        backup = file.with_suffix(".damaged.json")
        with contextlib.suppress(OSError):
            file.replace(backup)
        warnings.warn(
            f"The calibration file {file} could not be read ({error}). It was set aside as {backup.name}, and "
            "this machine is measured anew.",
            stacklevel=3,
        )
        return {}
    return kept


def _write(file: Path, kept: dict[str, Any]) -> None:
    """Write in one step, so that a reader meets the old file or the new one and never half of either."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix="calibration", delete=False) as draft:
            json.dump(kept, draft, indent=1)
        os.replace(draft.name, file)
    except OSError as error:
        warnings.warn(
            f"The calibration could not be kept in {file.parent} ({error}); the next start measures again.",
            stacklevel=3,
        )


def _rate_text(rate_per_s: float, unit: str) -> str:
    """A rate with a decimal prefix, as rates are quoted: 2.5e9 "B/s" becomes "2.5 GB/s"."""
    if math.isinf(rate_per_s):
        return "too high to tell"
    for scale, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if rate_per_s >= scale:
            return f"{rate_per_s / scale:.3g} {prefix}{unit}"
    return f"{rate_per_s:.3g} {unit}"
