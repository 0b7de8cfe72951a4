"""Carries runs forward: the driver, the calls of tools and models, leases, inboxes and sessions.

The rules are in `tercet.core`; everything here does I/O.
"""
