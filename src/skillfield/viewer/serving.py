"""The local server of the page: on this machine only unless asked otherwise, on the port that was asked for or none.

viser accepts connections of any origin: a page of another site in a browser of this machine is not kept out.
"""

import contextlib
import errno
import io
import ipaddress
import logging
import socket
from typing import TYPE_CHECKING

from skillfield.errors import ViewerError

if TYPE_CHECKING:
    import viser

__all__ = ["LOOPBACK", "check_server", "close_server", "is_loopback", "open_server"]

LOOPBACK = "127.0.0.1"

_INSTALL = "pip install 'skillfield[viewer]'"


def check_server(host: str, port: int) -> None:
    """Raise what `open_server` would, before anything else is made."""
    try:
        import viser  # noqa: F401
    except ImportError as problem:
        raise ViewerError(f"the viewer needs viser ({problem}): {_INSTALL}") from None
    _check_free(host, port)


def open_server(host: str, port: int, title: str) -> "viser.ViserServer":
    """A viser server. port: 0 takes any that is free."""
    check_server(host, port)
    import viser

    logging.getLogger("websockets.server").setLevel(logging.CRITICAL)  # browsers open connections that they never use
    with contextlib.redirect_stdout(io.StringIO()):  # its banner; ours says more
        server = viser.ViserServer(host=host, port=port, label=title, verbose=False)
        if port and server.get_port() != port:  # taken since we looked; viser quietly moves on to the next
            server.stop()
            raise _taken(host, port)
    return server


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # some other name
        return False


def close_server(server: "viser.ViserServer") -> None:
    """Let go of the port, quietly."""
    with contextlib.redirect_stdout(io.StringIO()):
        server.stop()


def _check_free(host: str, port: int) -> None:
    if not 0 <= port < 65536:
        raise ViewerError(f"--port is {port}; a port is a number up to 65535")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except socket.gaierror as problem:
        raise ViewerError(f"--host {host}: {problem.strerror}") from None
    except PermissionError:
        raise ViewerError(f"port {port} may not be used by you; choose one above 1023 with --port") from None
    except OSError as problem:
        if problem.errno == errno.EADDRNOTAVAIL:
            raise ViewerError(f"--host {host}: not an address of this machine") from None
        raise _taken(host, port) from None


def _taken(host: str, port: int) -> ViewerError:
    return ViewerError(f"port {port} of {host} is taken, perhaps by another viewer; choose another with --port")
