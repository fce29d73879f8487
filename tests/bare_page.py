"""A page without a browser: speaks viser's protocol, says what a browser would say, and draws nothing."""

import threading
from typing import Any

__all__ = ["BarePage"]

_CAMERA = {
    "type": "ViewerCameraMessage",
    "wxyz": (1.0, 0.0, 0.0, 0.0),
    "position": (3.0, 0.0, 1.0),
    "fov": 0.7,
    "near": 0.01,
    "far": 1000.0,
    "image_height": 480,
    "image_width": 640,
    "look_at": (0.0, 0.0, 0.5),
    "up_direction": (0.0, 0.0, 1.0),
}


class BarePage:
    """One connection, and the labels of what the page would show."""

    def __init__(self, port: int) -> None:
        import viser
        from websockets.sync.client import connect

        version = f"viser-v{viser.__version__}"
        self._socket = connect(f"ws://127.0.0.1:{port}", subprotocols=[version], max_size=None, compression=None)  # type: ignore[list-item]
        self._uuids: dict[str, str] = {}
        threading.Thread(target=self._read, daemon=True).start()
        self._send(_CAMERA)

    def shows(self, label: str) -> bool:
        """Whether there is something whose label begins so."""
        return any(text.startswith(label) for text in self._uuids)

    def set(self, label: str, value: Any) -> None:
        """Move a slider, choose from a list, or press a button, with True."""
        uuid = next(uuid for text, uuid in self._uuids.items() if text.startswith(label))
        self._send({"type": "GuiUpdateMessage", "uuid": uuid, "updates": {"value": value}})

    def close(self) -> None:
        """Go away."""
        self._socket.close()

    def _send(self, message: dict[str, Any]) -> None:
        import msgspec

        self._socket.send(msgspec.msgpack.encode(message))

    def _read(self) -> None:
        import msgspec
        import zstandard

        for raw in self._socket:
            assert isinstance(raw, bytes)
            size = int.from_bytes(raw[8:16], "little")
            packed = zstandard.ZstdDecompressor().decompressobj().decompress(raw[16 : 16 + size])
            for message in msgspec.msgpack.decode(packed)["messages"]:
                label = (message.get("props") or {}).get("label")
                if label and "uuid" in message:
                    self._uuids[label] = message["uuid"]
