"""Reading with several sessions at once: one session keeps one core of the server busy, and leaves ours waiting."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from psycopg.pq import TransactionStatus

from tally.store.database import Connection, beside

SESSIONS = 2

Result = TypeVar("Result")


def reader(connection: Connection) -> Callable[[Sequence[Callable[[Connection], Result]]], Iterator[Result]]:
    """Return what yields the results of tasks in their order: each task is a query, given a session.

    While one result is made use of, the next ones are read in sessions of their own; a few wait at any time. What they
    read has to stay as it is meanwhile. In a transaction the connection reads alone: others do not see what it wrote.
    """
    if connection.info.transaction_status == TransactionStatus.IDLE:
        return partial(_read_ahead, connection)
    return partial(_read, connection)


def _read(connection: Connection, tasks: Sequence[Callable[[Connection], Result]]) -> Iterator[Result]:
    for task in tasks:
        yield task(connection)


def _read_ahead(connection: Connection, tasks: Sequence[Callable[[Connection], Result]]) -> Iterator[Result]:
    if len(tasks) < SESSIONS:
        yield from _read(connection, tasks)
        return
    with ExitStack() as opened:
        idle: SimpleQueue[Connection] = SimpleQueue()
        for _ in range(SESSIONS):
            idle.put(opened.enter_context(beside(connection)))
        threads = opened.enter_context(ThreadPoolExecutor(SESSIONS))
        waiting: deque[Future[Result]] = deque()
        for task in tasks:
            waiting.append(threads.submit(_run, idle, task))
            if len(waiting) > SESSIONS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _run(idle: SimpleQueue[Connection], task: Callable[[Connection], Result]) -> Result:
    connection = idle.get()
    try:
        return task(connection)
    finally:
        idle.put(connection)
