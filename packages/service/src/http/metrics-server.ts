import { createServer } from 'node:http'
import { codes, ToolError } from '@gantry/contract'
import { foreignCheck, originForm } from './foreign.ts'
import type { Service } from './service.ts'

export interface MetricsAddress {
  readonly host: string
  readonly port: number
  /** Names under which it may be asked besides. */
  readonly hosts: readonly string[]
}

/**
 * Metrics and health on a port of their own, for scrapers that may reach nothing else and for processes without an API.
 * Whoever configures it has chosen who reaches it, so that it tells everything to who does; but not to web pages, which
 * are refused as the API refuses them. Answers the function that closes it.
 */
export async function serveMetrics(
  { host, port, hosts }: MetricsAddress,
  { metrics, ready }: Pick<Service, 'metrics' | 'ready'>,
): Promise<() => Promise<void>> {
  const refuseForeign = foreignCheck({ host, hosts, origins: [] })
  const server = createServer({ headersTimeout: 5_000, requestTimeout: 10_000 }, (request, response) => {
    request.url = originForm(request)
    const path = request.method === 'GET' ? request.url.split('?', 1)[0] : undefined
    const answer = (status: number, type: string, text: string): void => {
      response.writeHead(status, { 'content-type': type, 'x-content-type-options': 'nosniff' }).end(text)
    }
    const json = (status: number, value: object): void => answer(status, 'application/json', JSON.stringify(value))
    const fail = (): void => answer(503, 'text/plain', 'This cannot be told now.\n')
    try {
      refuseForeign(request)
    } catch (error) {
      const { code, message } = error as ToolError
      return answer(codes[code].http, 'text/plain', `${message}\n`)
    }
    if (path === '/metrics') metrics('whole').then(({ type, text }) => answer(200, type, text), fail)
    else if (path === '/readyz') ready().then((state) => json(state.ready ? 200 : 503, state), fail)
    else if (path === '/healthz') json(200, { ok: true })
    else answer(404, 'text/plain', 'Only GET of /metrics, /healthz and /readyz is here.\n')
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
