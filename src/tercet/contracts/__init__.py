"""The data types that cross package boundaries: plan, context, decision, evidence, verdict, budget, session, record.

This package holds data only: frozen Pydantic models, the references between steps, canonical hashes, and the loaders
and printers of the two plan formats. It imports no other package of Tercet and does no I/O.
"""
