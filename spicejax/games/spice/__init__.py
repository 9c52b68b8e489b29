"""SPICE (arXiv:2510.24684)."""
