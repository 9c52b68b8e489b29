"""Finding passages for a question: encoders over a corpus, their indexes, one signature for every kind of search."""
