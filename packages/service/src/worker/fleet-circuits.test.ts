import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { postgresDatabase } from '../../test/databases.fixture.ts'
import { createBus } from '../observe/bus.ts'
import type { Database } from '../storage/databases/database.ts'
import {
  joinFleet,
  type Member,
  type MemberOptions,
  openLink,
  type SharedBackend,
  until,
} from './fleet-circuits.fixture.ts'
import { createFleetCircuits } from './fleet-circuits.ts'

const well = (): string => 'well'
const down = (): never => {
  throw new ToolError('BACKEND_UNAVAILABLE', 'The backend is unreachable.')
}

/** A database for a fleet, and a backend that all of it calls. */
async function setUp(t: TestContext) {
  const { url, database } = await postgresDatabase(t)
  const backend: SharedBackend = { answer: down, calls: 0 }
  const join = (worker: string, more: Partial<MemberOptions> = {}): Promise<Member> =>
    joinFleet(t, { worker, url, backend, ...more })
  return { url, database, backend, join }
}

async function open(member: Member): Promise<void> {
  for (let call = 0; call < 2; call++) assert.equal(await member.call(), 'BACKEND_UNAVAILABLE')
  assert.equal(member.state, 'open')
}

const all = (members: readonly Member[], state: string): boolean => members.every((one) => one.state === state)

/** Whether a call would claim the trial. */
const isDue = ({ retryAt }: Member): boolean => retryAt > 0 && retryAt <= performance.timeOrigin + performance.now()

function eventsOf(members: readonly Member[]): string[] {
  return members.flatMap(({ events }, index) =>
    events.map(({ kind, elsewhere }) => `${index} ${kind}${elsewhere === true ? ' elsewhere' : ''}`),
  )
}

test('a circuit that opens in one process opens in all; then one trial call of the fleet closes it for all', async (t) => {
  const { backend, join } = await setUp(t)
  const members = await Promise.all(['a', 'b', 'c'].map((worker) => join(worker)))
  const [first] = members
  if (first === undefined) return
  await open(first)
  await until(() => all(members, 'open'))

  await until(() => members.every(isDue))
  const trial = Promise.withResolvers<string>()
  backend.calls = 0
  backend.answer = () => trial.promise
  const ended: string[] = []
  const calls = members.flatMap((member) =>
    Array.from({ length: 10 }, async () => void ended.push(await member.call())),
  )
  await until(() => ended.length === 29)
  assert.equal(backend.calls, 1)
  assert.deepEqual(new Set(ended), new Set(['CIRCUIT_OPEN']))
  await until(() => all(members, 'trial'))
  trial.resolve('well')
  await Promise.all(calls)
  assert.equal(ended.at(-1), 'ok')
  await until(() => all(members, 'closed'))

  const events = eventsOf(members)
  assert.equal(events.filter((one) => one.endsWith('trial')).length, 1)
  assert.deepEqual(
    ['0 opened', '1 opened elsewhere', '2 opened elsewhere'].filter((one) => !events.includes(one)),
    [],
  )
  assert.equal(events.filter((one) => /closed$/.test(one)).length, 1)
  assert.equal(events.filter((one) => /closed elsewhere$/.test(one)).length, 2)
  assert.equal(events.length, 7)
})

test('a failed trial keeps the circuit open for longer in the whole fleet', async (t) => {
  const { database, backend, join } = await setUp(t)
  const members = await Promise.all(['a', 'b'].map((worker) => join(worker)))
  const [first, second] = members
  if (first === undefined || second === undefined) return
  await open(first)
  for (const [member, streak] of [
    [second, 2],
    [first, 3],
  ] as const) {
    await until(() => all(members, 'open') && isDue(member))
    assert.equal(await member.call(), 'BACKEND_UNAVAILABLE')
    await until(async () => (await database.query('select streak from circuits'))[0]?.streak === streak)
    await until(() => members.every(({ retryAt }) => retryAt >= member.retryAt))
  }
  assert.deepEqual(
    eventsOf(members).filter((one) => !one.endsWith('trial')),
    ['0 opened', '0 opened', '1 opened elsewhere', '1 opened'],
  )
  assert.equal(backend.calls, 4)
})

test('a process finds changes by polling when no notification arrives', async (t) => {
  const { backend, join } = await setUp(t)
  const deaf = (database: Database): Database => ({ ...database, listen: async () => async () => undefined })
  const members = await Promise.all([join('a'), join('b', { changed: deaf })])
  const [first] = members
  if (first === undefined) return
  await open(first)
  await until(() => all(members, 'open'))
  backend.answer = well
  await until(async () => (await first.call()) === 'ok')
  await until(() => all(members, 'closed'))
})

test('a process that joins, or reloads its configuration, reads the open circuits', async (t) => {
  const { join } = await setUp(t)
  const first = await join('a')
  await open(first)
  await first.fleet.sync()
  const late = await join('b', { everyMs: 60_000 })
  assert.equal(late.state, 'open')
  late.replace()
  assert.equal(late.state, undefined)
  await late.fleet.sync()
  assert.equal(late.state, 'open')
})

test('when the process with the trial dies, another takes the trial, and the verdict of the dead one is ignored', async (t) => {
  const { url, database, backend, join } = await setUp(t)
  const link = await openLink(t, url)
  const dying = await join('a', { url: link.url, leaseMs: 600_000 })
  const other = await join('b')
  await open(dying)
  await until(() => all([dying, other], 'open') && isDue(dying))
  const lost = Promise.withResolvers<string>()
  backend.answer = () => lost.promise
  const trial = dying.call()
  await until(() => dying.state === 'trial')
  assert.equal(await other.call(), 'CIRCUIT_OPEN')
  link.cut()
  backend.answer = well
  await until(() => isDue(other))
  assert.equal(await other.call(), 'CIRCUIT_OPEN', 'its death is not known yet')
  await database.query('update circuits set trial_until = now()')
  await until(async () => (await other.call()) === 'ok')
  assert.equal(other.state, 'closed')
  await until(async () => (await database.query('select key from circuits')).length === 0)
  link.repair()
  await until(() => dying.state === 'closed')
  lost.reject(new ToolError('BACKEND_UNAVAILABLE', 'The backend was unreachable.'))
  assert.equal(await trial, 'BACKEND_UNAVAILABLE')
  await dying.fleet.sync()
  assert.deepEqual(await database.query('select key from circuits'), [])
  assert.equal(other.state, 'closed')
})

test('the lease of a long trial is renewed, and a trial without a renewal goes to another process', async (t) => {
  const { database, backend, join } = await setUp(t)
  const [first, second] = await Promise.all([join('a', { askMs: 200 }), join('b')])
  await open(first)
  await until(() => all([first, second], 'open') && isDue(first) && isDue(second))
  const long = Promise.withResolvers<string>()
  backend.answer = () => long.promise
  backend.calls = 0
  const trial = first.call()
  await until(() => first.state === 'trial')
  const lease = async (): Promise<unknown> =>
    (await database.query('select trial_until::text as ends from circuits'))[0]?.ends
  const given = await lease()
  await until(async () => {
    assert.equal(await second.call(), 'CIRCUIT_OPEN')
    return (await lease()) !== given
  })
  assert.equal(backend.calls, 1)
  long.reject(new ToolError('CANCELLED', 'Enough.'))
  assert.equal(await trial, 'CANCELLED')
  await until(async () => (await database.query('select 1 from circuits where trial_by is null')).length === 1)
  backend.answer = well
  await until(async () => (await second.call()) === 'ok')
  await until(() => first.state === 'closed')
})

for (const how of ['cut', 'silence'] as const) {
  test(`with the database unavailable (${how}), a process opens, tries and closes by itself, and publishes when it is back`, async (t) => {
    const { url, database, backend, join } = await setUp(t)
    const link = await openLink(t, url)
    const lonely = await join('a', { url: link.url, askMs: 200 })
    const other = await join('b')
    await other.call()
    link[how]()
    await open(lonely)
    backend.answer = well
    await until(async () => (await lonely.call()) === 'ok')
    assert.equal(lonely.state, 'closed')
    assert.equal(other.state, 'closed')
    backend.answer = down
    await open(lonely)
    assert.deepEqual(await database.query('select key from circuits'), [])
    link.repair()
    await until(() => other.state === 'open')
    backend.answer = well
    await until(async () => (await other.call()) === 'ok')
    await until(() => all([lonely, other], 'closed'))
  })
}

test('circuits of local tools are not shared', async (t) => {
  const { database, join } = await setUp(t)
  const [first, second] = await Promise.all([join('a'), join('b')])
  const ownState = (member: Member): string | undefined =>
    member.fleet.states().find((one) => one.circuit === 'test:own @ local')?.state
  for (let call = 0; call < 2; call++) await first.executor.run('test:own')
  await first.fleet.sync()
  await second.fleet.sync()
  assert.equal(ownState(first), 'open')
  assert.equal(ownState(second), undefined)
  assert.deepEqual(await database.query('select key from circuits'), [])
})

test('a process with an embedded database shares no circuits', async () => {
  const executor = createExecutor()
  const fleet = createFleetCircuits({
    database: { exclusive: true } as Database,
    bus: createBus(),
    worker: 'a',
    circuits: () => executor.circuits,
  })
  assert.equal(fleet.trials, undefined)
  await fleet.start()
  await fleet.sync()
  assert.deepEqual(fleet.states(), [])
  await fleet.stop()
  await executor.close()
})

test('a reset closes a circuit in every process, also one that processes do not share', async (t) => {
  const { database, join } = await setUp(t)
  const members = await Promise.all([join('a'), join('b')])
  const [first, second] = members
  if (first === undefined || second === undefined) return
  await open(first)
  await until(() => all(members, 'open'))
  const ownState = (): string | undefined =>
    second.fleet.states().find((one) => one.circuit === 'test:own @ local')?.state
  for (let call = 0; call < 2; call++) await second.executor.run('test:own')
  assert.equal(ownState(), 'open')
  assert.equal(await second.fleet.reset({ circuit: 'test:it @ remote:a', tenant: 'unknown' }), false)
  assert.equal(await second.fleet.reset({ circuit: 'test:it @ remote:a' }), true)
  await until(() => all(members, 'closed'))
  assert.deepEqual(await database.query('select key from circuits'), [])
  await first.fleet.reset({ circuit: 'test:own @ local' })
  await until(() => ownState() === 'closed')
})

test('a circuit that tenants open in different processes is shared when several of them see it', async (t) => {
  const { backend, join } = await setUp(t)
  const members = await Promise.all(['a', 'b', 'c'].map((worker) => join(worker)))
  const [first, second, third] = members
  if (first === undefined || second === undefined || third === undefined) return
  const of = (tenant: string) => ({ identity: { principal: 'p', tenant, permissions: ['*'] } })
  const code = async (member: Member, tenant: string): Promise<string> => {
    const { status, error } = await member.executor.run('test:it', {}, of(tenant))
    return error?.code ?? status
  }
  const opened = (member: Member, tenant?: string): boolean =>
    member.fleet.states().some((one) => one.tenant === tenant && one.state === 'open')
  for (let call = 0; call < 2; call++) await code(first, 'acme')
  await until(() => opened(third, 'acme'))
  backend.answer = well
  assert.equal(await code(third, 'globex'), 'ok', 'one tenant closes nothing for another')
  backend.answer = down
  // Tenants that were served would speak for the backend, and the rests are short, so that all happens in the next one.
  await until(async () => {
    for (const tenant of ['acme', 'globex', 'initech', 'umbrella']) await code(second, tenant)
    return opened(second)
  })
  await until(() => opened(first) && opened(third))
})
