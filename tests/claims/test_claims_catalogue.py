"""The catalogue of claims: each once, with its source; and how many they are stands nowhere by hand."""

from __future__ import annotations

import json
import re

import pytest
from small_projects import ROOT

from course_lib import claims
from course_lib.claims.court.evidence import _NEEDS

TEXTS = [*sorted(ROOT.glob("notebooks/src/13*.py")), ROOT / "course_lib/learn/exercises/lesson_13/misreadings.py"]
COUNTED = (
    r"\b(?:\d\d+|ten|eleven|twelve|\w+teen|twenty|[a-z]+ty-\w+) (?:claims|trials|sentences|well-known)|beside the \d+"
)


def test_the_catalogue_has_every_claim_once():
    names = [claim.name for claim in claims.CLAIMS]
    assert len(set(names)) == len(names)
    assert all(claim.article and claim.text.endswith(".") and claim.needs in _NEEDS for claim in claims.CLAIMS)


def test_a_source_that_is_none_of_the_articles_has_a_year():
    sources = {claim.name: claim.source for claim in claims.CLAIMS if claim.source}
    assert sources
    without = {name: source for name, source in sources.items() if not re.search(r" \((19|20)\d\d\)$", source)}
    assert not without, "source='...' ends in the year in which it was read or written, as in '... (2020)'"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_no_text_counts_the_claims_by_hand(path):
    text = re.sub(r"\n# *|\s+", " ", path.read_text())
    told = re.findall(COUNTED, text, re.IGNORECASE)
    assert not told, "this number is old with the next claim: leave it out, or print it (len(CLAIMS), in part a)"


def test_a_lesson_prints_how_many_claims_there_are():
    solved = json.loads((ROOT / "notebooks/solutions/13a_a_first_script.ipynb").read_text())
    printed = "".join(
        line for cell in solved["cells"] for out in cell.get("outputs", ()) for line in out.get("text", ())
    )
    number = re.search(r"^(\d+) claims, nearly all from these articles:$", printed, re.MULTILINE)
    assert number, "part a prints no number of claims"
    printed_number, expected = int(number[1]), len(claims.CLAIMS)
    assert printed_number == expected, "the notebooks of lesson 13 are old: ./course build --force 13"


def test_the_instructors_page_names_the_claims_that_need_gpus():
    page = (ROOT / "docs/instructor/lessons/13.md").read_text()
    told = re.search(r"## On a GPU\n\n(.*?) need GPUs", page, re.DOTALL)
    assert told, "docs/instructor/lessons/13.md has no list of claims that need GPUs"
    assert set(re.findall(r"[A-E]\d+", told[1])) == {claim.name for claim in claims.CLAIMS if claim.needs != "cpu"}
