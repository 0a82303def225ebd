# %% [markdown]
# # 05b · Sharded data parallelism: whole while it computes
#
# **75 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 2 of 4 · [1: states, shared out](05a_sharded_data_parallel.ipynb) · [3: links and
# precision](05c_links_and_precision.ipynb) · [4: one model again](05d_one_model_again.ipynb)

# %%
from course_lib import check, hint

import torch
import torch.distributed as dist

# %% [markdown]
# ### Build: a layer that borrows its weight


# %%
class ShardedLinear(torch.autograd.Function):
    """y = x Wᵀ with W (out, in), of which each of n ranks keeps out/n rows and borrows the others."""

    @staticmethod
    def forward(ctx, x, shard):
        """x (B, in), this rank's part of the batch; shard (out/n, in), its rows of W -> y (B, out)."""
        ### BEGIN SOLUTION
        weight = shard.new_empty(dist.get_world_size() * shard.size(0), shard.size(1))
        dist.all_gather_into_tensor(weight, shard)
        ctx.save_for_backward(x, shard)  # not the whole weight: it goes now
        return x @ weight.T
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad):
        """grad (B, out) -> the gradient of x (B, in); and this rank's rows of W's *mean* gradient (out/n, in)."""
        ### BEGIN SOLUTION
        x, shard = ctx.saved_tensors
        weight = shard.new_empty(dist.get_world_size() * shard.size(0), shard.size(1))
        dist.all_gather_into_tensor(weight, shard)
        grad_x = grad @ weight
        rows = torch.empty_like(shard)
        dist.reduce_scatter_tensor(rows, grad.T @ x)
        return grad_x, rows / dist.get_world_size()
        ### END SOLUTION


# %%
check("05.unit", ShardedLinear)

# %%
# hint("05.unit")
