"""What is told in rows of (what, how much): aligned lines of text, and a table where a notebook shows it."""

from __future__ import annotations

import html

__all__ = ["ToldInRows"]


class ToldInRows:
    """Gives a class with ``rows()`` its two faces; ``_caption`` stands above the table."""

    _caption: str

    def rows(self) -> list[tuple[str, str]]:
        """Pairs of text, for printing."""
        raise NotImplementedError

    def summary(self) -> str:
        """The rows in a few aligned lines of text."""
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def _repr_html_(self) -> str:
        cells = "".join(
            f'<tr><th scope="row" style="text-align:left">{html.escape(name)}</th>'
            f'<td style="text-align:left">{html.escape(value)}</td></tr>'
            for name, value in self.rows()
        )
        return f"<table><caption>{self._caption}</caption><tbody>{cells}</tbody></table>"
