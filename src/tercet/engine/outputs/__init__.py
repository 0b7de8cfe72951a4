"""Calls of tools and models that judge and repair outputs."""
