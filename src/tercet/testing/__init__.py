"""Shipped with the package, for tests of your own: conformance suites that run under any test runner.

May import any room below; nothing but the command line imports it.
"""
