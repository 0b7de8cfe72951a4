"""The common part of stores on SQLite and PostgreSQL: addresses, connections, migrations and error translation.

`schema` describes a kind of store and reads its SQL, `address` parses the address of a store and opens it, `sqlite` and
`postgres` are the two databases. Only `sqlite` opens files with `sqlite3`, and only `postgres` imports `asyncpg`, which
comes with the extra `tercet[postgres]`.
"""
