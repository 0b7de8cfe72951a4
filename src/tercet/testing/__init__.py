"""Helpers for your own tests: conformance suites that run under any test runner, a virtual clock, and a scripted model.

May import any lower package; only the command line imports it.
"""
