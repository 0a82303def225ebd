"""A listing in words, as JSON, and as what to type.

In the order to read:

- ``exporters/``: What to type for a layout: lines for the course's programs, and the same settings by the names of
  others
- ``certainty.py``: How sure a listing is, in words: the band of a layout's step and memory, and which layouts are a tie
- ``report.py``: A listing in words: the ranked table with its words explained, and the parts of one layout with bars
- ``json_io.py``: A plan as JSON, and back
"""
