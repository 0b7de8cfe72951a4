"""How each event changes the state of a run, by family."""
