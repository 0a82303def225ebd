"""What moves on a page, by what the page's styles say: transitions, animations, smooth scrolling."""

from __future__ import annotations

from typing import Any

__all__ = ["moving"]

_MOVING = """(which) => {
  const found = new Set();
  const lasts = (times) => times.split(",").some((time) => parseFloat(time) > 0.01);
  for (const part of document.querySelectorAll(which)) {
    for (const pseudo of [null, "::before", "::after"]) {
      const style = getComputedStyle(part, pseudo);
      const name = `${part.tagName} ${part.className.baseVal ?? part.className} ${pseudo ?? ""}`.trim();
      if (style.transitionProperty !== "none" && lasts(style.transitionDuration)) found.add(`${name}: transition`);
      if (style.animationName !== "none" && lasts(style.animationDuration)) found.add(`${name}: animation`);
      if (!pseudo && style.scrollBehavior === "smooth") found.add(`${name}: smooth scrolling`);
    }
  }
  return [...found];
}"""


def moving(page: Any, which: str = "html, html *") -> list[str]:
    """The elements among ``which``, a CSS selector, that would move or scroll smoothly, and by what."""
    return list(page.evaluate(_MOVING, which))
