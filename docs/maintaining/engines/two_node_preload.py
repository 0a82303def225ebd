"""For the fork server of a node: ranks of several nodes meet at an address, and not through a file."""

import os
from datetime import timedelta

import course_lib.cluster.process.preload  # noqa: F401 - torch and the rest, first
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.process import rank_process

_on_one_node = rank_process.join


def join(config, *, generation):
    import torch
    import torch.distributed as dist

    if "TWO_NODES_STORE" not in os.environ:
        return _on_one_node(config, generation=generation)
    torch.set_num_threads(1)
    host, port = os.environ["TWO_NODES_STORE"].split(":")
    store = dist.TCPStore(host, int(port), is_master=False, timeout=timedelta(seconds=60))
    dist.init_process_group(
        "gloo",
        store=dist.PrefixStore(f"generation-{generation}", store),
        rank=config.rank,
        world_size=config.world_size,
        timeout=timedelta(hours=24),
    )
    return Rank(config.rank, config.world_size, torch.device("cpu"), "gloo", local_rank=int(os.environ["LOCAL_RANK"]))


rank_process.join = join
