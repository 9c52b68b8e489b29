"""spicejax: language models that train against themselves on a text corpus, in JAX."""

__version__ = "0.1.0"
