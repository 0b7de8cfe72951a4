"""What the stores on SQLite and PostgreSQL share: addresses, connections, migrations, and what the drivers' errors mean.

`schema` describes a kind of store and reads its SQL, `address` parses the address of a store and opens it, `sqlite` and
`postgres` are the two databases. Only `sqlite` opens files with `sqlite3`, and only `postgres` imports `asyncpg`, which
comes with the extra `tercet[postgres]`.
"""
