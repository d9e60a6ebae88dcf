import { type Identity, ToolError } from '@gantry/contract'
import { createExecutor, defineTool, type Executor } from 'gantry'
import type { Claim } from '../packages/service/src/storage/calls/call-store.ts'
import { heldClaim } from '../packages/service/src/storage/calls/claim.fixture.ts'
import type { Database } from '../packages/service/src/storage/databases/database.ts'
import { migrate } from '../packages/service/src/storage/databases/migrate.ts'
import { openPostgres } from '../packages/service/src/storage/databases/postgres.ts'
import { journalRecords } from '../packages/service/src/storage/journal.ts'
import { runDurableProgram } from '../packages/service/src/worker/execute/execute-call.ts'
import type { InnerCharges } from '../packages/service/src/worker/execute/inner-charges.ts'
import { startPostgres } from '../scripts/engines/postgres.ts'
import { median } from './measure.ts'
import { figure, type Section } from './report.ts'

const rounds = 9
const calls = 300
const identity: Identity = { principal: 'bench', tenant: 'bench', permissions: ['*'] }
const effects = ['read', 'keyed', 'once'] as const
const free: InnerCharges = { call: (_asked, make) => make() }

/** The cost of a journaled inner call of a program, compared with the commit of one row in the same run. */
export async function durableCode(): Promise<Section> {
  const postgres = await startPostgres()
  const database = await openPostgres({ url: postgres.url })
  const executor = createExecutor({ tools: effects.map(tool), safeguards: { breaker: false } })
  try {
    await migrate(database)
    await database.query('create table bench_rows (id bigint primary key, text text)')
    const subjects: readonly Subject[] = [
      { name: 'a bare `insert` and its commit', run: (round) => inserts(database, round), target: '' },
      { name: 'call in a program, not kept', run: () => programOf(executor, 'read'), target: '' },
      ...effects.map((effect) => ({
        name: `**Gantry**, kept: \`${effect}\``,
        run: (round: number) => durable(database, executor, effect, `${effect}-${round}`),
        target: '≤ 1,000',
      })),
    ]
    const found = new Map(subjects.map(({ name }) => [name, [] as number[]]))
    for (let round = 0; round <= rounds; round++) {
      for (const { name, run } of subjects) {
        const micros = await run(round)
        // The first round is a warm-up.
        if (round > 0) found.get(name)?.push(micros)
      }
    }
    const rows = subjects.map(({ name, target }) => {
      const all = (found.get(name) ?? []).toSorted((one, other) => one - other)
      return [name, figure(median(all)), figure(all[0] ?? 0), figure(all.at(-1) ?? 0), target]
    })
    return { title: 'A call in a durable program', tables: [{ head, rows }], notes }
  } finally {
    await executor.close()
    await database.close()
    await postgres.stop()
  }
}

interface Subject {
  readonly name: string
  readonly run: (round: number) => Promise<number>
  readonly target: string
}

const head = ['one after the other, PostgreSQL with fsync', 'median µs', 'least', 'most', 'target']
const notes = [
  `${calls} in a row, ${rounds} rounds by turns; a figure is the time of a whole round, sandbox and all, divided by ${calls}. Outcomes of \`read\` are written behind the program, several by one commit; \`keyed\` waits for the commit of its outcome, \`once\` for that of its beginning too.`,
]

function tool(effect: (typeof effects)[number]) {
  return defineTool({
    namespace: 'bench',
    name: effect,
    description: 'Adds one.',
    effect,
    inputSchema: { type: 'object' },
    run: ({ n }) => Number(n) + 1,
  })
}

function codeOf(effect: string): string {
  return `let n = 0; for (let i = 0; i < ${calls}; i++) n = await tools.bench.${effect}({ n }); return n`
}

async function inserts(database: Database, round: number): Promise<number> {
  return timed(async () => {
    for (let n = 0; n < calls; n++) {
      await database.query('insert into bench_rows values ($1, $2)', [round * calls + n, 'x'.repeat(400)])
    }
  })
}

async function programOf(executor: Executor, effect: string): Promise<number> {
  return timed(async () => {
    const { output } = await executor.code(codeOf(effect), { language: 'javascript', identity })
    check(output)
  })
}

async function durable(database: Database, executor: Executor, effect: string, callId: string): Promise<number> {
  await database.query(`insert into queue (call_id, tenant, fence) values ($1, 'bench', 1)`, [callId])
  const call: Claim['call'] = {
    callId,
    kind: 'code',
    identity,
    fingerprint: '',
    tool: 'code:program:1.0.0',
    effect: 'repeatable',
    payloadBytes: 0,
  }
  const claim = heldClaim(call)
  const { signal } = new AbortController()
  return timed(async () => {
    const ended = await runDurableProgram({
      executor,
      journal: journalRecords(database),
      claim,
      signal,
      charges: free,
      args: { code: codeOf(effect), language: 'javascript' },
      report: () => undefined,
    })
    check('pausedMs' in ended ? undefined : ended.output)
  })
}

function check(output: unknown): void {
  if (output !== calls) throw new ToolError('INTERNAL', `The program returned ${JSON.stringify(output)}.`)
}

/** Microseconds of each of the calls. */
async function timed(work: () => Promise<void>): Promise<number> {
  const start = performance.now()
  await work()
  return ((performance.now() - start) * 1_000) / calls
}
