"""Whole programs to take home: each is one file that runs as it is, and that a lesson explains line by line."""
