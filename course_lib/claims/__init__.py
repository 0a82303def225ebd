"""Claims on trial: what widely read articles say, each sentence decided by running code.

::

    evidence = trial("C5").run()
    print(evidence)              # the verdict, the numbers, and why
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import textwrap

from course_lib.claims.catalogue import ARTICLES, CLAIMS, Claim
from course_lib.claims.evidence import VERDICTS, Evidence, Trial, found_trials

__all__ = ["ARTICLES", "CLAIMS", "VERDICTS", "Claim", "Evidence", "Trial", "trial", "trials", "verdicts"]


def trials() -> dict[str, Trial]:
    """Every trial that the course has, by the claim's name, in the order of the catalogue."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    found = found_trials()
    return {claim.name: found[claim.name] for claim in CLAIMS if claim.name in found}


def trial(name: str) -> Trial:
    """The trial of a claim, ``"C5"``. Raises ``ValueError`` with the nearest one where there is none."""
    every = trials()
    if name in every:
        return every[name]
    near = difflib.get_close_matches(str(name), every, n=1, cutoff=0.0)[0]
    known = any(claim.name == name for claim in CLAIMS)
    what = f"The claim {name!r} has no trial yet." if known else f"There is no claim {name!r}."
    raise ValueError(f"{what} The nearest with a trial is {near!r}; there are {', '.join(every)}.")


def verdicts(*names: str) -> str:
    """Run the trials of these claims: a line or two for each, with its verdict and its text."""
    lines = []
    for name in names:
        of_claim = trial(name)
        line = f"{name:<4}{of_claim.run().verdict:<22} {of_claim.claim.text}"
        lines.append(textwrap.fill(line, 100, subsequent_indent=" " * 27))
    return "\n".join(lines)
