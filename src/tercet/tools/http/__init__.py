"""Calls of HTTP services: allowed addresses, requests, answers, and outcomes.

A call opens one connection and closes it. So a runtime has nothing to keep and close, and a broken connection was never
a stale one: a failure before the request was sent is known not to have had an effect.
"""
