"""requests, and for what it does not offer the standard library's client.

Arguments: the address of the gateway, its authority, and the file to send.
"""

import hashlib
import http.client
import socket
import sys
from urllib.parse import urlsplit

import requests

base, authority, path = sys.argv[1:]
with open(path, "rb") as file:
    body = file.read()
session = requests.Session()
# Variables of the environment would take precedence.
session.trust_env = False
session.verify = authority

response = session.get(base + "/download")
print("download", response.status_code, hashlib.sha256(response.content).hexdigest())

response = session.post(base + "/upload", data=body)
print("upload", response.status_code, response.text)

pieces = (body[start : start + 50_000] for start in range(0, len(body), 50_000))
response = session.post(base + "/upload", data=pieces)
print("upload", response.status_code, response.text)

with session.get(base + "/stream?requests", stream=True) as response:
    lines = filter(None, response.iter_lines(chunk_size=1, decode_unicode=True))
    first = next(lines)
    session.get(base + "/go-on?requests")
    print("stream", response.status_code, f"{first}, {next(lines)}")

for path in ["secret", "limited", "conflict"]:
    try:
        print(path, session.post(f"{base}/{path}", data=body).status_code)
    except requests.RequestException as error:
        print(path, error)

if base.startswith("http:"):
    connection = http.client.HTTPConnection(urlsplit(base).netloc)
    connection.request("POST", "/slow", body=b"body")
    connection.sock.shutdown(socket.SHUT_WR)
    response = connection.getresponse()
    print("half-close", response.status, response.read().decode())
