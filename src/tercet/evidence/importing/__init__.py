"""Imports facts from files: Markdown and plain text, HTML, PDF, CSV and JSON lines.

`files` finds the files and reads each by its suffix, `chunks` splits texts, `records` reads rows and lines. Nothing
here writes: a store receives the changes as they are read.
"""
