"""A folder of images with one sub-folder for each class, as ImageNet has: ``folder/cat/001.jpg``.

Pillow reads the files; it comes with matplotlib.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from course_lib.base.checked import checked
from course_lib.base.checks import at_least

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["ImageFolder", "image_folder"]

_ENDINGS = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
# Mean and deviation of ImageNet's pixels, for red, green and blue from 0 to 1.
_MEAN = torch.tensor([0.485, 0.456, 0.406]).reshape(3, 1, 1)
_STD = torch.tensor([0.229, 0.224, 0.225]).reshape(3, 1, 1)


class ImageFolder(Dataset[tuple[Tensor, int]]):
    """The data set that :func:`image_folder` returns; ``classes[label]`` is the name of a class."""

    def __init__(
        self, files: list[Path], labels: list[int], classes: tuple[str, ...], size: int, *, skip_damaged: bool
    ) -> None:
        self.files = files
        self.labels = labels
        self.classes = classes
        self.size = size
        self.skip_damaged = skip_damaged

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"There is no image {index}: they are numbered 0 to {len(self) - 1}.")
        for step in range(len(self)):  # a damaged image lends its place to the next, so the length stays
            at = (index + step) % len(self)
            try:
                return _read(self.files[at], self.size), self.labels[at]
            except _DamagedImageError as error:
                if not self.skip_damaged:
                    raise ValueError(
                        f"{error} Replace or remove the file, or pass on_damaged='skip' to go on without it."
                    ) from error
                warnings.warn(f"{error} The next image takes its place.", stacklevel=2)
        raise ValueError(f"None of the {len(self)} images can be read; the first is {self.files[0]}.")

    def damaged(self) -> list[Path]:
        """Read every image and return the files that cannot be read; this takes as long as an epoch."""
        found = []
        for file in self.files:
            try:
                _read(file, self.size)
            except _DamagedImageError:
                found.append(file)
        return found


@checked
def image_folder(path: str | Path, size: int = 224, *, on_damaged: Literal["raise", "skip"] = "raise") -> ImageFolder:
    """Load images from class folders: item i is ``(image, label)``, ordered by class and file name.

    ``image`` is (3, size, size) float32: the middle square, resized, red green blue, scaled by ImageNet's
    mean and deviation. Grey, transparent, 16-bit and turned (EXIF) images are brought into that form. The
    label is the class folder's place among the folders in alphabetical order. Files that are no images, and
    hidden folders, are passed over.

    With ``on_damaged="skip"`` the next readable image takes the place of a damaged one and a warning names
    the file: the data set keeps its length, so that ranks that share it still take equally many steps.

    ``ValueError`` where the folder is missing, has no class folders, or one of them has no images.
    """
    at_least(1, size=size)
    if on_damaged not in ("raise", "skip"):
        raise ValueError(f"on_damaged={on_damaged!r} is not known: it is 'raise' or 'skip'.")
    root = Path(path).expanduser()
    if not root.is_dir():
        raise ValueError(f"There is no folder {root}. {_ancestor_sentence(root)}")
    folders = _folders(root)
    if not folders:
        raise ValueError(
            f"{root} has no class folders. It should hold one folder for each class with the images of "
            f"that class, such as {root / 'cat' / '001.jpg'}."
        )
    images = {folder: _images(folder) for folder in folders}
    empty = [folder for folder in folders if not images[folder]]
    if empty:
        raise ValueError(_empty_sentence(root, empty))
    files = [file for folder in folders for file in images[folder]]
    labels = [label for label, folder in enumerate(folders) for _ in images[folder]]
    classes = tuple(folder.name for folder in folders)
    return ImageFolder(files, labels, classes, size, skip_damaged=on_damaged == "skip")


class _DamagedImageError(Exception):
    """A file that Pillow cannot read as an image; its text is a sentence that names the file."""


def _read(file: Path, size: int) -> Tensor:
    """An image file as (3, size, size) float32; :class:`_DamagedImageError` where it cannot be read."""
    try:
        from PIL import Image, ImageOps
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Reading image files takes Pillow, which is not installed here. Install it with: pip install pillow"
        ) from error
    try:
        with Image.open(file) as image:
            upright = _as_rgb(ImageOps.exif_transpose(image))
    except Exception as error:  # Pillow raises a dozen kinds, by file format and by the damage
        raise _DamagedImageError(f"The image {file} cannot be read ({error}).") from error
    square = ImageOps.fit(upright, (size, size), method=Image.Resampling.BILINEAR)
    pixels = torch.from_numpy(np.array(square)).permute(2, 0, 1)  # (H, W, 3) uint8 -> (3, H, W)
    return (pixels.float() / 255.0 - _MEAN) / _STD


def _as_rgb(image: Image) -> Image:
    """An image of any mode as red, green and blue; what is transparent becomes white."""
    from PIL import Image as pil  # noqa: N813

    if image.mode.startswith("I"):  # 16 bits of grey, which convert() would cut off at 255
        grey = np.asarray(image).astype(np.int64) // 256
        image = pil.fromarray(grey.clip(0, 255).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = pil.new("RGBA", image.size, "white")
        image = pil.alpha_composite(white, image)
    return image.convert("RGB")


def _folders(root: Path) -> list[Path]:
    return sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _images(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in _ENDINGS)


def _ancestor_sentence(root: Path) -> str:
    """The nearest folder above ``root`` that exists, as a hint at the part of the path that is wrong."""
    parent = next((folder for folder in root.absolute().parents if folder.is_dir()), None)
    return f"The part of the path that exists is {parent}." if parent else "No part of the path exists."


def _empty_sentence(root: Path, empty: list[Path]) -> str:
    """What to do about class folders without images; a folder with parts (train, val) needs one named."""
    parts = [folder for folder in empty if _folders(folder)]
    if parts:
        return (
            f"{root} has no images in {parts[0].name}, but folders: this looks like the folder above the "
            f"one that holds the classes. Try {parts[0]}."
        )
    names = ", ".join(folder.name for folder in empty[:3]) + (", ..." if len(empty) > 3 else "")
    return (
        f"{root} has {len(empty)} class {'folder' if len(empty) == 1 else 'folders'} without an image: "
        f"{names}. Put images there ({', '.join(sorted(_ENDINGS))}), or remove what is empty."
    )
