import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Identity, type Result, ToolError } from '@gantry/contract'
import { createWaiters } from '../reply/waiters.ts'
import { createDoors, type DoorParts } from './doors.ts'

const ada: Identity = { principal: 'ada', tenant: 'acme', permissions: [] }
const never = new AbortController().signal
const outcome = { status: 'ok' } as unknown as Result

function doorsWith(get: DoorParts['views']['get']) {
  const waiters = createWaiters(async () => new Map())
  const doors = createDoors({ waiters, views: { get } } as unknown as DoorParts)
  return { doors, waiters }
}

test('waiting for a call that is not there, or is another tenant’s, leaves nobody waiting', async () => {
  const { doors, waiters } = doorsWith(() => Promise.reject(new ToolError('NOT_FOUND', 'There is no such call.')))
  await assert.rejects(doors.wait('nope', ada, 60_000, never), /no such call/)
  assert.equal(waiters.size, 0)
})

test('an outcome that was there before anybody waited is found', async () => {
  const { doors, waiters } = doorsWith(async () => ({ result: outcome }) as never)
  assert.equal(await doors.wait('done', ada, 60_000, never), outcome)
  assert.equal(waiters.size, 0)
})
