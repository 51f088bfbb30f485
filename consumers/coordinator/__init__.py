"""The coordinator: leadership of a term, pending evidence, decisions. Pure."""
