import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { pathTo, type SentSpan } from './collector.fixture.ts'
import { type Answer, migratedFolder, type ServeProcess, startServe } from './serve.fixture.ts'

/** Occurs in arguments, results, errors and secrets of calls, and must not occur in traces. */
export const canary = 'canary-7f3a-hunter2'
export const stages = [
  'lookup',
  'validate-input',
  'authorize',
  'resolve',
  'execute',
  'normalize',
  'validate-output',
  'record',
]
export const ofCall = [...stages.map((stage) => `call.${stage}`), 'call.attempt', 'gantry.call']
export const ofTask = ['queue', 'consume', 'admit', 'execute', 'record', 'reply'].map((stage) => `task.${stage}`)
export const ofSandbox = ['sandbox', 'sandbox.start', 'sandbox.run']

const config = `
import { defineTool } from '@gantry/core'
const about = { namespace: 'test', version: '1.0.0', description: 'A tool of a test.', inputSchema: { type: 'object' } }
const code = 'return { place: process.env.TRACEPARENT, got: JSON.parse(stdin) }'
export default {
  redis: { identity: { principal: 'messenger', tenant: 'red', permissions: ['*'] } },
  kafka: { identity: { principal: 'messenger', tenant: 'red', permissions: ['*'] } },
  secrets: { TOKEN: { env: 'CANARY' } },
  tracing: TRACING,
  tools: [
    defineTool({ ...about, name: 'boxed', profile: 'wasm', backends: [{ kind: 'sandboxed', language: 'javascript', code }] }),
    defineTool({ ...about, name: 'echo', effect: 'read', secrets: ['TOKEN'], run: (args, { secrets }) => ({ args, token: secrets.TOKEN }) }),
    defineTool({ ...about, name: 'fails', run: (args) => { throw new Error('No: ' + JSON.stringify(args)) } }),
  ],
}
`

/** The trace context of a caller. */
export function place(sampled = true) {
  const [traceId, spanId] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')]
  return { traceId, spanId, traceparent: `00-${traceId}-${spanId}-0${sampled ? 1 : 0}` }
}

export interface TracedService extends ServeProcess {
  /** Makes a call, or a chain when there are steps, and waits for its outcome. */
  call(body: object, headers?: { readonly [name: string]: string }): Promise<Answer['value']>
}

/** A `gantry serve` with three tools, one of them in a sandbox, and with this `tracing` configuration. */
export async function startTraced(
  t: TestContext,
  tracing: object | undefined,
  environment: NodeJS.ProcessEnv = {},
): Promise<TracedService> {
  const folder = await migratedFolder(t)
  writeFileSync(join(folder, 'gantry.config.mjs'), config.replace('TRACING', JSON.stringify(tracing)))
  const service = startServe(t, folder, { environment: { CANARY: canary, GANTRY_LOG: 'info', ...environment } })
  return {
    ...service,
    async call(body, headers = {}) {
      const text = JSON.stringify({ waitMs: 20_000, ...body })
      const path = 'steps' in body ? '/v1/chains' : '/v1/calls'
      return (await service.ask(path, { method: 'POST', body: text, headers })).json()
    },
  }
}

/** The path of each named span: the names of its ancestors and its own. */
export function pathsOf(spans: readonly SentSpan[], ...names: readonly string[]): string[] {
  return names.map((name) =>
    pathTo(
      spans,
      spans.find((span) => span.name === name),
    ).join(' > '),
  )
}
