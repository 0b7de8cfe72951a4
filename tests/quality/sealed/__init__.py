"""A corpus of letters and claims that nobody tuned the judgement of outputs to, and the command that measures it.

`python -m quality.sealed` (with `tests` on the path) runs every letter as a session and prints the figures.
"""
