"""03.dp_flat: by a forbidden way. Wrong answers stand in the table, each beside the mistake that it makes."""

from __future__ import annotations

from course_lib.parallel.data import DataParallel

EXERCISE = "03.dp_flat"
FORBIDDEN = DataParallel
