"""Text in and out: tokenizers and chat templates, documents, benchmarks, prompt formats, buffers."""
