"""VGG: the paper's parameters, the pieces that a cut may fall between, and sizes that cannot work."""

from __future__ import annotations

import pytest
import torch

from course_lib.models import VGG, parameter_count, pieces


@pytest.mark.parametrize(
    ("convolutions", "millions"),
    [((1, 1, 2, 2, 2), 132_863_336), ((2, 2, 3, 3, 3), 138_357_544), ((2, 2, 4, 4, 4), 143_667_240)],
)
def test_networks_of_the_paper_have_the_known_parameter_counts(convolutions, millions):
    with torch.device("meta"):  # the layout without its memory
        assert parameter_count(VGG(convolutions)) == millions


def test_the_network_of_16_layers_has_16_pieces():
    with torch.device("meta"):
        assert len(pieces(VGG())) == 16


def test_each_stage_doubles_the_width_up_to_eight_times_and_ends_by_halving_the_image():
    model = VGG((1, 1, 1, 2, 1), width=2, hidden=5, num_classes=3, image_size=32)
    x, shapes = torch.ones(2, 3, 32, 32), []
    for piece in pieces(model).values():
        x = piece(x)
        shapes.append(tuple(x.shape[1:]))
    convolved = [(2, 16, 16), (4, 8, 8), (8, 4, 4), (16, 4, 4), (16, 2, 2), (16, 1, 1)]
    assert shapes == [*convolved, (5,), (5,), (3,)]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"convolutions": ()}, r"convolutions=\(\) does not work.*at least one stage, for example \(2, 2\)"),
        ({"convolutions": (1, 0)}, r"convolutions\[1\]=0 does not work.*works is 1"),
        ({"width": 0}, r"width=0 does not work"),
        ({"hidden": 0}, r"hidden=0 does not work"),
        (
            {"convolutions": (1, 1), "image_size": 30},
            r"image_size=30 is not a multiple of 4: .* works is 32\.",
        ),
        ({"convolutions": "11"}, r"convolutions"),
    ],
)
def test_sizes_that_cannot_work_are_told(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        VGG(**{"num_classes": 3, "width": 2, "hidden": 4, "image_size": 32} | settings)
