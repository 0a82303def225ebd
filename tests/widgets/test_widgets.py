"""The memory explorer, driven through its controls without a front end."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image

from course_lib.cost import transformer_memory
from course_lib.models import TransformerConfig
from course_lib.widgets import AddedMemory, LargestBatch, MemoryExplorer


def predict(*, batch_size: int, optimizer: str, precision: str, recompute: bool) -> dict[str, int]:
    if batch_size == 13:
        raise ValueError("13 is <unlucky>; take 12")
    state = {"adamw": 2000, "momentum": 1000, "sgd": 0}[optimizer]
    per_sample = (100 if precision == "float32" else 60) // (4 if recompute else 1)
    return {
        "parameter": 1000,
        "gradient": 1000,
        "optimizer state": state,
        "activation": per_sample * batch_size,
    }


@pytest.fixture
def explorer() -> MemoryExplorer:
    return MemoryExplorer(predict, limit_bytes=5000)


def test_it_starts_with_a_picture_and_words(explorer: MemoryExplorer) -> None:
    assert Image.open(io.BytesIO(explorer.image.value)).format == "PNG"
    assert explorer.words.value == (
        "<p role='status'>Now (batch 32, adamw, float32): <b>7.03 KiB</b>, of which parameter 1000 B, "
        "gradient 1000 B, optimizer state 1.95 KiB, activation 3.12 KiB. "
        "That is 1.00 times the bar that was kept. It does not fit in 4.88 KiB.</p>"
    )


@pytest.mark.parametrize(
    ("control", "value", "total"),
    [
        ("batch_size", 8, 4800),
        ("optimizer", "sgd", 5200),
        ("precision", "bfloat16 autocast", 5920),
        ("recompute", True, 4800),
    ],
)
def test_every_control_redraws_and_says_so(explorer: MemoryExplorer, control: str, value: Any, total: int) -> None:
    image, words = explorer.image.value, explorer.words.value
    getattr(explorer, control).value = value
    assert explorer.choice[control] == value
    assert sum(explorer._sizes.values()) == total
    assert explorer.image.value != image
    assert explorer.words.value != words
    assert ("It fits in" in explorer.words.value) == (total <= 5000)
    assert f"That is {total / 7200:.2f} times" in explorer.words.value


def test_the_kept_bar_is_the_start_until_another_is_kept(explorer: MemoryExplorer) -> None:
    explorer.batch_size.value = 16
    assert "kept: 7.03 KiB" in explorer.picture().alt
    explorer.keep.click()
    explorer.batch_size.value = 8
    assert "kept: 5.47 KiB" in explorer.picture().alt
    assert "now: 4.69 KiB" in explorer.picture().alt
    assert "That is 0.86 times" in explorer.words.value


def test_a_refused_choice_is_told_and_the_picture_stays(explorer: MemoryExplorer) -> None:
    image = explorer.image.value
    explorer.batch_size.value = 13
    assert explorer.words.value == "<p role='status'>No prediction: 13 is &lt;unlucky&gt;; take 12</p>"
    assert explorer.image.value == image
    explorer.batch_size.value = 12
    assert "batch 12" in explorer.words.value


def test_as_text_it_is_a_short_stable_sentence(explorer: MemoryExplorer) -> None:
    explorer.recompute.value = True
    assert repr(explorer) == "Memory explorer (batch 32, adamw, float32, recomputed): 4.69 KiB"
    assert len(repr(explorer)) < 110
    assert explorer._repr_mimebundle_()["text/plain"] == repr(explorer)


def test_controls_have_names_for_a_screen_reader_and_can_be_reached(explorer: MemoryExplorer) -> None:
    for control in (
        explorer.batch_size,
        explorer.optimizer,
        explorer.precision,
        explorer.recompute,
        explorer.keep,
    ):
        assert control.description
        assert any(control in row.children for row in explorer.children[:2])
    assert explorer.children[2:4] == (explorer.image, explorer.words)


def test_it_shows_what_the_cost_model_says_of_a_transformer() -> None:
    config = TransformerConfig(width=64, num_layers=2, num_heads=2, context_length=32)
    explorer = MemoryExplorer(
        lambda **choice: transformer_memory(config, **choice), batch_size=4, optimizers=("sgd", "adamw")
    )
    assert explorer._sizes == transformer_memory(config, batch_size=4, optimizer="sgd")
    explorer.recompute.value = True
    assert explorer._sizes == transformer_memory(config, batch_size=4, optimizer="sgd", recompute=True)
    for optimizer in explorer.optimizer.options:
        for precision in explorer.precision.options:
            explorer.optimizer.value, explorer.precision.value = optimizer, precision
            assert "No prediction" not in explorer.words.value


def test_a_start_outside_the_range_is_refused() -> None:
    with pytest.raises(ValueError, match="between 1 and 16"):
        MemoryExplorer(predict, batch_size=32, batch_sizes=(1, 16))


# Missions ---------------------------------------------------------------------------------------------


def with_copies(*, batch_size: int, optimizer: str, precision: str, recompute: bool) -> dict[str, int]:
    """As ``predict``, without a batch that is refused; and short numbers come with copies of 500 bytes."""
    state = {"adamw": 2000, "momentum": 1000, "sgd": 0}[optimizer]
    per_sample = (100 if precision == "float32" else 60) // (4 if recompute else 1)
    copies = 0 if precision == "float32" else 500
    return {"parameter": 1000, "optimizer state": state, "activation": per_sample * batch_size + copies}


@pytest.fixture
def on_a_mission() -> MemoryExplorer:
    return MemoryExplorer(with_copies, limit_bytes=5000, missions=(LargestBatch(5000), AddedMemory()))


def choose(explorer: MemoryExplorer, **dials: Any) -> list[str]:
    for name, value in dials.items():
        getattr(explorer, name).value = value
    return explorer.missions.splitlines()


def test_missions_say_what_is_missing_and_stay_reached(on_a_mission: MemoryExplorer) -> None:
    first, second = choose(on_a_mission)
    assert first == "mission 1: not yet. This batch does not fit in 4.88 KiB."
    assert second == "mission 2: not yet. Keep the bar of batch size 1 with adamw, float32 and no recomputation."
    assert repr(on_a_mission).endswith("; missions reached: 0 of 2")
    assert choose(on_a_mission, batch_size=20)[0] == (  # 1000 + 2000 + 20 x 100: full, and other dials allow more
        "mission 1: not yet. A larger batch fits, with these dials or with other settings of them."
    )
    assert "not yet. A larger" in choose(on_a_mission, recompute=True, batch_size=80)[0]  # 80 x 25; copies: 100 x 15
    assert "not yet. This mission is for adamw, and you chose sgd." in choose(on_a_mission, optimizer="sgd")[0]
    assert (
        "not yet. A larger" in choose(on_a_mission, optimizer="adamw", precision="bfloat16 autocast", batch_size=99)[0]
    )
    reached = "mission 1: reached. No batch larger than 100 fits in 4.88 KiB with adamw."
    assert choose(on_a_mission, batch_size=100)[0] == reached
    assert choose(on_a_mission, batch_size=101)[0] == reached  # what was found stays found
    assert f"<br>{reached}<br>mission 2: not yet." in on_a_mission.words.value
    assert repr(on_a_mission).endswith("; missions reached: 1 of 2")


def test_added_memory_is_found_by_one_dial_from_the_first_choices(on_a_mission: MemoryExplorer) -> None:
    assert "Keep the bar" in choose(on_a_mission, batch_size=1)[1]  # not kept yet
    on_a_mission.keep.click()
    assert choose(on_a_mission)[1] == "mission 2: not yet. Change exactly one dial, and leave the batch size at 1."
    assert "Change exactly one dial" in choose(on_a_mission, batch_size=2)[1]
    choose(on_a_mission, batch_size=1)
    assert choose(on_a_mission, optimizer="sgd")[1].endswith("The dial 'optimizer' has added nothing.")
    assert "Change exactly one dial" in choose(on_a_mission, recompute=True)[1]  # two of them
    assert choose(on_a_mission, optimizer="adamw")[1].endswith("The dial 'recompute' has added nothing.")
    choose(on_a_mission, recompute=False)
    assert choose(on_a_mission, precision="bfloat16 autocast")[1] == (
        "mission 2: reached. The dial 'precision' adds 460 B; the label that grows is 'activation'."
    )


@pytest.mark.long
def test_a_larger_optimizer_is_no_dial_that_adds_memory(on_a_mission: MemoryExplorer) -> None:
    choose(on_a_mission, batch_size=1, optimizer="sgd")
    on_a_mission.keep.click()
    assert "Keep the bar of batch size 1 with adamw" in choose(on_a_mission, optimizer="adamw")[1]


@pytest.mark.long
def test_the_largest_batch_that_can_be_chosen_is_enough() -> None:
    explorer = MemoryExplorer(with_copies, batch_sizes=(1, 40), missions=[LargestBatch(10_000)])
    assert "not yet. A larger" in choose(explorer, batch_size=39)[0]
    assert "reached. No batch larger than 40 fits" in choose(explorer, batch_size=40)[0]


def test_what_is_kept_after_a_refused_choice_is_the_bar_that_is_drawn() -> None:
    def some(*, recompute: bool, **dials: Any) -> dict[str, int]:
        if recompute:
            raise ValueError("not here")
        return with_copies(recompute=False, **dials)

    explorer = MemoryExplorer(some, batch_size=1, missions=[AddedMemory()])
    explorer.recompute.value = True
    explorer.keep.click()
    explorer.recompute.value = False
    assert choose(explorer, precision="bfloat16 autocast")[0].startswith("mission 1: reached.")


@pytest.mark.long
def test_a_dial_that_changes_nothing_adds_nothing_and_the_last_find_is_told() -> None:
    def level(*, precision: str, recompute: bool, **_: Any) -> dict[str, int]:
        return {"parameter": 1000 + 7 * recompute, "activation": 10}

    explorer = MemoryExplorer(level, batch_size=1, missions=[AddedMemory()])
    assert choose(explorer, precision="bfloat16 autocast")[0].endswith("The dial 'precision' has added nothing.")
    assert "adds 7 B; the label that grows is 'parameter'" in choose(explorer, precision="float32", recompute=True)[0]
    assert "adds 7 B" in choose(explorer, recompute=False)[0]  # stays reached


def test_a_larger_batch_that_is_refused_is_no_larger_batch() -> None:
    explorer = MemoryExplorer(predict, missions=[LargestBatch(10_000)])  # 13 is refused with any dials
    assert choose(explorer, batch_size=12)[0].startswith("mission 1: reached. No batch larger than 12")


def test_without_missions_nothing_is_said_of_them(explorer: MemoryExplorer) -> None:
    assert explorer.missions == ""
    assert "mission" not in explorer.words.value + repr(explorer)


def test_a_mission_without_a_limit_is_told() -> None:
    with pytest.raises(ValueError, match="limit_bytes=0 does not work"):
        LargestBatch(0)
