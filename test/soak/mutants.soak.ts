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
  /** The invariant that the ledgers must find broken. */
  readonly shows: keyof Omit<Verdict, 'counts'>
  /** The victim is stopped for a while instead of killed. */
  readonly pause?: boolean
  /** The victim is killed after its reply, not after the effect. */
  readonly answered?: boolean
}

const mutants: { readonly [name: string]: Mutant } = {
  'acknowledged when claimed': { shows: 'lost' },
  'no fence': { shows: 'twoEnds', pause: true },
  'a start that is not durable': { shows: 'doubled' },
  'a reply before the commit': { shows: 'twoEnds', answered: true },
}

const leaseMs = 1_000

const hasEnded = ({ state }: CallView): boolean => state !== 'running' && state !== 'queued'

for (const [name, { shows, pause = false, answered = false }] of Object.entries(mutants)) {
  test(`the ledgers detect a broken build: ${name}`, async (t) => {
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
      // The outcome of the other worker is received first, then that of the late one.
      await listen(other)
      victim.signal('SIGCONT')
      await sleep(1_500)
    }
    const verdict = await site.verdict()
    assert.ok(verdict[shows].length > 0, `nothing was found: ${JSON.stringify(verdict)}`)
    t.diagnostic(`${shows}: ${verdict[shows].join('; ')}`)
  })
}
