"""The peers: LangGraph and DBOS, each as its documentation says, with the same twelve no-op steps.

They are imported by name where they are used, since the benchmark alone needs them.

LangGraph runs a chain of twelve nodes with `durability="sync"`. Its state is one number with the last-value reducer,
the cheapest that it has: a list with the usual reducer grows with every step, and the beta DeltaChannel is not measured.
On SQLite its saver sets WAL itself and keeps SQLite's default of synchronous=FULL; on PostgreSQL it gets a pool of ten
connections, and once more the one connection that its documentation's first example opens.

DBOS runs an async workflow of twelve async steps. On SQLite the file is put into WAL mode before DBOS opens it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, TypedDict

from . import workload
from .workload import Facts, Run

POOL = 10


class Counted(TypedDict):
    """The state of a LangGraph run."""

    n: int


async def _node(state: Counted) -> Counted:
    workload.touch()
    return {"n": state["n"] + 1}


@asynccontextmanager
async def langgraph_sqlite(path: Path, facts: Facts) -> AsyncGenerator[Run]:
    """LangGraph with its async SQLite saver."""
    saver: Any = import_module("langgraph.checkpoint.sqlite.aio").AsyncSqliteSaver
    async with saver.from_conn_string(str(path)) as opened:
        await opened.setup()
        async with opened.conn.execute("PRAGMA synchronous") as cursor:
            (facts["synchronous"],) = await cursor.fetchone()
        yield _langgraph(opened)


@asynccontextmanager
async def langgraph_postgres(url: str) -> AsyncGenerator[Run]:
    """LangGraph with its async PostgreSQL saver."""
    saver: Any = import_module("langgraph.checkpoint.postgres.aio").AsyncPostgresSaver
    pools: Any = import_module("psycopg_pool")
    rows: Any = import_module("psycopg.rows")
    pool = pools.AsyncConnectionPool(
        url,
        min_size=POOL,
        max_size=POOL,
        open=False,
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": rows.dict_row},
    )
    async with pool:
        opened = saver(pool)
        await opened.setup()
        yield _langgraph(opened)


@asynccontextmanager
async def langgraph_one_connection(url: str) -> AsyncGenerator[Run]:
    """LangGraph with its async PostgreSQL saver, as the first example of its documentation opens it."""
    saver: Any = import_module("langgraph.checkpoint.postgres.aio").AsyncPostgresSaver
    async with saver.from_conn_string(url) as opened:
        await opened.setup()
        yield _langgraph(opened)


def _langgraph(saver: Any) -> Run:
    graphs: Any = import_module("langgraph.graph")
    builder = graphs.StateGraph(Counted)
    names = [f"s{n}" for n in range(workload.STEPS)]
    for name in names:
        builder.add_node(name, _node)
    for before, after in zip([graphs.START, *names], [*names, graphs.END], strict=True):
        builder.add_edge(before, after)
    graph = builder.compile(checkpointer=saver)
    threads = count()

    async def run() -> None:
        config = {"configurable": {"thread_id": f"t{next(threads)}"}}
        result = await graph.ainvoke({"n": 0}, config, durability="sync")
        assert result["n"] == workload.STEPS, result

    return run


@asynccontextmanager
async def dbos(url: str, facts: Facts) -> AsyncGenerator[Run]:
    """DBOS on a database of its own."""
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            assert mode == "wal"
    module: Any = import_module("dbos")
    engine = module.DBOS
    engine(
        config={
            "name": "bench",
            "system_database_url": url,
            "run_admin_server": False,
            "log_level": "WARNING",
            "enable_otlp": False,
        }
    )

    @engine.step()
    async def step(n: int) -> None:
        del n
        workload.touch()

    @engine.workflow()
    async def flow() -> None:
        for n in range(workload.STEPS):
            await step(n)

    engine.launch()
    if url.startswith("sqlite:"):
        system: Any = module._dbos._get_dbos_instance()._sys_db.engine
        with system.connect() as opened:
            facts["synchronous"] = opened.exec_driver_sql("PRAGMA synchronous").scalar()
    try:
        yield flow
    finally:
        engine.destroy()
