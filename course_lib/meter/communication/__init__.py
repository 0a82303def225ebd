"""Communication, call by call: recorded, counted in bytes, held against NCCL's rules.

In the order to read:

- ``batches.py``: which messages were started together by ``torch.distributed.batch_isend_irecv``
- ``call.py``: one collective or message, as the meter saw it on one rank
- ``nccl_queues.py``: what a recorded run would do on NCCL: carried out again, one call of a group after the other,
  until nothing moves
- ``nccl_rules.py``: NCCL's rules, held against the calls of a run on any back end
- ``wire_bytes.py``: what one collective puts on the wire
- ``recorder.py``: the part of the communication meter that lives in a rank
- ``communication.py``: the communication meter: every collective and message of a run, with its bytes, its time and its
  line
- ``step_split.py``: where the time of a step went, rank by rank: computing, messages, waiting for others
- ``expectations.py``: what an exercise may demand of a run's communication, and the sentence for each way to miss it
"""
