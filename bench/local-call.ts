import { peerVersions } from './peers.ts'
import { figure, ratio, type Section } from './report.ts'
import { type Measured, measureSubjects, p50Of } from './subjects.ts'

const ours = 'gantry sync'
const labels: readonly (readonly [name: string, label: string])[] = [
  ['bare', 'bare async function'],
  ['ajv', `bare + ajv ${peerVersions.ajv}, both sides`],
  ['validators', 'bare + our validators, both sides'],
  [ours, '**Gantry** `run`, sync tool'],
  ['gantry async', '**Gantry** `run`, async tool'],
  ['ai sdk', `AI SDK ${peerVersions.ai}`],
  ['langchain', `LangChain core ${peerVersions['@langchain/core']}`],
  ['mcp', `MCP SDK ${peerVersions['@modelcontextprotocol/client']}, in memory`],
]

/** One validated call of `math:add`, by each subject. */
export async function localCall(): Promise<Section> {
  const measured = await measureSubjects(
    'local-call-subjects.ts',
    labels.map(([name]) => name),
  )
  const rows = labels.flatMap(([name, label]) => {
    const one = measured.find((subject) => subject.name === name)
    return one === undefined ? [] : [row(label, one, p50Of(measured, 'bare'), p50Of(measured, ours))]
  })
  const head = ['one call', 'p50 µs', 'over bare µs', 'target', 'to Gantry', 'p5 µs', 'p99 µs', 'bytes']
  return { title: 'One local call', tables: [{ head, rows }], notes }
}

function row(label: string, one: Measured, bare: number, gantry: number): string[] {
  if ('failed' in one) return [`${label}: not measured, ${one.failed}`]
  const over = one.name === 'bare' ? '–' : figure(one.p50 - bare)
  const target = one.name.startsWith('gantry') ? '≤ 2' : ''
  const rest = [one.p5, one.p99, one.bytes].map(figure)
  return [label, figure(one.p50), over, target, ratio(one.p50, gantry), ...rest]
}

const notes = [
  'The call is `math:add {a, b} → {result}`, its input and its output checked against a schema.',
  'p50 is the median over batches of about 2 ms. p5 is the fastest twentieth of them: nearer to what the code costs, but without most collections. A median of such short batches leaves out many collections too. p99 is over calls timed one by one, where the clock itself adds about 0.1 µs.',
  'Each subject has a process of its own; they take turns, A, B, C, A, B, C, and only one works at a time.',
  'Bytes: growth of the used heap over 1,000 calls in a young generation of 256 MB, so that nothing is collected between.',
  'Gantry also looks the tool up by id, copies arguments and output with limits, authorizes, writes two audit records and stamps a whole Result; the tools beside it do other things too, so read the ratios as the price of a call, not as a ranking.',
  'AI SDK: `parseToolCall` on the JSON text that a model sends, then `executeTool`, the two steps of `generateText`, without its telemetry. Neither it nor LangChain checks outputs; a zod check is added to both so that the work is the same.',
  'MCP: client and server joined by `InMemoryTransport`; the client, having listed the tools, checks the output a second time.',
  'The Go original (toolexec) is not in this table: its module is not to be had here. It was measured at 105 µs and 1,106 allocations a call on such a machine.',
]
