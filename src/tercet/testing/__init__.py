"""Helpers for your own tests: a virtual clock, a scripted model, and a suite for models of your own.

May import any lower package; only the command line imports it.
"""
