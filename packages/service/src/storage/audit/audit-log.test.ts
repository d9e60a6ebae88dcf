import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pgliteDatabase } from '../../../test/databases.fixture.ts'
import type { LoadedConfig } from '../../config/config.ts'
import { defaultSettings } from '../../config/service-settings.ts'
import { createBus } from '../../observe/bus.ts'
import { stub } from '../../stub.fixture.ts'
import { addRows } from '../calls.fixture.ts'
import { someRow, verified } from './audit.fixture.ts'
import { auditKeys, createAuditLog } from './audit-log.ts'

test('auditKeys refuses a missing secret, or one shorter than 16 characters', async () => {
  const texts: { [name: string]: string } = {
    good: 'sixteen symbols.',
    other: 'another long one',
    short: 'fifteen symbols',
    none: '',
  }
  const options = { secrets: { get: async (name: string) => texts[name] } }
  const keysFor = (...auditSecrets: string[]) =>
    auditKeys({ ...defaultSettings, data: '', auditSecrets }, stub<LoadedConfig>({ options }))
  assert.deepEqual(await keysFor(), [])
  const [first, second] = await keysFor('good', 'other')
  assert.equal(first?.secret, 'sixteen symbols.')
  assert.notEqual(first?.id, second?.id)
  for (const name of ['short', 'none', 'absent']) {
    await assert.rejects(keysFor('good', name), (error: Error) => {
      assert.deepEqual([(error as { code?: string }).code, error.message.includes(name)], ['SECRET_UNAVAILABLE', true])
      assert.doesNotMatch(error.message, /fifteen symbols/)
      return true
    })
  }
})

test('close() writes pending refusals, seals all entries and emits the head', async (t) => {
  const database = await pgliteDatabase(t)
  const bus = createBus()
  const heads: string[] = []
  bus.on('audit:head', ({ head }) => heads.push(head))
  const auditing = createAuditLog({ database, bus, keys: [], snapshots: { current: { version: 'v1' } } })
  await addRows(database, 'audit', [someRow()])
  auditing.refusals.add({ tenant: 'acme', principal: 'carl', tool: 't', code: 'DENIED', config: 'v1' })
  await auditing.close()
  const { ok, rows, unsealed, head } = await verified(database)
  assert.deepEqual([ok, rows, unsealed, heads], [true, 2, 0, [head]])
  await auditing.close()
  assert.equal(heads.length, 1)
})
