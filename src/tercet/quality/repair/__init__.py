"""Repairs outputs: strategies, control, confidence, exit.

This room is pure: it does no I/O, reads no clock and draws no lots. It imports contracts and policy, and nothing else.
"""
