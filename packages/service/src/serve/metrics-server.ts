import { createServer } from 'node:http'
import { ToolError } from '@gantry/contract'
import type { Service } from '../http/service.ts'

/** Metrics on a port of their own, for scrapers that may reach nothing else. Answers the function that closes it. */
export async function serveMetrics(host: string, port: number, read: Service['metrics']): Promise<() => Promise<void>> {
  const server = createServer({ headersTimeout: 5_000, requestTimeout: 10_000 }, (request, response) => {
    const asked = request.method === 'GET' && (request.url ?? '').split('?')[0] === '/metrics'
    if (!asked)
      return void response.writeHead(404, { 'content-type': 'text/plain' }).end('Only GET /metrics is here.\n')
    read().then(
      ({ type, text }) => response.writeHead(200, { 'content-type': type }).end(text),
      () => response.writeHead(503, { 'content-type': 'text/plain' }).end('The metrics cannot be read now.\n'),
    )
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => {
      reject(new ToolError('CONFIG_INVALID', `The port ${port} for metrics cannot be had.`, { cause }))
    })
    server.listen(port, host, resolve)
  })
  return async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}
