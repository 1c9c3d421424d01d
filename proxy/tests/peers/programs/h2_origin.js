// An origin of node's own HTTP/2: sends a body back, says what it was spoken to in, and ends in
// trailers. Arguments: a port, and a certificate and its key where it is to speak TLS.
const fs = require('fs');
const http2 = require('http2');

const [port, cert, key] = process.argv.slice(2);
const answer = (request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    response.setHeader('x-version', `HTTP/${request.httpVersion}`);
    response.setHeader('trailer', 'x-bytes');
    const body = Buffer.concat(chunks);
    response.addTrailers({ 'x-bytes': String(body.length) });
    response.end(body);
  });
};
const server = cert
  ? http2.createSecureServer({ cert: fs.readFileSync(cert), key: fs.readFileSync(key) }, answer)
  : http2.createServer(answer);
server.listen(Number(port), '127.0.0.1');
