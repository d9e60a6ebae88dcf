import assert from 'node:assert/strict'
import type { Identity } from '@gantry/contract'
import { testOnDatabases } from './calls.fixture.ts'
import { policyChannel, policyRecords } from './policies.ts'

const ada: Identity = { principal: 'ada', tenant: 'acme', permissions: ['*'] }

testOnDatabases({
  'since() returns the newest policy after a version, with its author': async ({ database }) => {
    const policies = policyRecords(database)
    assert.equal(await policies.since(0), undefined)
    const first = await policies.add({ rules: [{ deny: 'a:*' }], default: 'allow' }, ada)
    const second = await policies.add({ rules: [{ allow: '*', when: { '/n': { is: '☃' } } }] }, ada)
    assert.deepEqual([first.version, second.version, second.createdBy], [1, 2, 'ada'])
    assert.deepEqual((await policies.since(0))?.document, { rules: [{ allow: '*', when: { '/n': { is: '☃' } } }] })
    assert.equal((await policies.since(1))?.version, 2)
    assert.equal(await policies.since(2), undefined)
  },

  'concurrent changes of the policy get different versions, and each has an audit entry': async ({ database }) => {
    const policies = policyRecords(database)
    const made = await Promise.all(Array.from({ length: 4 }, () => policies.add({ rules: [] }, ada)))
    assert.deepEqual(made.map(({ version }) => version).sort(), [1, 2, 3, 4])
    const notes = await database.query(
      `select principal, phase, call_id from audit where tool = 'policy.set' order by seq`,
    )
    assert.equal(notes.length, 4)
    assert.deepEqual(notes[0], { principal: 'ada', phase: 'admin', call_id: 'policy 1' })
  },

  'setting a policy notifies all processes of its version': async ({ database }) => {
    const received = Promise.withResolvers<string | undefined>()
    const unlisten = await database.listen(policyChannel, received.resolve)
    await policyRecords(database).add({ rules: [] }, ada)
    assert.equal(await received.promise, '1')
    await unlisten()
  },
})
