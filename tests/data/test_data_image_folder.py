"""A folder of images: what is read, and what is said of what is missing or damaged."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from course_lib.data import image_folder, loader

_MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
_STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def save(path: Path, colour=(255, 0, 0), size=(12, 12), mode="RGB", **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path, **options)
    return path


def pixels(image: torch.Tensor) -> torch.Tensor:
    """Back to red, green and blue from 0 to 255."""
    return ((image * _STD + _MEAN) * 255.0).round().int()


def colour_of(image: torch.Tensor) -> tuple[int, ...]:
    assert image.shape[0] == 3
    values = pixels(image).flatten(1)
    assert (values == values[:, :1]).all()
    return tuple(values[:, 0].tolist())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for i in range(3):
        save(tmp_path / "cat" / f"{i}.png", (i, 0, 0))
    for i in range(2):
        save(tmp_path / "ant" / f"{i}.PNG", (0, i, 0))
    return tmp_path


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-30])


# What is read -----------------------------------------------------------------------------------------


def test_folders_are_classes_in_alphabetical_order(root: Path) -> None:
    data = image_folder(root, 8)
    assert data.classes == ("ant", "cat")
    assert len(data) == 5
    assert [data[i][1] for i in range(5)] == [0, 0, 1, 1, 1]
    assert [colour_of(data[i][0]) for i in range(5)] == [
        (0, 0, 0),
        (0, 1, 0),
        (0, 0, 0),
        (1, 0, 0),
        (2, 0, 0),
    ]
    assert data[0][0].shape == (3, 8, 8)
    assert data[0][0].dtype == torch.float32
    assert torch.equal(data[-1][0], data[4][0])
    with pytest.raises(IndexError, match="numbered 0 to 4"):
        data[5]


def test_hidden_folders_and_files_that_are_no_images_are_passed_over(root: Path) -> None:
    save(root / ".ipynb_checkpoints" / "0.png")
    (root / "cat" / "notes.txt").write_text("no image")
    (root / "README.md").write_text("no class")
    assert len(image_folder(str(root), 8)) == 5


@pytest.mark.parametrize("size", [1, 5, 64])
@pytest.mark.parametrize("shape", [(12, 12), (40, 10), (10, 40), (1, 1)])
def test_images_of_any_shape_become_squares(tmp_path: Path, size: int, shape: tuple[int, int]) -> None:
    save(tmp_path / "a" / "0.png", (9, 8, 7), shape)
    image = image_folder(tmp_path, size)[0][0]
    assert image.shape == (3, size, size)
    assert colour_of(image) == (9, 8, 7)


def test_the_middle_of_a_long_image_is_kept(tmp_path: Path) -> None:
    wide = np.zeros((10, 30, 3), dtype=np.uint8)
    wide[:, 10:20] = (0, 0, 200)
    (tmp_path / "a").mkdir()
    Image.fromarray(wide).save(tmp_path / "a" / "0.png")
    assert colour_of(image_folder(tmp_path, 10)[0][0]) == (0, 0, 200)


@pytest.mark.parametrize(
    ("mode", "colour", "ending", "expected"),
    [
        ("L", 77, "png", (77, 77, 77)),
        ("1", 1, "png", (255, 255, 255)),
        ("RGBA", (10, 20, 30, 255), "png", (10, 20, 30)),
        ("RGBA", (10, 20, 30, 0), "png", (255, 255, 255)),  # transparent: what lies behind it is white
        ("LA", (77, 255), "png", (77, 77, 77)),
        ("I;16", 77 * 256, "png", (77, 77, 77)),
        ("P", 0, "gif", (0, 0, 0)),
        ("RGB", (10, 20, 30), "bmp", (10, 20, 30)),
    ],
)
def test_every_kind_of_image_becomes_red_green_blue(tmp_path: Path, mode, colour, ending, expected) -> None:
    save(tmp_path / "a" / f"0.{ending}", colour, mode=mode)
    assert colour_of(image_folder(tmp_path, 8)[0][0]) == expected


def test_an_image_that_its_camera_turned_is_set_upright(tmp_path: Path) -> None:
    left_is_white = np.zeros((20, 20), dtype=np.uint8)
    left_is_white[:, :10] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned a quarter clockwise: the left side comes on top
    (tmp_path / "a").mkdir()
    Image.fromarray(left_is_white).save(tmp_path / "a" / "0.png", exif=exif)
    image = pixels(image_folder(tmp_path, 20)[0][0])
    assert (image[:, :10] == 255).all()
    assert (image[:, 10:] == 0).all()


# What is missing --------------------------------------------------------------------------------------


def test_a_missing_folder_is_told_with_the_part_that_exists(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(f"The part of the path that exists is {tmp_path}.")):
        image_folder(tmp_path / "no" / "such")


def test_a_file_in_place_of_a_folder_is_told(root: Path) -> None:
    with pytest.raises(ValueError, match="There is no folder"):
        image_folder(root / "cat" / "0.png")


def test_a_folder_without_class_folders_is_told(root: Path) -> None:
    with pytest.raises(ValueError, match=r"cat has no class folders\. It should hold one folder for each class"):
        image_folder(root / "cat")


def test_an_empty_class_is_named(root: Path) -> None:
    (root / "bee").mkdir()
    (root / "cow").mkdir()
    (root / "cow" / "notes.txt").write_text("no image")
    with pytest.raises(ValueError, match=r"has 2 class folders without an image: bee, cow\."):
        image_folder(root)


def test_the_folder_above_train_and_val_is_told_where_to_look(tmp_path: Path) -> None:
    for part in ("train", "val"):
        save(tmp_path / part / "cat" / "0.png")
    with pytest.raises(ValueError, match=re.escape(f"Try {tmp_path / 'train'}.")):
        image_folder(tmp_path)
    assert len(image_folder(tmp_path / "train", 8)) == 1


def test_settings_that_cannot_work_are_told(root: Path) -> None:
    with pytest.raises(ValueError, match="size=0 does not work"):
        image_folder(root, 0)
    with pytest.raises(ValueError, match="on_damaged='ignore' does not work: on_damaged is 'raise' or 'skip'"):
        image_folder(root, on_damaged="ignore")


# What is damaged --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Truncated File Read")  # Pillow says so before it fails
@pytest.mark.parametrize("ending", ["png", "jpg", "gif", "bmp", "webp", "tif", "ppm"])
@pytest.mark.parametrize("left_bytes", [0, 5, 60, -40])
def test_a_file_cut_short_is_named_whatever_its_format(tmp_path: Path, ending: str, left_bytes: int) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / f"0.{ending}"
    Image.fromarray(noise).save(file)
    assert image_folder(tmp_path, 8)[0][0].shape == (3, 8, 8)
    file.write_bytes(file.read_bytes()[:left_bytes])
    with pytest.raises(ValueError, match=rf"The image {re.escape(str(file))} cannot be read.*on_damaged='skip'"):
        image_folder(tmp_path, 8)[0]


def test_a_file_that_is_no_image_is_named(root: Path) -> None:
    (root / "cat" / "1.png").write_text("not a picture")
    with pytest.raises(ValueError, match=r"1\.png cannot be read"):
        image_folder(root, 8)[3]


def test_skip_lets_the_next_image_stand_in_and_warns(root: Path) -> None:
    cut_short(root / "cat" / "2.png")
    cut_short(root / "cat" / "0.png")
    data = image_folder(root, 8, on_damaged="skip")
    assert len(data) == 5
    with pytest.warns(UserWarning, match=r"0\.png cannot be read.*The next image takes its place"):
        image, label = data[2]
    assert (colour_of(image), label) == ((1, 0, 0), 1)
    with pytest.warns(UserWarning, match=r"2\.png"):
        image, label = data[4]  # after the last image comes the first
    assert (colour_of(image), label) == ((0, 0, 0), 0)


def test_skip_with_no_readable_image_ends(tmp_path: Path) -> None:
    cut_short(save(tmp_path / "a" / "0.png"))
    cut_short(save(tmp_path / "a" / "1.png"))
    data = image_folder(tmp_path, 8, on_damaged="skip")
    with (
        pytest.warns(UserWarning, match="cannot be read"),
        pytest.raises(ValueError, match="None of the 2 images can be read"),
    ):
        data[0]


def test_all_damaged_files_can_be_listed_at_once(root: Path) -> None:
    cut_short(root / "cat" / "2.png")
    cut_short(root / "ant" / "0.PNG")
    assert image_folder(root, 8).damaged() == [root / "ant" / "0.PNG", root / "cat" / "2.png"]


def test_a_damaged_image_is_named_from_within_a_worker(root: Path) -> None:
    cut_short(root / "cat" / "1.png")
    with pytest.raises(ValueError, match=r"1\.png cannot be read"):
        list(loader(image_folder(root, 8), 2, workers=1))
