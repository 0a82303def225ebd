"""A model as a row of pieces, and how many parameters it has."""

from __future__ import annotations

from torch import nn

from course_lib.base.checked import checked

__all__ = ["parameter_count", "pieces"]


@checked
def pieces(model: nn.Module) -> dict[str, nn.Module]:
    """List the pieces of ``model`` in forward order: ``stem``, ``blocks.0`` ... ``head``.

    The pieces are the model's own modules, not copies, and each name is the prefix of the piece's entries
    in ``model.state_dict()``. Chained, they are the model: ``nn.Sequential(*pieces(model).values())(x)``
    gives the values of ``model(x)``, so a cut between two pieces is a list slice.

    Raises ``ValueError`` for a model without ``stem``, ``blocks`` and ``head``.
    """
    children = dict(model.named_children())
    missing = [name for name in ("stem", "blocks", "head") if name not in children]
    if missing or not isinstance(children["blocks"], nn.ModuleList):
        raise ValueError(
            f"{type(model).__name__} cannot be listed in pieces: a model needs the modules stem, blocks "
            f"(an nn.ModuleList) and head; it has {', '.join(children) or 'none'}. "
            "SmallCNN, ResNet, VGG and Transformer have them."
        )
    row = {"stem": children["stem"]}
    row |= {f"blocks.{i}": block for i, block in enumerate(children["blocks"])}
    return row | {"head": children["head"]}


@checked
def parameter_count(model: nn.Module, *, trainable_only: bool = False) -> int:
    """Count the numbers that ``model`` learns; a tensor used in two places counts once.

    Buffers (such as BatchNorm's running statistics) are not parameters and are left out. Works on any device,
    ``meta`` included, where even a very large model takes no memory.
    """
    return sum(p.numel() for p in model.parameters() if p.requires_grad or not trainable_only)
