"""The memory explorer, driven through its controls without a front end."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image

from course_lib.cost import transformer_memory
from course_lib.models import TransformerConfig
from course_lib.widgets import MemoryExplorer


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
def test_every_control_redraws_and_says_so(
    explorer: MemoryExplorer, control: str, value: Any, total: int
) -> None:
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
    assert explorer.children[2:] == (explorer.image, explorer.words)


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
