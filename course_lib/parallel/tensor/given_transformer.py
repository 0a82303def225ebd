"""A split transformer that leaves the model which it is given as it is, and gives the loss.

``split_transformer`` cuts a model in place, and its caller computes the loss. This class has the interface of the split
transformer that a learner builds in lesson 08.
"""

from __future__ import annotations

import copy
from typing import cast

import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.models.transformer import Transformer
from course_lib.parallel.tensor.transformer import split_transformer
from course_lib.parallel.tensor.vocabulary import vocab_parallel_cross_entropy

__all__ = ["GivenTransformer"]


class GivenTransformer:
    """This rank's parts of ``model``, which stays as it is, and its loss. ``group``: the ranks that share it, or all.

    ``sequence``: between the regions each rank has its own positions. ``parts``: by the names of the model's
    parameters; a tied matrix stands under both of its names. Raises ValueError as ``split_transformer`` does.
    """

    def __init__(
        self, me: Rank, model: Transformer, group: dist.ProcessGroup | None = None, sequence: bool = False
    ) -> None:
        own = copy.deepcopy(model)
        self.me, self.group, self.vocab_size = me, group, model.config.vocab_size
        self.model = split_transformer(me, own, group=group, sequence_parallel=sequence)
        named = self.model.named_parameters(remove_duplicate=False)
        self.parts: dict[str, nn.Parameter] = {name: cast(nn.Parameter, part) for name, part in named}

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy of (B, T) targets after (B, T) tokens, the same on all ranks: 0-d, in nats."""
        logits = self.model(tokens)
        return vocab_parallel_cross_entropy(self.me, logits, targets, vocab_size=self.vocab_size, group=self.group)
