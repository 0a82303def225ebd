"""How an answer is judged: values compared, arguments guarded, ranks run, failures named.

In the order to read:

- ``compare.py``: is this the expected value, and where is the first difference? In words, and safe for whatever a
  learner returns
- ``failure.py``: exceptions of a learner's code in words, and how an untouched stub is told from an answer
- ``function_class.py``: is this the class of an ``autograd.Function``, as an exercise asks for it? A sentence for what
  is none
- ``matmul_counter.py``: counts the multiplications of numbers in products, for judges that ask how much, and when, an
  answer computes
- ``mutation_guard.py``: guards that an answer does not mutate its arguments
- ``kept_references.py``: is something that an answer was given still held after the call? And did it seed everybody's
  random numbers?
- ``call_order.py``: does it matter in which order an answer is asked for the ranks?
- ``call_time_limits.py``: sleeps and time limits of an answer's own, over at once
- ``call_io.py``: arguments and result of an answer, looked at before and after a call, whoever makes the call
- ``rank_failure_messages.py``: what ranks tell of their failure, for the learner of an exercise
- ``rank_runner.py``: what a rank runs when an answer is tried there, and what it tells of the call beside its value
- ``report.py``: a report: what a trial saw of an answer, in fields that say how each is compared and told
- ``errors.py``: recognisers of answers on ranks that end with an error: ranks that wait for each other, and what is
  raised first
- ``judge.py``: judges: they try an answer in several cases and write down what came, as :class:`Evidence`
- ``isolated_judge.py``: A judge that lets an answer run in a process of its own, so that nothing it does can cost the
  notebook
"""
