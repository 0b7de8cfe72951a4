"""JSON values, the references between them, and what they are compared by."""
