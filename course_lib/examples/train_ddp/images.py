"""Images to train on and to be judged by: made on the spot, or of a folder laid out as ImageNet is.

A training image is asked for by *its epoch and its number*, ``train[(epoch, i)]``: what chance does to it depends on
these two and the seed. So it looks the same on whichever rank, in whichever worker, and after a resume.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from .settings import SettingsError

__all__ = ["Images", "Item", "load_images"]

Item = tuple[int, int]  # the epoch, and the number of an image
_ENDINGS = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}
_MEAN = torch.tensor([0.485, 0.456, 0.406]).reshape(3, 1, 1)  # of ImageNet's pixels, red green blue, 0 to 1
_STD = torch.tensor([0.229, 0.224, 0.225]).reshape(3, 1, 1)


class Images(NamedTuple):
    """Images (3, size, size) with labels, and what a model must know of them."""

    train: Dataset[Any]  # asked for by (epoch, number)
    val: Dataset[Any]  # asked for by number
    num_train: int
    num_val: int
    num_classes: int
    size: int


def load_images(data: str, size: int | None, augment: str, seed: int) -> Images:
    """Made images, or a folder's: ``train/cat/001.jpg``, ``val/cat/002.jpg``. ``SettingsError`` if it has none."""
    if data == "made":
        if augment not in ("none", "mirror"):
            raise SettingsError(f"--augment {augment} is for images of a folder (--data); made ones can be mirrored.")
        size = size or 16
        return Images(
            MadeImages(1440, size, seed=1, chance=Chance(augment, size, seed)), MadeImages(360, size, seed=2),
            num_train=1440, num_val=360, num_classes=10, size=size,
        )  # fmt: skip
    size = size or 224
    train = FolderImages(Path(data) / "train", size, Chance(augment, size, seed))
    val = FolderImages(Path(data) / "val", size)
    if train.classes != val.classes:
        lonely = sorted(set(train.classes) ^ set(val.classes))
        raise SettingsError(
            f"{data}: train and val need the same class folders, or labels would mean different things. Only one of "
            f"the two has {', '.join(lonely[:3])}{', ...' if len(lonely) > 3 else ''}."
        )
    return Images(train, val, len(train), len(val), num_classes=len(train.classes), size=size)


class Chance:
    """What chance does to a training image: cut a part out, change its colours, mirror it."""

    def __init__(self, augment: str, size: int, seed: int) -> None:
        self.augment, self.size, self.seed = augment, size, seed
        self.trivial = _trivial_augment() if augment == "trivial" else None

    def generator(self, item: Item) -> torch.Generator:
        return torch.Generator().manual_seed(hash((self.seed, *item)))

    def mirrors(self, generator: torch.Generator) -> bool:
        return self.augment != "none" and bool(torch.rand((), generator=generator) < 0.5)

    def part_of(self, width: int, height: int, generator: torch.Generator) -> tuple[int, int, int, int] | None:
        """Left, top, right, bottom of a part: 8 to 100 % of the area, 3:4 to 4:3; None where nothing is to be cut.

        As torchvision's RandomResizedCrop does, after Szegedy et al., "Going Deeper with Convolutions" (2014).
        """
        if self.augment not in ("crops", "trivial"):
            return None
        for _ in range(10):
            area, ratio, x, y = torch.rand(4, generator=generator).tolist()
            area = width * height * (0.08 + 0.92 * area)
            ratio = math.exp((2.0 * ratio - 1.0) * math.log(4 / 3))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                left, top = int(x * (width - w + 1)), int(y * (height - h + 1))
                return left, top, left + w, top + h
        return None


def _trivial_augment() -> Any:
    try:
        from torchvision.transforms.v2 import TrivialAugmentWide
    except (ImportError, RuntimeError) as error:  # the second where it was built for another torch
        raise SettingsError(
            f"--augment trivial needs torchvision, which cannot be imported ({error}). The nearest without it is crops."
        ) from error
    return TrivialAugmentWide()


class MadeImages(Dataset[Any]):
    """Stripes of ten directions, of any width, place and colour, under noise: the class is the direction."""

    def __init__(self, num_images: int, size: int, *, seed: int, chance: Chance | None = None) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.arange(num_images) % 10
        angles = self.labels * math.pi / 10
        place = torch.arange(size) / size
        waves = 1.5 + 1.5 * torch.rand(num_images, generator=generator)  # from side to side
        phase = torch.rand(num_images, generator=generator)
        # (N, size, size)
        across = torch.cos(angles)[:, None, None] * place + torch.sin(angles)[:, None, None] * place[:, None]
        stripes = torch.sin(2 * math.pi * (waves[:, None, None] * across + phase[:, None, None]))
        colour = torch.randn(num_images, 3, 1, 1, generator=generator)
        noise = torch.randn(num_images, 3, size, size, generator=generator)
        self.pixels = stripes[:, None] * colour + 0.5 * noise  # (N, 3, size, size)
        self.chance = chance

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, item: Item | int) -> tuple[Tensor, int]:
        number = item if isinstance(item, int) else item[1]
        image, label = self.pixels[number], int(self.labels[number])
        if self.chance and not isinstance(item, int) and self.chance.mirrors(self.chance.generator(item)):
            return image.flip(-1), (10 - label) % 10  # the mirror turns the stripes as well
        return image, label


class FolderImages(Dataset[Any]):
    """The images of a folder with a folder for each class; the label is the class's place in alphabetical order.

    A damaged training image is replaced by the next, with a warning. One among those that judge is an error.
    """

    def __init__(self, root: Path, size: int, chance: Chance | None = None) -> None:
        if not root.is_dir():
            raise SettingsError(f"There is no folder {root}. --data takes a folder that holds train and val.")
        folders = sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
        files = {folder: sorted(f for f in folder.iterdir() if f.suffix.lower() in _ENDINGS) for folder in folders}
        if empty := [folder.name for folder in folders if not files[folder]] or ([] if folders else ["it"]):
            raise SettingsError(f"{root} needs a folder with images for each class; none is in {', '.join(empty[:3])}.")
        self.classes = [folder.name for folder in folders]
        self.files = [(file, label) for label, folder in enumerate(folders) for file in files[folder]]
        self.size, self.chance = size, chance
        _pillow()  # now, and not in a worker after the model was made

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, item: Item | int) -> tuple[Tensor, int]:
        if isinstance(item, int):  # to be judged by
            return self._read(self.files[item][0], None), self.files[item][1]
        for ahead in range(len(self)):
            epoch, number = item[0], (item[1] + ahead) % len(self)
            file, label = self.files[number]
            try:
                return self._read(file, (epoch, number)), label
            except DamagedImageError as error:
                warnings.warn(f"{error} The next image takes its place.", stacklevel=2)
        raise DamagedImageError(f"None of the {len(self)} images can be read; the first is {self.files[0][0]}.")

    def _read(self, file: Path, item: Item | None) -> Tensor:
        """(3, size, size): by chance for an item of training; else the middle square, as wide as 7/8 of the image."""
        pil, ops = _pillow()
        try:
            with pil.open(file) as opened:
                image = ops.exif_transpose(opened).convert("RGB")
        except Exception as error:  # Pillow raises a dozen kinds, by file format and by the damage
            raise DamagedImageError(f"The image {file} cannot be read ({error}).") from error
        chance = self.chance if item else None
        generator = chance.generator(item) if chance and item else torch.Generator()
        box = chance.part_of(image.width, image.height, generator) if chance else None
        if box is None:
            square = ops.fit(image, (self.size, self.size), pil.Resampling.BILINEAR, bleed=0.0 if chance else 1 / 16)
        else:
            square = image.resize((self.size, self.size), pil.Resampling.BILINEAR, box=box)
        if chance and chance.mirrors(generator):
            square = ops.mirror(square)
        if chance and chance.trivial:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(generator.initial_seed())  # torchvision draws from the global generator
                square = chance.trivial(square)
        pixels = torch.frombuffer(bytearray(square.tobytes()), dtype=torch.uint8).reshape(self.size, self.size, 3)
        return (pixels.permute(2, 0, 1).float() / 255.0 - _MEAN) / _STD


class DamagedImageError(RuntimeError):
    """A file that Pillow cannot read as an image; the message names it."""


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ModuleNotFoundError as error:
        raise SettingsError("To read image files takes Pillow: pip install pillow.") from error
    return Image, ImageOps
