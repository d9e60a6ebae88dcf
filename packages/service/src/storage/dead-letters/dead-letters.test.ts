import assert from 'node:assert/strict'
import type { Identity } from '@gantry/contract'
import type { ToolVisibility } from '@gantry/core'
import { addRows, ago, someCall, someEnd, testOnDatabases } from '../calls.fixture.ts'
import type { Database, Queries } from '../databases/database.ts'
import { outboxRecords } from '../outbox/outbox.ts'
import { claiming, dead, identity, letter, operator, parts } from './dead-letters.fixture.ts'
import type { DeadLetters } from './dead-letters.ts'

/** Adds a callback that could not be sent; returns the id of its dead letter. */
async function failedCallback(database: Queries, callId: string): Promise<string> {
  await addRows(database, 'calls', [someCall(callId)])
  await addRows(database, 'results', [someEnd(callId)])
  await addRows(database, 'outbox', [{ call_id: callId, tenant: 'acme', kind: 'callback', target: 'https://a.b' }])
  await failNext(database)
  const [row] = await database.query<{ id: string }>('select id from dead_letters where call_id = $1', [callId])
  return row?.id ?? ''
}

async function failNext(database: Queries): Promise<void> {
  const outbox = outboxRecords(database)
  for (const item of await outbox.claim(1, 60_000)) await outbox.fail(item, 'no listener')
}

async function pages(deadLetters: DeadLetters, limit: number): Promise<string[][]> {
  const found: string[][] = []
  let cursor: string | undefined
  do {
    const page = await deadLetters.list({ limit, ...(cursor === undefined ? {} : { cursor }) }, 'acme')
    found.push(page.items.map(({ id }) => id))
    cursor = page.cursor
  } while (cursor !== undefined)
  return found
}

testOnDatabases({
  'dead letters of a tenant are listed in pages, newest first': async ({ database }) => {
    const { deadLetters } = parts(database)
    const ids = ['e', 'd', 'c', 'b', 'a']
    const times = [1, 2, 2, 2, 3].map((n) => ago(n * 1_000))
    for (const [index, id] of ids.entries()) {
      await addRows(database, 'dead_letters', [letter(id, { created_at: times[index] })])
    }
    await database.query(`update dead_letters set created_at = (select created_at from dead_letters where id = 'c')
      + interval '1 microsecond' where id = 'b'`)
    await database.query(`update dead_letters set created_at = (select created_at from dead_letters where id = 'c')
      where id = 'd'`)
    await addRows(database, 'dead_letters', [letter('other', { tenant: 'other' })])
    assert.deepEqual(await pages(deadLetters, 2), [['e', 'b'], ['d', 'c'], ['a']])
    assert.deepEqual(await pages(deadLetters, 5), [['e', 'b', 'd', 'c', 'a']])
    assert.deepEqual(await pages(deadLetters, -1), [['e'], ['b'], ['d'], ['c'], ['a']])
  },

  'list() filters hidden dead letters before it cuts pages, so that pages are full and cursors reveal none': async ({
    database,
  }) => {
    const tools = ['math:add:1.0.0', 'mail:send:1.0.0', null, 'math:add:1.0.0', 'chain', 'mail:send:1.0.0']
    for (const [index, tool] of tools.entries()) {
      await addRows(database, 'dead_letters', [letter(`l${index}`, { tool, created_at: ago(1_000 * index) })])
    }
    const visibilityOf = (tool: string): ToolVisibility => (tool.startsWith('math:') ? 'visible' : 'hidden')
    for (const stretch of [1, 2, 3, 6, 10_000]) {
      const { deadLetters } = parts(database, { stretch })
      const read = async (as: Identity): Promise<string[]> => {
        const first = await deadLetters.list({ limit: 1 }, { identity: as, visibilityOf })
        if (first.cursor === undefined) return first.items.map(({ id }) => id)
        const rest = await deadLetters.list({ cursor: first.cursor }, { identity: as, visibilityOf })
        return [...first.items, ...rest.items].map(({ id }) => id)
      }
      assert.deepEqual(await read(identity), ['l0', 'l3', 'l4'])
      assert.deepEqual(await read({ ...identity, tools: ['math:*'] }), ['l0', 'l3'])
      assert.deepEqual(await read(operator), ['l0', 'l1', 'l2', 'l3', 'l4', 'l5'])
      assert.deepEqual(await read({ ...operator, tools: ['*'] }), ['l0', 'l1', 'l3', 'l5'])
      assert.deepEqual(await read({ ...operator, tenant: 'other' }), [])
    }
  },

  'get() returns all fields of a dead letter': async ({ database }) => {
    const { deadLetters } = parts(database)
    await dead(database, 'c1', { payload: '{"a":1}' })
    const found = await deadLetters.get('c1', 'acme')
    const { createdAt, ...rest } = found
    assert.ok(Date.parse(createdAt) > 0)
    assert.deepEqual(rest, {
      id: 'c1',
      callId: 'c1',
      source: 'call',
      reason: 'It died.',
      code: 'DELIVERY_EXHAUSTED',
      tool: 'math:add:1.0.0',
      deliveries: 3,
      payload: { a: 1 },
    })
    const unread = letter('m1', { call_id: null, tool: null, source: 'queue', payload: '{"broken' })
    await addRows(database, 'dead_letters', [unread])
    const { createdAt: _, ...bare } = await deadLetters.get('m1', 'acme')
    assert.deepEqual(bare, {
      id: 'm1',
      source: 'queue',
      reason: 'It died.',
      code: 'DELIVERY_EXHAUSTED',
      deliveries: 3,
      payload: '{"broken',
    })
  },

  'a dead letter of another tenant, an unknown id and a hostile id are NOT_FOUND': async ({ database }) => {
    const { deadLetters } = parts(database)
    await dead(database, 'c1')
    await deadLetters.get('c1', 'acme')
    const stranger = { ...operator, tenant: 'other' }
    await assert.rejects(deadLetters.get('c1', 'other'), { code: 'NOT_FOUND' })
    await assert.rejects(deadLetters.redrive('c1', stranger), { code: 'NOT_FOUND' })
    await assert.rejects(deadLetters.discard('c1', stranger), { code: 'NOT_FOUND' })
    for (const id of ['', 'c2', 'c1\0', "' or true --", 'x'.repeat(10_000)]) {
      await assert.rejects(deadLetters.get(id, 'acme'), { code: 'NOT_FOUND' })
    }
    for (const cursor of ['', 'x', Buffer.from('2026 x').toString('base64url')]) {
      await assert.rejects(deadLetters.list({ cursor }, 'acme'), { code: 'INPUT_INVALID' })
    }
  },

  'redrive() submits the call once, with its first caller’s identity and a new id': async ({ database }) => {
    const { calls, deadLetters } = parts(database)
    await dead(database, 'c1', {
      payload: '{"a":1}',
      payload_bytes: 7,
      timeout_ms: 5,
      callback: 'https://a.b',
      digest: 'd',
    })
    assert.deepEqual(await deadLetters.redrive('c1', operator), { callId: 'new1' })
    assert.deepEqual(await deadLetters.redrive('c1', operator), { callId: 'new1' })
    const claims = await calls.claim(10, claiming)
    assert.deepEqual(
      claims.map(({ call }) => call),
      [
        {
          callId: 'new1',
          kind: 'call',
          identity,
          fingerprint: 'f',
          tool: 'math:add:1.0.0',
          effect: 'read',
          payload: '{"a":1}',
          payloadBytes: 7,
          timeoutMs: 5,
          callback: 'https://a.b',
          redriveOf: 'c1',
          // The tool gets the same idempotency key as for the first call.
          effectKey: 'c1',
        },
      ],
    )
    const { redriven } = await deadLetters.get('c1', 'acme')
    assert.deepEqual([redriven?.by, redriven?.callId], ['olga', 'new1'])
    const audit = await database.query(
      `select tenant, principal, call_id, fence, phase, tool, details from audit where phase <> 'start'`,
    )
    assert.deepEqual(
      audit.map(({ details, ...row }) => ({ ...row, ...JSON.parse(String(details)) })),
      [
        {
          tenant: 'acme',
          principal: 'olga',
          call_id: 'new1',
          fence: 0,
          phase: 'redrive',
          tool: 'math:add:1.0.0',
          letter: 'c1',
          callId: 'c1',
        },
      ],
    )
  },

  'a failed redrive submits no call, and concurrent redrives after it submit one': async ({ database }) => {
    const { calls, deadLetters } = parts(database)
    await dead(database, 'c1', { kind: 'chain' })
    await addRows(database, 'journal', [{ call_id: 'c1', entry: 'a', state: 'begun', fence: 1 }])
    const dying = (queries: Queries): Queries => ({
      query: (sql, parameters) =>
        sql.includes('redriven_at = now()') ? Promise.reject(new Error('died')) : queries.query(sql, parameters),
    })
    const transaction: Database['transaction'] = (work) => database.transaction((queries) => work(dying(queries)))
    await assert.rejects(parts({ ...database, transaction }).deadLetters.redrive('c1', operator), /died/)
    assert.equal((await deadLetters.get('c1', 'acme')).redriven, undefined)
    assert.deepEqual(await database.query('select call_id from calls'), [{ call_id: 'c1' }])
    assert.deepEqual(await database.query('select call_id from journal'), [{ call_id: 'c1' }])
    const both = await Promise.all([deadLetters.redrive('c1', operator), deadLetters.redrive('c1', operator)])
    assert.deepEqual(both[0], both[1])
    assert.deepEqual(await database.query('select count(*) as count from audit'), [{ count: 1 }])
    assert.equal((await calls.claim(10, claiming)).length, 1)
  },

  'redrive() returns the call that an earlier redrive submitted without marking the dead letter': async ({
    database,
  }) => {
    const { calls, deadLetters } = parts(database)
    await dead(database, 'c1')
    const before = { callId: 'before', kind: 'call', identity, key: 'dlq:c1', tool: 'math:add:1.0.0' } as const
    const again = { ...before, effect: 'read', fingerprint: 'f', payload: '{}', payloadBytes: 2 } as const
    await calls.submit([{ ...again, redriveOf: 'c1' }])
    assert.deepEqual(await deadLetters.redrive('c1', operator), { callId: 'before' })
    assert.equal((await deadLetters.get('c1', 'acme')).redriven?.callId, 'before')
    assert.equal((await calls.claim(10, claiming)).length, 1)
  },

  'a redriven call gets the present requirements of its tool': async ({ database }) => {
    const slot = { key: 'k', limit: 1 }
    const { calls, deadLetters } = parts(database, { prepare: async (call) => ({ ...call, slot }) })
    await dead(database, 'c1', { payload: null, payload_ref: 'sha256:x' })
    await deadLetters.redrive('c1', operator)
    const [claim] = await calls.claim(1, claiming)
    assert.deepEqual([claim?.call.slot, claim?.call.payloadRef], [slot, 'sha256:x'])
  },

  'a dead letter of an unreadable message can be discarded, but not redriven': async ({ database }) => {
    const { deadLetters } = parts(database)
    await addRows(database, 'dead_letters', [letter('m1', { call_id: null, tool: null, payload: '\\xff' })])
    await assert.rejects(deadLetters.redrive('m1', operator), {
      code: 'INPUT_INVALID',
      message: /no readable call/,
    })
    await deadLetters.discard('m1', operator)
    assert.equal((await deadLetters.get('m1', 'acme')).discarded?.by, 'olga')
  },

  'a discarded dead letter cannot be redriven, and a redriven one cannot be discarded': async ({ database }) => {
    const { calls, deadLetters } = parts(database)
    await dead(database, 'c1')
    await dead(database, 'c2')
    await deadLetters.discard('c1', operator)
    await deadLetters.discard('c1', { ...operator, principal: 'otto' })
    assert.equal((await deadLetters.get('c1', 'acme')).discarded?.by, 'olga')
    await assert.rejects(deadLetters.redrive('c1', operator), { code: 'INPUT_INVALID', message: /was discarded/ })
    assert.equal((await calls.claim(1, claiming)).length, 0)
    await deadLetters.redrive('c2', operator)
    await assert.rejects(deadLetters.discard('c2', operator), { code: 'INPUT_INVALID', message: /was redriven as new/ })
    const audit = await database.query('select principal, call_id, phase from audit order by seq')
    assert.deepEqual(audit, [
      { principal: 'olga', call_id: 'c1', phase: 'discard' },
      { principal: 'olga', call_id: 'new1', phase: 'redrive' },
    ])
  },

  'redriving a callback makes it due once, and it can be redriven again after it failed again': async (
    { database },
    t,
  ) => {
    const { calls, deadLetters } = parts(database)
    const outbox = outboxRecords(database)
    const id = await failedCallback(database, 'c1')
    const received = Promise.withResolvers<string | undefined>()
    const unsubscribe = await database.listen('gantry_outbox', received.resolve)
    t.after(() => unsubscribe())
    assert.deepEqual(await deadLetters.redrive(id, operator), { callId: 'c1' })
    assert.equal(await received.promise, '')
    await assert.rejects(deadLetters.discard(id, operator), { code: 'INPUT_INVALID' })
    const [item] = await outbox.claim(10, 60_000)
    assert.deepEqual([item?.callId, item?.tries], ['c1', 1])
    assert.deepEqual(await deadLetters.redrive(id, operator), { callId: 'c1' })
    assert.deepEqual(await outbox.claim(10, 60_000), [])
    assert.ok(item !== undefined)
    await outbox.fail(item, 'still no listener')
    const open = await deadLetters.get(id, 'acme')
    assert.deepEqual([open.reason, open.redriven], ['still no listener', undefined])
    const both = await Promise.all([deadLetters.redrive(id, operator), deadLetters.redrive(id, operator)])
    assert.deepEqual(both, [{ callId: 'c1' }, { callId: 'c1' }])
    assert.equal((await outbox.claim(10, 60_000)).length, 1)
    assert.equal((await calls.claim(10, claiming)).length, 0)
    assert.deepEqual(await database.query('select count(*) as count from audit'), [{ count: 2 }])
  },

  'a callback that was discarded, or is no longer in the outbox, cannot be redriven': async ({ database }) => {
    const { deadLetters } = parts(database)
    const id = await failedCallback(database, 'c1')
    await deadLetters.discard(id, operator)
    await assert.rejects(deadLetters.redrive(id, operator), { code: 'INPUT_INVALID' })
    const other = await failedCallback(database, 'c2')
    await database.query('delete from outbox')
    await assert.rejects(deadLetters.redrive(other, operator), {
      code: 'INPUT_INVALID',
      message: /no longer in the outbox/,
    })
    assert.equal((await deadLetters.get(other, 'acme')).redriven, undefined)
  },

  'a call of the caller under the idempotency key of the redrive does not prevent it': async ({ database }) => {
    const { calls, deadLetters } = parts(database)
    for (const fingerprint of ['f', 'another']) {
      const id = `c-${fingerprint}`
      await dead(database, id)
      const theirs = { callId: `x-${id}`, kind: 'call', identity, key: `dlq:${id}`, tool: 'a:b:1' } as const
      await calls.submit([{ ...theirs, effect: 'read', fingerprint, payload: '{}', payloadBytes: 2 }])
      const { callId } = await deadLetters.redrive(id, operator)
      assert.notEqual(callId, theirs.callId)
      assert.deepEqual(await deadLetters.redrive(id, operator), { callId })
    }
    assert.equal((await calls.claim(10, claiming)).length, 4)
  },

  'get() redacts secrets in the payload, and redrive() submits the original': async ({ database }) => {
    const { calls, deadLetters } = parts(database)
    const payload = '{"a":1,"deep":[{"api_key":"CANARY"}]}'
    await dead(database, 'c1', { payload })
    const shown = JSON.stringify((await deadLetters.get('c1', 'acme')).payload)
    assert.match(shown, /^\{"a":1,"deep":\[\{"api_key":"\[redacted 6 bytes hmac-sha256:\w{32}\]"\}\]\}$/)
    await deadLetters.redrive('c1', operator)
    assert.equal((await calls.claim(1, claiming))[0]?.call.payload, payload)
  },
})
