"""Servers that tests start as processes of their own, and how to start them."""
