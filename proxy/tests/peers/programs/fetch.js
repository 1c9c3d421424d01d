// fetch, as node and browsers have it. Arguments in node: the address of the gateway.

async function run(base, say) {
  const hex = (bytes) => Array.from(new Uint8Array(bytes), (it) => it.toString(16).padStart(2, '0')).join('');
  const sha256 = async (bytes) => hex(await crypto.subtle.digest('SHA-256', bytes));

  const downloaded = await fetch(`${base}/download`);
  const body = await downloaded.arrayBuffer();
  say(`download ${downloaded.status} ${await sha256(body)}`);

  const uploaded = await fetch(`${base}/upload`, { method: 'POST', body });
  say(`upload ${uploaded.status} ${await uploaded.text()}`);

  const streamed = await fetch(`${base}/stream?fetch`);
  const reader = streamed.body.pipeThrough(new TextDecoderStream()).getReader();
  const first = (await reader.read()).value;
  await fetch(`${base}/go-on?fetch`);
  let rest = '';
  for (let read = await reader.read(); !read.done; read = await reader.read()) rest += read.value;
  say(`stream ${streamed.status} ${first.trim()}, ${rest.trim()}`);

  for (const path of ['secret', 'limited', 'conflict']) {
    try {
      const refused = await fetch(`${base}/${path}`, { method: 'POST', body });
      say(`${path} ${refused.status}`);
    } catch (error) {
      say(`${path} ${error} ${error.cause ?? ''}`);
    }
  }
}

// What fetch does not offer.
function halfClose(base, say) {
  const { hostname, port } = new URL(base);
  const socket = require('net').connect({ host: hostname, port, allowHalfOpen: true });
  socket.end('POST /slow HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbody');
  let received = '';
  socket.on('data', (data) => (received += data));
  socket.on('end', () => {
    say(`half-close ${received.split(' ')[1]} ${received.split('\r\n\r\n')[1]}`);
  });
}

if (typeof process === 'object') {
  const base = process.argv[2];
  run(base, console.log).then(() => {
    if (base.startsWith('http:')) halfClose(base, console.log);
  });
}
