"""``course class check``: the page, the JSON, the exit code, and a sentence for what cannot be asked."""

from __future__ import annotations

import json

import pytest
from class_cases import GIB, PLAIN, node, record, with_gpus

from course_lib import classroom, cli
from course_lib.classroom.trial import command
from course_lib.classroom.trial.resource_use import read_record, taken_from
from course_lib.classroom.trial.trial import CellFailure, ClassTrial, Lap
from course_lib.classroom.trial.watch import ProcessSample
from course_lib.doctor import Finding

WELL = (Finding("Python", "ok", "3.11"), Finding("memory", "warning", "told for the class", "..."))


@pytest.fixture
def ask(monkeypatch, tmp_path, capsys):
    """``ask("--learners", "30", node=...)``: exit code, what was printed, and what was said on the side."""
    kept = tmp_path / "record.json"
    kept.write_text(json.dumps(record()))

    def asked(*words: str, of=None, doctor=WELL, measured=kept):
        monkeypatch.setattr(command, "look", lambda homes: node() if of is None else of)
        monkeypatch.setattr(command, "examine", lambda here: doctor)
        more = [] if measured is None else ["--measured", str(measured)]
        code = cli.main(["class", "check", *words, *more])
        said = capsys.readouterr()
        return code, said.out, said.err

    return asked


# -- the page --------------------------------------------------------------------------------------------------------


def test_a_class_that_fits(ask):
    code, page, _ = ask("--learners", "20", "--lessons", "00", "02a")
    assert code == 0
    assert page.endswith("A class of 20 fits here.\n")
    for part in ("This machine", "How many fit", "Lessons", "room for 38", "This extrapolates", "8 cores"):
        assert part in page
    assert "What to change" not in page
    assert "told for the class" not in page  # memory is this report's own line
    assert max(map(len, page.splitlines())) <= 120


def test_a_class_that_does_not_fit(ask):
    code, page, _ = ask("--learners", "50", "--lessons", "02a")
    assert code == 1
    assert page.endswith("38 of 50 learners fit.\n")
    assert "memory" in page.split("What to change")[1]
    assert "Memory runs out first: 38 fit." in page


def test_open_lessons_make_room_for_fewer(ask):
    assert ask("--learners", "38", "--lessons", "02a")[0] == 0
    code, page, _ = ask("--learners", "38", "--lessons", "02a", "--open", "4")
    assert code == 1
    assert "15 of 38 learners fit." in page


def test_the_exact_number_fits_and_one_more_does_not(ask):
    assert ask("--learners", "38", "--lessons", "02a")[0] == 0
    assert ask("--learners", "39", "--lessons", "02a")[0] == 1


def test_what_the_doctor_finds_blocked_blocks_the_lessons(ask):
    ill = Finding("back ends", "blocked", "no gloo", "Install PyTorch.")
    code, page, _ = ask("--learners", "2", "--lessons", "00", doctor=(*WELL, ill))
    assert code == 1
    assert "Blocked lessons: 00." in page
    assert "What course doctor says besides" in page


def test_all_lessons_are_judged_where_none_is_named(ask):
    _, page, _ = ask("--learners", "2")
    assert "03b" in page.split("Lessons")[1]
    assert "a cell needs 2 GPUs, and says so" in page


def test_lessons_that_no_trial_met_are_said(ask):
    _, page, _ = ask("--learners", "2", "--lessons", "00", "05a")
    assert "These were not in that trial, and count like its largest lesson: 05a." in " ".join(page.split())
    assert "2 GiB a lesson at its peak (02a)" in page  # 00 alone would be 1 GiB


def test_more_learners_a_core_than_a_trial_has_shown(ask):
    _, page, _ = ask("--learners", "30", "--lessons", "00")
    assert "No trial has shown 3.75 learners a core" in page
    assert "No trial has shown" not in ask("--learners", "6", "--lessons", "00")[1]


def test_gpus_driver_and_nccl_are_told(ask):
    _, page, _ = ask("--learners", "2", "--lessons", "00", of=node(with_gpus(2), nccl="2.29.3"))
    assert "NCCL 2.29.3; driver 580.65.06" in page
    assert "2 (NVIDIA A100-SXM4-80GB), 160 GiB free in all" in page


def test_json_for_programs(ask):
    code, text, _ = ask("--learners", "50", "--lessons", "02a", "--json")
    told = json.loads(text)
    assert code == 1
    assert told["ok"] is False
    assert (told["fits"], told["learners"], told["is_extrapolated"]) == (38, 50, True)
    assert {"memory", "disk", "processes"} <= {limit["name"] for limit in told["limits"]}
    assert told["lessons"][0]["status"] == "runs"
    assert told["advice"]


# -- what cannot be asked --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--learners", "0"], "it goes from 1 to 10000, and is 0; the nearest is 1"),
        (["--learners", "many"], "it is a whole number, and 'many' is none"),
        (["--open", "99"], "the nearest is 20"),
        (["--trial", "-3"], "the nearest is 1"),
        (["--copies", "mine"], "invalid choice"),
    ],
)
def test_numbers_that_make_no_class(ask, capsys, words, said):
    with pytest.raises(SystemExit) as ended:
        ask(*words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_lesson_that_is_not_there(ask):
    code, _, said = ask("--lessons", "2a")
    assert code == 2
    assert said.splitlines()[-1] == "course class check: there is no lesson '2a'; the nearest is 02a."


def test_records_that_cannot_be_used(ask, tmp_path):
    code, _, said = ask(measured=tmp_path / "none.json")
    assert code == 2
    assert "--trial 2 --keep FILE" in said
    for text in ("{", "[]", "{}", '{"lessons": {}}', '{"lessons": 3}'):
        (tmp_path / "broken.json").write_text(text)
        assert "is not the record of a trial" in ask(measured=tmp_path / "broken.json")[2]
    (tmp_path / "broken.json").write_text(json.dumps(record() | {"lessons": {"00": {"peak_bytes": 1}}}))
    assert "of a trial. Record one again" in ask(measured=tmp_path / "broken.json")[2]


def test_a_folder_of_homes_that_is_not_there(tmp_path, capsys):
    assert cli.main(["class", "check", "--lessons", "00", "--homes", str(tmp_path / "none")]) == 2
    assert f"The nearest is {tmp_path}" in capsys.readouterr().err


# -- trials ----------------------------------------------------------------------------------------------------------


def trial_of(**other) -> ClassTrial:
    usual = {
        "learners": 3, "lessons": ("00",), "open_lessons": 1, "load_before": (0.5, 0.5, 0.5), "wall_s": 10.0,
        "laps": [Lap(1, "00", 9.0, 5.0, 2, 3.0, 4.0, ProcessSample(2 * GIB, 3, 20, 60, 30))],
        "peaks": {(1, "00"): ProcessSample(4 * GIB, 5, 40, 90, 30)}, "server": ProcessSample(GIB, 1, 2, 3, 3),
        "disk_bytes_each": 1000,
    }  # fmt: skip
    return ClassTrial(**{**usual, **other})


@pytest.fixture
def tried(monkeypatch):
    """What the next trial finds; ``tried["asked"]`` is what it was asked."""
    found = {"trial": trial_of()}

    def run(learners, notebooks, **other):
        found["asked"] = (learners, dict(notebooks), other)
        return found["trial"]

    monkeypatch.setattr("course_lib.classroom.trial.trial.run_trial", run)
    return found


def test_a_trial_gives_the_numbers_of_the_formula(ask, tried):
    code, page, _ = ask("--learners", "10", "--lessons", "00", "--trial", "3")
    assert tried["asked"][0] == 3
    assert [path.parent.name for path in tried["asked"][1].values()] == ["solutions"]
    assert code == 0
    assert "4 GiB a lesson at its peak (00) + 1 GiB JupyterLab) = 16" in " ".join(page.split())
    assert "3 at once, 00, 10 s in all: no error, 3 fit" in page
    assert "the trial below" in page
    assert "This extrapolates." in page


def test_as_many_as_have_just_worked_are_not_extrapolated(ask, tried):
    assert "3 have just worked here at once." in ask("--learners", "3", "--lessons", "00", "--trial", "3")[1]
    _, text, _ = ask("--learners", "3", "--lessons", "00", "--trial", "3", "--json")
    assert json.loads(text)["is_extrapolated"] is False
    tried["trial"] = trial_of(stopped="memory ran short")
    _, text, _ = ask("--learners", "3", "--lessons", "00", "--trial", "3", "--json")
    assert json.loads(text)["is_extrapolated"] is True


def test_a_trial_of_what_a_learner_starts_with(ask, tried):
    ask("--lessons", "00", "--trial", "3", "--copies", "unsolved")
    assert [path.parent.name for path in tried["asked"][1].values()] == ["notebooks"]


def test_a_trial_without_named_lessons_takes_those_of_the_record(ask, tried):
    ask("--trial", "3")
    assert list(tried["asked"][1]) == ["00", "02a"]


def test_a_trial_that_failed(ask, tried):
    tried["trial"] = trial_of(failures=[CellFailure(2, "00", 7, 1, "TimeoutExpired: 120 s")])
    code, page, _ = ask("--learners", "3", "--lessons", "00", "--trial", "3")
    assert code == 1
    assert "cell 7, 1 of 3: TimeoutExpired: 120 s" in page
    assert page.endswith("The trial failed.\n")


def test_a_trial_larger_than_the_machine_is_not_begun(ask, tried):
    code, _, said = ask("--lessons", "02a", "--trial", "39")
    assert code == 2
    assert "by its memory" in said
    assert "The most that fits is 38." in said
    assert "asked" not in tried


def test_the_first_trial_needs_no_record(ask, tried, monkeypatch, tmp_path):
    monkeypatch.setattr("course_lib.classroom.trial.resource_use.RECORD", "no/such/file.json")
    code, _, _ = ask("--learners", "2", "--trial", "2", "--keep", str(tmp_path / "kept.json"), measured=None)
    assert code == 0
    assert list(tried["asked"][1]) == ["00"]
    kept, _ = read_record(tmp_path / "kept.json")
    assert taken_from(kept, ["00"], "x").most("peak_bytes") == 4 * GIB
    assert "--trial 2 --keep FILE" in ask("--trial", "3", measured=None)[2]
    tried["trial"] = trial_of(laps=[], failures=[CellFailure(1, "00", 0, 0, "died")])
    assert "no learner came to the end" in ask("--trial", "2", measured=None)[2]


def test_a_file_that_cannot_be_kept_is_told_before_the_trial(ask, tried, tmp_path):
    code, _, said = ask("--lessons", "00", "--trial", "3", "--keep", str(tmp_path / "none" / "kept.json"))
    assert code == 2
    assert "there is no folder" in said
    assert "asked" not in tried


def test_the_record_of_the_course_has_what_the_formula_needs():
    kept, source = read_record()
    found = taken_from(kept, list(kept["lessons"]), source)
    assert found.trial.has_fitted
    assert found.server.peak_bytes > 0
    assert found.disk_bytes > kept["disk_bytes_each"] + 3_000_000  # the lessons and their pictures, of each learner
    assert PLAIN.cores > 0
    for name in ("peak_bytes", "rest_bytes", "processes", "threads", "descriptors", "longest_cell_cpu_s"):
        assert found.most(name) > 0


# -- the verb --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [[], ["--help"], ["help"]])
def test_the_verb_names_its_words(words, capsys):
    assert cli.main(["class", *words]) == 0
    said = capsys.readouterr().out
    assert all(f"course class {word}" in said for word in classroom.WORDS)


def test_a_check_says_what_it_does_before_it_loads_anything(monkeypatch, capsys):
    monkeypatch.setitem(classroom.WORDS, "check", ("course_lib.not_there", "planted"))
    with pytest.raises(ModuleNotFoundError):
        cli.main(["class", "check", "--learners", "30"])
    told = capsys.readouterr()
    assert (told.out, "looking at this machine" in told.err) == ("", True)
    with pytest.raises(ModuleNotFoundError):
        cli.main(["class", "check", "--help"])
    assert capsys.readouterr().err == ""


def test_a_word_that_is_unknown(capsys):
    assert cli.main(["class", "chekc"]) == 2
    assert "Did you mean `course class check`?" in capsys.readouterr().err


def test_a_word_that_is_not_there(capsys):
    assert cli.main(["class", "bord"]) == 2
    told = capsys.readouterr().err
    assert "there is no 'bord'; there are check, board, mine, slides, handout, share." in told
    assert "Did you mean `course class board`?" in told


def test_help_is_there(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["class", "check", "--help"])
    assert ended.value.code == 0
    assert "--learners" in capsys.readouterr().out
