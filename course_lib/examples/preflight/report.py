"""What was found, line by line: a verdict each, as a table and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass

__all__ = ["COULD_NOT", "LOOK", "OK", "Finding", "Report"]

OK, LOOK, COULD_NOT = "ok", "look", "could not check"
_WIDTH = 100


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, the verdict, and what was seen, or why it could not be."""

    what: str
    verdict: str
    text: str


@dataclass(frozen=True)
class Report:
    """All findings, in the order in which they were looked at."""

    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        return int(any(one.verdict == LOOK for one in self.findings))

    def of(self, what: str) -> Finding:
        """The finding on ``what``; ``KeyError`` where nothing of the kind was looked at."""
        for one in self.findings:
            if one.what == what:
                return one
        raise KeyError(f"{what!r} was not looked at; there are {', '.join(one.what for one in self.findings)}")

    def to_json(self) -> str:
        content = {"exit_code": self.exit_code, "findings": [asdict(one) for one in self.findings]}
        return json.dumps(content, indent=1)

    def __str__(self) -> str:
        wide = max((len(one.what) for one in self.findings), default=0)
        lines: list[str] = []
        for one in self.findings:
            head = f"{one.verdict:<16} {one.what:<{wide}}  "
            wrapped = textwrap.wrap(one.text, _WIDTH - len(head), break_on_hyphens=False) or [""]
            lines.append(head + wrapped[0])
            lines += [" " * len(head) + more for more in wrapped[1:]]
        counts = {verdict: _count(self.findings, verdict) for verdict in (OK, LOOK, COULD_NOT)}
        lines.append(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
        return "\n".join(lines)


def _count(findings: Sequence[Finding], verdict: str) -> int:
    return sum(one.verdict == verdict for one in findings)
