import { createServer } from 'node:http'
import { codes, ToolError } from '@gantry/contract'
import { asToolError } from './answer.ts'
import { type ConnectionLimits, createConnections } from './connections.ts'
import { foreignCheck, originForm } from './server.ts'
import type { Service } from './service.ts'

export interface MetricsAddress {
  readonly host: string
  readonly port: number
  /** Further host names that are allowed. */
  readonly hosts: readonly string[]
}

/**
 * A few scrapers and probes need no more. Connections never authenticate here, so a new connection displaces the least recently
 * used one, and each is closed after at most twice its age.
 */
const usualLimits: ConnectionLimits = {
  connections: 64,
  connectionsPerAddress: 32,
  sharedAddresses: [],
  unauthenticatedMs: 30_000,
  waitingPerTenant: 0,
  waitingPerPrincipal: 0,
}

/**
 * Metrics and health on a separate port, for scrapers that may reach nothing else and for processes without an API. It
 * needs no key, because the configuration decides who can reach the port. Requests of web pages are refused as in the
 * API. Returns the function that closes it.
 */
export async function serveMetrics(
  { host, port, hosts }: MetricsAddress,
  { metrics, ready }: Pick<Service, 'metrics' | 'ready'>,
  limits: ConnectionLimits = usualLimits,
): Promise<() => Promise<void>> {
  const refuseForeign = foreignCheck({ host, hosts, origins: [] })
  const connections = createConnections(limits)
  const server = createServer({ headersTimeout: 5_000, requestTimeout: 10_000 }, (request, response) => {
    response.once('close', connections.begin(request.socket, request))
    request.url = originForm(request)
    const path = request.method === 'GET' ? request.url.split('?', 1)[0] : undefined
    const answer = (status: number, type: string, text: string): void => {
      response.writeHead(status, { 'content-type': type, 'x-content-type-options': 'nosniff' }).end(text)
    }
    const json = (status: number, value: object): void => answer(status, 'application/json', JSON.stringify(value))
    const fail = (): void => answer(503, 'text/plain', 'Metrics and health are unavailable.\n')
    try {
      refuseForeign(request)
    } catch (error) {
      const { code, message } = asToolError(error)
      return answer(codes[code].http, 'text/plain', `${message}\n`)
    }
    if (path === '/metrics') metrics('whole').then(({ type, text }) => answer(200, type, text), fail)
    else if (path === '/readyz') ready().then((state) => json(state.ready ? 200 : 503, state), fail)
    else if (path === '/healthz') json(200, { ok: true })
    else answer(404, 'text/plain', 'This port serves only GET /metrics, /healthz and /readyz.\n')
  })
  server.on('connection', (socket) => connections.accept(socket))
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => {
      reject(
        new ToolError(
          'CONFIG_INVALID',
          `The metrics port ${port} cannot be opened; choose another with service.metricsPort.`,
          { cause },
        ),
      )
    })
    server.listen(port, host, resolve)
  })
  return async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}
