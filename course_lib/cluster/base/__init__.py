"""What every part of the cluster stands on: a rank, messages between two, process groups.

In the order to read:

- ``backends.py``: which device each rank takes, and who carries its messages, for what this machine has
- ``failure.py``: what went wrong on one rank, as plain data that travels to the parent and is told there
- ``flat_collectives.py``: collectives on one flat tensor, by the name that the installed PyTorch likes
- ``gloo_only.py``: A note on messages that are started in an order which suits gloo alone
- ``group_names.py``: the names that ``new_group`` gives, by which the ranks of a group find each other
- ``open_groups.py``: the process groups that this process is in, as PyTorch knows them
- ``os_errors.py``: errors of the system in words
- ``point_to_point.py``: messages between two ranks that work on every back end
- ``rank.py``: who a rank is
- ``process_group.py``: joining and leaving the process group, on the rank
- ``rendezvous_store.py``: A meeting point for code that calls ``init_process_group`` itself, as a script under torchrun
  would
- ``temp_dirs.py``: the private folder of one team of ranks, or of a server's kernels, and what killed notebooks have
  left of theirs
"""
