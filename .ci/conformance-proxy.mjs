// A reverse proxy that adds the token: the conformance suite sends none.
import http from 'node:http';
const [listen, target, token] = process.argv.slice(2);
const to = new URL(target);
http.createServer((req, res) => {
  const headers = { ...req.headers, authorization: `Bearer ${token}` };
  const out = http.request({ host: to.hostname, port: to.port, path: req.url, method: req.method, headers }, (answer) => {
    res.writeHead(answer.statusCode, answer.rawHeaders);
    answer.pipe(res);
  });
  out.on('error', () => res.destroy());
  res.on('close', () => out.destroy());
  req.pipe(out);
}).listen(Number(listen), '127.0.0.1', () => console.log('ready'));
