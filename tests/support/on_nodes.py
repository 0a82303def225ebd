"""A plugin of pytest for nbval: a lesson whose ranks are on two nodes is held against what one machine showed.

What is said of nodes is taken out of what the run shows, by ``without_nodes``, and all else is compared as ever.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["pytest_configure", "without_nodes"]

_LINES = re.compile(
    r"^(\d+ ranks? on \d+ nodes?: .*\.|Links are shaped on this machine: .* stands? in for ranks on your nodes\.)\n?",
    re.MULTILINE,
)
_PLACE = re.compile(r" on node \d+ \([^()\n]*\)")  # behind a rank, in a story
_CROWD = re.compile(  # warned of on one machine, among what an answer printed
    r"<details><summary>What your code printed</summary><pre[^>]*>More ranks than cores: [^<\n]*\n</pre></details>"
)
_BYTES = re.compile(r"; between nodes [\d.]+ (B|[KMGTP]iB)")  # of the meter


def without_nodes(outputs: list[Any]) -> list[Any]:
    """Outputs of a cell without what names nodes; a text of which nothing is left is no output."""
    kept = []
    for output in outputs:
        if output["output_type"] == "stream":
            had_text = bool(output["text"])
            output["text"] = _plain(output["text"])
            if had_text and not output["text"]:
                continue
        for kind, value in output.get("data", {}).items():
            if isinstance(value, str):
                output["data"][kind] = _plain(value)
        kept.append(output)
    return kept


def _plain(text: str) -> str:
    return _CROWD.sub("", _BYTES.sub("", _PLACE.sub("", _LINES.sub("", text))))


def pytest_configure(config: Any) -> None:
    from nbval import plugin

    transformed = plugin.transform_streams_for_comparison
    plugin.transform_streams_for_comparison = lambda outputs: transformed(without_nodes(outputs))
