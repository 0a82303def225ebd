"""What went wrong on the ranks: status of each rank, deadlock detection, failures, the report.

In the order to read:

- ``cpu_deadline.py``: A deadline that leaves out the time in which the ranks were runnable and had no core (/proc
  schedstat)
- ``flight_recorder.py``: PyTorch's flight recorders: what they keep of this process's collectives, as ``Operation``
- ``hang_dump.py``: dump of a hanging job
- ``rank_status.py``: the status of a rank, asked from outside while it is busy or blocked
- ``deadlock.py``: deadlock detection: which waiting ranks can never be released, worked out from the status of each
  rank
- ``hang_diagnosis.py``: diagnosis of a hang, in sentences
- ``unlike_tensors.py``: a process that ended since more bytes came than it had room for
- ``report.py``: the report of a failed call
- ``rank_stands.py``: where ranks stood, as data
- ``stands_of_ranks.py``: makes it of what ranks answered
- ``run.py``: the result of a call on the cluster
- ``errors.py``: what the caller of a cluster sees when ranks fail
"""
