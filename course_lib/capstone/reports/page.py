"""Pages of HTML that need nothing beside them: one style, light and dark, as wide as a phone or a screen."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence

from course_lib.plot.dark import DARK_FILTER

__all__ = ["escaped", "image", "page", "paragraphs", "table"]

_STYLE = """
:root { color-scheme: light dark; --ground: #fdfdfc; --ink: #1f2328; --soft: #59606a; --line: #d4d8dd;
  --box: #f1f3f5; --mark: #0072b2; --warn: #a84300; }
@media (prefers-color-scheme: dark) { :root { --ground: #16191d; --ink: #e6e8eb; --soft: #a3abb5; --line: #3a4149;
  --box: #21262c; --mark: #6cbdf0; --warn: #ff9d5c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 3rem; max-width: 52rem; background: var(--ground); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0.4rem 0; }
h2 { font-size: 1.1rem; margin: 1.8rem 0 0.4rem; }
p { margin: 0.4rem 0; }
.soft { color: var(--soft); font-size: 0.9rem; }
.points { font-size: 2.4rem; font-weight: 700; color: var(--mark); line-height: 1.1; margin: 0.8rem 0 0; }
.box { background: var(--box); border-left: 4px solid var(--mark); padding: 0.5rem 0.9rem; margin: 0.8rem 0; }
.box.warn { border-color: var(--warn); }
pre { background: var(--box); padding: 0.6rem 0.9rem; margin: 0.4rem 0; white-space: pre-wrap; font-size: 0.85rem; }
img { display: block; width: 100%; height: auto; background: white; border-radius: 6px; margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; margin: 0.6rem 0; }
th, td { text-align: left; padding: 0.35rem 0.8rem 0.35rem 0; vertical-align: top;
  border-bottom: 1px solid var(--line); }
thead th { overflow-wrap: normal; }
td[data-label="points"], td[data-label="step"] { white-space: nowrap; }
tbody th { font-weight: 600; }
@media (max-width: 38rem) {
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
  tbody tr { display: block; border: 1px solid var(--line); border-radius: 6px; padding: 0.3rem 0.7rem;
    margin: 0.6rem 0; }
  tbody th, tbody td { display: flex; gap: 0.8rem; border: 0; padding: 0.12rem 0; }
  .picture { overflow-x: auto; }
  .picture img { width: 40rem; max-width: none; }
  tbody td::before { content: attr(data-label); flex: 0 0 8.5rem; color: var(--soft); }
}
@media screen and (prefers-color-scheme: dark) { img { filter: DARK_FILTER; } }
@media print { body { max-width: none; padding: 0; } }
""".replace("DARK_FILTER", DARK_FILTER)


def escaped(text: object) -> str:
    """Text that stays text, also within quotes."""
    return html.escape(str(text), quote=True)


def paragraphs(text: str) -> str:
    """A text whose empty lines part paragraphs."""
    parts = [part.strip() for part in text.split("\n\n") if part.strip()]
    return "".join(f"<p>{escaped(part).replace(chr(10), '<br>')}</p>" for part in parts)


def image(png: bytes, alt: str) -> str:
    """A picture within the page."""
    data = base64.b64encode(png).decode("ascii")
    # On a phone it is moved sideways in its own box, with its letters as large as the page's; a key can move it, too.
    img = f'<img src="data:image/png;base64,{data}" alt="{escaped(alt)}">'
    return f'<div class="picture" tabindex="0" role="group" aria-label="picture">{img}</div>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """A table whose rows are cards on a narrow screen; the first column names its row. Roles outlive the looks."""
    top = "".join(f'<th scope="col" role="columnheader">{escaped(text)}</th>' for text in head)
    body = ""
    for first, *rest in rows:
        cells = "".join(
            f'<td role="cell" data-label="{escaped(name)}">{escaped(text)}</td>'
            for name, text in zip(head[1:], rest, strict=True)
        )
        body += f'<tr role="row"><th scope="row" role="rowheader">{escaped(first)}</th>{cells}</tr>'
    return (
        f'<table role="table" aria-label="{escaped(caption)}"><thead role="rowgroup"><tr role="row">{top}</tr></thead>'
        f'<tbody role="rowgroup">{body}</tbody></table>'
    )


def page(title: str, body: str) -> str:
    """A whole page; nothing in it asks for another file."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escaped(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )
