"""Storage of events, checkpoints, blobs, claims, leases, and a table of sessions.

A journal stores bytes and knows nothing of plans. `protocol` says what it promises, `opening` opens one by its address,
`chain` checks that nothing was changed, `stream` holds the rules that every backend follows, and `memory`, `sqlite` and
`postgres` are the backends. What the bytes mean is in `events` and `codec`.

May touch files, threads and the network, and no clock: times come from the caller.
"""
