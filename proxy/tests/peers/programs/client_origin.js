// The origin of the clients of other languages: says what it received, and sends what they check.
// Arguments: a port, the file that it sends, and the folder of the page for browsers.
const { createHash } = require('crypto');
const fs = require('fs');
const http = require('http');
const path = require('path');

const [port, file, folder] = process.argv.slice(2);
const sent = fs.readFileSync(file);
// Responses that wait for another request, by their names.
const waiting = new Map();

const handlers = {
  '/upload': (request, response) => {
    const hash = createHash('sha256');
    let length = 0;
    request.on('data', (data) => {
      hash.update(data);
      length += data.length;
    });
    request.on('end', () => response.end(`${length} ${hash.digest('hex')}`));
  },
  '/download': (request, response) => response.end(sent),
  // Two events. The second one waits for a client that has seen the first.
  '/stream': (request, response, name) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: first\n\n');
    waiting.set(name, () => response.end('data: second\n\n'));
  },
  // Something that holds a browser's page open.
  '/held': (request, response, name) => waiting.set(name, () => response.end()),
  '/go-on': (request, response, name) => {
    waiting.get(name)?.();
    waiting.delete(name);
    response.end();
  },
  // A response before the request's body is read.
  '/conflict': (request, response) => {
    response.writeHead(409, { connection: 'close' });
    response.end('no');
  },
  // Slower than a client that is gone would be noticed, if the end of its request were taken for that.
  '/slow': (request, response) => {
    request.resume();
    setTimeout(() => response.end('late'), 1000);
  },
};

const server = http.createServer((request, response) => {
  const url = new URL(request.url, 'http://origin.test');
  const handler = handlers[url.pathname];
  if (handler) {
    handler(request, response, url.search);
  } else {
    response.setHeader('content-type', url.pathname.endsWith('.js') ? 'text/javascript' : 'text/html');
    response.end(fs.readFileSync(path.join(folder, path.basename(url.pathname))));
  }
});
server.listen(Number(port), '127.0.0.1');
