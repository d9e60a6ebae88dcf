import assert from 'node:assert/strict'
import { addRows, testOnDatabases } from '../calls.fixture.ts'
import type { Row } from '../databases/database.ts'
import { journalRecords } from '../journal.ts'
import { claiming, dead, letter, operator, parts } from './dead-letters.fixture.ts'

testOnDatabases({
  'a redriven chain or program starts with the journal of all its predecessors': async ({ database }) => {
    const { deadLetters } = parts(database)
    const journal = journalRecords(database)
    const row = (callId: string, entry: string, result?: string): Row => {
      const state = result === undefined ? 'begun' : 'done'
      return { call_id: callId, entry, state, fence: 3, ...(result === undefined ? {} : { result }) }
    }
    for (const kind of ['chain', 'code']) {
      await dead(database, `${kind}-1`, { kind })
      await addRows(database, 'journal', [row(`${kind}-1`, 'a', '1'), row(`${kind}-1`, 'b')])
      const { callId: second } = await deadLetters.redrive(`${kind}-1`, operator)
      await addRows(database, 'journal', [row(second, 'c')])
      await database.query(`update journal set state = 'done', result = '2' where call_id = $1 and entry = 'b'`, [
        second,
      ])
      await addRows(database, 'dead_letters', [letter(second)])
      await database.query(`delete from journal where call_id = '${kind}-1'`)
      const { callId: third } = await deadLetters.redrive(second, operator)
      assert.deepEqual(Object.fromEntries(await journal.read(third)), {
        a: { state: 'done', result: '1' },
        b: { state: 'done', result: '2' },
        c: { state: 'begun' },
      })
    }
    // An older version did not copy the journal to the redriven call.
    await dead(database, 'old', { kind: 'code', effect_key: 'origin' })
    await addRows(database, 'journal', [row('origin', 'a', '1'), row('origin', 'b'), row('old', 'b', '2')])
    const { callId } = await deadLetters.redrive('old', operator)
    assert.deepEqual(Object.fromEntries(await journal.read(callId)), {
      a: { state: 'done', result: '1' },
      b: { state: 'done', result: '2' },
    })
  },

  'a dead letter that is removed or discarded during its redrive submits no call': async ({ database }) => {
    const going = parts(database, {
      async prepare(call) {
        for (const table of ['dead_letters', 'journal', 'calls']) await database.query(`delete from ${table}`)
        return call
      },
    })
    await dead(database, 'c1', { kind: 'chain' })
    await assert.rejects(going.deadLetters.redrive('c1', operator), { code: 'NOT_FOUND' })
    const discarding = parts(database, {
      async prepare(call) {
        await going.deadLetters.discard('c2', operator)
        return call
      },
    })
    await dead(database, 'c2')
    await assert.rejects(discarding.deadLetters.redrive('c2', operator), {
      code: 'INPUT_INVALID',
      message: /discarded/,
    })
    assert.deepEqual(await going.calls.claim(10, claiming), [])
  },
})
