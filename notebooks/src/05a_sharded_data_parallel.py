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
    """All numbers of ``tensors`` in a row of ``num_parts`` equal parts, (num_parts * K,). Zeros fill up the last."""
    row = torch.cat([tensor.detach().flatten() for tensor in tensors])
    return torch.nn.functional.pad(row, (0, -len(row) % num_parts))


def unpack(row, tensors):
    """The other way: write the numbers of ``row`` into ``tensors``, in place. What fills the row up is left over."""
    sizes = [tensor.numel() for tensor in tensors]
    for tensor, part in zip(tensors, row[: sum(sizes)].split(sizes), strict=True):
        tensor.data.copy_(part.view_as(tensor))


# %%
class ShardedAdamW:
    """AdamW of a model that is whole on every rank. Each rank keeps the states of its own part, which is 1/n of the
    numbers, and between two steps nothing else as large as the model. No rank sends more than it has to.
    """

    def __init__(self, me, parameters, lr):
        self.me, self.parameters = me, list(parameters)
        ### BEGIN SOLUTION
        parts = packed(self.parameters, me.world_size).chunk(me.world_size)
        self.own = nn.Parameter(parts[me.rank].clone())
        self.adamw = torch.optim.AdamW([self.own], lr=lr)
        ### END SOLUTION

    @torch.no_grad()
    def step(self):
        """After backward on this rank's part of the batch, which gives every parameter a gradient: the weights become
        those after AdamW's step on the mean of the ranks' gradients.
        """
        # 1. This rank's part of the mean gradients.  2. The step, on that part.  3. Every rank needs every part.
        ### BEGIN SOLUTION
        gradients = packed([parameter.grad for parameter in self.parameters], self.me.world_size)
        self.own.grad = torch.empty_like(self.own)
        dist.reduce_scatter_tensor(self.own.grad, gradients)
        self.own.grad /= self.me.world_size
        self.adamw.step()
        weights = torch.empty_like(gradients)
        dist.all_gather_into_tensor(weights, self.own.detach())
        unpack(weights, self.parameters)
        ### END SOLUTION


# %%
check("05.optimizer", ShardedAdamW)

# %%
# hint("05.optimizer")
