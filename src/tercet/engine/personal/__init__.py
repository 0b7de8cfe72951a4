"""Personal values: the keys of subjects, sealing and revealing, and erasure."""
