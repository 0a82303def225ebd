"""The exercises of lesson 07, one a file."""
