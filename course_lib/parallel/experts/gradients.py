"""Who averages what: router and experts under experts x data parallelism.

The loss of the whole batch is the mean, over all ranks, of each rank's own. After backward a rank holds

=====================  ==================================================  ========================================
of                     the gradient of                                     and becomes the whole batch's by
=====================  ==================================================  ========================================
what all ranks hold    its own loss (its own tokens)                       the mean over all ranks
its experts            the *sum* of the losses of its expert group: their  the sum over the ranks with the same
                       tokens came here, and so did their gradients        experts, divided by the number of *all* ranks
=====================  ==================================================  ========================================

Two mistakes are near. Averaging everything over all ranks, as a data-parallel wrapper does, mixes different experts.
Taking the mean over the ranks with the same experts leaves their gradients n times too large, n ranks in a group; an
optimizer such as Adam hides it, and clipping by the norm does not.

Source: Rajbhandari et al., "DeepSpeed-MoE" (2022): groups for the experts, and groups for the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.parallel.data.replica_check import check_once
from course_lib.parallel.experts.expert_parallel import ExpertParallel
from course_lib.parallel.mesh.groups import MeshGroups

__all__ = ["average_gradients"]


def average_gradients(model: nn.Module, groups: MeshGroups, *, data_axes: Sequence[str] = ("dp_replicate",)) -> None:
    """After backward: every gradient becomes that of the mean of all ranks' losses.

    ``groups`` is made on a mesh with an axis ``ep`` and ``data_axes``, which are to form groups together with it::

        groups = MeshGroups(me, Mesh.of(dp_replicate=2, ep=2), together=[("dp_replicate", "ep")])
        layer = ExpertParallel(me, whole, group=groups.group("ep"))

    Before the first average, and at no later call, ranks compare what they hold in common: a ``ValueError`` says where
    it differs. A parameter without a gradient counts as zeros. Two all-reduces for each dtype: of what all ranks hold,
    over all, and of this rank's experts, over the ranks with the same ones.
    """
    everybody, same_experts = groups.members(*data_axes, "ep"), groups.members(*data_axes)
    own = {
        parameter
        for module in model.modules()
        if isinstance(module, ExpertParallel)
        for parameter in module.experts.parameters()
    }
    for members, are_own in ((everybody, False), (same_experts, True)):
        held = [(name, p) for name, p in model.named_parameters() if (p in own) is are_own]
        check_once(groups.me, members, "average_gradients", held)
    shared = [p for p in model.parameters() if p.requires_grad and p not in own]
    mine = [p for p in model.parameters() if p.requires_grad and p in own]
    for parameters, members in ((shared, everybody), (mine, same_experts)):
        for gradients in _by_dtype(parameters):
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            if members.count > 1:
                dist.all_reduce(flat, group=members.group)
            flat /= everybody.count
            for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
                gradient.copy_(part.view_as(gradient))


def _by_dtype(parameters: Iterable[nn.Parameter]) -> list[list[Tensor]]:
    found: dict[torch.dtype, list[Tensor]] = {}
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        found.setdefault(parameter.dtype, []).append(parameter.grad)
    return list(found.values())
