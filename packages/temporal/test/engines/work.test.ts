import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import type { AskedApproval } from '@gantry/temporal'
import { startWork, type WorkBench } from './work.fixture.ts'

const caller = { principal: 'ann', tenant: 'acme', permissions: ['book'] }
let opened: Promise<WorkBench> | undefined
const bench = (): Promise<WorkBench> => {
  opened ??= startWork()
  return opened
}
after(async () => (await opened)?.close())

async function askedOf({ engine }: WorkBench, id: string): Promise<AskedApproval> {
  for (;;) {
    const [asked] = await engine.approvals(id).catch(() => [])
    if (asked !== undefined) return asked
    await delay(50)
  }
}

test('a chain runs on Temporal as its caller, and each step binds the outputs before it', async () => {
  const { gantry, ledger } = await bench()
  const steps = [
    { id: 'one', tool: 'sum:add', args: { a: '{{input.start}}', b: 2 } },
    { id: 'two', tool: 'sum:add', args: { a: '{{prev.result}}', b: 10 } },
  ]
  const result = await gantry.chain(steps, { engine: 'temporal', input: { start: 1 }, identity: caller })
  assert.deepEqual([result.status, result.error, result.output], ['ok', undefined, { result: 13 }])
  assert.deepEqual(
    result.steps.map(({ id, state }) => [id, state]),
    [
      ['one', 'ok'],
      ['two', 'ok'],
    ],
  )
  assert.deepEqual(ledger.splice(0), ['add 1 2 ann', 'add 3 10 ann'])
})

test('a chain with a forEach makes each element once', async () => {
  const { gantry, ledger } = await bench()
  const steps = [{ id: 'all', tool: 'sum:add', forEach: [1, 2, 3, 4, 5], args: { a: '{{item}}', b: 1 } }]
  const result = await gantry.chain(steps, { engine: 'temporal', identity: caller })
  assert.deepEqual(
    result.output,
    [2, 3, 4, 5, 6].map((sum) => ({ result: sum })),
  )
  assert.equal(ledger.splice(0).length, 5)
})

test('the same id with the same chain gives the same outcome, and with another chain is refused', async () => {
  const { gantry, ledger } = await bench()
  const steps = [{ id: 'one', tool: 'sum:book', args: { a: 1 } }]
  const options = { engine: 'temporal', identity: caller, chainId: `same-${Date.now()}` }
  const [one, other] = [await gantry.chain(steps, options), await gantry.chain(steps, options)]
  assert.deepEqual(one, other)
  assert.deepEqual(ledger.splice(0), ['book 1'])
  const changed = await gantry.chain([{ id: 'one', tool: 'sum:book', args: { a: 2 } }], options)
  assert.equal(changed.error?.code, 'IDEMPOTENCY_CONFLICT')
  const stranger = await gantry.chain(steps, { ...options, identity: { ...caller, principal: 'eve' } })
  assert.equal(stranger.error?.code, 'IDEMPOTENCY_CONFLICT')
})

test('the policy of the worker decides on each call, as the caller of the chain', async () => {
  const { gantry, ledger } = await bench()
  const steps = [{ id: 'one', tool: 'sum:book', args: { a: 1 } }]
  const identity = { ...caller, permissions: [] }
  const result = await gantry.chain(steps, { engine: 'temporal', identity })
  assert.equal(result.error?.code, 'DENIED')
  assert.deepEqual(ledger, [])
})

test('a program runs on Temporal: loops, parallel calls, caught errors, a chain, a search and a sleep', async () => {
  const { gantry, ledger, records } = await bench()
  records.length = 0
  const code = `
    let sum = 0
    for (const n of [1, 2, 3]) sum = (await tools.sum.add({ a: sum, b: n })).result
    const both = await Promise.all([tools.sum.add({ a: 1, b: 1 }), tools.sum.add({ a: 2, b: 2 })])
    const code = await tools.sum.none({}).catch((error) => error.code)
    const before = Date.now()
    await sleep(1500)
    const slept = Date.now() - before >= 1500
    const chained = await chain([{ id: 's', tool: 'sum:add', args: { a: '{{input}}', b: 5 } }, { id: 't', tool: 'sum:add', args: { a: '{{prev.result}}', b: 5 } }], { input: 1 })
    const found = await search('adds two numbers')
    return { sum, both: both.map(({ result }) => result), code, slept, chained, found: found.length > 0 }
  `
  const result = await gantry.code(code, { engine: 'temporal', identity: caller, language: 'javascript' })
  assert.deepEqual(result.error, undefined)
  assert.deepEqual(result.output, {
    sum: 6,
    both: [2, 4],
    code: 'TOOL_NOT_FOUND',
    slept: true,
    chained: { result: 11 },
    found: true,
  })
  assert.equal(ledger.splice(0).length, 7)
  const ofProgram = records.filter(({ tool }) => tool.startsWith('code:program'))
  assert.deepEqual(
    ofProgram.map(({ phase }) => phase),
    ['start', 'end'],
    'the program is on the record once, not for each attempt',
  )
})

test('a call that needs approval waits for a signal, and its caller cannot give it', async () => {
  const started = await bench()
  const { gantry, engine, ledger } = started
  const identity = caller
  const callId = `pay-${Date.now()}`
  const code = 'return await tools.sum.pay({ a: 7 }).catch((error) => error.code)'
  const running = gantry.code(code, { engine: 'temporal', identity, callId, language: 'javascript' })
  const asked = await askedOf(started, callId)
  assert.deepEqual([asked.tool, asked.principal, asked.shown], ['sum:pay:1.0.0', 'ann', { a: 7 }])
  assert.deepEqual(ledger, [])
  await engine.decide(callId, { approvalId: asked.approvalId, approved: true, by: 'bob' })
  const result = await running
  assert.deepEqual([result.error, result.output], [undefined, { paid: 7 }])
  assert.deepEqual(ledger.splice(0), ['pay 7'])

  const selfId = `self-${Date.now()}`
  const own = gantry.code(code, { engine: 'temporal', identity, callId: selfId, language: 'javascript' })
  const { approvalId } = await askedOf(started, selfId)
  await engine.decide(selfId, { approvalId, approved: true, by: 'ann' })
  assert.equal((await own).output, 'DENIED')
  assert.deepEqual(ledger, [])
})

test('a cancelled program ends, and so does one that reaches its timeout', async () => {
  const started = await bench()
  const { gantry } = started
  const stop = new AbortController()
  const code = 'await tools.sum.pay({ a: 1 })'
  const callId = `cancel-${Date.now()}`
  const running = gantry.code(code, { engine: 'temporal', identity: caller, callId, signal: stop.signal })
  await askedOf(started, callId)
  stop.abort()
  assert.equal((await running).error?.code, 'CANCELLED')
  const late = await gantry.code('await sleep(60_000)', { engine: 'temporal', identity: caller, timeoutMs: 1_000 })
  assert.equal(late.error?.code, 'TIMEOUT')
})

test('an engine that is not configured, and options that cannot leave the process, are refused', async () => {
  const { gantry } = await bench()
  const steps = [{ id: 'one', tool: 'sum:add', args: { a: 1, b: 1 } }]
  assert.equal((await gantry.chain(steps, { engine: 'other' })).error?.code, 'CONFIG_INVALID')
  const around = () => Promise.reject(new Error('unused'))
  assert.equal((await gantry.chain(steps, { engine: 'temporal', around })).error?.code, 'INPUT_INVALID')
  assert.equal((await gantry.code('return 1', { engine: 'temporal', backend: 'x:y' })).error?.code, 'INPUT_INVALID')
})
