import assert from 'node:assert/strict'
import { test } from 'node:test'
import { circuitKey, readCircuitKey } from './circuit-summary.ts'
import { createTenantCircuits, type TenantCircuits, type TenantCircuitsOptions } from './tenant-circuits.ts'

const circuit = 'http:fetch @ web > https://dead.example'

function setUp(options: TenantCircuitsOptions = {}) {
  const clock = { time: 1_800_000_000_000 }
  const told: string[] = []
  const circuits = createTenantCircuits({
    ...{ minCalls: 2, openMs: 1_000, random: () => 0, now: () => clock.time, ...options },
    onEvent: ({ kind, tenant, elsewhere }) =>
      told.push(`${tenant ?? 'all'} ${kind}${elsewhere === true ? ' elsewhere' : ''}`),
  })
  return { clock, told, circuits }
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

test('a circuit that one tenant opened is open for that tenant alone', () => {
  const { circuits, told } = setUp()
  fault(circuits, 'a')
  assert.equal(isOpen(circuits, 'a'), true)
  assert.equal(isOpen(circuits, 'b'), false)
  assert.deepEqual(told, ['a opened'])
})

test('a circuit that several tenants opened is open for all, also for one that never called', () => {
  const { circuits, told } = setUp()
  fault(circuits, 'a')
  fault(circuits, 'b')
  assert.equal(isOpen(circuits, 'c'), true)
  assert.deepEqual(told, ['a opened', 'b opened', 'all opened'])
  assert.throws(() => circuits.enter(circuit, 'c'), { code: 'CIRCUIT_OPEN', details: { retryAfterMs: 1_000 } })
})

test('two tenants of many that are served do not open the circuit for the others', () => {
  const { circuits } = setUp()
  for (const tenant of ['c', 'd', 'e']) circuits.enter(circuit, tenant).succeed()
  fault(circuits, 'a')
  fault(circuits, 'b')
  assert.equal(isOpen(circuits, 'c'), false)
})

test('after the rest each tenant makes one trial, and one that succeeds closes the shared circuit', () => {
  const { circuits, clock, told } = setUp()
  fault(circuits, 'a')
  fault(circuits, 'b')
  clock.time += 1_000
  const trial = circuits.enter(circuit, 'c')
  assert.equal(trial.trial, true)
  assert.equal(isOpen(circuits, 'c'), true, 'while its trial runs')
  trial.succeed()
  assert.equal(isOpen(circuits, 'c'), false)
  assert.equal(isOpen(circuits, 'd'), false)
  assert.deepEqual(told.slice(3), ['c opened', 'c trial', 'c closed', 'all closed'])
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

test('when the trials of two tenants fail, the shared circuit rests again, for longer', () => {
  const { circuits, clock } = setUp()
  fault(circuits, 'a')
  fault(circuits, 'b')
  clock.time += 1_000
  circuits.enter(circuit, 'a').fault()
  circuits.enter(circuit, 'b').fault()
  assert.throws(() => circuits.enter(circuit, 'c'), { code: 'CIRCUIT_OPEN', details: { retryAfterMs: 2_000 } })
})

test('the shared circuit is forgotten when no tenant tries it any more', () => {
  const { circuits, clock, told } = setUp()
  fault(circuits, 'a')
  fault(circuits, 'b')
  clock.time += 61_000
  assert.equal(isOpen(circuits, 'c'), false)
  assert.equal(told.at(-1), 'all closed')
})

test('a tenant with a hostile number of origins drops its own circuits, never those of another tenant', () => {
  const { circuits } = setUp({ most: 10 })
  fault(circuits, 'b', 2, 'x @ web > https://b.example')
  for (let origin = 0; origin < 100; origin++) fault(circuits, 'a', 2, `x @ web > https://${origin}.example`)
  const kept = circuits.list()
  assert.equal(kept.length, 10)
  assert.deepEqual(kept.filter(({ tenant }) => tenant === 'b').length, 1)
  assert.equal(isOpen(circuits, 'b', 'x @ web > https://b.example'), true)
  assert.equal(isOpen(circuits, 'a', 'x @ web > https://99.example'), true)
})

test('any number of tenants and shared circuits stays below the bound', () => {
  const { circuits } = setUp({ most: 5 })
  for (let tenant = 0; tenant < 40; tenant++) {
    fault(circuits, `t${tenant}`)
    circuits.hold(`x:y @ remote > https://${tenant}.example`, undefined, 5_000, 1)
    circuits.enter('x:z @ remote', `u${tenant}`).succeed()
    assert.ok(circuits.list().length <= 5)
  }
})

test('a call that says nothing about its backend makes no circuit', () => {
  const { circuits } = setUp()
  circuits.enter(circuit, 'a').leave()
  assert.deepEqual(circuits.list(), [])
})

test('what other processes found out counts as what a tenant sees', () => {
  const { circuits, told } = setUp()
  circuits.hold(circuit, 'a', 1_000, 1)
  fault(circuits, 'b')
  assert.equal(isOpen(circuits, 'c'), true)
  circuits.close(circuit, undefined)
  assert.equal(isOpen(circuits, 'c'), false)
  assert.equal(isOpen(circuits, 'b'), true)
  assert.deepEqual(told, ['a opened elsewhere', 'b opened', 'all opened', 'all closed elsewhere'])
})

test('a reset closes the circuit of one tenant, or of all of them', () => {
  const { circuits } = setUp()
  fault(circuits, 'a')
  fault(circuits, 'b')
  assert.equal(circuits.reset(circuit, 'a'), true)
  assert.equal(isOpen(circuits, 'a'), true, 'the shared circuit rests still')
  assert.equal(circuits.reset(circuit), true)
  for (const tenant of ['a', 'b', 'c']) assert.equal(isOpen(circuits, tenant), false, tenant)
  assert.equal(circuits.reset(circuit), false)
})

test('a snapshot keeps which tenant saw what, and anything else is refused', () => {
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

test('a key names its circuit and its tenant, whatever a tenant is called', () => {
  for (const tenant of [undefined, 'a', 'for "b"', ' @ local', '"', 'ü\n']) {
    assert.deepEqual(
      readCircuitKey(circuitKey(circuit, tenant)),
      tenant === undefined ? { circuit } : { circuit, tenant },
    )
  }
  assert.deepEqual(readCircuitKey('x for "'), { circuit: 'x for "' })
})
