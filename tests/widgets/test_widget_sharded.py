"""The sharded explorer, its missions and its board, driven without a front end."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
import torch
from PIL import Image, ImageColor
from torch import nn

from course_lib.base.text import kib
from course_lib.cluster import RankError, RankFailed
from course_lib.parallel.sharded import FullySharded, watched_step
from course_lib.plot import OKABE_ITO
from course_lib.plot.boards.sharded_board import LOOKS, ShardedBoard
from course_lib.plot.raster import Raster
from course_lib.widgets import ShardedExplorer
from course_lib.widgets.sharded import explorer as sharded_explorer
from course_lib.widgets.sharded.choice import ShardedChoice, ranks_alike
from course_lib.widgets.sharded.missions import MISSIONS

LAYER = 129 * 129 * 4
ROW = 129 * 4
RUN = "course_lib.widgets.sharded.explorer.watched_step"


@pytest.fixture
def explorer() -> ShardedExplorer:
    return ShardedExplorer()


@pytest.fixture
def planned(monkeypatch) -> ShardedExplorer:
    """An explorer whose four ranks measure what the model says, and a hundredth more."""
    monkeypatch.setattr(RUN, lambda cluster, **settings: with_more(settings, 1.01))
    return ShardedExplorer(SimpleNamespace(world_size=4))


def with_more(settings: dict, factor: float) -> list[list[int]]:
    choice = ShardedChoice(**{name: value for name, value in settings.items() if name not in ("num_layers", "width")})
    return [[round(one.total * factor) for one in choice.phases(rank)] for rank in range(4)]


def choose(explorer: ShardedExplorer, stage: int, num_ranks: int, per_unit: int) -> None:
    explorer.stage.index = stage
    explorer.num_ranks.value, explorer.per_unit.value = num_ranks, per_unit


# -- what a choice comes to -----------------------------------------------------------------------------------------


def test_ddp_holds_everything_and_a_gradient_twice():
    moments = ShardedChoice(stage=0, num_ranks=4).moments()
    assert moments[0].total == 4 * 12 * LAYER  # weights, gradients, two states
    assert ShardedChoice(stage=0, num_ranks=64).peak().total == (4 * 12 + 1) * LAYER


@pytest.mark.parametrize(("stage", "missing"), [(0, 0), (1, 2), (2, 2), (3, 3)])
def test_a_rank_with_fewer_rows_holds_less_of_what_is_kept(stage, missing):
    choice = ShardedChoice(stage, 4)
    assert [choice.num_rows(rank) for rank in range(4)] == [33, 33, 33, 30]
    less = 12 * 3 * ROW * missing  # layers, rows, and of how many copies
    firsts, lasts = choice.phases(0), choice.phases(3)
    assert [first.total - last.total for first, last in zip(firsts, lasts, strict=True)] == [less] * len(firsts)


@pytest.mark.parametrize(
    ("choice", "num_messages", "sent_rows"),
    [
        (ShardedChoice(0, 4, 3), 4, 2 * 3 / 4 * 129),
        (ShardedChoice(1, 4, 3), 8, 2 * 3 * 33),
        (ShardedChoice(2, 4, 1), 24, 2 * 3 * 33),
        (ShardedChoice(3, 4, 1), 36, 3 * 3 * 33),
        (ShardedChoice(3, 4, 12, 0, False), 2, 2 * 3 * 33),
    ],
)
def test_messages_and_bytes_of_a_step(choice, num_messages, sent_rows):
    assert choice.num_messages == num_messages
    assert choice.sent_bytes == 12 * sent_rows * ROW


def test_ranks_that_keep_alike_share_a_bar_where_they_are_many():
    assert list(ranks_alike(ShardedChoice(3, 4))) == ["0", "1", "2", "3"]
    assert ranks_alike(ShardedChoice(3, 64)) == {"0-42": range(43), "43-63": range(43, 64)}
    assert list(ranks_alike(ShardedChoice(3, 10))) == ["0-8", "9"]


# -- the explorer ---------------------------------------------------------------------------------------------------


def test_it_starts_with_ddp_a_picture_and_the_model_in_words(explorer):
    assert Image.open(io.BytesIO(explorer.image.value)).format == "PNG"
    words = explorer.words.value
    assert f"a rank holds {kib(48 * LAYER)} before the step and {kib(49 * LAYER)} at its peak" in words
    assert "12 messages a step; each rank sends 1.14 MiB." in words
    assert "Model only: no ranks were given" in words
    assert words.startswith("<div role='status'>")
    assert explorer.run.disabled
    assert explorer.missions.count("not yet") == 3
    assert repr(explorer) == (
        "Sharded explorer (stage 0, 4 ranks, 1 layer a bucket): 3,185 KiB at the peak; missions reached: 0 of 3"
    )


def test_every_control_has_a_name(explorer):
    controls = (
        explorer.stage, explorer.num_ranks, explorer.per_unit, explorer.prefetch, explorer.after_forward, explorer.run,
    )  # fmt: skip
    names = ["stage", "ranks", "layers a unit", "prefetch", "weights after forward", "run it on real ranks"]
    assert [control.description for control in controls] == names
    assert [child for row in explorer.children[:2] for child in row.children] == list(controls)


@pytest.mark.parametrize(
    ("control", "value", "said"),
    [
        ("stage", "2 (gradients too)", "stage 2, 4 ranks"),
        ("num_ranks", 64, "ranks 0 to 42 keep 3, ranks 43 to 63 keep 0"),
        ("per_unit", 6, "6 messages a step"),
        ("prefetch", 2, "prefetch 2"),
        ("after_forward", "stay whole", "24 messages a step"),
    ],
)
def test_every_control_redraws_and_says_so(explorer, control, value, said):
    explorer.stage.value = "3 (weights too)"
    image = explorer.image.value
    getattr(explorer, control).value = value
    assert explorer.image.value != image
    assert said in explorer.words.value
    assert explorer.picture().alt in explorer.words.value.replace("<br>", " ").replace("&#x27;", "'")


def test_what_counts_in_stage_3_alone_is_shut_before_and_not_lost(explorer):
    explorer.stage.value = "3 (weights too)"
    explorer.prefetch.value, explorer.after_forward.value = 3, "stay whole"
    explorer.stage.value = "1 (optimizer states)"
    assert explorer.prefetch.disabled
    assert explorer.after_forward.disabled
    assert explorer.choice == ShardedChoice(1, 4, 1)
    explorer.stage.value = "3 (weights too)"
    assert not explorer.prefetch.disabled
    assert explorer.choice == ShardedChoice(3, 4, 1, 3, False)


def test_other_numbers_of_ranks_than_the_clusters_are_model_only(planned):
    assert not planned.run.disabled
    planned.num_ranks.value = 8
    assert planned.run.disabled
    assert "Model only: a run is for the 4 ranks of this explorer&#x27;s cluster." in planned.words.value
    assert planned.run.tooltip.startswith("Model only")


def test_the_button_runs_this_setting_on_ranks(cluster2):
    explorer = ShardedExplorer(cluster2)
    choose(explorer, 3, 2, 3)
    explorer.run.click()
    measured = explorer._found
    assert measured == pytest.approx([ShardedChoice(3, 2, 3, 1).peak(rank).total for rank in (0, 1)], rel=0.1)
    assert measured[1] < measured[0]  # it keeps 64 rows of 129
    assert f"Measured, at the peak of ranks 0 to 1: {kib(measured[0])}, {kib(measured[1])}" in explorer.words.value
    assert not explorer.run.disabled


def test_what_was_measured_comes_back_with_its_setting(planned):
    image = planned.image.value
    planned.run.click()
    assert planned.image.value != image
    assert "the ranks hold 1.0% more." in planned.words.value
    planned.per_unit.value = 2
    assert "Measured" not in planned.words.value
    planned.per_unit.value = 1
    assert "Measured" in planned.words.value


def test_a_second_run_of_a_setting_keeps_the_smaller_numbers(planned, monkeypatch):
    runs = iter([1.03, 1.02, 1.04])
    monkeypatch.setattr(RUN, lambda cluster, **settings: with_more(settings, next(runs)))
    for said in ("3.0% more. A rank may hold a message&#x27;s buffer", "2.0% more", "2.0% more"):
        planned.run.click()
        assert said in planned.words.value


def test_ranks_that_hold_less_are_told_of_other_back_ends(planned, monkeypatch):
    monkeypatch.setattr(RUN, lambda cluster, **settings: with_more(settings, 0.9))
    planned.run.click()
    assert "the ranks hold 10.0% less. The model counts gloo&#x27;s buffers" in planned.words.value


@pytest.mark.parametrize("kind", [RankError, RuntimeError, OSError])
def test_ranks_that_fail_are_told_in_words_and_nothing_is_lost(planned, monkeypatch, kind):
    def fails(*_, **__):
        raise kind("the ranks are <gone>\nmore")

    choose(planned, 3, 4, 2)
    planned.run.click()
    before, choice = planned._measured[planned.choice], planned.choice
    monkeypatch.setattr(RUN, fails)
    planned.run.click()
    assert "could not run it: the ranks are &lt;gone&gt;<" in planned.words.value
    assert "mission 1: not yet." in planned.words.value
    assert planned.choice == choice
    assert planned._measured[choice] == before
    assert not planned.run.disabled


@pytest.mark.parametrize("cluster", ["two", SimpleNamespace(world_size="2")])
def test_what_is_no_cluster_is_refused_in_a_sentence(cluster):
    with pytest.raises(ValueError, match=r"is no cluster\. Give shared_cluster"):
        ShardedExplorer(cluster)


# -- missions -------------------------------------------------------------------------------------------------------


def every_choice(num_ranks: int) -> list[ShardedChoice]:
    per_unit, prefetches = (1, 2, 3, 4, 6, 12), range(sharded_explorer._MOST_PREFETCH + 1)
    plain = [ShardedChoice(stage, num_ranks, size) for stage in range(3) for size in per_unit]
    stage_3 = [
        ShardedChoice(3, num_ranks, size, prefetch, resharded)
        for size in per_unit for prefetch in prefetches for resharded in (True, False)
    ]  # fmt: skip
    return plain + stage_3


def test_one_setting_of_four_ranks_reaches_the_first_mission(explorer):
    mission = MISSIONS[0]
    assert [one for one in every_choice(4) if not mission.missed(one, [])] == [ShardedChoice(3, 4, 3, 0)]
    assert mission.missed(ShardedChoice(3, 2, 3), []) == "This mission is for 4 ranks."
    assert "It takes 36 messages a step; the mission allows at most 12" in mission.missed(ShardedChoice(3, 4, 1), [])
    assert "1,692 KiB at its peak; the mission allows at most 1,593 KiB" in mission.missed(
        ShardedChoice(3, 4, 3, 1), []
    )
    choose(explorer, 3, 4, 3)
    explorer.prefetch.value = 0
    explorer.stage.value = "0 (DDP)"  # once reached, it stays so
    assert "mission 1: reached (stage 3, 4 ranks, 3 layers a unit, prefetch 0)" in explorer.missions
    assert "missions reached: 1 of 3" in repr(explorer)


def test_the_second_mission_is_decided_by_a_run(planned):
    assert "a stage above 0" in planned.missions
    choose(planned, 1, 4, 12)
    assert "mission 2: not yet. Run this setting: the mission needs a measurement." in planned.missions
    planned.run.click()
    assert "mission 2: reached (stage 1, 4 ranks, 12 layers a bucket)" in planned.missions
    planned.stage.index = 2  # which reaches it too
    planned.run.click()
    assert "mission 2: reached (stage 1, 4 ranks, 12 layers a bucket)" in planned.missions
    missed = MISSIONS[1].missed(ShardedChoice(3, 4, 1), [1000 * 1024] * 4)
    assert missed == "The ranks held 1,000 KiB at most; the mission asks for at least 3,026 KiB."


def test_one_number_of_ranks_reaches_the_third_mission(explorer):
    mission = MISSIONS[2]
    leanest = [ShardedChoice(stage, n) for stage in (2, 3) for n in range(2, 65)]
    found = [one for one in (*leanest, *every_choice(43), *every_choice(64)) if not mission.missed(one, [])]
    assert set(found) == {ShardedChoice(3, 43)}  # 3 rows each, and none over: more ranks send padding
    assert "A rank holds 425 KiB at its peak; a setting with 330 KiB exists." in mission.missed(
        ShardedChoice(3, 64), []
    )


# -- the board ------------------------------------------------------------------------------------------------------


def colour_at(picture: Raster, x: float, y: float) -> str:
    red, green, blue = picture.image.getpixel((round(x * 1.5), round(y * 1.5)))
    return f"#{red:02X}{green:02X}{blue:02X}"


def test_a_bar_is_as_high_as_what_it_shows_and_so_is_the_measured_line():
    choice = ShardedChoice(1, 4, 12)
    moments, limit = choice.phases(), ShardedChoice().peak().total
    at_peak = {"0": choice.peak()}
    board = ShardedBoard(limit)
    plain = board.draw(moments, at_peak, title="t", alt="said")
    assert plain.alt == "said"
    end_bytes = 1.12 * max(moment.total for moment in moments)
    y = {
        name: 296 - 256 * size / end_bytes
        for name, size in {"kept": moments[0].kept, "all": choice.peak().total}.items()
    }
    middle = 56 + (566 - 56) * 0.5 / 4  # of the first of four bars: kept, and nothing else
    assert colour_at(plain, middle, y["kept"] + 5) == LOOKS["kept"].colour
    assert colour_at(plain, middle, y["kept"] - 5) == "#FFFFFF"
    top = 56 + (566 - 56) * 3.5 / 4  # of the last: a stack of four
    assert colour_at(plain, top, y["all"] + 4) != "#FFFFFF"
    assert colour_at(plain, top, 290) == LOOKS["kept"].colour
    last = 56 + (566 - 56) * 3.03 / 4  # beside the last bar
    assert colour_at(plain, last, y["all"]) == "#FFFFFF"
    measured = board.draw(moments, at_peak, title="t", alt="", measured=[one.total for one in moments])
    assert colour_at(measured, last, y["all"]) == "#000000"


def test_no_colour_stands_alone():
    looks = list(LOOKS.values())
    assert len({look.hatch for look in looks}) == len({look.colour for look in looks}) == len(looks)
    assert all(ImageColor.getrgb(look.colour) for look in looks)


def test_a_bar_of_a_pixel_or_two_is_seen():
    choice = ShardedChoice(3, 64)
    picture = ShardedBoard(ShardedChoice().peak().total).draw(choice.phases(), {"0": choice.peak()}, title="", alt="")
    kept_px = 256 * choice.phases()[0].kept / (1.12 * ShardedChoice().peak().total)
    assert kept_px < 5
    assert colour_at(picture, 56 + 510 * 0.5 / 26, 296 - kept_px / 2) == LOOKS["kept"].colour


# -- the learner's own ----------------------------------------------------------------------------------------------


def wrapped(model, units, me, prefetch):
    """As a learner's class is called."""
    return FullySharded(me, model, units, prefetch=prefetch)


def colours(image: Image.Image) -> set[tuple[int, ...]]:
    """Those of its pixels."""
    return {colour for _, colour in image.getcolors(2**20)}


def own_explorer(monkeypatch, own_factor, **options) -> ShardedExplorer:
    """An explorer whose four ranks measure the model, and of the learner's so many times as much; or an error."""

    def runs(cluster, wrap=None, **settings):
        if wrap is not None and own_factor is None:
            raise RankFailed("rank 2 has given up\nmore")
        return with_more(settings, own_factor if wrap is not None else 1.0)

    monkeypatch.setattr(RUN, runs)
    explorer = ShardedExplorer(SimpleNamespace(world_size=4), yours=wrapped, **options)
    choose(explorer, 3, 4, 1)
    return explorer


def test_the_learners_own_is_run_in_stage_3_and_told_and_drawn(monkeypatch):
    explorer = own_explorer(monkeypatch, 2.0)
    assert "Yours" not in explorer.words.value
    explorer.run.click()
    peaks = [max(moment.total for moment in ShardedChoice(stage=3, prefetch=1).phases(rank)) for rank in range(4)]
    assert (
        f"Your build, at the peak of ranks 0 to 3: {', '.join(kib(2 * peak) for peak in peaks)}."
        in explorer.words.value
    )
    green = ImageColor.getrgb(OKABE_ITO["green"])
    assert green in colours(explorer.picture().image)
    explorer.after_forward.value = "stay whole"
    explorer.run.click()
    assert "Measured" in explorer.words.value
    assert "Yours" not in explorer.words.value
    assert green not in colours(explorer.picture().image)
    explorer.stage.index = 1
    explorer.run.click()
    assert "Yours" not in explorer.words.value


def test_a_learners_own_that_fails_is_said_and_the_courses_is_shown(monkeypatch):
    explorer = own_explorer(monkeypatch, None)
    explorer.run.click()
    assert "Measured, at the peak" in explorer.words.value
    assert "Your run did not come to its end: rank 2 has given up<" in explorer.words.value


def test_what_is_wrapped_by_somebody_else_is_watched_as_ours_is(cluster2):
    sizes = {"stage": 3, "num_layers": 2, "width": 32, "prefetch": 0, "num_steps": 3}
    assert watched_step(cluster2, **sizes, wrap=wrapped) == watched_step(cluster2, **sizes)


class KeepsMore(nn.Module):
    """As ours, and from its forward on it keeps 2048 numbers more."""

    def __init__(self, model, units, me, prefetch):
        super().__init__()
        self.sharded = wrapped(model, units, me, prefetch)

    def forward(self, x):
        self.more = torch.zeros(2048)
        return self.sharded(x)


def test_what_somebody_elses_keeps_is_counted(cluster2):
    sizes = {"stage": 3, "num_layers": 2, "width": 32, "prefetch": 0, "num_steps": 3}
    ours, theirs = (watched_step(cluster2, **sizes, wrap=wrap) for wrap in (wrapped, KeepsMore))
    assert [max(parts) for parts in theirs] == [max(parts) + 4 * 2048 for parts in ours]


@pytest.mark.parametrize("changed", [{"stage": 1}, {"stage": 3, "reshard_after_forward": False}])
def test_a_wrapper_where_none_is_asked_for_is_refused(changed):
    with pytest.raises(ValueError, match="needs stage 3 with weights that are freed after forward"):
        watched_step(SimpleNamespace(world_size=2), num_layers=2, width=8, wrap=wrapped, **changed)
