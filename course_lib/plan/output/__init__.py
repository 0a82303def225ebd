"""A listing in words, as JSON, and as what to type.

In the order to read:

- ``exporters/``: What to type for a layout: lines for the course's programs, and the same settings by the names of
  others
- ``certainty.py``: How sure a listing is, in words: the band of a layout's step and memory, and which layouts are a tie
- ``report.py``: A listing in words: the ranked table with its words explained, and the parts of one layout with bars
- ``derived.py``: A number that stands beside the way to it: a sum of products, each factor with its unit or its name
- ``time_derivation.py``: A step's time taken apart: each part of it, and what it is made of, as products of sizes,
  rates and constants
- ``memory_derivation.py``: The memory of a layout's fullest GPU taken apart: each part as products of sizes and bytes
- ``comparison.py``: Two layouts side by side: each part of the step and of the memory, and which of them makes the
  difference
- ``json_io.py``: A plan as JSON, and back
"""
