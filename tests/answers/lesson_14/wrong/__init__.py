"""Wrong answers, a module for each exercise: ``EXERCISE`` names it, ``EXAMPLES`` has one for each mistake."""
