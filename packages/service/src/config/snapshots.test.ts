import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Executor } from '@gantry/core'
import { createSnapshots, type Snapshot } from './snapshots.ts'

function snapshot(version: string, closed: string[]): Snapshot {
  const close = async (): Promise<void> => void closed.push(version)
  return { version, executor: { close } as Executor }
}

test('a call keeps the snapshot it started with, and a replaced snapshot is closed after its last call', async () => {
  const closed: string[] = []
  const snapshots = createSnapshots(snapshot('one', closed))
  const gate = Promise.withResolvers<void>()
  const seen: string[] = []
  const running = snapshots.use(async ({ version }) => {
    seen.push(version)
    await gate.promise
    seen.push(version)
  })
  snapshots.replace(snapshot('two', closed))
  await snapshots.use(async ({ version }) => void seen.push(version))
  assert.deepEqual(closed, [])
  gate.resolve()
  await running
  assert.deepEqual(seen, ['one', 'two', 'one'])
  assert.deepEqual(closed, ['one'])
  await snapshots.close()
  assert.deepEqual(closed, ['one', 'two'])
})

test('an unused snapshot is closed when it is replaced, also when its last call failed', async () => {
  const closed: string[] = []
  const snapshots = createSnapshots(snapshot('one', closed))
  await assert.rejects(
    snapshots.use(() => Promise.reject(new Error('no'))),
    /no/,
  )
  snapshots.replace(snapshot('two', closed))
  assert.deepEqual(closed, ['one'])
  assert.equal(snapshots.current.version, 'two')
})
