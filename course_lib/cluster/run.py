"""What a call on the cluster brings back."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Run"]


@dataclass(frozen=True)
class Run(Sequence[Any]):
    """The outcome of one function on every rank: ``run[2]`` is what rank 2 returned, ``run.text[2]`` what it printed.

    ``ranks`` says which ranks took part (all, unless some were left out on purpose). ``communication``,
    ``memory`` and ``timeline`` hold what the meters recorded, where a meter was on. ``left`` says what the function
    left on the ranks: work that nobody waited for, or a switch that it did not put back.
    """

    results: dict[int, Any]
    text: dict[int, str] = field(default_factory=dict)
    time_s: float = 0.0  # from the call to the last result, in the parent
    world_size: int = 0
    communication: Any = None
    memory: Any = None
    timeline: Any = None
    left: tuple[str, ...] = ()

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted(self.results))

    def __getitem__(self, rank: Any) -> Any:
        if isinstance(rank, slice):
            return list(self)[rank]
        if rank not in self.results:
            ranks = ", ".join(map(str, self.ranks)) or "none"
            raise IndexError(f"no result of rank {rank}: this run has the results of ranks {ranks}")
        return self.results[rank]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Any]:
        return (self.results[rank] for rank in self.ranks)

    def __repr__(self) -> str:
        lines = [f"Run on {len(self)} rank{'s' * (len(self) != 1)}"]
        lines += [f"  rank {rank}: {_short(self.results[rank])}" for rank in self.ranks]
        return "\n".join([*lines, *left_in_words(self.left)])

    def _repr_html_(self) -> str:
        has_text = any(self.text.values())
        head = "<th>rank</th><th style='text-align:left'>result</th>"
        head += "<th style='text-align:left'>printed</th>" if has_text else ""
        rows = []
        for rank in self.ranks:
            result = _escaped(_short(self.results[rank]))
            cells = f"<td>{rank}</td><td style='text-align:left'><code>{result}</code></td>"
            if has_text:
                cells += f"<td style='text-align:left'><pre>{_escaped(self.text.get(rank, '').rstrip())}</pre></td>"
            rows.append(f"<tr>{cells}</tr>")
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        left = "\n".join(left_in_words(self.left))
        return table + (f"<pre>{_escaped(left)}</pre>" if left else "")


def in_rank_order(text: dict[int, str]) -> str:
    """What the ranks printed, rank by rank, each line with its rank before it."""
    lines = [f"rank {rank} | {line}" for rank in sorted(text) for line in text[rank].splitlines()]
    return "".join(f"{line}\n" for line in lines)


def left_in_words(left: tuple[str, ...]) -> list[str]:
    """The lines that tell what a call has left; none where it left nothing."""
    return ["Left over from this call:", *(f"  {line}" for line in left)] if left else []


def _short(value: Any, limit: int = 200) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else f"{text[: limit - 4]} ..."


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)
