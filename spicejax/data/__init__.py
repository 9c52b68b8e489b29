"""Items in: documents, questions, examples and answers, each a resumable iterator that is the same on every host."""
