"""What outputs say, held against schema, tests and what is known."""
