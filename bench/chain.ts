import { stepCount } from './chain-subjects.ts'
import { figure, ratio, type Section } from './report.ts'
import { measureSubjects, p50Of } from './subjects.ts'

const labels: { readonly [name: string]: string } = {
  bare: 'plain sequential awaits',
  runs: `${stepCount} × \`gantry.run\`, values passed by hand`,
  chain: `\`gantry.chain\` of ${stepCount} steps with references`,
}

/** The cost of a step of a chain, compared with the calls it makes. */
export async function chain(): Promise<Section> {
  const measured = await measureSubjects('chain-subjects.ts', Object.keys(labels), { rounds: 15 })
  const p50 = (name: string): number => p50Of(measured, name) / stepCount
  const rows = measured.map((one) => {
    const label = labels[one.name] ?? one.name
    if ('failed' in one) return [`${label}: not measured, ${one.failed}`]
    const over = one.name === 'chain' ? figure(p50('chain') - p50('runs')) : ''
    const rest = [one.p5, one.p99, one.bytes].map((value) => figure(value / stepCount))
    return [label, figure(p50(one.name)), over, ratio(p50(one.name), p50('runs')), ...rest]
  })
  const head = ['one step', 'p50 µs', 'over plain calls µs', 'to plain calls', 'p5 µs', 'p99 µs', 'bytes']
  return { title: 'A chain step', tables: [{ head, rows }], notes }
}

const notes = [
  `Figures are of a whole chain, divided by its ${stepCount} steps; each step adds the output before it and one further back.`,
  'Checking the chain before it starts is part of the chain, so it is in the figures.',
]
