# %% [markdown]
# # 05d · Sharded data parallelism: one model again
#
# **75 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 4 of 4 · [1: states, shared out](05a_sharded_data_parallel.ipynb) · [2: whole while it
# computes](05b_whole_for_a_moment.ipynb) · [3: links and precision](05c_links_and_precision.ipynb)

# %%
from course_lib import check, hint

import torch
import torch.distributed as dist

# %% [markdown]
# ### Build: the clip that every rank agrees on


# %%
@torch.no_grad()
def clip(me, shards, max_norm):
    """Scale the gradients of ``shards``, in place, so that those of all ranks together have norm ``max_norm`` at most.

    Returns what the norm was. ``shards`` are this rank's rows of every parameter; some have no gradient (None), and on
    some ranks none has one.
    """
    ### BEGIN SOLUTION
    gradients = [shard.grad for shard in shards if shard.grad is not None]
    squares = sum((gradient.square().sum() for gradient in gradients), torch.zeros((), device=me.device))
    dist.all_reduce(squares)
    norm = squares.sqrt()
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient *= factor
    return norm
    ### END SOLUTION


# %%
check("05.clip", clip)

# %%
# hint("05.clip")
