"""The exercises of lesson 08, one a file, and what their trials report."""
