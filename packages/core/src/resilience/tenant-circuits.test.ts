import assert from 'node:assert/strict'
import { test } from 'node:test'
import { circuitKey, readCircuitKey, summarizeCircuits } from './circuit-state.ts'
import { createTenantCircuits, type TenantCircuits, type TenantCircuitsOptions } from './tenant-circuits.ts'

const circuit = 'http:fetch @ web > https://dead.example'

function setUp(options: TenantCircuitsOptions = {}) {
  const clock = { time: 1_800_000_000_000 }
  const events: string[] = []
  const circuits = createTenantCircuits({
    ...{ minCalls: 2, openMs: 1_000, random: () => 0, now: () => clock.time, ...options },
    onEvent: ({ kind, tenant, elsewhere }) =>
      events.push(`${tenant ?? 'all'} ${kind}${elsewhere === true ? ' elsewhere' : ''}`),
  })
  return { clock, events, circuits }
}

function fault(circuits: TenantCircuits, tenant: string, times = 2, name = circuit): void {
  for (let call = 0; call < times; call++) circuits.enter(name, tenant).fault()
}

const isOpen = (circuits: TenantCircuits, tenant: string, name = circuit): boolean => {
  try {
    circuits.enter(name, tenant).leave()
    return false
  } catch {
    return true
  }
}

test('a circuit opened by one tenant is open for that tenant only', () => {
  const { circuits, events } = setUp()
  fault(circuits, 'a')
  assert.equal(isOpen(circuits, 'a'), true)
  assert.equal(isOpen(circuits, 'b'), false)
  assert.deepEqual(events, ['a opened'])
})

test('a circuit opened by several tenants is open for all, including tenants that never called', () => {
  const { circuits, events } = setUp()
  fault(circuits, 'a')
  fault(circuits, 'b')
  assert.equal(isOpen(circuits, 'c'), true)
  assert.deepEqual(events, ['a opened', 'b opened', 'all opened'])
  assert.throws(() => circuits.enter(circuit, 'c'), { code: 'CIRCUIT_OPEN', details: { retryAfterMs: 1_000 } })
})

test('two failing tenants do not open the circuit for others while most tenants succeed', () => {
  const { circuits } = setUp()
  for (const tenant of ['c', 'd', 'e']) circuits.enter(circuit, tenant).succeed()
  fault(circuits, 'a')
  fault(circuits, 'b')
  assert.equal(isOpen(circuits, 'c'), false)
})

test('after the open period each tenant makes one trial, and a successful trial closes the shared circuit', () => {
  const { circuits, clock, events } = setUp()
  fault(circuits, 'a')
  fault(circuits, 'b')
  clock.time += 1_000
  const trial = circuits.enter(circuit, 'c')
  assert.equal(trial.trial, true)
  assert.equal(isOpen(circuits, 'c'), true, 'while its trial runs')
  trial.succeed()
  assert.equal(isOpen(circuits, 'c'), false)
  assert.equal(isOpen(circuits, 'd'), false)
  assert.deepEqual(events.slice(3), ['c opened', 'c trial', 'c closed', 'all closed'])
})

test('a tenant whose trials always fail does not keep the shared circuit open for others', () => {
  const { circuits, clock } = setUp()
  fault(circuits, 'a')
  fault(circuits, 'b')
  clock.time += 1_000
  circuits.enter(circuit, 'a').fault()
  assert.equal(isOpen(circuits, 'a'), true)
  circuits.enter(circuit, 'b').succeed()
  assert.equal(isOpen(circuits, 'b'), false)
})

test('when the trials of two tenants fail, the shared circuit opens again for a longer period', () => {
  const { circuits, clock } = setUp()
  fault(circuits, 'a')
  fault(circuits, 'b')
  clock.time += 1_000
  circuits.enter(circuit, 'a').fault()
  circuits.enter(circuit, 'b').fault()
  assert.throws(() => circuits.enter(circuit, 'c'), { code: 'CIRCUIT_OPEN', details: { retryAfterMs: 2_000 } })
})

test('the shared circuit is dropped when no tenant uses it any more', () => {
  const { circuits, clock, events } = setUp()
  fault(circuits, 'a')
  fault(circuits, 'b')
  clock.time += 61_000
  assert.equal(isOpen(circuits, 'c'), false)
  assert.equal(events.at(-1), 'all closed')
})

test('a tenant with too many origins evicts its own circuits, never those of another tenant', () => {
  const { circuits } = setUp({ most: 10 })
  fault(circuits, 'b', 2, 'x @ web > https://b.example')
  for (let origin = 0; origin < 100; origin++) fault(circuits, 'a', 2, `x @ web > https://${origin}.example`)
  const kept = circuits.list()
  assert.equal(kept.length, 10)
  assert.deepEqual(kept.filter(({ tenant }) => tenant === 'b').length, 1)
  assert.equal(isOpen(circuits, 'b', 'x @ web > https://b.example'), true)
  assert.equal(isOpen(circuits, 'a', 'x @ web > https://99.example'), true)
})

test('the number of circuits stays bounded for any number of tenants and shared circuits', () => {
  const { circuits } = setUp({ most: 5 })
  for (let tenant = 0; tenant < 40; tenant++) {
    fault(circuits, `t${tenant}`)
    circuits.hold(`x:y @ remote > https://${tenant}.example`, undefined, 5_000, 1)
    circuits.enter('x:z @ remote', `u${tenant}`).succeed()
    assert.ok(circuits.list().length <= 5)
  }
})

test('a call without an outcome for its backend creates no circuit', () => {
  const { circuits } = setUp()
  circuits.enter(circuit, 'a').leave()
  assert.deepEqual(circuits.list(), [])
})

test('an opening reported by another process counts as an opening by the tenant', () => {
  const { circuits, events } = setUp()
  circuits.hold(circuit, 'a', 1_000, 1)
  fault(circuits, 'b')
  assert.equal(isOpen(circuits, 'c'), true)
  circuits.close(circuit, undefined)
  assert.equal(isOpen(circuits, 'c'), false)
  assert.equal(isOpen(circuits, 'b'), true)
  assert.deepEqual(events, ['a opened elsewhere', 'b opened', 'all opened', 'all closed elsewhere'])
})

test('reset closes the circuit of one tenant, or of all tenants', () => {
  const { circuits } = setUp()
  fault(circuits, 'a')
  fault(circuits, 'b')
  assert.equal(circuits.reset(circuit, 'a'), true)
  assert.equal(isOpen(circuits, 'a'), true, 'the shared circuit rests still')
  assert.equal(circuits.reset(circuit), true)
  for (const tenant of ['a', 'b', 'c']) assert.equal(isOpen(circuits, tenant), false, tenant)
  assert.equal(circuits.reset(circuit), false)
})

test('a snapshot keeps the circuits of each tenant, and restore refuses an invalid snapshot', () => {
  const { circuits, clock } = setUp()
  for (const tenant of ['a', '__proto__']) fault(circuits, tenant)
  const kept = JSON.parse(JSON.stringify(circuits.snapshot()))
  const other = setUp()
  other.clock.time = clock.time
  other.circuits.restore(kept)
  assert.equal(isOpen(other.circuits, 'b'), true)
  assert.deepEqual(
    other.circuits.list().map(({ tenant, state }) => [tenant, state]),
    [
      [undefined, 'open'],
      ['a', 'open'],
      ['__proto__', 'open'],
    ],
  )
  assert.throws(() => other.circuits.restore([{ key: 'x' }]), { code: 'CONFIG_INVALID' })
})

test('a circuit key encodes circuit and tenant, for any tenant name', () => {
  for (const tenant of [undefined, 'a', 'for "b"', ' @ local', '"', 'ü\n']) {
    assert.deepEqual(
      readCircuitKey(circuitKey(circuit, tenant)),
      tenant === undefined ? { circuit } : { circuit, tenant },
    )
  }
  assert.deepEqual(readCircuitKey('x for "'), { circuit: 'x for "' })
})

test('the summary of circuits has whole milliseconds', () => {
  const own = { key: 'k', circuit: 'k', tenant: 'a', since: 1_000.25, openMs: 10, calls: 6, failures: 6 }
  const states = [
    { ...own, state: 'open', retryAt: 2_000.5 },
    { ...own, tenant: 'b', state: 'closed', since: 900.75 },
  ] as const
  const [circuit] = summarizeCircuits(states)
  assert.equal(circuit?.since, 900)
  assert.deepEqual(
    circuit?.tenants.map((one) => [one.since, one.state === 'open' ? one.retryAt : undefined]),
    [
      [1_000, 2_001],
      [900, undefined],
    ],
  )
})
