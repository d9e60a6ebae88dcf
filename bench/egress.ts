import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { SandboxLimits } from '@gantry/contract'
import { createProcessRuntime, type Runtime, type SandboxSpec } from '@gantry/sandbox'
import { createEgress, type Egress } from 'gantry'
import { createCertificateAuthority } from '../packages/sandbox/src/egress-proxy/certificate-authority.ts'
import { quantile } from './measure.ts'
import { progress } from './progress.ts'
import { figure, ratio, type Section } from './report.ts'

const limits: SandboxLimits = {
  wallMs: 60_000,
  cpuMs: 60_000,
  memoryBytes: 268_435_456,
  pids: 64,
  diskBytes: 33_554_432,
  stdoutBytes: 4_194_304,
  stderrBytes: 1_048_576,
}
const rounds = 8
const never = new AbortController().signal

interface Site {
  readonly origin: string
  readonly certificate: string
  readonly egress: Egress
  readonly runtime: Runtime
}

/** The egress proxy of a sandbox: the same client, once on the host and once in a sandbox, to the same server. */
export async function egress(): Promise<Section> {
  const { server, origin, certificate } = await startServer()
  const guard = createEgress({ allow: [{ origin, private: true }], ca: certificate })
  const runtime = createProcessRuntime()
  const site = { origin, certificate, egress: guard, runtime }
  try {
    const rows: string[][] = []
    for (const sort of sorts) rows.push(...(await interleave(site, sort)))
    const head = ['one HTTPS request', 'p50 µs', 'p99 µs', 'p50 to direct', 'p99 to direct', 'target']
    return { title: 'The way out of a sandbox', tables: [{ head, rows }], notes }
  } finally {
    await runtime.close()
    await guard.close()
    server.kill()
  }
}

const notes = [
  'A Node client, one request after the other, to an HTTPS server in another process of this machine, which answers with 700 bytes, over one connection unless said. “Direct” is the client on the host; the others run in a sandbox, whose only way out is the proxy: a tunnel end to end, or, for a host that receives a secret, one whose TLS ends at the proxy, which puts the secret in, asks the server over TLS of its own and looks through the answer. The clients take turns, and every round has a new process.',
]

async function startServer(): Promise<{ server: ChildProcess; origin: string; certificate: string }> {
  const authority = createCertificateAuthority()
  const { key, certificate } = authority.pairFor('127.0.0.1')
  const environment = { ...process.env, KEY: key, CERTIFICATE: certificate }
  const server = spawn(process.execPath, [join(import.meta.dirname, 'egress-server.ts')], {
    env: environment,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const [port] = await once(server.stdout as Readable, 'data')
  return { server, origin: `https://127.0.0.1:${String(port).trim()}`, certificate: authority.certificate }
}

const names = ['direct', '**Gantry**, a tunnel', '**Gantry**, with a secret put in'] as const

/** The request, how often it is sent in a round, and the connection. */
interface Sort {
  readonly name: string
  readonly requests: number
  /** The server's response time. */
  readonly ms: number
  readonly keep: boolean
}

const sorts: readonly Sort[] = [
  { name: 'answered at once', requests: 300, ms: 0, keep: true },
  { name: 'answered after 5 ms', requests: 100, ms: 5, keep: true },
  { name: 'connection of its own', requests: 60, ms: 0, keep: false },
]

/** Runs each once a round, so that a busy moment of the machine affects all of them. */
async function interleave(site: Site, sort: Sort): Promise<string[][]> {
  const times = names.map((): number[] => [])
  const code = client(site, sort)
  for (let round = 0; round < rounds; round += 1) {
    progress(`egress ${sort.name} ${round + 1} of ${rounds}`)
    times[0]?.push(...(await onHost(code)))
    times[1]?.push(...(await inSandbox(site, code, false)))
    times[2]?.push(...(await inSandbox(site, code, true)))
  }
  const figures = times.map((own) => [quantile(own, 0.5), quantile(own, 0.99)] as const)
  const [direct = [1, 1]] = figures
  return figures.map(([p50, p99], index) => {
    const name = `${names[index]}, ${sort.name}`
    const beside = index === 0 ? ['', ''] : [ratio(p50, direct[0]), ratio(p99, direct[1])]
    return [name, figure(p50), figure(p99), ...beside, index > 0 ? 'p99 ≤ 2×' : '']
  })
}

/** Without a proxy in its environment the client connects directly. */
function client({ origin, certificate }: Site, { requests, ms, keep }: Sort): string {
  return `
const { getCACertificates, setDefaultCACertificates } = await import('node:tls')
setDefaultCACertificates([...getCACertificates('default'), ${JSON.stringify(certificate)}])
const headers = { 'x-key': process.env.TOKEN ?? 'none', ${keep ? '' : "connection: 'close'"} }
const times = []
for (let n = -50; n < ${requests}; n += 1) {
  const start = performance.now()
  const response = await fetch('${origin}/${ms}', { headers })
  await response.text()
  if (n >= 0) times.push(Math.round((performance.now() - start) * 1000))
}
console.log(JSON.stringify(times))`
}

async function onHost(code: string): Promise<number[]> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] })
  return JSON.parse(await text(child.stdout))
}

async function inSandbox({ origin, egress, runtime }: Site, code: string, secret: boolean): Promise<number[]> {
  const credentials = [{ variable: 'TOKEN', value: () => 'ghp_7Tq2mZ4bXc9LrV0sKd3WnYh6', hosts: [origin] }]
  const dial = { egress, owner: 'bench', ...(secret ? { credentials } : {}) }
  const spec: SandboxSpec = { limits, language: 'javascript', network: { allow: [origin] }, dial }
  const sandbox = await runtime.open(spec, never)
  try {
    const { stdout, stderr } = await sandbox.run({ program: { kind: 'code', language: 'javascript', code } }, never)
    if (stdout.bytes.length === 0) throw new Error(Buffer.from(stderr.bytes).toString())
    return JSON.parse(Buffer.from(stdout.bytes).toString())
  } finally {
    await sandbox.dispose()
  }
}
