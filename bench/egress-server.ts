// An HTTPS server on loopback, in a separate process; prints its port to stdout and ends with its stdin.
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'

const { KEY = '', CERTIFICATE = '' } = process.env
const body = JSON.stringify({ items: Array.from({ length: 16 }, (_, id) => ({ id, name: `item ${id}`, done: false })) })
const server = createServer({ key: KEY, cert: CERTIFICATE }, (request, response) => {
  const answer = (): void => void response.setHeader('content-type', 'application/json').end(body)
  const ms = Number(request.url?.slice(1))
  if (ms > 0) setTimeout(answer, ms)
  else answer()
})
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`))
process.stdin.resume().on('end', () => process.exit())
