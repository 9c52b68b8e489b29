"""R1-Searcher, and Search-R1 on the same rows."""
