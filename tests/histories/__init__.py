"""Recorded runs of each version: whatever becomes of the code, it must judge them as they were judged.

One file in a folder is one run, a bundle. The folder is named after the version that recorded it, and after the newest
rule that it went by where there are several of one version. The archives hold many such runs, which follow from seeds,
and a journal with sessions that waited: see `seeded.py`. `__main__.py` says how all of these are recorded. Files that are
there are never changed: they are what old journals look like.
"""
