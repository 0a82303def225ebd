"""Numbers of things, lists and sizes as text, each written in one place."""

from __future__ import annotations

from collections.abc import Collection, Sequence

__all__ = ["and_list", "columns", "counted", "first_line", "kib", "mib", "rank_list"]


def counted(number: int, thing: str) -> str:
    """A number of things in words: 1 rank, 2 ranks, 3 micro-batches."""
    ending = "" if number == 1 else "es" if thing.endswith("ch") else "s"
    return f"{number} {thing}{ending}"


def rank_list(ranks: Collection[int]) -> str:
    """rank 3; ranks 0, 1, 2."""
    return f"rank{'' if len(ranks) == 1 else 's'} {', '.join(map(str, sorted(ranks)))}"


def and_list(items: Sequence[object]) -> str:
    """0, 1 and 2"""
    *most, last = map(str, items)
    return f"{', '.join(most)} and {last}" if most else last


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, in columns as wide as their longest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def first_line(error: BaseException) -> str:
    """What an error says first; its kind, where it says nothing."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def kib(size_bytes: float) -> str:
    """Bytes in one unit, so that settings can be compared by their digits."""
    return f"{size_bytes / 1024:,.0f} KiB"


def mib(size_bytes: float) -> float:
    """As a number to be told with its unit, to two decimals."""
    return round(size_bytes / 2**20, 2)
