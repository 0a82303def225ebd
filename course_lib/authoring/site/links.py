"""Where the links of a text lead once it is a page: to other pages, to pictures, to the repository, or nowhere."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.base.paths import is_installed

__all__ = ["LinkTargets"]

_LINK = re.compile(
    r"(?P<fence>^(?P<marks>```+|~~~+).*?^(?P=marks))"
    r"|(?P<link>(?P<bang>!?)\[(?P<text>(?:`[^`]*`|[^\[\]`]|\[[^\[\]]*\])*)\]\((?P<target>[^)\s]+)\))"
    r"|(?P<code>`[^`\n]*`)",
    re.DOTALL | re.MULTILINE,
)
_ELSEWHERE = re.compile(r"^([a-z][a-z0-9+.-]*:|#|//)")


@dataclass(frozen=True)
class LinkTargets:
    """Which file of the course lies where on the site; both are paths from the root of their folder.

    A file that is not on the site is found in the ``repository`` (its address, where one was given), or else its
    link becomes plain text. What is not in the course at all (its folder is ``root``) stays as it is written, and
    Sphinx warns of it; an installed package lacks some of a clone's files, and there nobody is warned.
    """

    pages: dict[str, str] = field(default_factory=dict)
    repository: str = ""
    root: Path | None = None

    def moved(self, markdown: str, origin: str, page: str) -> str:
        """The text of the file ``origin``, with its relative links as they are on ``page``. Code is left alone."""
        return _LINK.sub(lambda match: self._link(match, origin, page), markdown)

    def target(self, target: str, origin: str, page: str) -> str | None:
        """Where one link leads from ``page``; None where there is nothing to lead to."""
        if _ELSEWHERE.match(target):
            return target
        path, hash_sign, anchor = target.partition("#")
        file = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
        if file in self.pages:
            place = posixpath.relpath(self.pages[file], posixpath.dirname(page) or ".")
            return place + hash_sign + anchor
        if self.root is not None and not is_installed(self.root) and not (self.root / file).exists():
            return target
        if self.repository and not file.startswith("../"):
            return f"{self.repository}/blob/main/{file}{hash_sign}{anchor}"
        return None

    def _link(self, match: re.Match[str], origin: str, page: str) -> str:
        if match["link"] is None:
            return match[0]
        text = match["text"]
        if not match["bang"]:  # a picture within the text of a link is a link too
            text = self.moved(text, origin, page) if "](" in text else text
        new = self.target(match["target"], origin, page)
        return text if new is None else f"{match['bang']}[{text}]({new})"
