r"""A formula of TeX as a picture within the page, drawn by Matplotlib; what it cannot draw stands there as TeX.

nbconvert leaves formulas to MathJax, which a page would have to fetch from a network.
"""

from __future__ import annotations

import base64
import io
from functools import lru_cache

from course_lib.base.html import templates

__all__ = ["formula"]

_fill = templates(__file__)
_SIZE_PT = 12.0
_OTHER_WORDS = {r"\tfrac": r"\frac", r"\dots": r"\ldots", r"\lvert": "|", r"\rvert": "|"}


@lru_cache(maxsize=1024)
def formula(tex: str, *, is_block: bool = False) -> str:
    """The formula as an ``img`` whose text is its TeX, on the line of the words around it or on one of its own."""
    plain = " ".join(tex.split())
    try:
        svg, height_pt, depth_pt = _drawn(plain)
    except (ValueError, RuntimeError):  # a word that Matplotlib does not know
        return _fill("formula.html", tex=plain, is_block=is_block, picture="")
    style = f"height:{height_pt / _SIZE_PT:.3f}em;vertical-align:{-depth_pt / _SIZE_PT:.3f}em"
    picture = base64.b64encode(svg).decode("ascii")
    return _fill("formula.html", tex=plain, is_block=is_block, picture=picture, style=style)


def _drawn(tex: str) -> tuple[bytes, float, float]:
    """The drawing, its height, and how far it reaches below the line. Raises ``ValueError`` where it cannot be."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import MathTextParser

    for word, other in _OTHER_WORDS.items():
        tex = tex.replace(word, other)
    text, font = f"${tex}$", FontProperties(size=_SIZE_PT, math_fontfamily="stix")
    width, height, depth, *_ = MathTextParser("path").parse(text, dpi=72, prop=font)
    figure = Figure(figsize=(max(width, 1) / 72, max(height, 1) / 72))
    FigureCanvasSVG(figure)
    figure.text(0, depth / height if height else 0, text, fontproperties=font)
    drawing = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "formula"}):
        figure.savefig(drawing, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return drawing.getvalue(), float(height), float(depth)
