import { figure, ratio, type Section } from './report.ts'
import { chunkCount } from './stream-subjects.ts'
import { measureSubjects, p50Of } from './subjects.ts'

const labels: { readonly [name: string]: string } = {
  bare: 'the bare async generator',
  stream: '`gantry.stream`',
}

/** The cost of one event of a stream, compared with the generator that yields it. */
export async function stream(): Promise<Section> {
  const measured = await measureSubjects('stream-subjects.ts', Object.keys(labels), { rounds: 15, calls: 20 })
  const bare = p50Of(measured, 'bare')
  const rows = measured.map((one) => {
    const label = labels[one.name] ?? one.name
    if ('failed' in one) return [`${label}: not measured, ${one.failed}`]
    const over = one.name === 'bare' ? '–' : figure((one.p50 - bare) / chunkCount)
    const rest = [one.p5, one.p99, one.bytes].map((value) => figure(value / chunkCount))
    return [label, figure(one.p50 / chunkCount), over, ratio(one.p50, bare), ...rest]
  })
  const head = ['one chunk', 'p50 µs', 'over bare µs', 'to bare', 'p5 µs', 'p99 µs', 'bytes']
  return { title: 'A stream event', tables: [{ head, rows }], notes }
}

const notes = [
  `Figures are of a whole stream of ${chunkCount} chunks (a short text each), divided by their number; p99 is over whole streams.`,
  'Gantry copies each chunk, waits within the call’s time, numbers the event, and makes the tool wait when the reader is slow.',
]
