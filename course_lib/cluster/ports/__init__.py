"""The ports at which gloo's ranks connect: shut once all are connected, and who is connected is looked at.

In the order to read:

- ``own_sockets.py``: sockets of this process: those that listen, those that are connected, and a port shut
- ``connections.py``: who is connected to the ports of this process, and which of them no rank of a group is
- ``port_guard.py``: looks at each group that is made, and shuts its port
"""
