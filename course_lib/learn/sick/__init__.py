"""Jobs that are ill, for the clinics: elastic meetings, misconfigured runs.

In the order to read:

- ``elastic.py``: what a job leaves behind that is started again and again
- ``meetings.py``: A rendezvous by PyTorch's own handlers, without ranks
"""
