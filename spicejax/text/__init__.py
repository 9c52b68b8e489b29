"""Strings and token ids: tokenizers, chat templates, prompts."""
