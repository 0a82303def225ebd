"""What one rank's trace says, whichever file it came from: work on devices, the program's words, the host's waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["COMMUNICATION", "COMPUTING", "COPY", "HostSpan", "RankTrace", "Work"]

COMPUTING, COMMUNICATION, COPY = "computing", "communication", "copy"


class Work(NamedTuple):
    """Something a device did. Where a trace has no device, an operator of the host or a call that gloo carried out."""

    start_us: float
    end_us: float
    kind: str  # COMPUTING, COMMUNICATION or COPY (between host and device)
    lane: str  # "stream 7"; "gloo"; "host"
    collective: str = ""  # "all_reduce", of communication
    size_bytes: int | None = None  # the rank's input; None where the trace does not say it
    group: str = ""  # the process group's name; "" where the trace does not say it
    launched_us: float | None = None  # when the host began to launch it; None where the trace does not say it


class HostSpan(NamedTuple):
    """A named stretch of the host's time: a step, an annotation of the program, a synchronisation."""

    start_us: float
    end_us: float
    name: str


@dataclass
class RankTrace:
    """One rank: ``work`` by device, by start. Devices are numbers; -1 is the host of a trace without a GPU."""

    source: str  # the file's name
    rank: int
    is_rank_told: bool  # by the file, and not by its place among the files
    work: dict[int, list[Work]] = field(default_factory=dict)
    steps: list[HostSpan] = field(default_factory=list)  # ProfilerStep#4
    annotations: list[HostSpan] = field(default_factory=list)  # of the program: "## forward ##"
    synchronisations: list[HostSpan] = field(default_factory=list)  # the host waits for a device: cudaStreamSynchronize
    num_groups: int | None = None  # process groups of the job; None where the trace does not say it
    is_table: bool = False

    @property
    def has_device(self) -> bool:
        """Whether a GPU's work is in it; else the work is the host's."""
        return any(device >= 0 for device in self.work)
