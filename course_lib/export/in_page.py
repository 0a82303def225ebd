"""A notebook's HTML brought into the page: names of its own, links that lead within it, pictures held in it.

A link to another site stays one where a lesson of the course has that address: a person has to click it, and it tells
nobody where they come from. Any other address stands there as text, since whoever wrote the notebook chose it.
"""

from __future__ import annotations

import base64
import mimetypes
import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from html import unescape
from pathlib import Path
from urllib.parse import unquote

from course_lib.base.foreign_text import on_a_page
from course_lib.base.named_file import bytes_of
from course_lib.base.paths import project_root
from course_lib.export.safe import Token, is_picture

__all__ = ["InPage", "anchor"]

_MOST_BYTES = 1 << 24
_ELSEWHERE = re.compile(r"\s*((https?|mailto):|//)", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://[^\s<>\"'`)\]]+")
_ENTITY = re.compile(r"&#?\w+;?")


def anchor(stem: str) -> str:
    """The name of a notebook's part within the page."""
    return "nb-" + re.sub(r"\W+", "-", stem)


class InPage:
    """Changes the tokens of one notebook's HTML, as ``safe.gate`` hands them on; ``others`` are in the page too."""

    def __init__(self, stem: str, folder: Path, others: Collection[str]) -> None:
        self._own, self._folder, self._others = anchor(stem), folder, others

    def __call__(self, tokens: Iterable[Token]) -> Iterator[Token]:
        address, words = "", ""  # of a link that was not kept, while we are in it
        for token in tokens:
            if token["type"] in ("StartTag", "EmptyTag"):
                if token["name"] == "a":
                    address, words = self._link(token["data"]), ""
                elif token["name"] == "img" and (instead := self._picture(token["data"])):
                    yield from _told(instead)
                    continue
                self._named(token["data"])
            elif token["type"] == "EndTag" and token["name"] == "a":
                if address and address not in words:
                    yield _text(f" ({address})")
                address = ""
            elif token["type"] in ("Characters", "SpaceCharacters", "Entity"):
                token = _text(_text_of(token))
                words += token["data"]
            yield token

    def _link(self, data: dict) -> str:
        """Set where a link leads: into the page, or to where a lesson leads. Returns an address that was taken out."""
        link = data.pop((None, "href"), None)
        if link is None:
            return ""
        plain = unescape(link).strip()
        if plain in _addresses():
            data[None, "href"] = plain
            data[None, "rel"] = "noreferrer noopener"
            return ""
        if _ELSEWHERE.match(plain):
            return on_a_page(plain)
        target = self._target(plain)
        if target:
            data[None, "href"] = target
        return ""

    def _target(self, link: str) -> str:
        """The ``href`` in the page of a link to a notebook; none for a file that is not within it."""
        if link.startswith("#"):
            return f"#{self._own}--{link[1:]}"
        stem = Path(link.partition("#")[0]).stem
        return f"#{anchor(stem)}" if stem in self._others and ".ipynb" in link and "/" not in link else ""

    def _named(self, data: dict) -> None:
        """Names of its own; and the key Tab goes to the code, which can be moved sideways, not to the box around it."""
        if (None, "id") in data:
            data[None, "id"] = f"{self._own}--{data[None, 'id']}"
        kinds = data.get((None, "class"), "").split()
        if "jp-Cell-inputWrapper" in kinds:
            data.pop((None, "tabindex"), None)
        if "jp-InputArea-editor" in kinds:
            data[None, "tabindex"] = "0"
        for name in ("title", "alt", "aria-label"):
            if (None, name) in data:
                data[None, name] = _plain(data[None, name])

    def _picture(self, data: dict) -> str:
        """Put an image's file into it. Of a file that is not there, or not the course's, the words are returned."""
        source = unescape(data.get((None, "src"), ""))
        if is_picture(source):
            return ""
        held = self._held(source)
        if held:
            data[None, "src"] = held
            return ""
        words = unescape(data.get((None, "alt"), ""))
        return on_a_page(f"(A picture that is not in this page: {words} {source})")

    def _held(self, source: str) -> str:
        """The picture as an address that holds it; the course's and the notebook's own folder may give one."""
        if _ELSEWHERE.match(source):
            return ""
        kind = mimetypes.guess_type(Path(source).name)[0] or ""
        bases = [base.resolve() for base in (self._folder.absolute().parent, project_root())]
        try:
            file = (self._folder / unquote(source.partition("?")[0])).resolve()
            if not kind.startswith("image/") or not any(file.is_relative_to(base) for base in bases):
                return ""
            data = base64.b64encode(bytes_of(file, most_bytes=_MOST_BYTES)).decode("ascii")
        except (OSError, ValueError, RuntimeError):  # not there, no plain file, or no name of one
            return ""
        address = f"data:{kind};base64,{data}"
        return address if is_picture(address) else ""


@lru_cache(maxsize=1)
def _addresses() -> frozenset[str]:
    """Where the lessons of this copy of the course lead."""
    sources = (project_root() / "notebooks" / "src").glob("*.py")
    found = (address for path in sources for address in _ADDRESS.findall(path.read_text(encoding="utf-8")))
    return frozenset(address.rstrip(".,;:") for address in found)


def _plain(text: str) -> str:
    """Without signs that turn the direction of writing, written out or by their number."""
    named = _ENTITY.sub(lambda found: found[0] if on_a_page(now := unescape(found[0])) == now else "\ufffd", text)
    return on_a_page(named)


def _text_of(token: Token) -> str:
    """What a token shows: bleach has entities (&lt;) as tokens of their own."""
    return on_a_page(unescape(f"&{token['name']};") if token["type"] == "Entity" else token["data"])


def _told(words: str) -> Iterator[Token]:
    yield {"type": "StartTag", "name": "em", "namespace": None, "data": {}}
    yield _text(words)
    yield {"type": "EndTag", "name": "em", "namespace": None, "data": {}}


def _text(words: str) -> Token:
    return {"type": "Characters", "data": words}
