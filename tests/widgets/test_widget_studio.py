"""The schedule studio and its picture, driven without a front end."""

from __future__ import annotations

import io

import psutil
import pytest
from PIL import Image

from course_lib import schedules
from course_lib.cluster import RankInterrupted
from course_lib.cost.model_parallel.pipeline import simulate
from course_lib.plot.pipeline_chart import pipeline_gantt
from course_lib.plot.raster import Sheet
from course_lib.plot.style import Look
from course_lib.schedules.stage_times import StageTimes
from course_lib.widgets import Goal, ScheduleStudio
from course_lib.widgets.paired import Paired
from course_lib.widgets.schedule_studio import run_on_ranks


def simulated(schedule, times, link):
    """In place of real ranks: what they would measure if each action took a tenth longer."""
    slower = StageTimes(1.1 * times.forward_s, 1.1 * times.input_s, 1.1 * times.weight_s)
    return simulate(schedule, slower, link=link)


@pytest.fixture
def studio() -> ScheduleStudio:
    return ScheduleStudio(simulated, kind="gpipe", num_ranks=2, num_micro_batches=3)


def test_it_starts_with_the_schedule_its_picture_and_its_numbers(studio):
    assert studio.schedule.rows == schedules.gpipe(2, 3).rows
    assert Image.open(io.BytesIO(studio.image.value)).format == "PNG"
    assert "✓ It can run." in studio.verdict.value
    assert "<th scope='row'>all</th><td>25.0%</td>" in studio.numbers.value  # (p - 1) / (m + p - 1)
    assert repr(studio) == "Schedule studio (GPipe, 2 ranks, 3 micro-batches)"


@pytest.mark.parametrize(
    ("control", "value", "expected"),
    [
        ("ranks", 4, "50.0%"),
        ("micro_batches", 7, "12.5%"),
        ("ratio", 1.0, "25.0%"),
        ("latency", 10.0, None),
    ],
)
def test_every_number_redraws(studio, control, value, expected):
    image, numbers = studio.image.value, studio.numbers.value
    getattr(studio, control).number.value = value
    assert studio.image.value != image
    assert studio.numbers.value != numbers
    if expected:
        assert f"<th scope='row'>all</th><td>{expected}</td>" in studio.numbers.value


def test_a_forward_may_hide_behind_a_backward_in_the_plan_and_on_ranks(studio):
    studio._run, taken = lambda schedule, times, link: taken.append(times) or simulate(schedule, times), []
    studio.kind.value, studio.ranks.number.value, studio.micro_batches.number.value = "dualpipe_v", 4, 8
    assert "F7.0&B3.7" in studio.table.value
    assert "<th scope='row'>all</th><td>5.9%</td>" in studio.numbers.value
    studio.beside.value = True  # F&B takes 2 where F + B take 3: 44 of 51 steps
    assert "<th scope='row'>all</th><td>5.1%</td>" in studio.numbers.value
    studio.execute.click()
    assert (taken[0].forward_s, taken[0].overlapped_s) == (0.005, 0.010)
    assert "220 ms measured" in studio.verdict.value
    studio.table.value = studio.table.value.replace("F7.0&B3.7", "B3.7&F7.0")
    assert "no forward and whole backward overlap; write F&amp;B" in studio.verdict.value


def test_choosing_a_kind_writes_its_table(studio):
    for kind in schedules.SCHEDULES:
        studio.kind.value = kind
        free = schedules.SCHEDULES[kind].virtual_stages == "any"
        assert studio.virtual_stages.disabled != free
        assert studio.schedule.rows == schedules.get_schedule(kind, 2, 3).rows
        assert "✓ It can run." in studio.verdict.value
    studio.kind.value = "interleaved"
    studio.virtual_stages.number.value = 3
    assert studio.schedule.num_stages == 6


def test_a_table_that_is_typed_is_judged_and_drawn(studio):
    studio.table.value = "F0 B0 F1 B1 F2 B2\nF0 B0 F1 B1 F2 B2"  # one at a time
    assert "<th scope='row'>all</th><td>50.0%</td>" in studio.numbers.value
    assert "<td>1</td></tr>" in studio.numbers.value  # one in flight


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("F0 Q1", "✗ Cannot be read yet: Rank 0, cell 2"),
        ("", "Cannot be read yet: The schedule is empty"),
        ("F0 F1 B1\nF0 F1 B0 B1", "stage 0 (rank 0) never runs B0"),
        ("B0 F0\nF0 B0", "runs B0 before its F0"),
    ],
)
def test_what_is_wrong_is_said_and_the_picture_stays(studio, typed, said):
    image, numbers = studio.image.value, studio.numbers.value
    studio.table.value = typed
    assert said in studio.verdict.value
    assert (studio.image.value, studio.numbers.value) == (image, numbers)
    assert studio.execute.disabled
    assert studio.table.value == typed  # what was typed is never touched
    studio.fill.click()
    assert studio.schedule.rows == schedules.gpipe(2, 3).rows
    assert not studio.execute.disabled


def test_a_limit_on_memory_is_a_problem_that_can_still_run(studio):
    studio.limit.value = 2
    assert "✗ It can run, but: stage 0 (rank 0) runs F2 with 3 micro-batches in flight" in studio.verdict.value
    assert not studio.execute.disabled
    studio.kind.value = "1f1b"
    assert "✓ It can run." in studio.verdict.value


def test_a_run_is_laid_under_the_plan_until_something_changes(studio):
    height = Image.open(io.BytesIO(studio.image.value)).height
    studio.execute.click()
    assert Image.open(io.BytesIO(studio.image.value)).height > height
    assert "132 ms measured" in studio.verdict.value
    assert "idle, measured" in studio.numbers.value
    assert "✓ It ran in 132 ms, 25.0% idle." in studio.verdict.value
    studio.ratio.number.value = 1.0
    assert "measured" not in studio.numbers.value


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("rank 1 <died>\nand more"), "rank 1 &lt;died&gt;"),
        (OSError("no more processes"), "no more processes"),
        (RankInterrupted("Interrupted."), "Interrupted."),
        (KeyError(), "KeyError"),
    ],
)
def test_a_run_that_fails_is_told_in_words_and_nothing_is_lost(studio, error, said):
    def fails(*_):
        raise error

    studio.table.value = "F0 B0 F1 B1 F2 B2\nF0 B0 F1 B1 F2 B2"
    studio.execute.click()
    before = studio.table.value, studio.image.value, studio.numbers.value
    studio._run, works = fails, studio._run
    studio.execute.click()
    assert f"could not run it: {said}</div>" in studio.verdict.value
    assert (studio.table.value, studio.image.value, studio.numbers.value) == before
    studio._run = works
    assert not studio.execute.disabled
    studio.execute.click()
    assert "measured" in studio.verdict.value


def test_the_button_runs_the_table_on_real_ranks_and_leaves_none_behind():
    """A schedule of the learner's own, over a link that takes its time."""
    studio = ScheduleStudio(run_on_ranks, num_ranks=2, num_micro_batches=2)
    studio.table.value = "F0 F1 I0 B1 W0\nF0 B0 F1 I1 W1"
    studio.latency.number.value = 4.0
    predicted = studio.image.value
    before = ranks_of_this_process()
    studio.execute.click()
    assert "measured" in studio.verdict.value
    assert "idle, measured" in studio.numbers.value
    assert studio.image.value != predicted
    run, plan = studio._measured, studio._simulation
    assert [[span.action for span in row] for row in run.rows] == [[*row] for row in studio.schedule.rows]
    assert run.makespan_s >= plan.makespan_s
    assert run.rows[1][0].start_s >= 0.014  # a forward and a message
    assert ranks_of_this_process() <= before


def ranks_of_this_process():
    """Ranks are the children of the fork server, which is a child of ours."""
    me = psutil.Process()
    return {p for p in {*me.children(recursive=True)} - {*me.children()} if p.status() != psutil.STATUS_ZOMBIE}


def test_a_click_that_comes_after_a_broken_table_runs_nothing(studio):
    studio.table.value = "F0 Q1"
    said = studio.verdict.value
    studio._execute(None)  # the click was on its way when the button was switched off
    assert studio.verdict.value == said
    assert studio._measured is None


def test_what_was_typed_can_be_had_back(studio):
    assert studio.back.disabled
    mine = "F0 B0 F1 B1 F2 B2\nF0 B0 F1 B1 F2 B2"
    studio.table.value = mine
    assert studio.schedule.name == "your table"
    for _ in range(2):
        studio.kind.value = "1f1b" if studio.kind.value == "gpipe" else "gpipe"
        studio.ranks.number.value = 5 - studio.ranks.value
        assert studio.table.value != mine
        assert studio.schedule.name in ("GPipe", "1F1B")
        studio.back.click()
        assert studio.table.value == mine
        assert "✓ It can run." in studio.verdict.value


def test_a_table_that_was_edited_goes_by_another_name(studio):
    studio.table.value = studio.table.value.replace("F0", "f0", 1)  # under the line that says GPipe
    assert studio.schedule.name == "your table"
    assert "your table with 2 ranks and 3 micro-batches" in studio.verdict.value


def test_stages_that_share_a_rank_are_counted_one_by_one(studio):
    assert "in flight</th>" in studio.numbers.value
    studio.kind.value = "interleaved"
    assert "most micro-batches in flight, of single stages</th>" in studio.numbers.value


def test_without_ranks_there_is_only_the_plan():
    assert ScheduleStudio().execute.disabled


def test_a_goal_is_judged():
    studio = ScheduleStudio(
        kind="gpipe", num_ranks=4, num_micro_batches=8, goal=Goal(4, 8, max_in_flight=4, idle_share=0.28)
    )
    assert "Not the goal yet: a rank has 8 micro-batches in flight, and the goal allows 4" in studio.verdict.value
    studio.kind.value = "1f1b"
    assert "The goal is reached" in studio.verdict.value
    studio.micro_batches.number.value = 4
    assert "the goal is for 4 ranks and 8 micro-batches" in studio.verdict.value
    studio.micro_batches.number.value = 8
    studio.latency.number.value = 10.0
    assert "the planned idle share is 51.0%, and the goal is less than 28.0%" in studio.verdict.value


def test_slider_and_box_are_one_number():
    whole, broken = Paired("n", 2, 1, 8), Paired("x", 2.0, 0.5, 4.0, step=0.1)
    whole.slider.value = 5
    broken.number.value = 3.5
    assert (whole.value, broken.slider.value) == (5, 3.5)
    assert whole.number.description == "n"
    whole.disabled = True
    assert whole.slider.disabled
    assert whole.disabled


def test_the_picture_says_what_it_shows():
    run = simulate(schedules.gpipe(2, 3), StageTimes.of(0.01))
    alone, both = pipeline_gantt(run), pipeline_gantt(run, run)
    assert alone.alt == (
        "GPipe with 2 ranks and 3 micro-batches: 120 ms predicted, 25% of it idle. Longest wait by rank, predicted: "
        "30 ms, 0 ns."
    )
    assert "; 120 ms measured, 25% of it idle." in both.alt
    ran = pipeline_gantt(measured=simulate(schedules.naive(1), StageTimes.of(0.01)), title="x").alt
    assert "1 rank and 1 micro-batch: 30 ms measured, 0% of it idle. Longest wait by rank, measured: 0 ns." in ran
    with pytest.raises(ValueError, match="nothing to draw; give what was predicted"):
        pipeline_gantt()
    assert both.size[1] > alone.size[1]
    data, about = alone._repr_mimebundle_()
    assert data["text/plain"] == about["image/png"]["alt"] == alone.alt


def test_boxes_lie_where_their_times_are():
    picture = pipeline_gantt(simulate(schedules.one_f_one_b(2, 2), StageTimes.of(0.01)), title="x").image
    blue = (0, 114, 178)
    # rank 0: F0 F1 from the left edge of the axis, 1/9 of the width each; then it waits.
    width = 800 - 92 - 12
    at = [picture.getpixel((round(1.5 * (92 + share * width)), round(1.5 * 33))) for share in (0.02, 0.2, 0.27)]
    assert at[0] == at[1] == blue
    assert at[2] == (255, 255, 255)


def test_two_that_overlap_share_the_height():
    schedule = schedules.from_text("F0 F1 F2&B0 B1 B2\nF0 F1&B0 B1 F2 B2")
    apart = pipeline_gantt(simulate(schedule, StageTimes.of(0.01))).image
    run = simulate(schedule, StageTimes(0.01, 0.01, 0.01, overlapped_s=0.02))
    picture = pipeline_gantt(run).image
    assert picture.tobytes() != apart.tobytes()
    # rank 1's cell of F1 (blue, above) and B0 (orange, below), from 0.02 to 0.04 of 0.12 s
    scale = (800 - 92 - 12) / run.makespan_s
    top, left = 30 + 32, 92 + 0.02 * scale
    above, below = (picture.getpixel((round(1.5 * (left + 6)), round(1.5 * (top + y)))) for y in (4, 16))
    assert above == (0, 114, 178)
    assert below[0] > 200 > below[2]


def test_equal_boxes_are_painted_once_and_look_as_if_painted_in_place():
    look = Look("#E69F00", "/", "B")
    kept, wide = Sheet(400, 60), Sheet(400, 60)
    for at in (10, 60, 10):
        kept.box(at, 10, at + 40, 30, look, "B7")
    wide.box(10, 10, 390, 30, look, "B7")  # too wide to be kept
    one, two = (kept.image.crop((x, 15, x + 60, 45)) for x in (15, 90))
    assert one.tobytes() == two.tobytes()
    assert one.crop((0, 1, 10, 29)).tobytes() == wide.image.crop((15, 16, 25, 44)).tobytes()
    assert wide.image.getpixel((14, 20)) == kept.image.getpixel((14, 20)) == (255, 255, 255)


def test_a_hatched_box_keeps_to_its_place():
    sheet = Sheet(100, 40)
    sheet.box(10, 10, 90, 30, Look("#E69F00", "/", "B"), "B0")
    pixels = sheet.image.load()
    assert pixels is not None
    assert pixels[3, 3] == pixels[147, 57] == (255, 255, 255)
    assert pixels[20, 20] != (255, 255, 255)
