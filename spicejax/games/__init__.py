"""Games: each turns documents into scored episodes."""
