"""The mask of a packed sequence, as one process needs it: a token attends to its own document alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.base.checked import checked
from course_lib.layouts.document_cut import check_lengths

__all__ = ["document_mask"]


@checked
def document_mask(lengths: Sequence[int], *, is_causal: bool = True, device: torch.device | None = None) -> Tensor:
    """(T, T) of booleans, ``mask[query, key]``: whether the query looks at the key; T is the sum of the lengths.

    It is what ``scaled_dot_product_attention`` takes as ``attn_mask``. ``is_causal``: at none that is after it.
    ``ValueError`` for a document without a token.

    >>> document_mask([2, 1]).int().tolist()
    [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    """
    check_lengths(lengths)
    sizes = torch.tensor(lengths, device=device)
    document = torch.arange(len(lengths), device=device).repeat_interleave(sizes)  # (T,)
    mask = document.unsqueeze(1) == document.unsqueeze(0)
    return mask.tril() if is_causal else mask
