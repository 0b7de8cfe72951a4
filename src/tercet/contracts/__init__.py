"""The shapes that cross a border: plan, context, decision, evidence, verdict, budget, session, record.

What lives here is data and nothing else: frozen Pydantic models, the references between steps, canonical
hashes, and the two loaders and printers of plans. It imports no other room and does no I/O.
"""
