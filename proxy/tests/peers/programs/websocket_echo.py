"""An echo origin of the `websockets` package: every message comes back."""

import asyncio
import logging
import sys

import websockets.asyncio.messages
from websockets.asyncio.server import serve


async def echo(socket):
    async for message in socket:
        await socket.send(message)


async def main():
    # What the cases break is theirs to tell.
    logging.getLogger("websockets").setLevel(logging.CRITICAL)
    # Cases of section 9 cut 4 MiB into frames of 64 bytes.
    websockets.asyncio.messages.MAX_FRAGMENTS = sys.maxsize
    address = ("127.0.0.1", int(sys.argv[1]))
    async with serve(echo, *address, max_size=None, max_queue=None) as server:
        await server.serve_forever()


asyncio.run(main())
