"""Supervised fine-tuning on given replies."""
