import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineTool, memoryAudit } from '@gantry/core'
import { createExecutor } from '@gantry/tools'
import { createSnapshots, type Snapshot } from '../../config/snapshots.ts'
import type { PolicyDocument, StoredPolicy } from '../../storage/policies.ts'
import { createStoredPolicies } from './stored-policy.ts'

/** A configuration, and stored policies that a test adds. */
function open(...documents: readonly PolicyDocument[]) {
  const table = documents.map(storedAs)
  const ended: string[] = []
  const changes: string[] = []
  const audits: string[] = []
  const policies = createStoredPolicies({
    records: { since: async (version) => table.findLast((one) => one.version > version) },
    audit(version) {
      audits.push(version)
      return memoryAudit()
    },
    snapshots: () => snapshots,
  })
  const base = (version: string): Snapshot => {
    const run = () => version
    const tool = defineTool({ namespace: 't', name: 'it', description: 'It.', inputSchema: { type: 'object' }, run })
    const executor = createExecutor({ tools: [tool] })
    const close = async (): Promise<void> => {
      ended.push(version)
      await executor.close()
    }
    return { executor: { ...executor, under: (parts) => ({ ...executor.under(parts), close }), close }, version }
  }
  const snapshots = createSnapshots(policies.over(base('one')))
  snapshots.onReplace(() => changes.push(snapshots.current.version))
  const add = (document: PolicyDocument): void => void table.push(storedAs(document, table.length))
  return { policies, snapshots, base, add, ended, changes, audits }
}

function storedAs(document: PolicyDocument, index: number): StoredPolicy {
  return { version: index + 1, document, createdAt: '2026-01-01T00:00:00.000Z', createdBy: 'ada' }
}

const frozen: PolicyDocument = { rules: [{ deny: '*', reason: 'frozen' }], default: 'allow' }
const open_: PolicyDocument = { rules: [], default: 'allow' }

test('a stored policy is in force once it was read, as a snapshot with its own version, and calls in flight keep theirs', async () => {
  const { policies, snapshots, add, changes, audits } = open()
  add(frozen)
  await snapshots.use(async ({ executor, version }) => {
    await policies.refresh()
    assert.deepEqual([version, (await executor.run('t:it')).status], ['one', 'ok'])
    assert.deepEqual([snapshots.current.version, policies.current?.version], ['one+p1', 1])
    assert.equal((await snapshots.current.executor.run('t:it')).status, 'denied')
  })
  await policies.refresh()
  assert.deepEqual([changes, audits], [['one+p1'], ['one', 'one+p1']])
  await snapshots.close()
})

test('an executor closes with the last snapshot of its configuration, however often the policy changed', async () => {
  const { policies, snapshots, base, add, ended } = open()
  for (const document of [frozen, open_, frozen]) {
    add(document)
    await policies.refresh()
  }
  assert.deepEqual(ended, [])
  const held = Promise.withResolvers<void>()
  const call = snapshots.use(() => held.promise)
  snapshots.replace(policies.over(base('two')))
  assert.deepEqual([snapshots.current.version, ended], ['two+p3', []])
  add(open_)
  await policies.refresh()
  assert.equal((await snapshots.current.executor.run('t:it')).output, 'two')
  held.resolve()
  await call
  assert.deepEqual(ended, ['one'])
  await snapshots.close()
  assert.deepEqual(ended, ['one', 'two'])
})

test('a stored policy that cannot be parsed lets no call run', async () => {
  const { policies, snapshots, add } = open()
  add({ rules: [{ allow: '*', moon: 'full' }] as never })
  await policies.refresh()
  const { error } = await snapshots.current.executor.run('t:it')
  assert.equal(error?.code, 'POLICY_UNAVAILABLE')
  assert.match(error?.message ?? '', /version 1, cannot be parsed/)
  add(open_)
  await policies.refresh()
  assert.equal((await snapshots.current.executor.run('t:it')).status, 'ok')
  await snapshots.close()
})

test('when the store cannot be read the policy stays in force, and the next refresh reads again', async () => {
  let fails = true
  const policies = createStoredPolicies({
    records: {
      async since() {
        if (fails) throw new Error('unavailable')
        return storedAs(frozen, 0)
      },
    },
    audit: () => memoryAudit(),
    snapshots: () => assert.fail(),
  })
  await assert.rejects(policies.refresh(), /unavailable/)
  fails = false
  await policies.refresh()
  assert.equal(policies.current?.version, 1)
})
