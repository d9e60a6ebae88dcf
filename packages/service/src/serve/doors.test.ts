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

test('a call is cancelled by its own principal and by operators, and by nobody else', async () => {
  const cancelled: unknown[] = []
  const notes: unknown[] = []
  const doors = createDoors({
    views: { get: async () => ({ principal: 'ada', state: 'queued' }) },
    store: {
      async cancel(...call: unknown[]) {
        cancelled.push(call)
        return 'ended'
      },
    },
    note: async (note: unknown) => void notes.push(note),
  } as unknown as DoorParts)
  const bob: Identity = { ...ada, principal: 'bob' }
  await assert.rejects(doors.cancel('c1', bob), { code: 'DENIED' })
  assert.deepEqual([cancelled, notes], [[], []])
  await doors.cancel('c1', ada)
  await doors.cancel('c2', { ...bob, permissions: ['gantry:operate'] })
  assert.deepEqual(cancelled, [
    ['c1', 'acme'],
    ['c2', 'acme'],
  ])
  assert.equal(notes.length, 2)
})

test('dead letters of tools that are not there for somebody are not there', async () => {
  const items = [{ id: '1', tool: 'demo:add' }, { id: '2', tool: 'mail:send:1.0.0' }, { id: '3' }]
  const redriven: string[] = []
  const letters = {
    list: async () => ({ items, cursor: 'more' }),
    get: async (id: string) => items.find((item) => item.id === id),
    redrive: async (id: string) => void redriven.push(id),
  }
  const doors = createDoors({ letters } as unknown as DoorParts)
  const bound: Identity = { ...ada, tools: ['demo:*'] }
  assert.deepEqual(await doors.deadLetters({}, bound), { items: [items[0]], cursor: 'more' })
  assert.equal((await doors.deadLetters({}, ada)).items.length, 3)
  for (const id of ['2', '3']) {
    await assert.rejects(doors.deadLetter(id, bound), { message: 'There is no dead letter of this id.' })
    await assert.rejects(doors.redrive(id, bound), { code: 'NOT_FOUND' })
  }
  await doors.redrive('1', bound)
  await doors.redrive('2', ada)
  assert.deepEqual(redriven, ['1', '2'])
})

test('an outcome that was there before anybody waited is found', async () => {
  const { doors, waiters } = doorsWith(async () => ({ result: outcome }) as never)
  assert.equal(await doors.wait('done', ada, 60_000, never), outcome)
  assert.equal(waiters.size, 0)
})
