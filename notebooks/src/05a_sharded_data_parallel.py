# %% [markdown]
# # 05a · Sharded data parallelism: states, shared out
#
# **75 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 1 of 4 · [2: whole while it computes](05b_whole_for_a_moment.ipynb) · [3: links and
# precision](05c_links_and_precision.ipynb) · [4: one model again](05d_one_model_again.ipynb)

# %%
from course_lib import check, hint

import torch
import torch.distributed as dist
from torch import nn

# %% [markdown]
# ### Build: an optimizer that keeps its part of the states


# %%
def packed(tensors, num_parts):
    """All numbers of ``tensors`` in a row, cut in equal parts: (num_parts, K). Zeros fill the last part up."""
    flat = torch.cat([tensor.detach().flatten() for tensor in tensors])
    flat = torch.nn.functional.pad(flat, (0, -len(flat) % num_parts))
    return flat.view(num_parts, -1)


def unpack(parts, tensors):
    """The other way: write the numbers of ``parts`` (num_parts, K) into ``tensors``, in place."""
    numbers = parts.flatten()[: sum(tensor.numel() for tensor in tensors)]
    for tensor, own in zip(tensors, numbers.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.data.copy_(own.view_as(tensor))


# %%
class ShardedAdamW:
    """AdamW of a model that is whole on every rank; each rank keeps the states of its own part."""

    def __init__(self, me, parameters, lr):
        self.me, self.parameters = me, list(parameters)
        ### BEGIN SOLUTION
        own = packed(self.parameters, me.world_size)[me.rank].clone()
        self.own = nn.Parameter(own)
        self.adamw = torch.optim.AdamW([self.own], lr=lr)
        ### END SOLUTION

    @torch.no_grad()
    def step(self):
        """After backward on this rank's part of the batch: the weights become those after AdamW's step on the mean."""
        # 1. This rank's part of the mean gradients.  2. The step, on that part.  3. Every rank needs every part.
        ### BEGIN SOLUTION
        gradients = packed([parameter.grad for parameter in self.parameters], self.me.world_size)
        self.own.grad = torch.empty_like(self.own)
        dist.reduce_scatter_tensor(self.own.grad, gradients)
        self.own.grad /= self.me.world_size
        self.adamw.step()
        parts = torch.empty_like(gradients)
        dist.all_gather_into_tensor(parts, self.own.detach())
        unpack(parts, self.parameters)
        ### END SOLUTION


# %%
check("05.optimizer", ShardedAdamW)

# %%
# hint("05.optimizer")
