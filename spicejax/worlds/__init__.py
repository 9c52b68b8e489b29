"""Worlds made from nothing: a model, a corpus and question sets."""
