"""The shop: a small HTTP service, for trying the help desk. `python shop_service.py` serves it at
port 8765.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

ORDERS: dict[int, dict[str, Any]] = {
    17: {"articles": ["teapot"], "paid": 31.0, "refunds": {}},
    23: {"articles": ["kettle"], "paid": 49.5, "refunds": {}},
}
_lock = Lock()


class Shop(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if order := self._order(""):
            self._answer(200, {**order, "refunds": list(order["refunds"].values())})

    def do_POST(self) -> None:
        if order := self._order("/refunds"):
            wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with _lock:
                key = self.headers.get("Idempotency-Key") or str(len(order["refunds"]))
                left = order["paid"] - sum(
                    each["amount"] for id, each in order["refunds"].items() if id != key
                )
                if wanted["amount"] > left:
                    self._answer(409, {"problem": f"only {left} are left to be paid back"})
                    return
                refund = order["refunds"].setdefault(
                    key, {"id": f"R{len(order['refunds']) + 1}", **wanted}
                )
            self._answer(201, refund)

    def _order(self, rest: str) -> dict[str, Any] | None:
        parts = self.path.removesuffix(rest).split("/")
        number = int(parts[2]) if len(parts) == 3 and parts[2].isdigit() else 0
        order = (
            ORDERS.get(number) if parts[1:2] == ["orders"] and self.path.endswith(rest) else None
        )
        if order is None:
            self._answer(404, {"problem": f"there is nothing at {self.path}"})
        return order

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        """The help desk says what it does; the shop is silent."""


def serve(port: int = 8765) -> ThreadingHTTPServer:
    """The service, ready for `serve_forever`."""
    return ThreadingHTTPServer(("127.0.0.1", port), Shop)


if __name__ == "__main__":
    serve().serve_forever()
