import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { createBus } from '../../observe/bus.ts'
import type { CallStore, Ending } from '../../storage/calls/call-store.ts'
import { createRecorder } from './recorder.ts'
import type { Spool } from './spool.ts'

function ending(callId: string, fence = 1): Ending {
  const result = {
    ...{ callId, status: 'ok' as const, output: null, content: [], warnings: [] },
    ...{ artifacts: [], effects: [], usage: { wallMs: 1, enforced: {} }, attempts: 1, startedAt: '', durationMs: 1 },
  }
  return { callId, fence, result, text: '{}', bytes: 2 }
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

const away = (outcome: 'none' | 'unknown'): ToolError =>
  new ToolError('STORE_UNAVAILABLE', 'away', { details: { outcome } })

function recorderWith(parts: Partial<Pick<CallStore, 'finish' | 'outcomes' | 'entering'>>, spool = memorySpool()) {
  const store = { finish: async () => [], outcomes: async () => [], ...parts } as unknown as CallStore
  const bus = createBus()
  const refused: string[] = []
  bus.on('fence:refused', ({ callId }) => void refused.push(callId))
  return { recorder: createRecorder({ store, spool, bus }), spool, refused }
}

test('an outcome that the store takes is accepted, and one under an old fence refused', async () => {
  const { recorder, refused } = recorderWith({
    finish: async (endings) => endings.filter(({ fence }) => fence === 2).map(({ callId }) => callId),
  })
  assert.deepEqual(await Promise.all([recorder.finish(ending('a', 2)), recorder.finish(ending('b', 1))]), [
    'accepted',
    'refused',
  ])
  assert.deepEqual(refused, ['b'])
})

test('an outcome of a call that the database may have lost does not wait on disk, alone or among others', async () => {
  const { recorder, spool } = recorderWith({ finish: () => Promise.reject(away('none')) })
  const light: Ending = { ...ending('light'), unflushed: true }
  assert.equal(await recorder.finish(light), 'left')
  assert.equal(spool.depth, 0)
  const both = await Promise.all([recorder.finish(ending('kept')), recorder.finish({ ...light, callId: 'other' })])
  assert.deepEqual([both, spool.kept.map(({ callId }) => callId)], [['spooled', 'left'], ['kept']])
  assert.equal(await recorder.finish(light), 'left')
})

test('while the database is away outcomes wait on disk, in order, and are handed over when it is back', async () => {
  let up = false
  const committed: string[] = []
  const { recorder, spool } = recorderWith({
    async finish(endings) {
      if (!up) throw away('none')
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

test('reports that came with an outcome into the spool are stored before it, and one that cannot be keeps it from nothing', async () => {
  const done: string[] = []
  let fault: Error | undefined = away('none')
  const recorder = createRecorder({
    store: {
      async finish(endings: readonly Ending[]) {
        done.push(...endings.map(({ callId }) => callId))
        return endings.map(({ callId }) => callId)
      },
    } as unknown as CallStore,
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

test('when the answer to a commit is lost, it is looked up before anything is tried again', async () => {
  const tries: string[][] = []
  const { recorder } = recorderWith({
    async finish(endings) {
      tries.push(endings.map(({ callId }) => callId))
      if (tries.length === 1) throw away('unknown')
      return endings.map(({ callId }) => callId)
    },
    outcomes: async () => ['a'],
  })
  const recorded = await Promise.all([recorder.finish(ending('a')), recorder.finish(ending('b'))])
  assert.deepEqual(recorded, ['accepted', 'accepted'])
  assert.deepEqual(tries, [['a', 'b'], ['b']])
})

test('an outcome that the database cannot take does not take the others with it', async () => {
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

test('with neither the database nor room on disk the outcome is refused loudly', async () => {
  const spool = memorySpool()
  spool.full = true
  const { recorder } = recorderWith({ finish: () => Promise.reject(away('none')) }, spool)
  await assert.rejects(recorder.finish(ending('a')), /full/)
})

test('an outcome that waits behind its call on the way keeps no other waiting', async () => {
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
