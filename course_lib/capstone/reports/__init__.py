"""What is kept and shown of attempts: files, pages, the leaderboard.

In the order to read:

- ``page.py``: pages of HTML that need nothing beside them
- ``code_rows.py``: whose code ran in an attempt, as a table
- ``result_file.py``: what is kept of an attempt
- ``leaderboard.py``: A board for a class
- ``report_page.py``: A report as one page
- ``report_picture.py``: the one picture of a report
- ``reports.py``: A report to keep: one page of HTML, the picture in it as a file of its own, and the result for a
  class's board
"""
