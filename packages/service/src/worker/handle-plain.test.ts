import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AdmittedCall, Ending } from '../storage/calls/call-store.ts'
import { stub } from '../stub.fixture.ts'
import { handleCall } from './handle-call.ts'
import type { WorkerPorts } from './ports.ts'
import type { Task } from './slot-scheduler.ts'
import { memoryBus, someClaim, someResult } from './worker.fixture.ts'

/** The endings that are recorded for a call. */
async function recorded(call: Partial<AdmittedCall>): Promise<readonly Ending[]> {
  const claim = someClaim({}, call)
  const task: Task = { claim, fresh: false, controller: new AbortController(), takenAt: 0, stopped: undefined }
  const endings: Ending[] = []
  const ports = stub<WorkerPorts>({
    snapshots: { use: (work: (snapshot: object) => Promise<unknown>) => work({ version: 'v' }) },
    bus: memoryBus(),
    begin: async () => true,
    execute: async () => someResult(),
    offload: async (_task: unknown, result: unknown) => ({ result }),
    recorder: { finish: async (ending: Ending) => void endings.push(ending) },
    now: () => new Date(0),
  })
  await handleCall(task, ports, { slots: 1, maxDeaths: 3, ahead: 1 }, () => undefined)
  return endings
}

test('an ending carries what its claim knows of the call, unless other calls wait for its slot', async () => {
  const [plain] = await recorded({ tool: 'a:b:1.0.0', key: 'k' })
  assert.equal(plain?.plain?.tool, 'a:b:1.0.0')
  assert.equal(plain?.plain?.keyed, true)
  const [slotted] = await recorded({ slot: { key: 's', limit: 1 } })
  assert.equal(slotted?.callId, 'c-1')
  assert.equal(slotted?.plain, undefined)
})
