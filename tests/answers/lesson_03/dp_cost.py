"""03.dp_cost: copies, and what is held."""

from __future__ import annotations

from answer_table import Row, pieces

ROWS = pieces("lesson_03/pieces/data_parallel.py").rows(Row, "cost")
