"""Tercet: an agent runtime that can say no.

A planner proposes a typed plan, a critic refuses it or lets it through before anything happens, an executor carries
out exactly the verified steps, and the critic judges the result. This page exports what people touch first.
"""
