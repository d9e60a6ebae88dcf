import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { someEnding } from '../../conformance/call-store/samples.ts'
import { createBus } from '../../observe/bus.ts'
import type { CallStore, Ending } from '../../storage/calls/call-store.ts'
import { stub } from '../../stub.fixture.ts'
import { createSlotScheduler, divideSlots } from '../slot-scheduler.ts'
import { someClaim } from '../worker.fixture.ts'
import { createRecorder } from './recorder.ts'
import type { Spool } from './spool.ts'

function ending(callId: string, fence = 1): Ending {
  return someEnding({ callId, fence }, { text: '{}', bytes: 2 })
}

function memorySpool(): Spool & { readonly kept: Ending[]; full: boolean } {
  const kept: Ending[] = []
  return {
    kept,
    full: false,
    get depth() {
      return kept.length
    },
    async add(endings) {
      if (this.full) throw new ToolError('STORE_UNAVAILABLE', 'full')
      kept.push(...endings)
    },
    probe: async () => undefined,
    async drain(work) {
      await work([...kept])
      kept.length = 0
    },
  }
}

const unavailable = (outcome: 'none' | 'unknown'): ToolError =>
  new ToolError('STORE_UNAVAILABLE', 'unavailable', { details: { outcome } })

function recorderWith(parts: Partial<Pick<CallStore, 'finish' | 'outcomes' | 'entering'>>, spool = memorySpool()) {
  const store = stub<CallStore>({ finish: async () => [], outcomes: async () => [], ...parts })
  const bus = createBus()
  const refused: string[] = []
  bus.on('fence:refused', ({ callId }) => void refused.push(callId))
  return { recorder: createRecorder({ store, spool, bus }), spool, refused }
}

test('the recorder reports an outcome that the store accepts as accepted, and one under an old fence as refused', async () => {
  const { recorder, refused } = recorderWith({
    finish: async (endings) => endings.filter(({ fence }) => fence === 2).map(({ callId }) => callId),
  })
  assert.deepEqual(await Promise.all([recorder.finish(ending('a', 2)), recorder.finish(ending('b', 1))]), [
    'accepted',
    'refused',
  ])
  assert.deepEqual(refused, ['b'])
})

test('outcomes of short calls that start when others free their slots are committed in one batch with theirs', async () => {
  const { share } = divideSlots(64)
  const batches: number[] = []
  const { recorder } = recorderWith({
    async finish(endings) {
      batches.push(endings.length)
      return endings.map(({ callId }) => callId)
    },
  })
  const scheduler = createSlotScheduler({
    slots: 64,
    share,
    suspect: () => false,
    async work({ claim }, freeSlot) {
      await Promise.resolve()
      freeSlot()
      await recorder.finish(ending(claim.callId))
    },
    left: () => undefined,
  })
  scheduler.add(
    Array.from({ length: 64 }, (_, n) => someClaim({ callId: `c${n}` })),
    true,
  )
  assert.deepEqual([scheduler.running, scheduler.waiting], [share, 64 - share])
  await scheduler.empty()
  assert.deepEqual(batches, [64])
})

test('the outcome of a call that the database may have lost is not spooled, alone or in a batch', async () => {
  const { recorder, spool } = recorderWith({ finish: () => Promise.reject(unavailable('none')) })
  const light: Ending = { ...ending('light'), unflushed: true }
  assert.equal(await recorder.finish(light), 'left')
  assert.equal(spool.depth, 0)
  const both = await Promise.all([recorder.finish(ending('kept')), recorder.finish({ ...light, callId: 'other' })])
  assert.deepEqual([both, spool.kept.map(({ callId }) => callId)], [['spooled', 'left'], ['kept']])
  assert.equal(await recorder.finish(light), 'left')
})

test('while the database is unavailable outcomes wait on disk, in order, and are recorded when it is back', async () => {
  let up = false
  const committed: string[] = []
  const { recorder, spool } = recorderWith({
    async finish(endings) {
      if (!up) throw unavailable('none')
      committed.push(...endings.map(({ callId }) => callId))
      return endings.map(({ callId }) => callId)
    },
  })
  assert.equal(await recorder.finish(ending('a')), 'spooled')
  up = true
  assert.equal(await recorder.finish(ending('b')), 'spooled', 'nothing overtakes what waits')
  assert.equal(recorder.spooled, 2)
  await recorder.drain()
  assert.deepEqual(committed, ['a', 'b'])
  assert.equal(spool.depth, 0)
  assert.equal(await recorder.finish(ending('c')), 'accepted')
})

test('the reports of a spooled outcome are stored before it, and a failure to store them does not block it', async () => {
  const done: string[] = []
  let fault: Error | undefined = unavailable('none')
  const recorder = createRecorder({
    store: stub<CallStore>({
      async finish(endings: readonly Ending[]) {
        done.push(...endings.map(({ callId }) => callId))
        return endings.map(({ callId }) => callId)
      },
    }),
    async append(events) {
      if (fault !== undefined) throw fault
      done.push(...events.map(({ event }) => event))
    },
    spool: memorySpool(),
    bus: createBus(),
  })
  const withReport = (callId: string): Ending => ({
    ...ending(callId),
    events: [{ callId, fence: 1, id: 1_000_001, event: `report of ${callId}` }],
  })
  assert.equal(await recorder.finish(withReport('a')), 'spooled')
  fault = undefined
  await recorder.drain()
  assert.deepEqual(done, ['report of a', 'a'])
  fault = new ToolError('INTERNAL', 'never')
  assert.equal(await recorder.finish(withReport('b')), 'accepted')
})

test('a drain that the spool fails is reported as a failure of the spool, and one that the database fails is not', async () => {
  const bus = createBus()
  const events: string[] = []
  bus.on('dependency:failed', ({ dependency, operation }) => void events.push(`${dependency} ${operation} failed`))
  bus.on('dependency:worked', ({ dependency, operation }) => void events.push(`${dependency} ${operation} worked`))
  let spoolFault: Error | undefined = unavailable('none')
  let storeFault: Error | undefined = unavailable('none')
  const store = {
    async finish(endings: readonly Ending[]) {
      if (storeFault !== undefined) throw storeFault
      return endings.map(({ callId }) => callId)
    },
  } as unknown as CallStore
  const memory = memorySpool()
  memory.kept.push(ending('a'))
  const drain: Spool['drain'] = async (work) => {
    if (spoolFault !== undefined) throw spoolFault
    await memory.drain(work)
  }
  const recorder = createRecorder({ store, spool: { ...memory, depth: 1, drain }, bus })
  await assert.rejects(recorder.drain())
  spoolFault = undefined
  await assert.rejects(recorder.drain())
  storeFault = undefined
  await recorder.drain()
  assert.deepEqual(events, [
    'spool drain failed',
    'database record failed',
    'database record worked',
    'spool drain worked',
  ])
})

test('a spooled outcome that the database refuses is replaced by an error, and blocks no other outcome', async () => {
  let up = false
  const committed: Ending[] = []
  const { recorder, spool } = recorderWith({
    async finish(endings) {
      if (!up) throw unavailable('none')
      if (endings.some(({ result }) => result.status === 'ok' && 'callId' in result && result.callId === 'bad')) {
        throw new ToolError('INTERNAL', 'The database refused a statement.')
      }
      committed.push(...endings)
      return endings.map(({ callId }) => callId)
    },
  })
  for (const callId of ['a', 'bad', 'b']) assert.equal(await recorder.finish(ending(callId)), 'spooled')
  up = true
  await recorder.drain()
  assert.equal(spool.depth, 0)
  assert.deepEqual(
    committed.map(({ callId, result, dead }) => [callId, result.status, result.error?.code, dead !== undefined]),
    [
      ['a', 'ok', undefined, false],
      ['bad', 'failed', 'INTERNAL', true],
      ['b', 'ok', undefined, false],
    ],
  )
  assert.equal(await recorder.finish(ending('c')), 'accepted')
})

test('when the answer to a commit is lost, the recorder looks up the outcomes before it retries', async () => {
  const tries: string[][] = []
  const { recorder } = recorderWith({
    async finish(endings) {
      tries.push(endings.map(({ callId }) => callId))
      if (tries.length === 1) throw unavailable('unknown')
      return endings.map(({ callId }) => callId)
    },
    outcomes: async () => ['a'],
  })
  const recorded = await Promise.all([recorder.finish(ending('a')), recorder.finish(ending('b'))])
  assert.deepEqual(recorded, ['accepted', 'accepted'])
  assert.deepEqual(tries, [['a', 'b'], ['b']])
})

test('an outcome that the database refuses does not affect the others', async () => {
  const { recorder } = recorderWith({
    async finish(endings) {
      if (endings.some(({ callId }) => callId === 'bad')) throw new ToolError('INTERNAL', 'no such character')
      return endings.map(({ callId }) => callId)
    },
  })
  const all = await Promise.allSettled(['a', 'bad', 'b'].map((callId) => recorder.finish(ending(callId))))
  assert.deepEqual(
    all.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  )
})

test('without the database and with a full spool, finish rejects', async () => {
  const spool = memorySpool()
  spool.full = true
  const { recorder } = recorderWith({ finish: () => Promise.reject(unavailable('none')) }, spool)
  await assert.rejects(recorder.finish(ending('a')), /full/)
})

test('an outcome whose insert is still in flight does not delay other outcomes', async () => {
  const stuck = Promise.withResolvers<void>()
  const { recorder } = recorderWith({
    entering: (callId) => (callId.startsWith('ahead') ? stuck.promise : undefined),
    async finish(endings) {
      if (endings.some(({ callId }) => callId.startsWith('ahead'))) await stuck.promise
      return endings.map(({ callId }) => callId)
    },
  })
  const ahead = ['ahead-1', 'ahead-2', 'ahead-3'].map((callId) => recorder.finish(ending(callId)))
  assert.equal(await recorder.finish(ending('other')), 'accepted')
  stuck.resolve()
  assert.deepEqual(await Promise.all(ahead), ['accepted', 'accepted', 'accepted'])
})
