"""The cheapest merchant there is: reads a whole request, gives one fixed reply of about 300 bytes.

python -m benchmarks.bench.merchant PORT
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Final, cast

import httptools
import uvloop

from benchmarks.processes import LOOPBACK

_ORDER: Final = json.dumps(
    {
        "order_id": "MO-100234",
        "state": "placed",
        "total": {"amount": "418.00", "currency": "INR"},
        "items": [
            {"sku": "masala-dosa", "quantity": 2, "price": "120.00"},
            {"sku": "filter-coffee", "quantity": 2, "price": "40.00"},
        ],
        "delivery": {"eta_minutes": 35, "address": "12 Marine Drive, Kochi 682011"},
        "message": "Order MO-100234 placed.",
    }
).encode()
REPLY: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(_ORDER),
    _ORDER,
)


class Merchant(asyncio.Protocol):
    """One connection, kept alive."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        self._transport.write(REPLY)


async def serve(port: int) -> None:
    """Until the process is ended."""
    server = await asyncio.get_running_loop().create_server(Merchant, LOOPBACK, port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
