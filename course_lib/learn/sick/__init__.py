"""Jobs that are ill, for the clinics: elastic meetings, misconfigured runs.

In the order to read:

- ``bit_flips.py``: Planted bit flips: what a GPU does that computes wrongly and says nothing
- ``elastic.py``: what a job leaves behind that is started again and again
- ``meetings.py``: A rendezvous by PyTorch's own handlers, without ranks
- ``sick_job/``: A simulated job that fails, for the clinic of lesson 12: its log, and what a change of one setting
  gains
- ``sick_runs/``: Six training runs, each with one thing wrong: what they show, and what a change of one setting gains.
  Lesson 11
"""
