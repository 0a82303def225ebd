"""The board of a class: what learners share, gathered, counted, drawn.

In the order to read:

- ``bins.py``: numbers sorted into a few bins
- ``read_shared.py``: everybody's events, from the files in some folders
- ``mistake_stats.py``: what the class met: which checks hold up how many, and which named mistakes were met by how many
  and how often
- ``prediction_stats.py``: what everybody predicted, question by question, and what the runs of those who saw one gave
- ``charts.py``: A question's histogram as data
- ``histogram.py``: a chart as shapes, which a template draws
- ``progress_by_part.py``: who is where: for each part of a lesson who did something there last, how many have begun,
  how many are through
- ``board_data.py``: the board as data: what a page or a text shows of a class, for all lessons or for one
- ``page.py``: the board as one page for a projector
- ``class_minutes.py``: how long a class took for each part, and for each check until it passed
- ``after_class.py``: a page to fill in after a class, begun with what the class shared
- ``text.py``: the board as text, for the terminal
- ``command.py``: ``course class board FOLDER``: one page for the projector, of everybody who shares their progress in
  FOLDER
"""
