import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { Agent, request } from 'undici'
import { newApiKey } from '../packages/service/src/config/service-files.ts'
import { startPostgres } from '../scripts/engines/postgres.ts'
import type { McpSubject } from './mcp-process.ts'
import { median } from './measure.ts'
import { progress } from './progress.ts'
import { figure, ratio, type Section } from './report.ts'

const rounds = 7
const calls = 1_000
const callers = 64

interface Subject {
  readonly label: string
  readonly process: ChildProcess
  readonly call: (n: number) => Promise<void>
  /** Processor time of one call in microseconds, and calls per second, for each round. */
  readonly used: number[]
  readonly perSecond: number[]
}

/** `tools/call` of 2026-07-28 over HTTP, compared with a server that uses only the SDK. */
export async function mcp(): Promise<Section> {
  const postgres = await startPostgres({ settings: { max_connections: 200 } })
  const agent = new Agent({ connections: callers })
  const subjects: Subject[] = []
  try {
    const key = newApiKey()
    const start = async (kind: McpSubject, labels: { readonly mcp: string; readonly v1?: string }): Promise<void> => {
      progress(`mcp: starting ${kind}`)
      const process = fork(join(import.meta.dirname, 'mcp-process.ts'), [kind, postgres.url, key])
      const [{ url }] = (await once(process, 'message')) as [{ readonly url: string }]
      for (const [way, label] of Object.entries(labels)) {
        const call = callerOf(way === 'v1' ? askPlainly : askByMcp, { url, key, agent })
        subjects.push({ label, process, call, used: [], perSecond: [] })
      }
    }
    await start('bare', { mcp: 'the bare SDK server, nothing kept' })
    await start('memory', { mcp: '**Gantry**, the same, in memory' })
    const v1 = '**Gantry**, kept in PostgreSQL, `POST /v1/calls`'
    await start('durable', { mcp: '**Gantry**, kept in PostgreSQL', v1 })
    for (const subject of subjects) await turn(subject, calls)
    for (let round = 0; round < rounds; round += 1) {
      progress(`mcp: round ${round + 1} of ${rounds}`)
      // Alternate the order, so that no subject always follows the same one.
      for (const subject of round % 2 === 0 ? subjects : subjects.toReversed()) {
        const { used, perSecond } = await turn(subject, calls)
        subject.used.push(used)
        subject.perSecond.push(perSecond)
      }
    }
    return { title: 'The MCP server', tables: [tableOf(subjects)], notes }
  } finally {
    for (const process of new Set(subjects.map((one) => one.process))) process.kill()
    await agent.close()
    await postgres.stop()
  }
}

const notes = [
  `\`demo:add\` by ${callers} callers over connections that stay open, ${rounds} rounds of ${calls} calls, by turns; each server is one process. A call’s processor time is what the process of the server used, client and database apart; calls a second and core are its inverse, which another load on the machine does not change as it changes the calls a second that were seen.`,
  'The bare SDK server is as its own pages have it: `McpServer`, `createMcpHandler`, `toNodeHandler`, without a check of Host, Origin or caller. Gantry checks all three, and the arguments by the schema of the tool. Kept: the call, its attempt, its outcome and two rows of the audit record, on disk before the answer.',
]

function tableOf(subjects: readonly Subject[]) {
  const bare = median(subjects[0]?.used ?? [])
  const rows = subjects.map(({ label, used, perSecond }, at) => {
    const each = median(used)
    const compared = at === 0 ? '–' : ratio(bare, each)
    return [label, figure(each), figure(1_000_000 / each), compared, figure(median(perSecond))]
  })
  return { head: ['one tools/call', 'processor µs', 'a second and core', 'beside the SDK', 'a second, as seen'], rows }
}

async function turn({ process, call }: Subject, count: number): Promise<{ used: number; perSecond: number }> {
  const before = await cpuOf(process)
  const began = performance.now()
  let left = count
  const work = async (): Promise<void> => {
    while (left > 0) {
      left -= 1
      await call(left)
    }
  }
  await Promise.all(Array.from({ length: callers }, work))
  const seconds = (performance.now() - began) / 1_000
  return { used: (((await cpuOf(process)) - before) * 1_000) / count, perSecond: count / seconds }
}

async function cpuOf(process: ChildProcess): Promise<number> {
  process.send('cpu')
  const [{ cpuMs }] = (await once(process, 'message')) as [{ readonly cpuMs: number }]
  return cpuMs
}

interface Asked {
  readonly path: string
  readonly body: object
  readonly headers: { readonly [name: string]: string }
}

/** Makes one call after the other, and checks each response. */
function callerOf(
  ask: (n: number) => Asked,
  { url, key, agent }: { readonly url: string; readonly key: string; readonly agent: Agent },
): Subject['call'] {
  return async (n) => {
    const { path, body, headers } = ask(n)
    const answer = await request(`${url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, ...headers },
      body: JSON.stringify(body),
      dispatcher: agent,
    })
    const text = await answer.body.text()
    if (answer.statusCode !== 200 || !/"result":8/.test(text)) throw new Error(`${url}${path}: ${text.slice(0, 300)}`)
  }
}

const args = { a: 5, b: 3 }

function askPlainly(): Asked {
  return { path: '/v1/calls', body: { tool: 'demo:add', args }, headers: {} }
}

function askByMcp(n: number): Asked {
  const params = { name: 'demo__add', arguments: args, _meta: envelope }
  return { path: '/mcp', body: { jsonrpc: '2.0', id: n, method: 'tools/call', params }, headers: mcpHeaders }
}

const revision = '2026-07-28'
const envelope = {
  'io.modelcontextprotocol/protocolVersion': revision,
  'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1.0.0' },
  'io.modelcontextprotocol/clientCapabilities': {},
}
const mcpHeaders = {
  accept: 'application/json, text/event-stream',
  'mcp-protocol-version': revision,
  'mcp-method': 'tools/call',
  'mcp-name': 'demo__add',
}
