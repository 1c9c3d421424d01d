"""Python's http.server as a plain reverse proxy: it sends on what it understood, with a length."""

import http.client
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ORIGIN = "@ORIGIN@"


class Handler(BaseHTTPRequestHandler):
    """Reads a request, whatever its method, and asks the origin for the same."""

    protocol_version = "HTTP/1.1"

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.forward
        raise AttributeError(name)

    def forward(self):
        body = self.body()
        # `http.server` folds leading slashes into one: the request line has the target as it came.
        target = self.requestline.split(" ")[1]
        onward = http.client.HTTPConnection(ORIGIN)
        onward.putrequest(self.command, target, skip_accept_encoding=True)
        onward.putheader("Content-Length", str(len(body)))
        onward.endheaders(body)
        answer = onward.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int("@PORT@")), Handler).serve_forever()
