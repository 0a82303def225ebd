"""What of a notebook's HTML may stand in the page: an allow list, so that nothing is fetched and nobody is led away.

bleach (which nbconvert brings) reads the HTML as a browser does and keeps the elements, attributes and properties of
style that are named here. Of whatever else there is the text remains, or nothing where the text was never meant to
be read. ``fragment`` is for one output or one cell, so that a tag which it leaves open ends with it; ``gate`` is for a
whole notebook as nbconvert puts it together, metadata and all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from html import unescape
from typing import Any

from bleach.css_sanitizer import ALLOWED_CSS_PROPERTIES, CSSSanitizer
from bleach.html5lib_shim import Filter
from bleach.sanitizer import Cleaner

__all__ = ["Rewrite", "Token", "fragment", "gate", "is_picture"]

Token = dict[str, Any]
Rewrite = Callable[[Iterable[Token]], Iterator[Token]]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_TAGS = _set("""
    a abbr b blockquote br caption center cite code col colgroup dd del details dfn div dl dt em figcaption
    figure h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q s samp section small span strong sub summary
    sup table tbody td tfoot th thead tr tt u ul var
""")
_NEVER_READ = _set("""
    script style template noscript title textarea iframe object noembed noframes xmp
""")
_ATTRIBUTES = _set("class id style title lang role")
_OF_TAG = {
    "a": {"href"},
    "img": {"src", "alt", "width", "height"},
    "ol": {"start", "type"},
    "td": {"colspan", "rowspan", "align"},
    "th": {"colspan", "rowspan", "align", "scope"},
    "details": {"open"},
}
_SCHEMES = frozenset({"http", "https", "mailto", "data"})
_SCHEME = re.compile(r"[^/?#]*?:")
_IGNORED = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]")  # in a scheme, by browsers
_PICTURE = re.compile(r"data:image/(png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/=\s]*", re.ASCII)
_PROPERTIES = ALLOWED_CSS_PROPERTIES | _set("""
    background border border-bottom border-left border-radius border-right border-top font-variant-numeric
    margin margin-bottom margin-left margin-right margin-top max-height max-width min-width opacity overflow-x
    padding padding-bottom padding-left padding-right padding-top
""")
_COUNTS = re.compile(r"(?<![\w-])(rgb|rgba|hsl|hsla|calc)\(", re.IGNORECASE)


class _Style(CSSSanitizer):
    """Properties by name; and none whose value calls anything but a colour or a sum, since ``url(...)`` fetches."""

    def sanitize_css(self, style: str) -> str:
        kept = super().sanitize_css(style)
        return "" if "\\" in kept or "(" in _COUNTS.sub("", kept) else kept


def fragment(html: str) -> str:
    """The HTML of one output, or of one cell: whole in itself, and of allowed parts alone."""
    return str(_cleaner(dropped=_NEVER_READ).clean(html))


def gate(html: str, rewrite: Rewrite) -> str:
    """A notebook's HTML, of allowed parts alone; ``rewrite`` then changes its tokens: pictures, links and names."""
    cleaner = _cleaner()
    cleaner.filters = [partial(_Rewritten, rewrite=rewrite)]
    return str(cleaner.clean(html))


def _cleaner(*, dropped: frozenset[str] = frozenset()) -> Cleaner:
    return Cleaner(
        tags=_TAGS | dropped,
        attributes=_is_allowed,
        protocols=_SCHEMES,
        strip=True,
        strip_comments=True,
        css_sanitizer=_style(),
        filters=[partial(_Without, names=dropped)] if dropped else [],
    )


@lru_cache(maxsize=1)
def _style() -> _Style:
    return _Style(allowed_css_properties=_PROPERTIES)


def _is_allowed(tag: str, name: str, value: str) -> bool:
    """Whether a tag keeps an attribute. (bleach looks at the schemes of links and at the style besides.)"""
    if name == "src":
        return tag == "img" and (is_picture(value) or _scheme(value) in ("", "http:", "https:"))
    if name == "href":
        return tag == "a" and _scheme(value) in ("", "http:", "https:", "mailto:")
    if name == "tabindex":
        return value.strip() in ("0", "-1")
    return name in _ATTRIBUTES or name in _OF_TAG.get(tag, ()) or name.startswith(("aria-", "data-mime-type"))


def is_picture(address: str) -> bool:
    """Whether an address holds a picture itself. (Within an ``img`` an SVG runs no script and fetches nothing.)"""
    return _PICTURE.fullmatch(address) is not None


def _scheme(address: str) -> str:
    """ "https:" of an address as a browser reads it; "" of one that lies beside the page."""
    found = _SCHEME.match(_IGNORED.sub("", unescape(address)))
    return found.group().lower() if found else ""


class _Without(Filter):
    """Leaves out elements with all that is in them."""

    def __init__(self, source: Iterable[Token], names: frozenset[str]) -> None:
        super().__init__(source)
        self._names = names

    def __iter__(self) -> Iterator[Token]:
        deep = 0
        for token in super().__iter__():
            if token["type"] == "StartTag" and (deep or token["name"] in self._names):
                deep += 1
            elif token["type"] == "EndTag" and deep:
                deep -= 1
            elif not deep and not (token["type"] == "EmptyTag" and token["name"] in self._names):
                yield token


class _Rewritten(Filter):
    def __init__(self, source: Iterable[Token], rewrite: Rewrite) -> None:
        super().__init__(source)
        self._rewrite = rewrite

    def __iter__(self) -> Iterator[Token]:
        return self._rewrite(super().__iter__())
