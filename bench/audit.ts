import { startPostgres } from '../scripts/engines/postgres.ts'
import { median } from './measure.ts'
import { figure, type Section } from './report.ts'
import type { DrainFigures, ServiceOrder } from './service-process.ts'
import { interleave } from './service-run.ts'

const rounds = 7
const count = 40_000

/** The cost of the audit log for a durable call: the service without its rows, without its seals, and unchanged. */
export async function audit(): Promise<Section> {
  const postgres = await startPostgres({ settings: { max_connections: 200 } })
  const order = (subject: 'gantry' | 'gantry unsealed' | 'gantry unaudited'): ServiceOrder => {
    return { kind: 'drain', url: '', subject, count }
  }
  try {
    const found = await interleave<DrainFigures>(
      postgres.url,
      [
        { name: 'without an audit record', order: order('gantry unaudited') },
        { name: 'with rows, not sealed', order: order('gantry unsealed') },
        { name: '**Gantry**, with rows and seals', order: order('gantry') },
      ],
      rounds,
    )
    const [bare] = found
    const cost = ({ perSecond }: DrainFigures): number => 1_000_000 / perSecond
    const rows = found.map((one) => {
      if (one.failed !== undefined) return [`${one.name}: not measured, ${one.failed}`]
      const micros = median(one.figures.map(cost))
      if (one === bare) return [one.name, figure(1_000_000 / micros), figure(micros), '', '']
      // Two consecutive runs had the same load on the machine.
      const added = one.figures.flatMap((mine, round) => {
        const beside = bare?.figures[round]
        return beside === undefined ? [] : [(cost(mine) / cost(beside) - 1) * 100]
      })
      const target = one === found.at(-1) ? '≤ 10 %' : ''
      return [one.name, figure(1_000_000 / micros), figure(micros), `${figure(median(added))} %`, target]
    })
    return { title: 'The audit record', tables: [{ head, rows }], notes }
  } finally {
    await postgres.stop()
  }
}

const head = ['calls that wait, 24 slots', 'a second', 'µs a call', 'added', 'target']

const notes = [
  `\`demo:add\` as under “The service”: ${count.toLocaleString('en-US')} calls are there before a worker starts, PostgreSQL with fsync, by turns, ${rounds} rounds; what is added is the median over the rounds. A call leaves two rows, its start with the claim and its end with the outcome; without an audit record the statements are the same but for these. Seals are made every second by the same process.`,
]
