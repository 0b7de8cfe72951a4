"""Recorded runs of each version: whatever becomes of the code, it must judge them as they were judged.

One file is one run, a bundle, in a folder named after the version that recorded it, and after the newest rule
that it went by where there are several of one version. `python -m histories FOLDER`, with
`tests` on the path, records the stories of `stories.py` anew; only a new version or rule gets a new folder, and files that are
there are never changed: they are what old journals look like.
"""
