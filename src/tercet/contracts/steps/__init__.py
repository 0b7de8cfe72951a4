"""The steps of a plan: effective steps, their graph and their conditions."""
