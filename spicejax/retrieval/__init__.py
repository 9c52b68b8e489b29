"""Finding passages for a question: encoders, indexes, and one signature for every kind of search."""
