"""Looks back: what a recorded run was, told again from its journal.

It reads the journal and folds it with the runtime's own functions. It calls no tool and no model, and appends nothing.
"""
