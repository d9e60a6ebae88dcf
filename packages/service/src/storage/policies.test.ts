import assert from 'node:assert/strict'
import type { Identity } from '@gantry/contract'
import { testOnDatabases } from './calls.fixture.ts'
import { policyChannel, policyRecords } from './policies.ts'

const ada: Identity = { principal: 'ada', tenant: 'acme', permissions: ['*'] }

testOnDatabases({
  'the newest policy is found by whoever knows an older one, with who set it': async ({ database }) => {
    const policies = policyRecords(database)
    assert.equal(await policies.since(0), undefined)
    const first = await policies.add({ rules: [{ deny: 'a:*' }], default: 'allow' }, ada)
    const second = await policies.add({ rules: [{ allow: '*', when: { '/n': { is: '☃' } } }] }, ada)
    assert.deepEqual([first.version, second.version, second.createdBy], [1, 2, 'ada'])
    assert.deepEqual((await policies.since(0))?.document, { rules: [{ allow: '*', when: { '/n': { is: '☃' } } }] })
    assert.equal((await policies.since(1))?.version, 2)
    assert.equal(await policies.since(2), undefined)
  },

  'many who set one at once each get a version of their own, and each is on the record': async ({ database }) => {
    const policies = policyRecords(database)
    const made = await Promise.all(Array.from({ length: 4 }, () => policies.add({ rules: [] }, ada)))
    assert.deepEqual(made.map(({ version }) => version).sort(), [1, 2, 3, 4])
    const notes = await database.query(
      `select principal, phase, call_id from audit where tool = 'policy.set' order by seq`,
    )
    assert.equal(notes.length, 4)
    assert.deepEqual(notes[0], { principal: 'ada', phase: 'admin', call_id: 'policy 1' })
  },

  'who sets one tells everybody its version': async ({ database }) => {
    const heard = Promise.withResolvers<string | undefined>()
    const unlisten = await database.listen(policyChannel, heard.resolve)
    await policyRecords(database).add({ rules: [] }, ada)
    assert.equal(await heard.promise, '1')
    await unlisten()
  },
})
