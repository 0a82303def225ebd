"""Ranks of several machines: an agent on each node starts them, ssh starts the agent and carries what is said.

In the order to read:

- ``errors.py``: what a notebook hears of its nodes when they cannot be used
- ``addresses.py``: by which of its addresses this machine is reached
- ``allocation.py``: an allocation of Slurm, asked for, found and given back
- ``localized.py``: what changes on the way between a notebook and a rank of another machine
- ``facts.py``: what a machine says of itself
- ``node_clock.py``: how the clocks of a node stand to ours
- ``line.py``: the line between a notebook and an agent
- ``meeting/``: where ranks of several nodes find each other
- ``agent.py``: the agent of a node
- ``agent_process.py``: the process of a node's agent
- ``remote_rank.py``: a rank on another machine, as a notebook holds it
- ``node.py``: a node, as a notebook holds it
- ``node_set.py``: the nodes of a notebook: met, compared; which rank is where
- ``record.py``: the record of a user's nodes
- ``found.py``: the nodes that this notebook has
- ``command.py``: ``course nodes up``, ``status`` and ``down``
"""
