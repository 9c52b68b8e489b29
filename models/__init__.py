"""One decoder for the families of `families.py`, its weights in and out; imports nothing of ours."""
