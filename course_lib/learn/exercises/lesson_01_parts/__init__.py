"""The exercises of lesson 01, one a file, and how their answers are tried."""
