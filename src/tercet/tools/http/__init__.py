"""Calls of HTTP services: where they may go, what is sent, what is read, and what an answer means.

A call opens one connection and closes it. So nothing has to be kept and closed with a runtime, and a connection that
breaks was never an old one: what failed before the request was sent is known not to have happened.
"""
