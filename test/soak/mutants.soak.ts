import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CallView } from '@gantry/client'
import { handTo, plansOf } from '../faults/crash.ts'
import type { Verdict } from '../faults/ledgers.ts'
import { hear, pooled } from '../faults/load.ts'
import { type ServiceNode, until } from '../faults/processes.ts'
import { openSite } from '../faults/site.ts'
import { readLedger } from '../faults/tools.ts'

interface Mutant {
  /** What the ledgers must show. */
  readonly shows: keyof Omit<Verdict, 'counts'>
  /** The victim stands still for a while instead of dying. */
  readonly pause?: boolean
  /** The victim dies when it has answered, not when the effect is there. */
  readonly answered?: boolean
}

const mutants: { readonly [name: string]: Mutant } = {
  'acknowledged when claimed': { shows: 'lost' },
  'no fence': { shows: 'twoEnds', pause: true },
  'a beginning that is not durable': { shows: 'doubled' },
  'an answer before the commit': { shows: 'twoEnds', answered: true },
}

const leaseMs = 1_000

const hasEnded = ({ state }: CallView): boolean => state !== 'running' && state !== 'queued'

for (const [name, { shows, pause = false, answered = false }] of Object.entries(mutants)) {
  test(`the ledgers tell of a build with this fault: ${name}`, async (t) => {
    const site = await openSite(t, { engine: 'postgres', service: { leaseMs } })
    const broken = {
      flags: ['--import', join(import.meta.dirname, '../faults/mutate.ts')],
      environment: { FAULT_MUTANT: name },
    }
    const [victim, other] = await Promise.all([site.start(broken), site.start(broken)])
    const plans = plansOf('m', { afterMs: answered ? 0 : 1_000 }, ['once', 'keyed', 'read'])
    const listen = (node: ServiceNode) =>
      pooled(plans, 3, async ({ id, tool, args = {} }) => {
        hear(site, id, await site.clientOf(node).call(`fault:${tool}`, { id, ...args }, { idempotencyKey: id }))
      })
    await handTo(site, victim, plans)
    await until(() => readLedger(join(site.folder, 'ledger')).length === plans.length)
    if (answered) await listen(victim)
    if (pause) victim.signal('SIGSTOP')
    else await victim.kill()
    await until(
      async () => (await site.clientOf(other).list()).items.every(hasEnded),
      shows === 'lost' ? 4_000 : 20_000,
    )
    if (pause) {
      // What the others made of it is heard first, and then what the late one says.
      await listen(other)
      victim.signal('SIGCONT')
      await sleep(1_500)
    }
    const verdict = await site.verdict()
    assert.ok(verdict[shows].length > 0, `nothing was found: ${JSON.stringify(verdict)}`)
    t.diagnostic(`${shows}: ${verdict[shows].join('; ')}`)
  })
}
