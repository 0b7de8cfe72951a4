"""Facts, snapshots, retrieval, and episodic memory.

`store` is the interface of an evidence store, `opening` opens one by its URL, and `memory`, `sqlite` and `postgres` are
the stores. `ranking` decides what a search finds and in which order: it is the same for every store. `importing` makes
facts from files, `retrieval` answers the queries of a run, and `episodes` turns what a run learned into facts.

May use files, threads and the network, but no clock: times come from the caller.
"""
