"""The one process under which nodes run, and which leaves nothing behind.

In the order to read:

- ``counters.py``: the kernel's count of what went over a node's link
- ``process_tree.py``: ends of processes: who descends from whom, and a signal for those whose parent dies
- ``namespaces.py``: networks of the nodes: each a network namespace, joined by a bridge in one more
- ``capabilities.py``: what this machine allows: networks of their own for nodes, or loopback alone, and then why
- ``supervisor.py``: the supervisor: the process under which the agents run, by the standard library alone
- ``supervisor_client.py``: client of the supervisor: asks, is answered, and hears what it says by itself
"""
