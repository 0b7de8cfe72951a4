"""Executes runs: the driver, tool and model calls, leases, inboxes and sessions.

The rules are in `tercet.core`; everything here does I/O.
"""
