"""Turns emulated links and the slowing of this rank on and off, as the caller's context says."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from course_lib.cluster.base.process_group import RankConfig
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.links.emulated_compute import Slowdown
from course_lib.cluster.links.links import Shape

__all__ = ["ShapeSwitch"]


class ShapeSwitch:
    """The shape in force. Without one, nothing stands between a call and PyTorch."""

    def __init__(self, config: RankConfig) -> None:
        self._config = config
        self._shape: Shape | None = None
        self._num_renewed = 0
        self._links: Any = None  # a ``ShapedLinks``, imported with torch when there is one
        self._slowdown: Slowdown | None = None

    @property
    def shape(self) -> Shape | None:
        """The one in force."""
        return self._shape

    def use(self, shape: Shape | None) -> None:
        """From now on, this shape."""
        if shape == self._shape:
            return
        self._close()
        self._shape = shape
        if shape is None:
            return
        if shape.links is not None:
            from course_lib.cluster.links.emulation import ShapedLinks

            path = self._config.folder / f"links-{shape.token}-{self._num_renewed}"
            self._links = ShapedLinks(shape.links, path=path, world_size=self._config.world_size)
            self._links.open()
        factor = shape.slow_factor(self._config.rank)
        if factor > 1:
            self._slowdown = Slowdown(factor)
            self._slowdown.open()

    def renew(self) -> None:
        """After a failure the ranks have met anew: with free ports, and with no call in flight."""
        shape = self._shape
        self._num_renewed += 1
        self.use(None)
        self.use(shape)

    def shaped(self, me: Rank) -> Rank:
        """``me``, knowing by how much it is slowed."""
        factor = self._shape.slow_factor(me.rank) if self._shape else 1.0
        return me if me.slow_factor == factor else dataclasses.replace(me, slow_factor=factor)

    @contextlib.contextmanager
    def work(self) -> Iterator[None]:
        """Around the learner's function: what it computes is stretched, and nothing else."""
        if self._slowdown is not None:
            self._slowdown.begin()
        yield
        if self._slowdown is not None:
            self._slowdown.catch_up()
        if self._links is not None:
            self._links.raise_failure()

    def _close(self) -> None:
        for part in (self._slowdown, self._links):
            if part is not None:
                part.close()
        self._links = self._slowdown = None
