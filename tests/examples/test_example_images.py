"""The program's images: what chance does to them, and folders that cannot be used."""

from __future__ import annotations

import math

import pytest
import torch
from PIL import Image

from course_lib.examples.train_ddp.images import Chance, DamagedImageError, load_images
from course_lib.examples.train_ddp.settings import SettingsError


@pytest.fixture
def folder(tmp_path):
    """Two classes; images of 60 x 40 whose red is the column and whose green is the row."""
    x = torch.arange(60).expand(40, 60)
    y = torch.arange(40)[:, None].expand(40, 60)
    pixels = torch.stack([4 * x, 6 * y, torch.zeros_like(x)], dim=-1).to(torch.uint8)
    for name in ("train/cat/1.png", "train/cat/2.png", "train/dog/1.png", "val/cat/1.png", "val/dog/1.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.numpy()).save(tmp_path / name)
    return tmp_path


def in_pixels(image: torch.Tensor) -> torch.Tensor:
    """Column and row of the original under each pixel, (2, size, size), from red and green."""
    std, mean = torch.tensor([0.229, 0.224]), torch.tensor([0.485, 0.456])
    values = (image[:2] * std[:, None, None] + mean[:, None, None]) * 255.0
    return values / torch.tensor([4.0, 6.0])[:, None, None]


def test_made_images_are_the_same_in_every_process_and_their_mirror_turns_the_stripes():
    images, again = (load_images("made", None, augment, 3) for augment in ("none", "mirror"))
    assert images[2:] == (1440, 360, 10, 16)
    assert torch.equal(images.val[7][0], again.val[7][0])
    assert images.train[(0, 7)][0].shape == (3, 16, 16)
    mirrored = 0
    for number in range(200):
        image, label = images.train[(0, number)]
        other, other_label = again.train[(0, number)]
        if torch.equal(other, image):
            assert other_label == label
        else:
            assert torch.equal(other, image.flip(-1))
            assert (label + other_label) % 10 == 0
            mirrored += 1
    assert 70 < mirrored < 130


def test_what_chance_does_depends_on_seed_epoch_and_image_alone(folder):
    images = load_images(str(folder), 16, "crops", 5)
    first = images.train[(0, 1)][0]
    torch.rand(3)  # somebody else's draw
    assert torch.equal(load_images(str(folder), 16, "crops", 5).train[(0, 1)][0], first)
    others = [
        images.train[(1, 1)],
        images.train[(0, 0)],
        load_images(str(folder), 16, "crops", 6).train[(0, 1)],
    ]
    assert all(not torch.equal(other, first) for other, _ in others)


def test_crops_are_parts_of_8_to_100_percent_and_of_3_to_4_to_4_to_3():
    chance, parts = Chance("crops", 16, 0), []
    for number in range(400):
        part = chance.part_of(600, 400, chance.generator((0, number)))
        assert part is not None
        left, top, right, bottom = part
        assert 0 <= left < right <= 600
        assert 0 <= top < bottom <= 400
        parts.append(((right - left) * (bottom - top) / 240_000, (right - left) / (bottom - top), left, top))
    areas, ratios, lefts, tops = zip(*parts, strict=True)
    assert 0.07 < min(areas) < 0.1
    assert 0.8 < max(areas) <= 1.0
    assert min(ratios) == pytest.approx(3 / 4, rel=0.03)
    assert max(ratios) == pytest.approx(4 / 3, rel=0.03)
    assert min(math.log(ratio) for ratio in ratios) == pytest.approx(-max(map(math.log, ratios)), rel=0.1)
    assert len({*lefts}) > 100
    assert len({*tops}) > 100


def test_a_crop_shows_its_part_and_half_of_them_are_mirrored(folder):
    images = load_images(str(folder), 16, "crops", 0)
    chance = Chance("crops", 16, 0)
    mirrored = 0
    for epoch in range(40):
        columns, rows = in_pixels(images.train[(epoch, 0)][0])
        left, top, right, bottom = chance.part_of(60, 40, chance.generator((epoch, 0))) or (0, 0, 60, 40)
        is_mirrored = bool(columns[0, 0] > columns[0, -1])
        mirrored += is_mirrored
        columns = columns.flip(-1) if is_mirrored else columns
        step = (right - left) / 16
        assert columns[5, 0] == pytest.approx(left + step / 2 - 0.5, abs=1.0)
        assert columns[5, -1] == pytest.approx(right - step / 2 - 0.5, abs=1.0)
        assert rows[0, 5] == pytest.approx(top + (bottom - top) / 32 - 0.5, abs=1.0)
    assert 8 < mirrored < 32


def test_images_that_judge_are_the_middle_seven_eighths(folder):
    columns, rows = in_pixels(load_images(str(folder), 35, "crops", 0).val[0][0])
    assert columns[0, 0] == pytest.approx(12.0, abs=1.0)  # 60 x 40: a square of 35 in the middle
    assert columns[0, -1] == pytest.approx(47.0, abs=1.0)
    assert rows[0, 0] == pytest.approx(2.0, abs=1.0)
    assert rows[-1, 0] == pytest.approx(37.0, abs=1.0)


def test_images_of_any_mode_become_three_colours(folder):
    for mode in ("L", "RGBA", "P"):
        Image.new(mode, (9, 7)).save(folder / "val/cat/1.png")
        assert load_images(str(folder), 8, "none", 0).val[0][0].shape == (3, 8, 8)


def test_a_damaged_training_image_lends_its_place_and_a_damaged_judge_is_an_error(folder):
    (folder / "train/cat/1.png").write_bytes(b"no image")
    (folder / "val/cat/1.png").write_bytes(b"no image")
    images = load_images(str(folder), 8, "none", 0)
    with pytest.warns(UserWarning, match=r"1\.png cannot be read .* The next image takes its place"):
        image, label = images.train[(0, 0)]
    assert torch.equal(image, images.train[(0, 1)][0])
    assert label == 0
    with pytest.raises(DamagedImageError, match=r"val/cat/1\.png cannot be read"):
        images.val[0]
    for name in ("cat/2.png", "dog/1.png"):
        (folder / "train" / name).write_bytes(b"no image")
    with (
        pytest.warns(UserWarning, match="takes its place"),
        pytest.raises(DamagedImageError, match="None of the 3 images can be read"),
    ):
        images.train[(0, 0)]


def test_folders_that_cannot_be_used(folder):
    for data, augment, sentence in [
        ("made", "crops", "--augment crops is for images of a folder"),
        (str(folder / "train"), "none", "There is no folder .*train/train"),
    ]:
        with pytest.raises(SettingsError, match=sentence):
            load_images(data, None, augment, 0)
    (folder / "val/dog").rename(folder / "val/cow")
    with pytest.raises(SettingsError, match=r"the same class folders.* Only one of the two has cow, dog"):
        load_images(str(folder), 8, "none", 0)
    (folder / "val/cow/1.png").unlink()
    with pytest.raises(SettingsError, match="a folder with images for each class; none is in cow"):
        load_images(str(folder), 8, "none", 0)
    (folder / "empty/train").mkdir(parents=True)
    with pytest.raises(SettingsError, match="a folder with images for each class; none is in it"):
        load_images(str(folder / "empty"), 8, "none", 0)


def test_what_is_not_installed_is_named(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torchvision.transforms.v2", None)
    with pytest.raises(SettingsError, match="--augment trivial needs torchvision"):
        load_images(str(folder), 8, "trivial", 0)
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(SettingsError, match="To read image files takes Pillow"):
        load_images(str(folder), 8, "none", 0)


def test_trivial_augment_of_torchvision_depends_on_epoch_and_image_alone(folder):
    pytest.importorskip("torchvision")
    images = load_images(str(folder), 16, "trivial", 0)
    seen = [images.train[(epoch, 0)][0] for epoch in range(8)]
    torch.rand(3)
    state = torch.random.get_rng_state()
    assert all(torch.equal(images.train[(epoch, 0)][0], seen[epoch]) for epoch in range(8))
    assert torch.equal(torch.random.get_rng_state(), state)
