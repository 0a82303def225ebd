"""An explorer whose choice real ranks can run: a button, what was measured, and why a choice cannot be run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import ipywidgets as widgets

from course_lib.base.checks import is_number
from course_lib.widgets.explorer import Explorer
from course_lib.widgets.mission_progress import Mission

if TYPE_CHECKING:
    from course_lib.cluster.api.cluster import Cluster

__all__ = ["RankExplorer", "ranks_of"]


class _OfRanks(Protocol):
    @property
    def num_ranks(self) -> int: ...


C = TypeVar("C", bound=_OfRanks)  # a choice
R = TypeVar("R")  # what a run of a choice has found


def ranks_of(cluster: Cluster | None, otherwise: int) -> int:
    """How many ranks a cluster has. ``ValueError`` for what is none."""
    if cluster is None:
        return otherwise
    if not is_number(getattr(cluster, "world_size", None)):
        raise ValueError(
            f"cluster={cluster!r} is no cluster. Give shared_cluster({otherwise}), or nothing for predictions alone."
        )
    return cluster.world_size


class RankExplorer(Explorer[C], Generic[C, R]):
    """Below the controls a button that runs the choice on ``cluster``; without one there is the model only.

    What was measured comes back with its choice. An explorer's own are ``_measure`` and ``_found_in_words``.
    """

    _RUN_IT: str  # what the button does, as "Run it"
    _TO_DO: str  # what ranks do meanwhile, as "go forward and backward"
    _MODEL_ONLY = "a run is for the {} ranks of this explorer's cluster."  # where the cluster has other ranks

    def __init__(
        self,
        rows: Sequence[Sequence[widgets.Widget]],
        cluster: Cluster | None,
        missions: Sequence[Mission[Any, Any]],
    ) -> None:
        self._cluster = cluster
        self._measured: dict[C, R] = {}
        self.run = widgets.Button(description="run it on real ranks", layout={"width": "13em"})
        self.run.on_click(self._run)
        super().__init__([*rows[:-1], [*rows[-1], self.run]], missions)

    def _measure(self, cluster: Cluster, choice: C) -> R:
        """Run it."""
        raise NotImplementedError

    def _found_in_words(self, choice: C, found: R) -> str:
        """What a run found, beside the model."""
        raise NotImplementedError

    def _has_ranks(self, cluster: Cluster, choice: C) -> bool:
        """Whether the cluster can run it."""
        return cluster.world_size == choice.num_ranks

    def _run_in_words(self, choice: C) -> list[str]:
        """What a run found, or why there can be none: a sentence, or nothing where there can be one."""
        if choice in self._measured:
            return [self._found_in_words(choice, self._measured[choice])]
        if self._cluster is None:
            return ["Model only: no ranks were given to this explorer."]
        if not self._has_ranks(self._cluster, choice):
            return [f"Model only: {self._MODEL_ONLY.format(self._cluster.world_size)}"]
        return []

    def _follow(self, choice: C | None) -> None:
        can_run = choice is not None and self._cluster is not None and self._has_ranks(self._cluster, choice)
        self.run.disabled = not can_run
        if choice is None:
            self.run.tooltip = self._REFUSED
        elif can_run:
            self.run.tooltip = f"{self._RUN_IT} on {choice.num_ranks} ranks"
        else:
            self.run.tooltip = " ".join(self._run_in_words(choice))

    def _run(self, _: object) -> None:
        assert self._cluster is not None  # the button is disabled without one
        cluster, choice = self._cluster, self.choice

        def measure() -> None:
            self._measured[choice] = self._measure(cluster, choice)
            self._draw()

        self._on_ranks(self.run, f"{choice.num_ranks} ranks {self._TO_DO} ...", measure)
