"""What is wrong with a page on a phone: it moves sideways, its text is small or cut off, its lines of code are broken.

All folds of the page are opened before it is looked at. Lines of what a learner's code has printed, in a report of a
check, are broken on purpose.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

WIDTH = 390  # px, as the most usual phones have
PHONE = {"viewport": {"width": WIDTH, "height": 844}, "is_mobile": True, "has_touch": True}
SMALLEST_PX = 11.0  # of letters; a formula's indices are smaller, as in print
# What may be wider than the phone, in a box of its own that moves and holds nothing else.
MOVES_ALONE = "pre, table, math, svg, img"

_LOOK = """([width, smallest, movesAlone]) => {
  const found = [];
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  const name = (part) => `${part.tagName.toLowerCase()}.${[...part.classList].join(".")} ` +
    `"${part.textContent.trim().replace(/\\s+/g, " ").slice(0, 40)}"`;
  const moves = (box) => ["auto", "scroll"].includes(getComputedStyle(box).overflowX);
  const cuts = (box) => ["hidden", "clip"].includes(getComputedStyle(box).overflowX);
  const beyond = (area) => area.right > width + 1 || area.left < -1;
  const isDrawer = (part) => part.closest(".sidebar-drawer, .toc-drawer");  // closed: beside the window
  const isHidden = (part) => {  // for a screen reader alone, or not there at all
    const area = part.getBoundingClientRect();
    return isDrawer(part) || !part.checkVisibility({checkVisibilityCSS: true}) || area.width <= 1 || area.height <= 1;
  };
  const around = function* (part) {
    for (let box = part.parentElement; box && box !== document.body; box = box.parentElement) yield box;
  };
  if (innerWidth !== width || visualViewport.scale !== 1)
    found.push(`the page asks for ${innerWidth} px at scale ${visualViewport.scale}`);
  if (document.documentElement.scrollWidth > width)
    found.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (const part of document.body.querySelectorAll("*")) {
    if (isHidden(part) || part.matches("script, style, br")) continue;
    const area = part.getBoundingClientRect();
    if (beyond(area) && ![...around(part)].some((box) => moves(box) || cuts(box)))
      found.push(`${name(part)}: from ${Math.round(area.left)} to ${Math.round(area.right)} px`);
    if (part.matches("pre:not([style], .stderr pre)") && getComputedStyle(part).whiteSpace !== "pre")
      found.push(`${name(part)}: its lines are broken`);
    if (moves(part) && part.scrollWidth > part.clientWidth + 1) {
      const words = [...part.querySelectorAll("h1, h2, h3, h4, p, li")].filter((one) => !isHidden(one));
      const astray = words.find((one) => !one.closest(movesAlone) || !part.contains(one.closest(movesAlone)));
      if (astray) found.push(`${name(part)}: plain text moves sideways: ${name(astray)}`);
    }
  }
  while (texts.nextNode()) {
    const text = texts.currentNode, part = text.parentElement;
    if (!text.data.trim() || isHidden(part) || part.closest("script, style, math, svg")) continue;
    const size = parseFloat(getComputedStyle(part).fontSize);
    if (size < smallest) found.push(`${name(part)}: letters of ${size} px`);
    const range = document.createRange();
    range.selectNodeContents(text);
    const area = range.getBoundingClientRect();
    for (const box of [part, ...around(part)]) {
      if (moves(box)) break;
      const edge = box.getBoundingClientRect();
      if (cuts(box) && (area.right > edge.right + 2 || area.left < edge.left - 2)) {
        found.push(`${name(part)}: cut off by ${name(box)}`);
        break;
      }
    }
  }
  return found;
}"""
# What is wider than its box, and can be moved in it: on some page there is some, or nothing was tried.
_MOVED = """() => [...document.querySelectorAll("pre, div, table")].filter((part) =>
  part.scrollWidth > part.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(part).overflowX)).length"""


def faults(page: Any, path: Path) -> list[str]:
    """Each thing that a reader with a phone would meet on the page at ``path``, with the page's name."""
    page.goto(path.as_uri())
    return [f"{path.name}: {found}" for found in page.evaluate(_LOOK, [WIDTH, SMALLEST_PX, MOVES_ALONE])]


def moved(page: Any) -> int:
    """How many boxes of the page that is open move within themselves."""
    return page.evaluate(_MOVED)
