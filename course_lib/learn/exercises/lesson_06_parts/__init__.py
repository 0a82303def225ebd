"""The exercises of lesson 06, one a file, and its quiz."""
