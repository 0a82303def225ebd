"""What ``check`` says: a status, a sentence, and the evidence behind it."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.base.html import templates
from course_lib.forms.show import Shown, escape, panel

__all__ = ["Verdict"]

_fill = templates(__file__, words=escape)

_SIGNS = {
    "passed": ("good", "✓", "passed"),
    "not attempted": ("quiet", "○", "not attempted yet"),
    "not yet": ("bad", "✗", "not yet"),
    "forbidden": ("bad", "✗", "not by your own hand yet"),
    "raised": ("bad", "✗", "an error stopped it"),
    "too slow": ("bad", "✗", "it did not end"),
    "blocked": ("quiet", "!", "could not be checked"),
}


@dataclass(frozen=True, repr=False)
class Verdict(Shown):
    """The result of a check.

    ``status`` is "passed", "not attempted", "not yet" (wrong; ``mistake`` names a known one), "forbidden",
    "raised", "too slow" or "blocked" (no such exercise, or the ranks could not start). ``evidence`` is the
    first difference, ``details`` a longer story, and ``printed`` what the answer printed while it was tried.
    ``warning`` is said of an answer that passed: what would go wrong on GPUs.
    """

    exercise: str
    status: str
    message: str
    mistake: str | None = None
    evidence: str = ""
    details: str = ""
    printed: str = ""
    warning: str = ""

    @property
    def passed(self) -> bool:
        return self.status == "passed"

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        _, sign, words = _SIGNS[self.status]
        sentence = f"{sign} {self.exercise}: {words}. {self.message}"
        if self.evidence:
            sentence += f"\n  Seen: {self.evidence}"
        if self.warning:
            sentence += f"\n  Beware: {self.warning}"
        if self.details:
            sentence += "\n" + "\n".join(f"  | {line}" for line in self.details.splitlines())
        return sentence

    def _html(self) -> str:
        kind, sign, words = _SIGNS[self.status]
        said = [self.message]
        if self.evidence:
            said.append(f"Seen: {self.evidence}")
        if self.warning:
            said.append(f"Beware: {self.warning}")
        folded = [("The whole report", self.details), ("What your code printed", self.printed)]
        body = _fill("verdict.html", said=said, folded=[(title, text.replace("`", "'")) for title, text in folded])
        return panel(kind, f"{sign} {self.exercise}: {words}", body)
