"""``python -m course_lib.doctor``."""

import sys

from course_lib.doctor import main

sys.exit(main())
