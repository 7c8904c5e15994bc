"""A FastAPI app that enqueues tasks, runs them in the background, and tells their state.

``uvicorn --app-dir examples fastapi_app:app`` serves it on ``GOTASKS_MONGODB_URI``; run as a
script it starts a throw-away MongoDB, calls itself and ends.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from gotasks_mongostore import MongoStore
from gotasks_py import Manager, QueuePolicy, TaskNotFoundError
from throwaway import throwaway_database


class Email(BaseModel):
    """What to send."""

    to: str


def create_app(store: MongoStore) -> FastAPI:
    """Make the app; nothing connects before it starts."""
    manager = Manager(store, queues=[QueuePolicy("emails")])

    @manager.handler("emails", "send")
    async def send(email: Email) -> str:
        return f"sent to {email.to}"

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with manager:  # leave this out where workers are processes of their own
            yield
        await store.aclose()

    app = FastAPI(lifespan=lifespan)

    @app.post("/emails", status_code=202)
    async def enqueue(email: Email) -> dict[str, str]:
        handle = await send.enqueue(email)
        return {"task": str(handle.id)}

    @app.get("/tasks/{task_id}")
    async def state(task_id: str) -> dict[str, Any]:
        try:
            task = await manager.get(task_id)
        except TaskNotFoundError as error:
            raise HTTPException(404, str(error)) from error
        return {"status": task.status, "attempts": task.attempts, "result": task.result}

    return app


URI = os.environ.get("GOTASKS_MONGODB_URI", "mongodb://localhost:27017")
app = create_app(MongoStore(URI, database="shop"))


async def main(app: FastAPI) -> None:
    """Call the app as a client would."""
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://app") as client,
    ):
        accepted = await client.post("/emails", json={"to": "ann@example.org"})
        print(accepted.status_code, "accepted")
        answer = {"status": "pending"}
        while answer["status"] != "done":
            await asyncio.sleep(0.05)
            answer = (await client.get(f"/tasks/{accepted.json()['task']}")).json()
        print(answer)
        print((await client.get("/tasks/unknown")).status_code, "for an unknown task")


if __name__ == "__main__":
    with throwaway_database() as (uri, database):
        asyncio.run(main(create_app(MongoStore(uri, database=database))))
