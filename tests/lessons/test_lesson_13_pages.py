"""The pages of lesson 13: every claim is bet on and then settled, once; nothing is given away; the template runs."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap

import pytest

from course_lib import claims
from course_lib.base.paths import project_root
from course_lib.claims import CLAIMS, VERDICTS, Evidence
from course_lib.claims.court import custom_claim
from course_lib.learn.exercises.lesson_13.misreadings import DOUBTED, TRUSTED, parted
from course_lib.learn.records.bet_records import mark
from course_lib.lessons.source import read_source

PARTS = sorted((project_root() / "notebooks" / "src").glob("13*.py"))
NAMES = [claim.name for claim in CLAIMS]
LOCK = {"C2", "D7"}
A_PHRASE = 6  # words in a row that give something away


def calls(part, name):
    """The claims that the calls of this name take on the learner's page, call by call, each with its cell's place."""
    found = []
    for place, cell in enumerate(read_source(part).cells):
        if cell.is_code:
            code = re.sub(r"^### STUB ", "", cell.text, flags=re.MULTILINE)
            for call in re.findall(rf'^(?:\w+ = )?{name}\(((?:"\w+"(?:, )?)+)\)$', code, re.MULTILINE):
                found.append((place, re.findall(r'"(\w+)"', call)))
    return found


@pytest.mark.parametrize("part", PARTS, ids=lambda path: path.stem)
def test_a_bet_stands_before_its_trial_and_both_name_the_same_claims(part):
    bets, settled = calls(part, "bet"), calls(part, "settle")
    assert [names for _, names in bets if names != ["Y1"]] == [names for _, names in settled]
    assert all(
        bet < trial for (bet, _), (trial, _) in zip([one for one in bets if one[1] != ["Y1"]], settled, strict=True)
    )


def test_every_claim_is_settled_once_in_the_lesson():
    settled = [name for part in PARTS for _, names in calls(part, "settle") for name in names]
    assert sorted(settled) == sorted(NAMES)


def test_the_solved_copy_bets_on_each_claim():
    for part in PARTS:
        text = part.read_text()
        for _, names in calls(part, "bet"):
            committed = re.search(rf'^bet\("{names[0]}".*?\)\.commit\((.*?)\)(?:  #.*)?\n### END', text, re.M | re.S)
            assert committed, names
            assert re.findall(r"\b([A-EY]\d+)=", committed[1]) == names


def test_each_claim_has_one_misreading_told_on_one_side_alone():
    assert {*TRUSTED, *DOUBTED} == set(NAMES)
    assert TRUSTED.keys() & DOUBTED.keys() <= LOCK  # decided otherwise where Python has no interpreter lock
    for name in NAMES:
        trusts, doubts = parted(name, "holds", "false"), parted(name, "false", "holds")
        assert (trusts, doubts) == (TRUSTED.get(name, ""), DOUBTED.get(name, ""))


@pytest.mark.parametrize("bet", claims.VERDICTS)
@pytest.mark.parametrize("verdict", claims.VERDICTS)
def test_a_near_miss_hears_that_it_is_near_and_a_right_bet_hears_nothing(bet, verdict):
    said = parted("A4", bet, verdict)
    assert said.startswith("Near") == (mark(bet, verdict) == 0.5)
    if bet == verdict:
        assert said == ""


def words(text):
    return re.findall(r"[\w']+", re.sub(r"[*`_]", "", text).casefold())


def phrases(text):
    found = words(text)
    return {tuple(found[i : i + A_PHRASE]) for i in range(len(found) - A_PHRASE + 1)}


def above(part, name):
    """What stands on the learner's page above the bet on a claim."""
    text = part.read_text()
    call = re.search(rf'### STUB bet\([^)]*"{name}"', text)
    text = text[: call.start()] if call else ""
    text = re.sub(r"### BEGIN SOLUTION\n.*?(?:### END SOLUTION|\Z)", "", text, flags=re.DOTALL)
    return re.sub(r"\n# ?", " ", text)


def texts_of(name):
    """What a trial may say of a claim, piece by piece."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(claims.trial(name).function)))
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in ("because", "turns_if"):
            yield from (
                one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)
            )


@pytest.mark.parametrize("name", NAMES)
def test_no_page_tells_what_a_trial_or_a_misreading_says_before_the_bet(name):
    told = [*texts_of(name), TRUSTED.get(name, ""), DOUBTED.get(name, "")]
    for part in PARTS:
        shown = phrases(above(part, name))
        assert not {" ".join(phrase) for text in told for phrase in phrases(text) & shown}


# -- the template -----------------------------------------------------------------------------------------------------


def template():
    return textwrap.dedent(re.search(r"::\n\n(.*?)\n\n``trial", custom_claim.__doc__, re.DOTALL)[1])


class PlantedRanks:
    """In place of clusters: ``run`` gives ratios that were measured."""

    def __init__(self, ratios):
        self.ratios = ratios

    def __call__(self, size):
        return self

    def run(self, _):
        return [self.ratios]


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.9, 2.0, 2.0, 2.1], "holds"),
        ([1.0, 1.0, 1.1, 1.2], "false"),
        ([1.0, 2.0, 2.1, 3.0], "cannot tell here"),
    ],
)
def test_the_template_has_ten_lines_and_decides(ratios, verdict):
    import statistics

    assert len(template().splitlines()) == 10
    names = {
        "own_claim": claims.own_claim,
        "Evidence": Evidence,
        "Ranks": claims.Ranks,
        "statistics": statistics,
    }
    try:
        exec(template(), names | {"measured_ratios": None})
        evidence = claims.trial("Y1").run(PlantedRanks(ratios))
        assert evidence.verdict == verdict
        assert evidence.turns_if
    finally:
        custom_claim._OWN.clear()


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("bet", VERDICTS)
def test_what_is_told_of_a_miss_is_whole_sentences(bet, verdict):
    assert all(parted(claim.name, bet, verdict)[-1:] in (".", "?", "") for claim in CLAIMS)
