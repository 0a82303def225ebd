"""Every room at once. The fork server imports this, so that no rank that tries an answer imports its lesson again.

Ranks are replaced after an answer that fails or leaves something; a fifth of a second in each new one was this import.
"""

from __future__ import annotations

from course_lib.learn import exercises

for number in exercises.lesson_numbers():
    exercises.exercises_of(number)
