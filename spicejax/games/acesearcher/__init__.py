"""AceSearcher."""
