"""The folder of a pack, written where nothing stands yet."""

from __future__ import annotations

from pathlib import Path

from course_lib.base.paths import library_folder
from course_lib.mine.terminal.pieces import WAYS, Packed

__all__ = ["write_pack"]

_TEMPLATES = Path(__file__).parent / "templates"
_MODEL = Path("course_lib", "examples", "train_fsdp", "transformer.py")  # of a program that needs no course, either


def write_pack(folder: Path, pack: Packed) -> list[str]:
    """Write it, and give the names of its files.

    Raises:
        ValueError: Nothing is to be packed, or something stands in that folder already, which is kept as it is.
    """
    if not pack.ways:
        raise ValueError("there is nothing to pack yet. " + " ".join(pack.left_out))
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ValueError(
                f"{folder} is there already, and nothing is written over. Name a folder that is not there."
            )
        return _written(folder, pack)
    except OSError as error:
        raise ValueError(f"{folder} cannot be written ({error.strerror or type(error).__name__}).") from None


def _written(folder: Path, pack: Packed) -> list[str]:
    ways = ("one", *pack.ways)
    words = "; ".join(f"`{way}` (by `{WAYS[way]}`)" for way in pack.ways)
    texts = {
        "README.md": _template("README.md").replace("WAYS_IN_WORDS", words),
        "train.py": _template("train.py.txt").replace("WAYS_THAT_ARE_THERE", repr(ways)),
        "rank.py": _template("rank.py.txt"),
        "transformer.py": (library_folder() / _MODEL).read_text(encoding="utf-8"),
        "mine/__init__.py": '"""What I have built in the course *One Model, Many GPUs*."""\n',
        **{f"mine/{module}.py": text for module, text in pack.files.items()},
    }
    (folder / "mine").mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return list(texts)


def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")
