"""Facts out of files: Markdown and plain text, HTML, PDF, CSV and JSON lines.

`files` finds the files and reads each as its ending says, `chunks` cuts texts, `records` reads rows and lines, and
`report` gathers what could not be read. Nothing here writes: a store takes the changes as they come.
"""
