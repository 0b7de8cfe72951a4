"""Proposes plans, and touches nothing. For now: templates, one for each intent."""
