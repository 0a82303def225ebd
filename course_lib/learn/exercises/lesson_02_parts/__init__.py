"""The exercises of lesson 02, one a file, and the judge that weighs what an answer sends."""
