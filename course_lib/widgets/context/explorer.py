"""The context explorer: who computes what of a sequence that is cut among ranks, and what each rank sends, by the cost
model, and on real ranks.

Tokens, ranks, their order, the way of attention, and heads of keys. The button runs a forward and a backward of this
very setting, lays the meter's bytes over the prediction, and compares the results with one process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from course_lib.cost.model_parallel.context import PassBytes
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
from course_lib.widgets.controls import dropdown, number
from course_lib.widgets.rank_explorer import RankExplorer, ranks_of

if TYPE_CHECKING:
    from course_lib.cluster.api.cluster import Cluster

__all__ = ["ContextExplorer"]

_ORDERS = ("contiguous", "zigzag")
_CONTROLS = ("tokens", "ranks", "order", "way", "key_heads")  # in the order of a ContextChoice


class ContextExplorer(RankExplorer[ContextChoice, list[WatchedAttention]]):
    """Controls above a picture, lines that say the same in words, missions, and a button that runs it.

    ``cluster`` runs settings for as many ranks as it has, or fewer; without one there is the model only. A mission that
    has been reached stays so, and what was measured comes back with its setting.
    """

    _NAME = "Context explorer"
    _RUN_IT, _TO_DO = "Run it", "go forward and backward"
    _MODEL_ONLY = "this explorer's cluster has {} ranks."
    _found_in_words = staticmethod(found_in_words)

    def __init__(self, cluster: Cluster | None = None, *, missions: Sequence[ContextMission] = MISSIONS) -> None:
        self._board = ContextBoard()
        start = ContextChoice(num_ranks=max(number for number in RANKS if number <= ranks_of(cluster, 4)))
        self.tokens = number("tokens of the sequence", start.num_tokens, TOKENS, width="16em")
        self.ranks = dropdown("ranks", RANKS, start.num_ranks, width="8em")
        self.order = dropdown("order", _ORDERS, start.order, width="13em")
        ways = [(name, way) for way, name in WAYS.items()]
        self.way = dropdown("way", ways, start.way, width="12em")
        self.key_heads = dropdown(f"key heads, of {NUM_HEADS}", KEY_HEADS, start.key_heads, width="13em")
        rows = [[self.tokens, self.ranks, self.order], [self.way, self.key_heads]]
        super().__init__(rows, cluster, missions)

    @property
    def choice(self) -> ContextChoice:
        """What is chosen now. ``ValueError`` where an all-to-all cannot share the heads out."""
        return ContextChoice(*self._settings(_CONTROLS).values())

    def choose(self, **settings: int | str) -> None:
        """Set some controls at once, by their names here, such as ``ranks=2, way="all_to_all"``; the others stay.

        ``ValueError`` for a setting that is refused, or that the controls cannot be set to; they are left as they are.
        """
        new = self._settings(_CONTROLS, **settings)
        ContextChoice(*new.values())
        self._set((getattr(self, name), value) for name, value in new.items())

    def _shown(self, choice: ContextChoice) -> tuple[Raster, list[str]]:
        lines = [
            f"Model, {choice}: {who_computes(choice)}",
            f"If each step lasts as long as its busiest rank computes, the ranks compute for {choice.balance:.0%} of "
            f"the time. The largest distance of a rank's pairs in a step from the mean is {choice.apart:.0%}.",
            f"Bytes: {sent_in_words(choice.sent())}",
            f"A transformer of one such layer keeps at most {kib_text(choice.most_kept_bytes)} of activations on a "
            "rank.",
            *self._run_in_words(choice),
        ]
        picture = self._board.draw(
            choice.cut,
            choice.way,
            NUM_HEADS,
            choice.pairs(),
            choice.sent(),
            alt=" ".join(lines),
            measured=[PassBytes(rank.forward_bytes, rank.backward_bytes) for rank in self._measured.get(choice, [])],
        )
        return picture, lines

    def _in_short(self, choice: ContextChoice) -> str:
        return f"{kib_text(choice.most_sent_bytes)} from the rank that sends most"

    @property
    def _found(self) -> dict[ContextChoice, int]:
        """What the rank that sent most has sent, forward and backward, in every setting that has been run."""
        return {choice: max(rank.sent_bytes for rank in found) for choice, found in self._measured.items()}

    def _has_ranks(self, cluster: Cluster, choice: ContextChoice) -> bool:
        return cluster.world_size >= choice.num_ranks

    def _measure(self, cluster: Cluster, choice: ContextChoice) -> list[WatchedAttention]:
        sizes = {"num_heads": NUM_HEADS, "num_kv_heads": choice.key_heads, "head_dim": HEAD_DIM}
        return watched_attention(cluster, choice.cut, way=choice.way, **sizes)
