"""Text: encodings, entities, pasted blocks and search words."""
