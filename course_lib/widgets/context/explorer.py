"""The context explorer: who computes what of a sequence that is cut among ranks, and what each rank sends, by the cost
model, and on real ranks.

Tokens, ranks, their order, the way of attention, and heads of keys. The button runs a forward and a backward of this
very setting, lays the meter's bytes over the prediction, and compares the results with one process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from course_lib.base.checks import is_number
from course_lib.cost.model_parallel.context import PassBytes
from course_lib.forms import Form, busy, picture_box
from course_lib.parallel.context import WatchedAttention, watched_attention
from course_lib.plot.boards.context_board import ContextBoard
from course_lib.plot.raster import Raster
from course_lib.widgets.context.choice import (
    HEAD_DIM,
    KEY_HEADS,
    NUM_HEADS,
    RANKS,
    TOKENS,
    WAYS,
    ContextChoice,
    kib_text,
)
from course_lib.widgets.context.missions import MISSIONS, ContextMission
from course_lib.widgets.context.words import found_in_words, sent_in_words, who_computes
from course_lib.widgets.controls import dropdown, number, status
from course_lib.widgets.mission_progress import MissionProgress

if TYPE_CHECKING:
    from course_lib.cluster.api.cluster import Cluster

__all__ = ["ContextExplorer"]

_ORDERS = ("contiguous", "zigzag")
_REFUSED = "This setting is refused."


class ContextExplorer(Form):
    """Controls above a picture, lines that say the same in words, missions, and a button that runs it.

    ``cluster`` runs settings for as many ranks as it has, or fewer; without one there is the model only. A mission that
    has been reached stays so, and what was measured comes back with its setting.
    """

    def __init__(self, cluster: Cluster | None = None, *, missions: Sequence[ContextMission] = MISSIONS) -> None:
        if cluster is not None and not is_number(getattr(cluster, "world_size", None)):
            raise ValueError(
                f"cluster={cluster!r} is no cluster. Give shared_cluster(4), or nothing for predictions alone."
            )
        self._cluster, self._standing = cluster, MissionProgress(missions)
        self._measured: dict[ContextChoice, list[WatchedAttention]] = {}
        self._is_setting = False  # several controls are moved at once
        self._board = ContextBoard()
        most_ranks = 4 if cluster is None else cluster.world_size
        start = ContextChoice(num_ranks=max(number for number in RANKS if number <= most_ranks))
        self.tokens = number("tokens of the sequence", start.num_tokens, TOKENS, width="16em")
        self.ranks = dropdown("ranks", RANKS, start.num_ranks, width="8em")
        self.order = dropdown("order", _ORDERS, start.order, width="13em")
        ways = [(name, way) for way, name in WAYS.items()]
        self.way = dropdown("way", ways, start.way, width="12em")
        self.key_heads = dropdown(f"key heads, of {NUM_HEADS}", KEY_HEADS, start.key_heads, width="13em")
        self.run = widgets.Button(description="run it on real ranks", layout={"width": "13em"})
        self.image = picture_box(width="768px")
        self.words = widgets.HTML()
        self._draw()
        for control in self._controls.values():
            control.observe(self._draw, names="value")
        self.run.on_click(self._run)
        wrap = widgets.Layout(flex_flow="row wrap")
        rows = [[self.tokens, self.ranks, self.order], [self.way, self.key_heads, self.run]]
        super().__init__([*(widgets.HBox(row, layout=wrap) for row in rows), self.image, self.words])

    @property
    def _controls(self) -> dict[str, Any]:
        """By the field of a ``ContextChoice`` that each of them sets."""
        return {
            "num_tokens": self.tokens,
            "num_ranks": self.ranks,
            "order": self.order,
            "way": self.way,
            "key_heads": self.key_heads,
        }

    @property
    def choice(self) -> ContextChoice:
        """What is chosen now. ``ValueError`` where an all-to-all cannot share the heads out."""
        return ContextChoice(**{name: control.value for name, control in self._controls.items()})

    def choose(
        self,
        *,
        tokens: int | None = None,
        ranks: int | None = None,
        order: str | None = None,
        way: str | None = None,
        key_heads: int | None = None,
    ) -> None:
        """Set some controls at once; the others stay.

        ``ValueError`` for a setting that is refused, or that the controls cannot be set to; they are left as they are.
        """
        given = {"num_tokens": tokens, "num_ranks": ranks, "order": order, "way": way, "key_heads": key_heads}
        new = {name: control.value for name, control in self._controls.items()}
        new |= {name: value for name, value in given.items() if value is not None}
        ContextChoice(**new)
        self._is_setting = True
        try:
            for name, control in self._controls.items():
                control.value = new[name]
        finally:
            self._is_setting = False
        self._draw()

    @property
    def missions(self) -> str:
        """How each mission stands: a line each."""
        return "\n".join(self._standing.lines(self._missed))

    def _missed(self, mission: ContextMission) -> str:
        """What a mission lacks as things are set now."""
        try:
            choice = self.choice
        except ValueError:
            return _REFUSED
        return mission.missed(choice, self._most_measured)

    def picture(self) -> Raster:
        """What is shown now, as a picture."""
        try:
            choice = self.choice
        except ValueError as error:
            return self._board.blank(str(error))
        found = self._measured.get(choice, [])
        return self._board.draw(
            choice.cut,
            choice.way,
            NUM_HEADS,
            choice.pairs(),
            choice.sent(),
            alt=" ".join(self._lines(choice)),
            measured=[PassBytes(rank.forward_bytes, rank.backward_bytes) for rank in found],
        )

    def __repr__(self) -> str:
        try:
            said = f"{self.choice}): {kib_text(self.choice.most_sent_bytes)} from the rank that sends most"
        except ValueError as error:
            said = f"refused): {error}"
        return f"Context explorer ({said}; {self._standing}"

    @property
    def _most_measured(self) -> dict[ContextChoice, int]:
        """What the rank that sent most has sent, forward and backward, in every setting that has been run."""
        return {choice: max(rank.sent_bytes for rank in found) for choice, found in self._measured.items()}

    # -- words ----------------------------------------------------------------------------------------------------

    def _lines(self, choice: ContextChoice) -> list[str]:
        lines = [
            f"Model, {choice}: {who_computes(choice)}",
            f"The ranks have work in {choice.balance:.0%} of the time that the busiest of each step takes; the rank "
            f"and step farthest from the mean is {choice.apart:.0%} from it.",
            f"Bytes: {sent_in_words(choice.sent())}",
            f"A transformer of one such layer keeps {kib_text(choice.most_kept_bytes)} of activations on the rank that "
            "keeps most.",
            self._run_in_words(choice),
        ]
        return [line for line in lines if line]

    def _run_in_words(self, choice: ContextChoice) -> str:
        """What a run found, or why there can be none."""
        if found := self._measured.get(choice):
            return found_in_words(choice, found)
        if self._cluster is None:
            return "Model only: no ranks were given to this explorer."
        if self._cluster.world_size < choice.num_ranks:
            return f"Model only: this explorer's cluster has {self._cluster.world_size} ranks."
        return ""

    # -- what happens ---------------------------------------------------------------------------------------------

    def _draw(self, _: object = None) -> None:
        if self._is_setting:
            return
        self.image.value = self.picture().png()
        try:
            choice = self.choice
        except ValueError as error:
            self.run.disabled, self.run.tooltip = True, _REFUSED
            self._say(str(error), *self.missions.splitlines())
            return
        can_run = self._cluster is not None and self._cluster.world_size >= choice.num_ranks
        self.run.disabled = not can_run
        self.run.tooltip = f"Run it on {choice.num_ranks} ranks" if can_run else self._run_in_words(choice)
        self._standing.look(str(choice), self._missed)
        self._say(*self._lines(choice), *self.missions.splitlines())

    def _say(self, *lines: str) -> None:
        self.words.value = status(*lines)

    def _run(self, _: object) -> None:
        assert self._cluster is not None  # the button is disabled without one
        choice = self.choice
        with busy(self.run):
            self._say(*self._lines(choice), f"{choice.num_ranks} ranks go forward and backward ...")
            sizes = {"num_heads": NUM_HEADS, "num_kv_heads": choice.key_heads, "head_dim": HEAD_DIM}
            try:
                self._measured[choice] = watched_attention(self._cluster, choice.cut, way=choice.way, **sizes)
                self._draw()
            except (RuntimeError, ValueError, OSError) as error:
                failed = f"The ranks could not run it: {str(error).splitlines()[0]}"
                self._say(*self._lines(choice), failed, *self.missions.splitlines())
