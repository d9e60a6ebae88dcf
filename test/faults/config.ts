import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Result } from '@gantry/contract'
import type { Fault } from './fault.ts'
import type { Stored } from './ledgers.ts'
import { pooled } from './load.ts'
import { until } from './processes.ts'
import { openSite } from './site.ts'

/** A configuration whose tool `which` returns this number. */
function numbered(number: number, schema = '{ type: "object" }'): string {
  return `
  tools: [...tools, {
    tool: { namespace: 'fault', name: 'which', version: '1.0.0', description: 'Says which.', effect: 'read',
      inputSchema: ${schema}, backends: [{ kind: 'local' }] },
    run: async ({ ms = 0 }) => { await new Promise((resolve) => setTimeout(resolve, ms)); return { number: ${number} } },
    input: undefined, output: undefined, lookup: undefined,
  }],`
}

const reloaded: Fault = {
  number: 31,
  name: 'a call or chain uses one configuration from start to end while reloads replace it',
  async run(t, size) {
    const site = await openSite(t, { engine: 'postgres', config: numbered(0) })
    const node = await site.start()
    const done = new AbortController()
    const changing = (async () => {
      let number = 0
      while (!done.signal.aborted) {
        site.configure(numbered(++number))
        node.signal('SIGHUP')
        await sleep(100)
      }
      return number
    })()
    const client = site.clientOf(node, { retries: 3 })
    const results = await pooled(
      Array.from({ length: size === 'quick' ? 60 : 600 }),
      6,
      async (_, n = Math.random()) => {
        if (n > 0.5) return [await client.call('fault:which', { ms: 30 })]
        const steps = [1, 2, 3].map((step) => ({ id: `s${step}`, tool: 'fault:which', args: { ms: 30, step } }))
        return (await client.chain(steps)).steps.flatMap((step) => step.results)
      },
    )
    done.abort()
    const changes = await changing
    const seen = results.map((calls) =>
      calls.map(({ status, output }) => [status, (output as { number: number }).number]),
    )
    const mixed = seen.filter((calls) => new Set(calls.map(String)).size !== 1)
    assert.deepEqual(mixed, [])
    assert.ok(
      seen.every((calls) => calls.every(([status]) => status === 'ok')),
      JSON.stringify(seen.flat().slice(0, 5)),
    )
    const numbers = new Set(seen.flat().map(([, number]) => number))
    assert.ok(numbers.size > 3, `only ${numbers.size} configurations were seen`)
    await site.sound('reloaded')
    assert.deepEqual(numbersByConfig(await site.stored()), [])
    t.diagnostic(`${changes} changes, ${numbers.size} of them seen by ${results.length} calls and chains`)
  },
}

/** Configuration versions of the audit log that stand for more than one number; there must be none. */
function numbersByConfig({ audit, results }: Stored): string[] {
  const numbers = new Map<string, Set<number>>()
  const configs = new Map(audit.flatMap(({ call_id, phase, config }) => (phase === 'end' ? [[call_id, config]] : [])))
  for (const { call_id, result } of results) {
    const { output } = JSON.parse(result ?? '{}') as { output?: { number?: number } }
    const config = configs.get(call_id) ?? 'none'
    if (output?.number !== undefined) numbers.set(config, (numbers.get(config) ?? new Set()).add(output.number))
  }
  return [...numbers].flatMap(([config, seen]) => (seen.size > 1 ? [`${config}: ${[...seen].join(', ')}`] : []))
}

const stale: Fault = {
  number: 38,
  name: 'a call whose tool changed or was removed after admission fails after versionWaitMs and leaves the queue',
  async run(t, size) {
    const service = { versionWaitMs: 1 }
    const site = await openSite(t, { engine: 'postgres', config: numbered(0), service })
    const node = await site.start()
    const client = site.clientOf(node)
    for (let round = 0; round < (size === 'quick' ? 1 : 4); round++) {
      for (const [after, code] of [
        [numbered(round, '{ type: "object", properties: { ms: { type: "number" } } }'), 'CATALOG_STALE'],
        ['', 'TOOL_NOT_FOUND'],
      ] as const) {
        const accepted = await pooled(Array.from({ length: 5 }), 5, () =>
          client.submit('fault:which', {}, { delayMs: 1_500 }),
        )
        site.configure(after)
        node.signal('SIGHUP')
        const ends = await pooled(accepted, 5, async ({ callId }) => {
          let end: Result | undefined
          await until(async () => {
            end = (await client.get(callId)).result as Result | undefined
            return end !== undefined
          })
          return [end?.status, end?.error?.code, end?.error?.effect].join(' ')
        })
        assert.deepEqual([...new Set(ends)], [`failed ${code} none`])
        site.configure(numbered(0))
        node.signal('SIGHUP')
        assert.ok(await until(async () => (await client.call('fault:which').catch(() => undefined))?.status === 'ok'))
      }
    }
    await site.sound('stale')
    assert.deepEqual((await site.stored()).queue, [])
  },
}

export const configFaults: readonly Fault[] = [reloaded, stale]
