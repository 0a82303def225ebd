"""What went wrong on the ranks: status of each rank, deadlock detection, failures, the report.

In the order to read:

- ``cpu_deadline.py``: how long ranks may take
- ``flight_recorder.py``: PyTorch's flight recorders
- ``hang_dump.py``: what a job leaves when it hangs
- ``rank_status.py``: where a rank stands, asked from outside while it is busy or stuck
- ``deadlock.py``: whether ranks that wait can ever be answered
- ``hang_diagnosis.py``: why ranks can never finish, in sentences
- ``report.py``: telling what happened
- ``run.py``: what a call on the cluster brings back
- ``errors.py``: what the caller of a cluster sees when ranks fail
"""
