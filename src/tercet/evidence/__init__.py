"""Facts, snapshots, retrieval, and what runs have learned.

`store` says what a store of evidence promises, `opening` opens one by its address, and `memory`, `sqlite` and `postgres`
are the stores. `words` and `ranking` decide what a search finds and in which order: they are the same for every store.
`importing` makes facts out of files, `retrieval` is what a run asks, and `episodes` turns what a run learned into facts.

May touch files, threads and the network, and no clock: times come from the caller.
"""
