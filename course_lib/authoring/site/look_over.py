"""Look a built site over: links that lead nowhere, pictures without words, and whatever a page would fetch elsewhere.

Links within the site are followed, with their anchors. Those to other machines are judged by their form alone, as a
check that asks the network fails on days when nothing is wrong here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["SitePage", "faults", "read_page"]

_FETCHING = {"script", "img", "iframe", "source", "video", "audio", "embed", "input"}  # by their src
_FETCHING_RELATIONS = {
    "stylesheet",
    "preload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
    "icon",
    "modulepreload",
}
_CSS_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")
_HOST = re.compile(r"^[a-z0-9-]+(\.[a-z0-9-]+)+$", re.IGNORECASE)


@dataclass
class SitePage:
    """What the links of a page need to be judged: its anchors, where it leads, what it loads."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)  # pictures without a text


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = SitePage()
        self.in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        self.page.anchors |= {said[name] for name in ("id", "name") if said.get(name)}
        if tag == "a" and "href" in said:
            self.page.links.append(said["href"])
        if tag == "link" and _FETCHING_RELATIONS & set(said.get("rel", "").split()):
            self.page.fetched.append(said.get("href", ""))
        if tag in _FETCHING and "src" in said:
            self.page.fetched.append(said["src"])
        self.page.fetched += [part.split()[0] for part in said.get("srcset", "").split(",") if part.strip()]
        self.page.fetched += _in_css(said.get("style", ""))
        if tag == "img" and "alt" not in said:
            self.page.silent.append(said.get("src", ""))
        self.in_style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self.in_style = False

    def handle_data(self, data: str) -> None:
        if self.in_style:
            self.page.fetched += _in_css(data)


def read_page(text: str) -> SitePage:
    """Anchors, links and what is fetched, of the text of a page."""
    reader = _Reader()
    reader.feed(text)
    return reader.page


def faults(site: Path) -> list[str]:
    """A sentence for each fault of the site in the folder ``site``, page by page."""
    site = site.resolve()
    pages = {path: read_page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        for link in dict.fromkeys(page.links):
            found += [f"{name}: the link {link!r} {why}" for why in _wrong_link(link, path, site, pages)]
        for target in dict.fromkeys(page.fetched):
            found += [f"{name}: {target!r} {why}" for why in _wrong_part(target, path, site)]
        found += [f"{name}: the picture {picture!r} has no alt text" for picture in page.silent]
    for path in sorted(site.rglob("*.css")):
        for target in dict.fromkeys(_in_css(path.read_text(encoding="utf-8"))):
            name = path.relative_to(site).as_posix()
            found += [f"{name}: {target!r} {why}" for why in _wrong_part(target, path, site)]
    return found


def _in_css(text: str) -> list[str]:
    return [one or other for one, other in _CSS_URL.findall(text)]


def _wrong_link(link: str, path: Path, site: Path, pages: dict[Path, SitePage]) -> list[str]:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return _wrong_form(link)
    target = _file(parts.path, path, site) if parts.path else path
    if target is None:
        return ["leads to no file of the site"]
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return [f"leads to a page that has no place {anchor!r}"]
    return []


def _wrong_form(link: str) -> list[str]:
    """What is wrong with an address elsewhere, as far as its form tells."""
    parts = urlsplit(link)
    if parts.scheme == "mailto":
        return [] if "@" in parts.path else ["is no address of a person"]
    if parts.scheme not in ("http", "https"):
        return [f"begins with {parts.scheme or '//'!r}; it is to begin with https:"]
    whole = parts.hostname is not None and _HOST.match(parts.hostname) and not re.search(r"\s", link)
    return [] if whole else ["is no whole address"]


def _wrong_part(target: str, path: Path, site: Path) -> list[str]:
    """What a page loads by itself must lie beside it."""
    if target.startswith(("data:", "#")):
        return []
    if urlsplit(target).scheme or target.startswith("//"):
        return ["is fetched from elsewhere when the page is opened"]
    return [] if _file(urlsplit(target).path, path, site) else ["is no file of the site"]


def _file(target: str, path: Path, site: Path) -> Path | None:
    """The file that a relative path leads to; a folder means its first page."""
    start = site / target.lstrip("/") if target.startswith("/") else path.parent / unquote(target)
    file = start.resolve()
    file = file / "index.html" if file.is_dir() else file
    return file if file.is_file() and file.is_relative_to(site) else None
