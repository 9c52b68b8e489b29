"""Well-known facts: tables, the short documents that tell them, and fixed questions about them."""
