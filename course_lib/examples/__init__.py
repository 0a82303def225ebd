"""Programs to take home: each is a folder to copy, needs nothing of the course, and is explained by a lesson."""
