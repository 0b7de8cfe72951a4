"""One file of a whole run: its events, checkpoints, blobs and pack, each under its own hash, chained and sealed.

`layout` says how a record is written down, `scanning` reads a file from its beginning and names the first record that
is not what was written, `reading` opens one, `exporting` makes one, `signing` puts a name under it. docs/bundles.md
is the page for programs in other languages.
"""
