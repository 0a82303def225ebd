"""The one process under which nodes run, and which leaves nothing behind.

In the order to read:

- ``counters.py``: the kernel's count of what went over a node's link
- ``process_tree.py``: ends of processes
- ``namespaces.py``: networks of the nodes
- ``supervisor.py``: the process under which the agents run, by the standard library alone
- ``capabilities.py``: what this machine allows
- ``supervisor_client.py``: our end of the line to the warden
"""
