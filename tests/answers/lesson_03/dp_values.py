"""03.dp_values: values: outputs as of one device."""

from __future__ import annotations

from answer_table import Row, pieces

ROWS = pieces("lesson_03/pieces/data_parallel.py").rows(Row, "values")
