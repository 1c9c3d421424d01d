// Node's HTTP parser as a plain reverse proxy: it sends on what it understood, with a length.
const http = require("node:http");
const [host, port] = "@ORIGIN@".split(":");

const server = http.createServer({ maxHeaderSize: 65536 }, (request, response) => {
  const pieces = [];
  request.on("data", (piece) => pieces.push(piece));
  request.on("end", () => {
    const body = Buffer.concat(pieces);
    const { method, url: path } = request;
    const headers = { host: "node.test", "content-length": body.length };
    const onward = http.request({ host, port, method, path, headers }, (answer) => {
      // With a length, so that an HTTP/1.0 client can keep its connection.
      response.writeHead(answer.statusCode, { "content-length": answer.headers["content-length"] });
      answer.pipe(response);
    });
    onward.on("error", () => response.destroy());
    onward.end(body);
  });
});
server.listen(Number("@PORT@"), "127.0.0.1");
