"""``ask`` and ``reveal``: a prediction before a run, compared with it afterwards.

In the order to read:

- ``prediction.py``: A question to be answered before the run, and the answer that this session of the kernel remembers
- ``predict_form.py``: the form of a prediction
- ``stored_value.py``: A value of a prediction or a run, as a line of the progress file holds it
- ``predict.py``: ``Predict``: commit to an answer before the run, then see it beside the cost model and the measurement
- ``own_cost.py``: what the learner's own cost in the run that is told of, beside the course's
- ``asking.py``: ``ask("07.four")`` and ``reveal("07.four", run)``: a lesson's questions, fetched by their name
"""
