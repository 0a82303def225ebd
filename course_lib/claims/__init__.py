"""Claims on trial: what widely read articles say, each sentence decided by running code.

::

    evidence = trial("C5").run()
    print(evidence)              # the verdict, the numbers, and why

In the order to read:

- ``court/``: What trials share: the catalogue of claims, evidence, noise, workloads, a claim of one's own
- ``data_parallel/``: Trials of claims about data parallelism, loading and speed
- ``models_and_machines/``: Trials of claims about split models, memory and machines
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import textwrap

from course_lib.claims.court.catalogue import ARTICLES, CLAIMS, Claim
from course_lib.claims.court.custom_claim import is_own_name, own_claim, own_trials
from course_lib.claims.court.evidence import VERDICTS, Evidence, Ranks, Trial, blocked, found_trials

__all__ = [
    "ARTICLES",
    "CLAIMS",
    "VERDICTS",
    "Claim",
    "Evidence",
    "Ranks",
    "Trial",
    "blocked",
    "own_claim",
    "own_trials",
    "trial",
    "trials",
    "verdicts",
]


def trials() -> dict[str, Trial]:
    """Every trial that the course has, by the claim's name, in the order of the catalogue."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    found = found_trials()
    return {claim.name: found[claim.name] for claim in CLAIMS if claim.name in found}


def trial(name: str) -> Trial:
    """The trial of a claim, ``"C5"``, or of one of the reader's own, ``"Y1"``.

    Raises ``ValueError`` with the nearest one where there is no such claim.
    """
    every = {**trials(), **own_trials()}
    if isinstance(name, str) and name in every:
        return every[name]
    if is_own_name(name):
        raise ValueError(f"There is no claim {name!r} yet. Run the cell with own_claim({name!r}, ...) first.")
    if any(claim.name == name for claim in CLAIMS):
        raise ValueError(f"The claim {name!r} has no trial yet: write a function with @tries({name!r}).")
    near = difflib.get_close_matches(str(name), every, n=1, cutoff=0.0)[0]
    raise ValueError(f"There is no claim {name!r}. The nearest is {near!r}; there are {', '.join(every)}.")


def verdicts(*names: str) -> str:
    """Run the trials of these claims: a line or two for each, with its verdict and its text."""
    lines = []
    for name in names:
        of_claim = trial(name)
        line = f"{name:<4}{of_claim.run().verdict:<22} {of_claim.claim.text}"
        lines.append(textwrap.fill(line, 100, subsequent_indent=" " * 27))
    return "\n".join(lines)
