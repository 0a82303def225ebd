"""Where paced experts run: on the CPU of any machine, for a GPU would let the host go on before tokens have come."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from course_lib.cluster import Links
from course_lib.layouts.link import Link
from course_lib.parallel.experts.paced import run_experts

SLOW = Link(1e-3, 1e6)


class Asked:
    """A cluster of two that notes which links it was asked for."""

    world_size = 2

    def __init__(self) -> None:
        self.links: list[Links | None] = []

    @contextmanager
    def shaped(self, *, links):
        self.links.append(links)
        yield self

    def call(self, *_, **__):
        return [[1.0], [2.0]]


@pytest.mark.parametrize(("link", "links"), [(None, Links()), (Link(), Links()), (SLOW, Links(SLOW))])
def test_paced_experts_ask_for_links_whether_they_are_slow_or_not(link, links):
    cluster = Asked()
    assert run_experts(cluster, [[1, 2], [3, 4]], row_s=1e-3, link=link) == (1.0, 2.0)
    assert cluster.links == [links]
