"""The room of pictures draws what the lessons show: nothing is missing, left over, or other than its file."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from contrast import contrast
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from course_lib import schedules
from course_lib.authoring.pictures import gallery, main
from course_lib.authoring.pictures.gallery import LessonPicture, NoSuchPicture, lessons, pictures_of, the_one
from course_lib.base.paths import project_root
from course_lib.cost.model_parallel.pipeline import simulate
from course_lib.lessons.info import lessons as lesson_infos
from course_lib.lessons.info import source_files
from course_lib.plot import pipeline_gantt
from course_lib.plot.dark import GROUND, in_the_dark
from course_lib.schedules import StageTimes

ROOT = project_root()
ASSETS = ROOT / "assets"
NOT_DRAWN = {"lesson": "a page of a lesson, taken in a browser by `course pictures front`"}
CHEAP = (
    "00_waiting", "01_recompute", "02_question", "03_four_steps", "04_drift", "05_room", "06_tied", "07_wrong",
    "08_rows", "09_places", "10_two_sides", "11_cuts", "12_meet", "13_verdicts", "14_order",
)  # fmt: skip


def shown_by(path: Path) -> set[str]:
    return set(re.findall(r"assets/(\w+)\.png", path.read_text(encoding="utf-8")))


def shown() -> dict[str, set[str]]:
    """What the source of each lesson shows, by the lesson's number."""
    by_lesson = {info.number: source_files(ROOT, info.number) for info in lesson_infos(ROOT)}
    return {number: set().union(*map(shown_by, paths)) for number, paths in by_lesson.items()}


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"), dtype=int)


def drawn_by_these_versions() -> None:
    """Skip where another matplotlib would draw letters otherwise."""
    pinned = re.search(r"^matplotlib==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    if mpl.__version__ != pinned[1]:
        pytest.skip(f"the files were drawn with matplotlib {pinned[1]}, and this is {mpl.__version__}")


def test_every_picture_that_a_lesson_shows_is_made_here():
    wanted = set().union(shown_by(ROOT / "README.md"), shown_by(ROOT / "docs" / "lessons.md"), *shown().values())
    assert len(wanted) > 60
    assert wanted - {picture.title for picture in pictures_of()} == set(NOT_DRAWN)


def test_every_picture_has_its_file_and_is_shown_by_its_lesson():
    pictures, by_lesson = pictures_of(), shown()
    titles = [picture.title for picture in pictures]
    assert len(set(titles)) == len(titles)
    assert {path.stem for path in ASSETS.glob("*.png")} == set(titles) | set(NOT_DRAWN)
    assert not [picture.title for picture in pictures if picture.title not in by_lesson[picture.lesson]]
    assert set(titles) >= gallery.MEASURED


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("title", CHEAP)
def test_a_picture_of_each_lesson_comes_out_as_its_file(title: str, tmp_path: Path):
    drawn_by_these_versions()
    picture = the_one(title, pictures_of([title[:2]]))
    assert picture.save(tmp_path)
    new, old = pixels(tmp_path / f"{title}.png"), pixels(ASSETS / f"{title}.png")
    assert new.shape == old.shape
    assert np.abs(new - old).max() <= 16  # of 255: what another processor's rounding may do


@pytest.mark.parametrize("title", ["03_four_steps", "11_cuts", "12_looked_at", "14_job"])  # grey, vermillion, green
def test_the_words_beside_boxes_can_be_read_in_both_themes(title: str):
    drawn = the_one(title, pictures_of([title[:2]])).draw()
    assert isinstance(drawn, Figure)
    inks = {to_hex(word.get_color()) for word in drawn.findobj(Text) if word.get_text()} - {"#ffffff"}
    assert len(inks) > 1
    for ink in inks:
        assert contrast(ink, "white") >= 4.5, ink
        assert contrast(in_the_dark(ink), GROUND) >= 4.5, ink


def test_one_of_each_lesson_was_drawn():
    assert [title[:2] for title in CHEAP] == lessons()


@pytest.mark.parametrize("title", ["00_waiting", "03_four_steps"])
def test_a_picture_does_not_depend_on_settings_nor_change_them(title: str):
    picture = the_one(title, pictures_of([title[:2]]))
    expected = picture.png()
    settings = {
        "font.family": "serif",
        "hatch.linewidth": 4.0,
        "lines.linewidth": 9.0,
        "savefig.pad_inches": 3,
    }
    with mpl.rc_context(settings):
        before = dict(mpl.rcParams)
        assert picture.png() == expected
        assert dict(mpl.rcParams) == before


def hung(monkeypatch: pytest.MonkeyPatch, **draw: Callable[[], bytes]) -> None:
    """Let the gallery have these pictures of lesson 07 alone."""
    pictures = [LessonPicture("07", name, function, {}) for name, function in draw.items()]
    monkeypatch.setattr(gallery, "pictures_of", lambda wanted: pictures)


def must_not_run() -> bytes:
    raise AssertionError("a picture of a real run was drawn although nobody asked for it")


def test_a_picture_of_a_real_run_is_left_alone(monkeypatch, tmp_path, capsys):
    hung(monkeypatch, quiz=lambda: b"quiz", studio=must_not_run)
    assert main(["07"], folder=tmp_path) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["07_quiz.png"]
    assert "07_studio shows a real run and is left as it is; --only 07_studio" in capsys.readouterr().out


def test_a_picture_of_a_real_run_has_the_frame_that_is_drawn_today():
    """Names of rows and title, left of the times, and the legend: here with the plan itself in place of the run."""
    drawn_by_these_versions()
    schedule, times = schedules.one_f_one_b(4, 6), StageTimes.of(0.020)
    plan = simulate(schedule, times)
    drawn = Image.open(io.BytesIO(pipeline_gantt(plan, plan, title="1F1B").png()))
    today, kept = np.asarray(drawn.convert("RGB"), dtype=int), pixels(ASSETS / "07_studio.png")
    assert kept.shape == today.shape
    for part in (np.s_[:, :136], np.s_[370:]):
        assert np.abs(kept[part] - today[part]).max() <= 16, "it is old: `course pictures --only 07_studio`"


def test_a_picture_of_a_real_run_is_drawn_when_asked_for(monkeypatch, tmp_path, capsys):
    hung(monkeypatch, quiz=must_not_run, studio=lambda: b"a run")
    assert main(["--only", "studio.png"], folder=tmp_path) == 0
    assert (tmp_path / "07_studio.png").read_bytes() == b"a run"
    assert capsys.readouterr().out == "lesson 07: 1 picture, changed: 07_studio\n"


def test_what_has_changed_is_said(monkeypatch, tmp_path, capsys):
    hung(monkeypatch, quiz=lambda: b"new", pile=lambda: b"same")
    (tmp_path / "07_quiz.png").write_bytes(b"old")
    (tmp_path / "07_pile.png").write_bytes(b"same")
    assert main([], folder=tmp_path) == 0
    assert capsys.readouterr().out == "lesson 07: 2 pictures, changed: 07_quiz\n"
    assert main([], folder=tmp_path) == 0
    assert capsys.readouterr().out == "lesson 07: 2 pictures, unchanged\n"


def test_the_list_draws_nothing(monkeypatch, tmp_path, capsys):
    hung(monkeypatch, quiz=must_not_run, studio=must_not_run)
    assert main(["--list"], folder=tmp_path) == 0
    assert capsys.readouterr().out == "07_quiz\n07_studio  (of a real run; drawn with --only)\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["99"], f"there is no lesson '99' with pictures; there are {', '.join(lessons())}."),
        (["00", "quiz"], "there is no lesson 'quiz' with pictures"),
        (["00", "--only", "wating"], "no picture is called 'wating'. Did you mean 'waiting'?"),
        (["00", "--only", "07_quiz"], "no picture is called '07_quiz'. `course pictures --list`"),
        (["04", "1", "--only", "accumulate"], "2 pictures are called 'accumulate': 01_accumulate, "),
    ],
)
def test_an_unknown_word_gets_a_sentence(argv, sentence, tmp_path, capsys):
    assert main(argv, folder=tmp_path) == 2
    assert f"course pictures: {sentence}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_without_a_folder_nothing_is_drawn(monkeypatch, tmp_path, capsys):
    hung(monkeypatch, quiz=must_not_run)
    assert main([], folder=tmp_path / "assets") == 1
    assert "there is no folder" in capsys.readouterr().err


def test_lessons_are_told_by_number_with_or_without_a_zero():
    assert {picture.lesson for picture in pictures_of(["0", "00"])} == {"00"}
    assert len(pictures_of(["0", "00"])) == len(pictures_of(["00"]))
    with pytest.raises(NoSuchPicture):
        pictures_of([""])
