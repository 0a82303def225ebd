"""What a collective costs on a network: closed forms, rounds, measured latencies.

In the order to read:

- ``collective_rounds.py``: collectives as data: which rank sends how much to which, round by round
- ``gloo.py``: what a collective costs by gloo among the ranks of one machine, from what that machine was measured to do
- ``latency_by_log_n.py``: A two-parameter time for collectives of a library that changes its ways as messages grow
- ``interpolated_times.py``: times of a collective at any size, from times measured at some
- ``network.py``: A network: which links join which ranks, and how long messages take that start together
- ``hierarchical.py``: collectives in two storeys: inside every node at once, and between nodes among the ranks with the
  same place
- ``collective_cost.py``: what a collective costs by algorithm
- ``machines.py``: named machines: what their makers say they can do, for plans about hardware that is not at hand
"""
