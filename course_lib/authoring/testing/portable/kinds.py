"""Kinds of arithmetic: what the libraries below torch would do on processors that this machine may not be."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.authoring.testing.portable.variable import VARIABLE
from course_lib.base.checks import known

__all__ = ["KINDS", "ProcessorKind", "chosen_kinds", "flags", "lacking", "variables"]

_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class ProcessorKind:
    """A kind of arithmetic. ``variables`` tell torch, oneDNN and MKL; ``flags``: what the processor must have."""

    name: str
    title: str
    variables: dict[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    words: tuple[str, ...] = ()  # for `other_arithmetic`
    is_x86: bool = True


def _vector_units(aten: str, onednn: str, mkl: str) -> dict[str, str]:
    return {"ATEN_CPU_CAPABILITY": aten, "ONEDNN_MAX_CPU_ISA": onednn, "MKL_ENABLE_INSTRUCTIONS": mkl}


KINDS = {
    kind.name: kind
    for kind in (
        ProcessorKind("own", "this processor, as it is", is_x86=False),
        ProcessorKind(
            "default", "vectors of 128 bits", _vector_units("default", "SSE41", "SSE4_2"), ("sse4_1", "sse4_2")
        ),
        ProcessorKind("avx2", "vectors of 256 bits", _vector_units("avx2", "AVX2", "AVX2"), ("avx2", "fma")),
        ProcessorKind(
            "avx512",
            "vectors of 512 bits",
            _vector_units("avx512", "AVX512_CORE", "AVX512"),
            ("avx512f", "avx512bw", "avx512dq", "avx512vl"),
        ),
        ProcessorKind("nudged", "other last bits in every product, sum and draw", words=("nudged",), is_x86=False),
    )
}


def chosen_kinds(names: Collection[str]) -> list[ProcessorKind]:
    """The kinds of these names, in our order; all but the processor's own where there are none.

    Raises:
        ValueError: A name that is no kind's.
    """
    for name in names:
        known("a kind of processor", name, KINDS)
    return [kind for kind in KINDS.values() if (kind.name in names if names else kind.name != "own")]


def flags(cpuinfo: Path = _CPUINFO) -> set[str]:
    """What the processor can do, in Linux's words; empty where the system does not say."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    return next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set())


def lacking(kind: ProcessorKind, has: Collection[str]) -> str:
    """Why a kind cannot be tried on a processor that has these flags; empty when it can."""
    if not kind.is_x86:
        return ""
    if not has:
        return f"{sys.platform} does not say what the processor can do"
    missing = [flag for flag in kind.flags if flag not in has]
    return f"this processor lacks {', '.join(missing)}" if missing else ""


def variables(kind: ProcessorKind, num_threads: int) -> dict[str, str]:
    """What makes a process, and its ranks, compute so, each with ``num_threads`` threads."""
    threads = [f"threads={num_threads}"] if num_threads != 1 else []  # 1 is what the ranks have
    words = {VARIABLE: ",".join([*kind.words, *threads])}
    return {**kind.variables, **words, "OMP_NUM_THREADS": str(num_threads)}
