"""What every part of the cluster stands on: a rank, messages between two, process groups.

In the order to read:

- ``backends.py``: which device each rank takes, and who carries its messages, for what this machine has
- ``call_marks.py``: marks on what is sent: its order works on gloo alone, or it belongs to no step
- ``failure.py``: the failure of one rank as plain data
- ``flat_collectives.py``: collectives on one flat tensor, by the name that the installed PyTorch likes
- ``group_names.py``: the names that ``new_group`` gives, by which the ranks of a group find each other
- ``open_groups.py``: the process groups that this process is in, as PyTorch knows them
- ``os_errors.py``: errors of the system in words
- ``point_to_point.py``: messages between two ranks that work on every back end
- ``rank.py``: who a rank is: the one argument that every function on the cluster receives first
- ``line_store.py``: the store by which ranks of several nodes find each other
- ``process_group.py``: joining and leaving the process group, on the rank
- ``shared_folder.py``: whether all nodes see one folder
- ``stack_of_thread.py``: the stack of a thread, read from another one, without keeping what its functions hold
- ``temp_dirs.py``: temporary folders of the ranks and of a server's kernels, and those that killed notebooks have left
"""
