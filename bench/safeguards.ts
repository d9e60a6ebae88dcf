import { figure, type Section } from './report.ts'
import { measureSubjects, p50Of } from './subjects.ts'

const labels: { readonly [name: string]: string } = {
  bare: 'the bare function',
  breaker: 'breaker',
  bulkhead: 'bulkhead',
  both: 'breaker in bulkhead',
}

/** What safeguards cost around a function. */
export async function safeguards(): Promise<Section> {
  const measured = await measureSubjects('safeguard-subjects.ts', Object.keys(labels), { rounds: 15 })
  const bare = p50Of(measured, 'bare')
  const rows = measured.map((one) => {
    const label = labels[one.name] ?? one.name
    if ('failed' in one) return [`${label}: not measured, ${one.failed}`]
    const over = one.name === 'bare' ? ['–', ''] : [figure(one.p50 - bare), one.name === 'both' ? '' : '≤ 1']
    return [label, figure(one.p50), ...over, figure(one.p5), figure(one.bytes)]
  })
  const head = ['one call', 'p50 µs', 'over bare µs', 'target', 'p5 µs', 'bytes']
  return { title: 'Safeguards', tables: [{ head, rows }], notes }
}

const notes = ['The function is synchronous and so stays each guarded one; the loop awaits what it gives.']
