import { figure, ratio, type Section } from './report.ts'
import { chunkCount } from './stream-subjects.ts'
import { type Measured, measureSubjects } from './subjects.ts'

const labels: { readonly [name: string]: string } = {
  bare: 'the bare async generator',
  stream: '`gantry.stream`',
}

/** What one event of a stream costs beside the generator that makes it. */
export async function stream(): Promise<Section> {
  const measured = await measureSubjects('stream-subjects.ts', Object.keys(labels), { rounds: 15, calls: 20 })
  const bare = p50(measured, 'bare')
  const rows = measured.map((one) => {
    const label = labels[one.name] ?? one.name
    if ('failed' in one) return [`${label}: not measured, ${one.failed}`]
    const cells = [one.p50, one.p99, one.bytes].map((value) => figure(value / chunkCount))
    return [label, ...cells, ratio(one.p50, bare), one.name === 'bare' ? '' : figure((one.p50 - bare) / chunkCount)]
  })
  const head = ['one chunk', 'p50 µs', 'p99 µs', 'bytes', 'to bare', 'over bare µs']
  return { title: 'A stream event', tables: [{ head, rows }], notes }
}

function p50(measured: readonly Measured[], name: string): number {
  const found = measured.find((one) => one.name === name)
  return found !== undefined && 'p50' in found ? found.p50 : Number.NaN
}

const notes = [
  `Figures are of a whole stream of ${chunkCount} chunks (a short text each), divided by their number; p99 is over whole streams.`,
  'Gantry copies each chunk, waits within the call’s time, numbers the event, and makes the tool wait when the reader is slow.',
]
