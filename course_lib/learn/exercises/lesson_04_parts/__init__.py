"""The exercises of lesson 04, one a file, and the judge that tries an answer on replicas of a small model."""
