"""Sends the requests of public corpora on which HTTP/1.1 implementations disagree, each on a connection of its own.

Usage: disagreements.py origin PORT
       disagreements.py HOST:PORT GUARDIAN GUNICORN

The origin responds with the bytes that it received, in hexadecimal digits. The second form sends each case to a proxy in front of
that origin, and prints a line of JSON for each: its name, what its corpus expects (`accept`, `reject` or `either`), the status codes
of the responses, and the requests that reached the origin. GUARDIAN is the folder of the crate `http_desync_guardian`, GUNICORN the
one of gunicorn's sources.
"""

import json
import pathlib
import re
import socket
import socketserver
import sys

import yaml


class Origin(socketserver.StreamRequestHandler):
    """Reads requests as strictly as it can: what it is sent has to be unambiguous."""

    def handle(self):
        while received := self.request_bytes():
            body = received.hex().encode()
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
            self.wfile.write(head if received.startswith(b"HEAD ") else head + body)

    def request_bytes(self):
        head = b""
        while line := self.rfile.readline():
            head += line
            if line == b"\r\n":
                break
        length = re.search(rb"\r\nContent-Length: (\d+)\r\n", head)
        if length:
            return head + self.rfile.read(int(length[1]))
        return head + self.chunked() if b"\r\nTransfer-Encoding: chunked\r\n" in head else head

    def chunked(self):
        body = b""
        while line := self.rfile.readline():
            body += line
            if size := int(line, 16):
                body += self.rfile.read(size + 2)
            else:
                while (line := self.rfile.readline()) not in (b"\r\n", b""):
                    body += line
                return body + line
        return body


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def guardian(folder):
    """The cases of AWS's HTTP Desync Guardian: heads, each with a tier."""
    expected = {"Compliant": "accept", "Severe": "reject"}
    for path in sorted((folder / "tests").glob("*.yaml")):
        for case in yaml.load(path.read_text("utf-8"), yaml.BaseLoader) or []:
            headers = [(it["name"], it.get("value", "")) for it in case["headers"] or []]
            head = f"{case['method']} {case['uri']} {case['version']}\r\n"
            # The guardian is given heads whose host was checked before.
            if not any(name.lower() == "host" for name, _ in headers):
                head += "Host: a.test\r\n"
            head += "".join(f"{name}: {value}\r\n" for name, value in headers) + "\r\n"
            yield f"{path.stem}: {case['name']}", expected.get(case["expected"]["tier"], "either"), (
                bytes_of(head) + body_of(headers)
            )


def bytes_of(text):
    """An escape such as `\\x80` in a case stands for a byte; what is no byte is text."""
    return b"".join(it.encode("latin-1" if it < "\u0100" else "utf-8") for it in text)


def body_of(headers):
    """A body of the length that a head states, if it states one."""
    values = {name.lower(): value.strip() for name, value in headers}
    if values.get("transfer-encoding", "").lower() == "chunked":
        return b"0\r\n\r\n"
    length = re.fullmatch(r"([0-9]{1,6})(, ?\1)*", values.get("content-length", ""))
    return b"x" * int(length[1]) if length else b""


def gunicorn(folder):
    """The cases of gunicorn's parser: whole messages, valid and invalid ones."""
    for kind, expected in ("valid", "accept"), ("invalid", "reject"):
        for path in sorted((folder / "tests/requests" / kind).glob("*.http")):
            # Some are about its own settings.
            settings = re.search(r"^cfg\b|cfg\.set", path.with_suffix(".py").read_text(), re.M)
            text = path.read_bytes().replace(b"\n", b"").replace(b"\\r\\n", b"\r\n")
            for escape, byte in (rb"\\0", b"\0"), (rb"\\n", b"\n"), (rb"\\t", b"\t"):
                text = re.sub(escape, byte, text)
            text = re.sub(rb"\\x([0-9A-Fa-f]{2})", lambda it: bytes([int(it[1], 16)]), text)
            # RFC 9112 section 3.2, which a parser alone does not check.
            version_1_1 = text.lstrip().partition(b"\r\n")[0].endswith(b" HTTP/1.1")
            lacks_host = version_1_1 and not re.search(rb"\r\nhost:", text, re.I)
            yield f"{kind}: {path.stem}", "reject" if lacks_host else "either" if settings else expected, text


def responses(address, message):
    """Sends a message and then nothing more; returns everything that is received."""
    received = b""
    with socket.create_connection(address, timeout=10) as connection:
        try:
            connection.sendall(message)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                received += part
        except (ConnectionResetError, BrokenPipeError):
            pass
    return received


def exchange(address, message):
    """Status codes of all responses, and the requests that reached the origin."""
    received = responses(address, message)
    statuses = [int(code) for code in re.findall(rb"^HTTP/1\.[01] (\d{3})", received, re.M)]
    # The origin's bodies; those of the proxy are sentences.
    forwarded = re.findall(rb"\r\n\r\n((?:[0-9a-f]{2})+)", received)
    return statuses, [bytes.fromhex(it.decode()).decode("latin-1") for it in forwarded]


def main():
    if sys.argv[1] == "origin":
        Server(("127.0.0.1", int(sys.argv[2])), Origin).serve_forever()
    host, port = sys.argv[1].split(":")
    corpora = {
        "guardian": guardian(pathlib.Path(sys.argv[2])),
        "gunicorn": gunicorn(pathlib.Path(sys.argv[3])),
    }
    for corpus, cases in corpora.items():
        for name, expected, message in cases:
            statuses, forwarded = exchange((host, int(port)), message)
            case = {"name": f"{corpus} {name}", "expected": expected, "statuses": statuses, "forwarded": forwarded}
            print(json.dumps(case))


main()
