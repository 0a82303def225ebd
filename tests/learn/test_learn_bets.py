"""Bets on claims: locked before the trial, settled by it, kept beyond the kernel, and scored fairly."""

from __future__ import annotations

import re
import sys

import pytest

from course_lib import claims
from course_lib.claims import CLAIMS, Evidence, blocked, own_claim
from course_lib.claims.court import evidence
from course_lib.claims.court.custom_claim import _OWN
from course_lib.forms.show import unbroken
from course_lib.learn import bet, scoreboard, settle
from course_lib.learn.bets.scoreboard import board_of
from course_lib.learn.records import bet_records
from course_lib.learn.records.bet_records import Bet, BetStatus, brier, mark, standings
from course_lib.learn.records.store import Store
from course_lib.learn.records.summary import summary

store_module = sys.modules["course_lib.learn.records.store"]


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(bet_records, "_session", [])
    yield
    _OWN.clear()


@pytest.fixture
def says(monkeypatch):
    """``says(A4="false")``: the trials of these claims, replaced by ones that say so at once."""

    def plant(**verdicts):
        for name, verdict in verdicts.items():
            given = (
                blocked("the machine is too busy")
                if verdict == "cannot tell here"
                else Evidence(verdict, {"seen": 3}, because="so it was seen", turns_if="it were another one")
            )
            monkeypatch.setitem(
                evidence._TRIALS,
                name,
                claims.Trial(claims.trial(name).claim, lambda _, given=given: given),
            )

    return plant


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The learner's store, switched on and in a folder of its own."""
    monkeypatch.setattr(store_module, "_is_off", lambda: False)
    monkeypatch.setattr(store_module, "data_dir", lambda: tmp_path)
    monkeypatch.setattr(store_module, "_told", set())
    return Store(tmp_path / "progress.jsonl")


def restart(monkeypatch):
    monkeypatch.setattr(bet_records, "_session", [])


def test_a_bet_stands_beside_the_verdict_its_numbers_and_what_would_turn_it(says):
    says(A4="false", A8="holds")
    bet("A4", "A8").commit(A4=("holds", 90), A8=("holds", 70))
    told = repr(settle("A4", "A8"))
    assert "A4   bet: holds, 90 %" in told
    assert "trial: false" in told
    assert "✗ not so" in told
    assert "✓ right" in told
    assert "A trial can count processes." in " ".join(told.split())
    assert "seen  3" in told
    assert told.count("It would turn if it were another one.") == 2


def test_an_article_is_named_and_a_claim_without_a_bet_is_told_all_the_same(says):
    says(A4="false")
    settled = settle("A4")
    assert settled.claims[0].article == claims.ARTICLES["A"]
    assert settled.claims[0].outcome == "no bet"
    assert f"A4: in our words, after: {claims.ARTICLES['A']}" in repr(settled)
    assert "<em>false</em>: so it was seen" in settled._html()
    assert settled.evidence("A4").verdict == "false"
    with pytest.raises(ValueError, match="'A5' was not settled here; there are A4"):
        settled.evidence("A5")


def test_near_is_told_and_is_half_a_mark(says):
    says(A4="holds with conditions", A6="misleading")
    bet("A4", "A6").commit(A4="holds", A6=("false", 50))
    settled = settle("A4", "A6")
    assert [one.mark for one in settled.claims] == [0.5, 0.5]
    assert "Near: it does happen." in repr(settled)
    assert "Near: one cannot rely on it. But the words" in settled.claims[1].misreading


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("holds", "holds", 1),
        ("holds", "holds with conditions", 0.5),
        ("misleading", "false", 0.5),
        ("holds with conditions", "misleading", 0),
        ("holds", "false", 0),
    ],
)
def test_marks_are_equal_both_ways(one, other, expected):
    assert mark(one, other) == mark(other, one) == expected


def test_a_bet_may_be_changed_until_its_trial_has_been_seen(says):
    says(A4="false")
    both = bet("A4")
    both.commit(A4=("holds", 90))
    both.commit(A4=("misleading", 50))
    assert settle("A4").claims[0].bet == Bet("misleading", 50)
    said = both.commit(A4=("false", 90))
    assert "The trial of A4 has been seen" in repr(said)
    assert standings()["A4"].bet == Bet("misleading", 50)


def test_a_claim_that_was_seen_first_takes_no_bet(says):
    says(A4="false")
    settle("A4")
    assert "has been seen" in repr(bet("A4").commit(A4="false"))
    assert standings()["A4"].bet is None


def test_a_claim_that_was_seen_without_a_bet_can_be_opened_again_and_one_with_a_bet_stands(says, kept, monkeypatch):
    says(A4="false", A6="holds")
    bet("A6").commit(A6="false")
    settle("A4", "A6")  # as Run All does
    restart(monkeypatch)
    both = bet("A4", "A6")
    assert 'bet("A4").reset() opens it again' in both.form().status.value
    assert 'bet("A4").reset() opens it again' in repr(both.commit(A4="false"))
    assert "What you bet before it stands." in repr(both.commit(A6="holds"))
    assert "Open again: A4." in repr(both.reset())
    assert "None of these was seen without a bet." in repr(both.reset())
    assert standings()["A6"] == BetStatus(Bet("false", 50), "holds")
    restart(monkeypatch)
    assert "no bet yet on A4" in repr(both.commit())
    both.commit(A4=("false", 90))
    assert settle("A4").claims[0].mark == 1


def test_of_two_notebooks_the_last_bet_counts_in_both(says, kept, monkeypatch):
    first, second = [], []
    for session, verdict in ((first, "holds"), (second, "false")):
        monkeypatch.setattr(bet_records, "_session", session)
        bet("A4").commit(A4=(verdict, 70))
    monkeypatch.setattr(bet_records, "_session", first)
    assert standings()["A4"].bet == Bet("false", 70)
    says(A4="false")
    assert settle("A4").claims[0].mark == 1
    monkeypatch.setattr(bet_records, "_session", second)
    assert standings()["A4"].mark == 1


def test_a_claim_without_a_bet_is_named_when_others_are_locked():
    said = repr(bet("A4", "A6").commit(A4="false"))
    assert "There is no bet yet on A6: add it before you run the next cell." in said


def test_what_cannot_be_told_here_leaves_the_bet_open_for_another_day(says):
    says(A4="cannot tell here")
    bet("A4").commit(A4=("false", 70))
    settled = settle("A4")
    assert settled.claims[0].outcome == "stays open"
    assert standings()["A4"] == BetStatus(Bet("false", 70), was_blocked=True)
    says(A4="false")
    assert settle("A4").claims[0].mark == 1


def test_the_first_verdict_counts_and_another_one_is_said(says):
    says(A4="false")
    bet("A4").commit(A4="false")
    settle("A4")
    says(A4="holds")
    assert "An earlier run said: false. That one counts on the board." in repr(settle("A4"))
    assert standings()["A4"].mark == 1


def test_what_cannot_be_told_after_a_verdict_takes_nothing_back(says):
    says(A4="false")
    bet("A4").commit(A4="false")
    settle("A4")
    says(A4="cannot tell here")
    settled = settle("A4")
    assert settled.claims[0].outcome == "not told this time"
    assert "An earlier run" not in repr(settled)
    assert standings()["A4"].mark == 1


def test_a_trial_that_runs_again_is_no_second_prediction(says, kept):
    says(A4="false")
    bet("A4").commit(A4="false")
    settle("A4")
    settle("A4")
    assert [event["event"] for event in kept.read()] == ["bet", "trial", "predict", "trial"]


def test_bets_outlive_the_kernel_and_stand_on_the_map_of_lessons(says, kept, monkeypatch):
    says(A4="false", A8="holds")
    bet("A4", "A8").commit(A4=("false", 90), A8=("false", 50))
    restart(monkeypatch)
    assert bet("A4").form().rows[0].verdict.value == "false"
    settle("A4", "A8")
    restart(monkeypatch)
    assert standings()["A4"].mark == 1
    assert standings()["A8"].mark == 0
    lesson = summary(kept.read())["13"]
    assert lesson.predicted == {"13.A4", "13.A8"}
    assert lesson.predicted_right == {"13.A4"}
    assert "1 of 2" in repr(scoreboard())


def test_a_folder_that_cannot_be_written_costs_no_bet_of_this_session(says, kept, monkeypatch, capsys):
    monkeypatch.setattr(store_module, "data_dir", lambda: kept.path / "no folder")
    kept.path.write_text("a file stands where the folder should")
    says(A4="false")
    bet("A4").commit(A4="false")
    settle("A4")
    assert standings()["A4"].mark == 1
    assert "Your progress is not being kept" in capsys.readouterr().err


def test_events_of_other_kinds_and_rubbish_are_passed_over(kept):
    kept.append({"event": "predict", "name": "13.A4", "right": True})
    kept.append({"event": "bet", "name": "12.A4", "verdict": "holds"})
    kept.append({"event": "bet", "name": "13.A5", "verdict": "holds", "sure": "much"})
    assert standings() == {"A5": BetStatus(Bet("holds", 50))}


def test_bad_bets_get_a_sentence():
    asked = bet("A4")
    with pytest.raises(ValueError, match=r"bet one of holds, .* the nearest is 'false'"):
        asked.commit(A4="falsch")
    with pytest.raises(ValueError, match=r"how sure is one of 25, 50, 70, 90 per cent; the nearest is 70"):
        asked.commit(A4=("false", 75))
    for sure, nearest in ((0.7, 70), ("90 %", 90), (float("nan"), 50), ("very", 50), (-5, 25)):
        with pytest.raises(ValueError, match=rf"per cent; the nearest is {nearest}$"):
            asked.commit(A4=("false", sure))
    for verdict, near in ((True, "holds"), (False, "false"), ("HOLDS", "holds")):
        with pytest.raises(ValueError, match=f"the nearest is '{near}'"):
            asked.commit(A4=verdict)
    with pytest.raises(ValueError, match="A6 is not asked here; there are A4"):
        asked.commit(A6="false")
    with pytest.raises(ValueError, match="There is no claim 'A44'"):
        bet("A44")
    with pytest.raises(ValueError, match="name the claims to bet on"):
        bet()
    with pytest.raises(ValueError, match="bet on each claim once"):
        bet("A4", "A4")
    with pytest.raises(ValueError, match="settle each claim once; got A4, A4"):
        settle("A4", "A4")
    for names in ((["A4"],), (None,), (4,)):
        with pytest.raises(ValueError, match="There is no claim"):
            bet(*names)
    with pytest.raises(ValueError, match="name the claims whose trials"):
        settle()
    assert standings() == {}


def test_a_wrong_name_is_told_before_any_trial_runs(monkeypatch):
    monkeypatch.setitem(evidence._TRIALS, "A4", claims.Trial(claims.trial("A4").claim, lambda _: pytest.fail("it ran")))
    with pytest.raises(ValueError, match="There is no claim 'Z9'"):
        settle("A4", "Z9")


# -- the form ---------------------------------------------------------------------------------------------------------


def test_the_form_locks_what_is_chosen_and_says_what_is_half(says):
    asked = bet("A4", "A6", "A8")
    form = asked.form()
    assert "Open" in form.status.value
    first, second, _ = form.rows
    first.verdict.value, first.sure.value = "false", 70
    second.verdict.value = "holds"
    form.button.click()
    assert "A6: choose both" in form.status.value
    assert "1 of 3 locked" in form.status.value
    assert standings()["A4"].bet == Bet("false", 70)
    assert "A6" not in standings()


def test_a_form_whose_trial_has_been_seen_is_closed_and_keeps_nothing(says):
    says(A4="false")
    old = bet("A4").form()
    settle("A4")
    old.rows[0].verdict.value, old.rows[0].sure.value = "false", 90
    old.button.click()
    assert "has been seen: not kept" in old.status.value
    assert standings()["A4"].bet is None
    new = bet("A4").form()
    assert new.rows[0].verdict.disabled
    new.button.click()  # not disabled, or it would lose the focus of the keyboard
    assert "have been seen" in new.status.value
    assert standings()["A4"].bet is None


def test_a_claim_that_is_closed_is_not_complained_of_when_another_is_locked(says):
    says(A4="false")
    bet("A4").commit(A4="false")
    settle("A4")
    form = bet("A4", "A6").form()
    form.rows[1].verdict.value, form.rows[1].sure.value = "holds", 50
    form.button.click()
    assert "not kept" not in form.status.value
    assert standings()["A6"].bet == Bet("holds", 50)


def test_as_text_the_claims_are_read_in_whole():
    told = bet("A4", "C5")._repr_mimebundle_()["text/plain"]
    assert "is an example of nn.DataParallel." in " ".join(told.split())
    assert "commit(A4=('holds', 70))" in told
    assert max(map(len, told.splitlines())) <= 100


# -- the board --------------------------------------------------------------------------------------------------------


def stands(verdict, one, sure=70):
    return BetStatus(Bet(one, sure), verdict)


def test_the_brier_score_by_hand_and_honesty_pays():
    assert brier([]) is None
    assert brier([BetStatus(), BetStatus(Bet("false", 90))]) is None
    assert brier([stands("false", "false", 90), stands("false", "holds", 50)]) == pytest.approx((0.01 + 0.25) / 2)
    ten = [stands("false", "false"), *[stands("false", "false")] * 6, *[stands("false", "holds")] * 3]
    scores = {
        sure: brier([BetStatus(Bet(one.bet.verdict, sure), one.verdict) for one in ten]) for sure in (25, 50, 70, 90)
    }
    assert min(scores, key=scores.get) == 70


def test_the_board_by_article_with_calibration():
    kept = {
        "A1": stands("holds", "holds", 90),
        "A2": stands("holds with conditions", "holds", 90),
        "A3": stands("misleading", "holds", 50),
        "A4": BetStatus(None, "false"),
        "A5": BetStatus(Bet("false", 70), was_blocked=True),
        "A6": BetStatus(Bet("false", 70)),
        "Y1": BetStatus(Bet("false", 90), "false", text="Mine is slower."),
    }
    board = board_of(kept, [claim.name for claim in CLAIMS], claims.ARTICLES)
    untried = sum(claim.name[0] == "A" for claim in CLAIMS) - 6
    assert board.lines[0].row() == ["A", "✓≈✗–?●" + "·" * untried, "1 of 3", "50%", "1"]
    assert board.total() == ["all", f"4 of {len(CLAIMS)} seen", "1 of 3", "50%", "1"]
    assert board.calibration() == [["50 %", "1", "0%"], ["90 %", "2", "75%"]]
    told = repr(board)
    assert "1 went wrong: you trusted 1 that cannot be relied on, and doubted 0 that can." in told
    assert "Brier score 0.14" in told  # (0.01 + 0.16 + 0.25) / 3
    assert "Mine is slower." in told
    assert "Mine is slower." in board._html()
    assert sum(len(line.standing) for line in board.lines) == len(CLAIMS)


def test_an_empty_board_says_so():
    assert "No bet has been settled yet." in repr(scoreboard())
    assert f"0 of {len(CLAIMS)} seen" in repr(scoreboard())


# -- a reader's own claim ----------------------------------------------------------------------------------------------


def plant_own(verdict="false", facts=None):
    @own_claim("Y1", "My laptop is faster than two of them.")
    def mine(ranks):
        return Evidence(verdict, {"ratio": 0.5} if facts is None else facts, because="it was seen", turns_if="not")

    return mine


def test_an_own_claim_runs_like_the_others_and_stands_on_the_board_without_a_score():
    plant_own()
    bet("Y1").commit(Y1=("false", 90))
    assert settle("Y1").claims[0].mark == 1
    plant_own("holds")
    bet("Y1").commit(Y1=("holds", 90))
    assert settle("Y1").claims[0].mark == 1
    told = repr(scoreboard())
    assert "My laptop is faster than two of them.  holds, 90 %  holds" in told
    assert f"0 of {len(CLAIMS)} seen" in told
    assert claims.trial("Y1").run().verdict == "holds"
    assert "Y1" not in claims.trials()


def test_an_own_claim_without_evidence_or_number_gets_a_sentence():
    @own_claim("Y2", "My laptop is faster than two.")
    def asserts(ranks):
        assert ranks

    with pytest.raises(ValueError, match=r"The trial of Y2 returned None. It must return Evidence"):
        settle("Y2")
    plant_own(facts={})
    with pytest.raises(ValueError, match="says 'false' and gives no number"):
        settle("Y1")


def test_a_number_of_several_lines_stands_in_one():
    plant_own(facts={"held": "Run on 2 ranks\n  rank 0: 1\n  rank 1: 2"})
    assert "held  Run on 2 ranks; rank 0: 1; rank 1: 2" in str(settle("Y1"))


@pytest.mark.parametrize("name", ["A4", "Y0", "Y100", "y1", 3])
def test_an_own_name_is_y_and_a_number(name):
    with pytest.raises(ValueError, match=r"named Y1 to Y99.*The nearest is 'Y1'"):
        own_claim(name, "My laptop is faster.")


@pytest.mark.parametrize("text", ["faster", "My laptop is faster", "Nothing comes back.", "", None])
def test_an_own_claim_is_a_sentence(text):
    with pytest.raises(
        ValueError,
        match=r"a sentence of 4 words or more, with a full stop at its end. A run must be able to contradict it",
    ):
        own_claim("Y1", text)


def test_an_own_name_that_stands_for_another_sentence_begins_anew():
    plant_own("holds")
    bet("Y1").commit(Y1=("holds", 90))
    settle("Y1")

    @own_claim("Y1", "Two laptops are faster than mine.")
    def trial_of_another(ranks):
        return Evidence("false", {"laptops": 2}, because="they are old", turns_if="they were new")

    said = settle("Y1")
    assert said.claims[0].bet is None
    assert "An earlier run" not in repr(said)
    assert "Two laptops are faster than mine.  none  false" in repr(scoreboard())


def test_of_an_own_claim_the_last_run_counts():
    plant_own("holds")
    settle("Y1")
    plant_own("false")
    said = repr(settle("Y1"))
    assert "An earlier run said: holds." in said
    assert "counts on the board" not in said


def test_an_own_claim_that_was_bet_on_alone_is_not_tried():
    plant_own()
    bet("Y1").commit(Y1="holds")
    assert repr(scoreboard()).endswith("not tried")


def test_own_claims_stand_in_the_order_of_their_numbers():
    for name in ("Y10", "Y2"):
        own_claim(name, "A barrier costs no time.")(lambda ranks: Evidence("holds", {"s": 0}, "so", turns_if="not"))
        settle(name)
    assert repr(scoreboard()).index("Y2 ") < repr(scoreboard()).index("Y10")


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (Evidence("holds", None, because="so", turns_if="not"), "facts of Y3 must be a dictionary"),
        (Evidence("holds", [1, 2], because="so", turns_if="not"), "facts of Y3 must be a dictionary"),
        (Evidence("holds", {1: 2}, because="so", turns_if="not"), "facts of Y3 must be a dictionary"),
        (Evidence("holds", {}, "so", 3.0, turns_if="not"), "timings of Y3 must be a dictionary"),
        (Evidence("holds", {"a": 1}, because=None, turns_if="not"), "with because=None. Give the reason as a text"),
        (blocked(""), "'cannot tell here' with because="),
    ],
)
def test_own_evidence_without_reason_or_with_odd_numbers_gets_a_sentence(evidence, said):
    own_claim("Y3", "A barrier costs no time.")(lambda ranks: evidence)
    with pytest.raises(ValueError, match=re.escape(said)):
        settle("Y3")


def test_an_own_trial_is_a_function():
    with pytest.raises(ValueError, match="is a function of `ranks`; you gave 3"):
        own_claim("Y3", "A barrier costs no time.")(3)


def test_an_own_claim_of_another_day_is_told_to_be_run_again():
    with pytest.raises(ValueError, match="Run the cell with own_claim"):
        settle("Y98")


def test_in_a_table_signs_and_counts_stay_on_one_line_and_words_stay_whole():
    assert unbroken("6 of 12") == "6\u00a0of\u00a012"
    assert unbroken("✓✗?") == "✓\u2060✗\u2060?"
    assert unbroken("misleading, 70 %") == "misleading,\u00a070\u00a0%"


def test_what_a_reader_calls_and_says_in_a_claim_stays_text():
    from course_lib.learn.bets.bet_form import BetRow

    claim = BetRow("Y<b>", "it's <i>so</i>", ("true", "false")).children[0]
    assert "<strong>Y&lt;b&gt;</strong> it's &lt;i&gt;so&lt;/i&gt;</p>" in claim.value
