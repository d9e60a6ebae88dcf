import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import type { Result } from '@gantry/contract'
import type { InnerRequest } from '@gantry/core'
import { pgliteDatabase } from '../../../test/databases.fixture.ts'
import type { Claim } from '../../storage/calls/call-store.ts'
import { heldClaim, longCall } from '../../storage/calls/claim.fixture.ts'
import type { JournalRecords } from '../../storage/journal.ts'
import { stub } from '../../stub.fixture.ts'
import { type DurableProgram, type Paused, runDurableProgram } from './execute-call.ts'
import { createProgramAttempt } from './program-journal.ts'
import { Site } from './run-chain.fixture.ts'

const noSandbox = existsSync('/usr/bin/bwrap') ? false : 'needs bubblewrap'
/** Every sleep is a long one, and whether the program may be released is checked continuously. */
const sleeps = { shortMs: 0, holdMs: 1 }
const spin = 'for (let i = 0, x = 0; i < 2e6; i++) x += i'
const work = `const work = async () => {
  await tools.world.read({ n: 1 })
  ${spin}
  await tools.world.read({ n: 2 })
  return 'done'
}`
const patient = `${work}
return await Promise.race([work(), sleep(600_000).then(() => 'late')])`
const nested = (code: string): string => `tools.code.program({ language: 'javascript', code: ${JSON.stringify(code)} })`

test('durable programs that sleep', async (t) => {
  const site = new Site(await pgliteDatabase(t))
  t.after(() => site.executor.close())
  let programs = 0
  const attempt = async (
    code: string,
    {
      callId = `sleeper-${programs++}`,
      language = 'javascript',
      through = (same: JournalRecords) => same,
      ...more
    }: {
      readonly callId?: string
      readonly language?: string
      readonly through?: (journal: JournalRecords) => JournalRecords
    } & Partial<Pick<DurableProgram, 'now' | 'sleeps' | 'args'>> = {},
  ): Promise<Result | Paused> => {
    return runDurableProgram({
      executor: site.executor,
      journal: through(site.journal),
      claim: await claimed(callId),
      signal: new AbortController().signal,
      charges: { call: (_asked, make) => make() },
      args: { code, language },
      report: () => undefined,
      sleeps,
      ...more,
    })
  }
  const claimed = async (callId: string): Promise<Claim> => {
    const fence = await site.claim(callId)
    return heldClaim(longCall(callId, 'code'), fence)
  }
  const output = (ended: Result | Paused): unknown =>
    'pausedMs' in ended ? 'handed back' : (ended.output ?? JSON.stringify(ended.error))

  await t.test('a program that computes during its sleep is not released', async () => {
    assert.equal(output(await attempt(patient)), 'done')
  })

  await t.test('a program with a nested program that computes is not released', async () => {
    assert.equal(output(await attempt(`return await ${nested(patient)}`)), 'done')
    const beside = `return await Promise.race([${nested(`${work}; return await work()`)}, sleep(600_000).then(() => 'late')])`
    assert.equal(output(await attempt(beside)), 'done')
  })

  await t.test('a program with an outcome still to be delivered is not released', async () => {
    const slow = (journal: JournalRecords): JournalRecords => ({
      ...journal,
      async writeAll(holder, entries) {
        await delay(20)
        return journal.writeAll(holder, entries)
      },
    })
    const code = `const work = tools.world.keyed({ n: 1 }).then(() => 'done')
      return await Promise.race([work, sleep(600_000).then(() => 'late')])`
    assert.equal(output(await attempt(code, { through: slow })), 'done')
  })

  await t.test('a thread of a Python program counts as computing', { skip: noSandbox }, async () => {
    const code = `
def spin():
    for _ in range(3_000_000): pass
    return 'done'
try:
    return await asyncio.wait_for(asyncio.to_thread(spin), 600)
except asyncio.TimeoutError:
    return 'late'`
    assert.equal(output(await attempt(code, { language: 'python' })), 'done')
  })

  await t.test('a Python program that computes during its sleep is not released', { skip: noSandbox }, async () => {
    const code = `
async def work():
    await tools.world.read(n=1)
    for _ in range(3_000_000): pass
    await tools.world.read(n=2)
    return 'done'
try:
    return await asyncio.wait_for(work(), 600)
except asyncio.TimeoutError:
    return 'late'`
    assert.equal(output(await attempt(code, { language: 'python' })), 'done')
  })

  await t.test('a program that only sleeps is released, whatever it contains', async () => {
    const both = `await tools.world.keyed({ n: 1 })
      return await Promise.all([sleep(600_000), ${nested('await tools.world.read({}); await sleep(700_000)')}])`
    const twice = `await ${nested(spin)}; await sleep(600_000)`
    for (const code of ['await sleep(600_000)', both, twice]) assert.equal(output(await attempt(code)), 'handed back')
    const python = "await tools.world.keyed(n=1)\nawait asyncio.sleep(600)\nreturn 'late'"
    if (noSandbox === false) assert.equal(output(await attempt(python, { language: 'python' })), 'handed back')
  })

  await t.test('the calls of a nested program count against the budget after a sleep, too', async () => {
    const five = nested('for (let n = 0; n < 5; n++) await tools.world.keyed({ n })')
    const code = `await ${five}; await sleep(600_000); await ${five}; return 'done'`
    for (const [toolCalls, end] of [
      [9, 'LIMIT_EXCEEDED'],
      [12, 'done'],
    ] as const) {
      const callId = `budget-${toolCalls}`
      const args = { code, language: 'javascript', limits: { toolCalls } }
      assert.equal(output(await attempt(code, { callId, args })), 'handed back')
      const ended = await attempt(code, { callId, args, now: () => Date.now() + 700_000 })
      assert.match(String(output(ended)), new RegExp(end))
    }
  })

  await t.test('a sleep that ends during the release does not record an outcome of the interrupted calls', async () => {
    const callId = 'crossing'
    const { signal } = new AbortController()
    let clock = 0
    const { executor, journal } = site
    const charges = { call: (_asked: unknown, make: () => Promise<Result>) => make() }
    const ports = { executor, journal, claim: await claimed(callId), signal, charges, sleeps, now: () => clock }
    const { journal: program, ...running } = createProgramAttempt(ports, new Map())
    const sleep = (number: number, sleepMs: number): InnerRequest => ({ ...ask(number), kind: 'sleep', sleepMs })
    const ask = (number: number) => ({ number, fingerprint: String(number).padStart(12, '0'), signal })
    const unused = (): Promise<never> => Promise.reject(new Error('unused'))
    // It has less than `holdMs` left, so that it never releases the program itself.
    const near = program.settle(sleep(1, 1), unused)
    const inside = program.settle(
      { ...ask(2), kind: 'call', tool: 'code:program' },
      async ({ program: within } = {}) => {
        const far = within?.settle(sleep(1, 600_000), unused)
        within?.onQuiescent?.(0)
        await assert.rejects(async () => far, /stopped/)
        clock = 1
        await near.catch(() => undefined)
        const error = { code: 'CANCELLED', message: 'The attempt at the program was stopped.' }
        return { kind: 'result', result: stub<Result>({ status: 'cancelled', error }) }
      },
    )
    program.onQuiescent?.(0)
    await assert.rejects(inside, /stopped/)
    await running.end()
    assert.deepEqual(
      (await site.entries(callId, 'done')).filter((entry) => /^p[12]\.\d{12}$/.test(entry)),
      [],
    )
  })
})
