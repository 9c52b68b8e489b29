"""Games: each turns items into lessons."""
