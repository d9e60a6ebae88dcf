import { figure, ratio, type Section } from './report.ts'
import { measureSubjects, p50Of } from './subjects.ts'

const protocols: readonly { readonly name: string; readonly bare: string; readonly gantry: string }[] = [
  { name: 'http', bare: 'undici `Pool.request`', gantry: '**Gantry**, HTTP backend' },
  { name: 'grpc', bare: 'grpc-js client', gantry: '**Gantry**, gRPC backend' },
  { name: 'mcp', bare: 'MCP SDK client, stdio', gantry: '**Gantry**, MCP backend, stdio' },
]

/** One call to a server in another process, through each backend and through the bare client beside it. */
export async function backends(): Promise<Section> {
  const names = protocols.flatMap(({ name }) => [`${name} bare`, `${name} gantry`])
  const effort = { rounds: 15, batches: 6, batchMs: 20, calls: 200 }
  const measured = await measureSubjects('backend-subjects.ts', names, effort)
  const rows = protocols.flatMap(({ name, bare, gantry }) => {
    const base = p50Of(measured, `${name} bare`)
    const rowOf = (side: 'bare' | 'gantry', label: string): string[] => {
      const one = measured.find((subject) => subject.name === `${name} ${side}`)
      if (one === undefined || 'failed' in one) return [`${label}: not measured, ${one?.failed}`]
      const over = side === 'gantry' ? [figure(one.p50 - base), '≤ 50', ratio(one.p50, base)] : ['–', '', '1×']
      return [label, figure(one.p50), ...over, ...[one.p5, one.p99, one.bytes].map(figure)]
    }
    return [rowOf('bare', bare), rowOf('gantry', gantry)]
  })
  const head = ['one call', 'p50 µs', 'over bare µs', 'target', 'to bare', 'p5 µs', 'p99 µs', 'bytes']
  return { title: 'A call to another process', tables: [{ head, rows }], notes }
}

const notes = [
  'Each server is a process of its own on the same machine; one call at a time, `add {a, b} → {result}`. Medians over batches of about 20 ms.',
  'Gantry does all that it does for a local call, and beyond it: the circuit breaker and the retry budget of the backend; for HTTP the guard with its rules and the check of the dialled address, for gRPC the conversion to JSON and back, for MCP the progress token and the bounds on what the server sends.',
  'The MCP backend spares itself what the SDK does for each call to a server before 2026-07-28: it has its own check of results fail once, to learn whether there is one. Gantry gives it a check that takes and refuses the same.',
]
