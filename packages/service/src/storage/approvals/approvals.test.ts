import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { type Identity, type JsonObject, ToolError } from '@gantry/contract'
import { addRows, someCall, testOnDatabases } from '../calls.fixture.ts'
import type { Database } from '../databases/database.ts'
import { type ApprovalCall, type ApprovalRecords, approvalRecords } from './approvals.ts'

const bob: Identity = { principal: 'bob', tenant: 'acme', permissions: ['gantry:approve'] }
const alice: Identity = { principal: 'alice', tenant: 'acme', permissions: ['*'] }
const mona: Identity = { principal: 'mona', tenant: 'acme', permissions: [], roles: ['managers'] }
const outsider: Identity = {
  principal: 'outsider',
  tenant: 'acme',
  permissions: ['math:*', 'gantry:audit'],
  roles: ['x'],
}
const eve: Identity = { principal: 'eve', tenant: 'other', permissions: ['*'] }

function question(callId: string, given: Partial<ApprovalCall> = {}): ApprovalCall {
  return {
    tenant: 'acme',
    principal: 'alice',
    callId,
    innerId: callId,
    tool: 'math:add:1.0.0',
    shown: { a: 1 },
    hidden: [],
    files: [],
    fingerprint: 'f',
    reason: 'It costs.',
    approvers: [],
    withinMs: 60_000,
    ...given,
  }
}

/** Adds a call in the lane `asked` and requests its approval. */
async function asked(database: Database, given: Partial<ApprovalCall> = {}, callId = 'c1') {
  const records = approvalRecords(database)
  await addRows(database, 'calls', [someCall(callId)])
  await addRows(database, 'queue', [{ call_id: callId, tenant: 'acme', lane: 'asked', run_at: 'infinity', fence: 1 }])
  const state = await records.ask(question(callId, given))
  assert.ok(state.kind === 'open')
  return { records, id: state.id, again: () => records.ask(question(callId, given)) }
}

const laneOf = async (database: Database, callId = 'c1'): Promise<unknown> =>
  (await database.query('select lane from queue where call_id = $1', [callId]))[0]?.lane

const notes = async (database: Database): Promise<readonly unknown[]> =>
  (await database.query(`select tool, principal, call_id, details from audit where phase = 'admin' order by seq`)).map(
    ({ tool, principal, call_id, details }) => [tool, principal, call_id, JSON.parse(String(details)).approval],
  )

const refusal =
  (code: string, words = /./) =>
  (error: unknown): boolean =>
    ToolError.is(error) && error.code === code && words.test(error.message)

const passTime = (database: Database): Promise<unknown> =>
  database.query(`update approvals set expires_at = now() - interval '1 second'`)

const decidedBy = (records: ApprovalRecords, id: string, by: Identity): Promise<string> =>
  records.decide(id, { decision: 'approve' }, by).then(
    ({ state }) => state,
    (error: unknown) => (ToolError.is(error) ? error.code : String(error)),
  )

testOnDatabases({
  'an approval is requested once, and stays open until it is decided': async ({ database }) => {
    const { id, again } = await asked(database)
    const state = await again()
    assert.ok(state.kind === 'open' && state.id === id)
    assert.ok(state.expiresMs > 50_000 && state.expiresMs <= 60_000)
    assert.equal((await database.query('select from approvals')).length, 1)
    assert.deepEqual(await notes(database), [['approvals.ask', 'alice', 'c1', id]])
  },

  'approving makes the call claimable, is audited, and is returned to the call': async ({ database }) => {
    const { records, id, again } = await asked(database)
    const view = await records.decide(id, { decision: 'approve', reason: 'go on' }, bob)
    assert.deepEqual([view.state, view.decided?.by, view.decided?.why], ['approved', 'bob', 'go on'])
    assert.equal(await laneOf(database), 'ready')
    assert.deepEqual(await again(), { kind: 'approve', by: 'bob', why: 'go on' })
    assert.deepEqual((await notes(database)).at(-1), ['approvals.approve', 'bob', 'c1', id])
  },

  'denying makes the call claimable, is audited, and is returned to the call': async ({ database }) => {
    const { records, id, again } = await asked(database)
    const view = await records.decide(id, { decision: 'deny', reason: 'too dear' }, bob)
    assert.deepEqual([view.state, view.decided?.why], ['denied', 'too dear'])
    assert.equal(await laneOf(database), 'ready')
    assert.deepEqual(await again(), { kind: 'deny', by: 'bob', why: 'too dear' })
    assert.deepEqual((await notes(database)).at(-1), ['approvals.deny', 'bob', 'c1', id])
  },

  'other arguments, another inner call or another tenant need another approval': async ({ database }) => {
    const { records, id } = await asked(database)
    await records.decide(id, { decision: 'approve' }, bob)
    const others = [{ fingerprint: 'g' }, { innerId: 'c1.step' }, { tenant: 'other' }]
    for (const given of others) {
      const state = await records.ask(question('c1', given))
      assert.ok(state.kind === 'open' && state.id !== id, JSON.stringify(given))
    }
  },

  'an approval is valid while the policy names a role of its approver, and other approvers are asked once': async ({
    database,
  }) => {
    const { records, id, again } = await asked(database, { approvers: ['managers'] })
    await records.decide(id, { decision: 'approve' }, mona)
    assert.deepEqual(await again(), { kind: 'approve', by: 'mona' })
    const nowBy = (approvers: string[]) => records.ask(question('c1', { approvers }))
    assert.equal((await nowBy(['board', 'managers'])).kind, 'approve', 'the policy still names her role')
    for (const approvers of [['board'], []]) {
      const state = await nowBy(approvers)
      assert.ok(state.kind === 'open' && state.id !== id)
      const later = await nowBy(approvers)
      assert.ok(later.kind === 'open' && later.id === state.id)
      await database.query('delete from approvals where id = $1', [state.id])
    }
    const second = await nowBy(['board'])
    assert.ok(second.kind === 'open')
    await assert.rejects(records.decide(second.id, { decision: 'approve' }, mona), refusal('DENIED', /roles board/))
    await records.decide(second.id, { decision: 'approve' }, { ...mona, principal: 'cleo', roles: ['board'] })
    assert.deepEqual(await nowBy(['board']), { kind: 'approve', by: 'cleo' })
    const third = await nowBy(['owners'])
    assert.ok(third.kind === 'open')
    await records.decide(third.id, { decision: 'deny' }, bob)
    for (const approvers of [['owners'], ['board'], ['managers'], []]) {
      assert.deepEqual(await nowBy(approvers), { kind: 'deny', by: 'bob' }, 'a denial stays valid')
    }
  },

  'an approval by a holder of gantry:approve is valid for any approvers that the policy names later': async ({
    database,
  }) => {
    const { records, id } = await asked(database, { approvers: ['managers'] })
    await records.decide(id, { decision: 'approve' }, bob)
    for (const approvers of [['board'], []])
      assert.equal((await records.ask(question('c1', { approvers }))).kind, 'approve')
  },

  'a second decision is refused, and the same decision by the same principal is accepted again': async ({
    database,
  }) => {
    const { records, id } = await asked(database)
    await records.decide(id, { decision: 'approve' }, bob)
    assert.equal((await records.decide(id, { decision: 'approve' }, bob)).state, 'approved')
    await assert.rejects(
      records.decide(id, { decision: 'deny' }, bob),
      refusal('INPUT_INVALID', /was approved by bob before/),
    )
    await assert.rejects(
      records.decide(id, { decision: 'approve' }, { ...mona, permissions: ['*'] }),
      refusal('INPUT_INVALID'),
    )
    assert.equal((await notes(database)).length, 2)
  },

  'of two concurrent decisions one wins, and the other is refused': async ({ database }) => {
    const callIds = Array.from({ length: 20 }, (_, n) => `c${n}`)
    for (const callId of callIds) {
      const { records, id, again } = await asked(database, {}, callId)
      const mayToo = { ...mona, permissions: ['gantry:*'] }
      const both = await Promise.allSettled([
        records.decide(id, { decision: 'approve' }, bob),
        records.decide(id, { decision: 'deny' }, mayToo),
      ])
      const won = both.filter(({ status }) => status === 'fulfilled')
      assert.equal(won.length, 1)
      const kind = both[0].status === 'fulfilled' ? 'approve' : 'deny'
      assert.equal((await again()).kind, kind)
    }
    assert.equal((await notes(database)).length, 2 * callIds.length)
  },

  'an expired approval cannot be approved, and the call gets `expired`': async ({ database }) => {
    const { records, id, again } = await asked(database)
    await passTime(database)
    assert.equal((await records.get(id, bob)).state, 'expired')
    await assert.rejects(records.decide(id, { decision: 'approve' }, bob), refusal('INPUT_INVALID', /was expired/))
    assert.deepEqual(await again(), { kind: 'expired' })
    assert.deepEqual(await again(), { kind: 'expired' })
    assert.deepEqual((await notes(database)).at(-1), ['approvals.expire', 'gantry', 'c1', id])
  },

  'of a decision and a concurrent expiry exactly one wins': async ({ database }) => {
    const ends = { approve: 0, expired: 0 }
    for (let round = 0; round < 40; round++) {
      const { records, id, again } = await asked(database, {}, `c${round}`)
      await database.query(
        `update approvals set expires_at = clock_timestamp() + $2 * interval '1 millisecond' where id = $1`,
        [id, round % 15],
      )
      const expiry = async () => {
        for (;;) {
          const state = await again()
          if (state.kind !== 'open') return state.kind
        }
      }
      const [approval, kind] = await Promise.all([decidedBy(records, id, bob), expiry()])
      assert.equal(approval, kind === 'approve' ? 'approved' : 'INPUT_INVALID', `round ${round}`)
      assert.ok(kind === 'approve' || kind === 'expired')
      ends[kind] += 1
    }
    const actions = (await notes(database)).map((note) => (note as string[])[0])
    assert.equal(actions.filter((action) => action === 'approvals.approve').length, ends.approve)
    assert.equal(actions.filter((action) => action === 'approvals.expire').length, ends.expired)
  },

  'a principal cannot decide on its own call, whatever its permissions': async ({ database }) => {
    const { records, id } = await asked(database)
    await assert.rejects(records.decide(id, { decision: 'approve' }, alice), refusal('DENIED', /its own call/))
    const error = await records.decide(id, { decision: 'approve' }, alice).catch((thrown: unknown) => thrown)
    assert.deepEqual((error as ToolError).details, { own: true })
    assert.equal((await records.get(id, alice)).state, 'open')
    assert.equal(await laneOf(database), 'asked')
  },

  'only a holder of gantry:approve or of a role of the rule sees and decides an approval': async ({ database }) => {
    const { records, id } = await asked(database, { approvers: ['managers'] })
    const plain = await asked(database, { innerId: 'c2.x' }, 'c2')
    for (const refused of [outsider, { ...outsider, principal: '' }]) {
      await assert.rejects(records.get(id, refused), refusal('DENIED', /gantry:approve, or one of the roles managers/))
      await assert.rejects(records.decide(id, { decision: 'approve' }, refused), refusal('DENIED'))
      assert.deepEqual((await records.list({}, refused)).items, [])
    }
    await assert.rejects(records.decide(plain.id, { decision: 'approve' }, mona), refusal('DENIED'))
    assert.deepEqual(
      (await records.list({}, mona)).items.map((item) => item.id),
      [id],
    )
    assert.equal((await records.list({}, alice)).items.length, 2, 'a caller sees approvals of its own calls')
    assert.equal((await records.decide(id, { decision: 'approve' }, mona)).state, 'approved')
  },

  'an approval of another tenant is NOT_FOUND, as an unknown id is': async ({ database }) => {
    const { records, id } = await asked(database)
    const strange = { ...eve, roles: ['managers'] }
    const absent = await records.get('ap_00000000000000000000000000000000', bob).catch((error: unknown) => error)
    const looks = [() => records.get(id, strange), () => records.decide(id, { decision: 'approve' }, strange)]
    for (const look of looks) {
      const error = await look().catch((thrown: unknown) => thrown)
      assert.ok(ToolError.is(error) && ToolError.is(absent))
      assert.deepEqual([error.code, error.message], [absent.code, absent.message])
    }
    assert.deepEqual((await records.list({ state: 'all' }, strange)).items, [])
    assert.equal(await laneOf(database), 'asked')
    for (const id of ['', '../x', 'ap_\0', `ap_${'x'.repeat(10_000)}`])
      await assert.rejects(records.get(id, bob), refusal('NOT_FOUND'))
  },

  'an approval for a tool that a principal is not limited to is NOT_FOUND to read and to decide': async ({
    database,
  }) => {
    const { records, id } = await asked(database)
    const absent = refusal('NOT_FOUND', /^There is no approval of this id\.$/)
    for (const who of [bob, alice, { ...mona, permissions: ['*'] }]) {
      const bound = { ...who, tools: ['mail:*', 'math:add:2.0.0'] }
      await assert.rejects(records.get(id, bound), absent)
      await assert.rejects(records.decide(id, { decision: 'approve' }, bound), absent)
      assert.deepEqual((await records.list({ state: 'all' }, bound)).items, [])
    }
    assert.equal(await laneOf(database), 'asked')
    for (const tools of [['mail:*', 'Math:*'], ['math:add'], ['*']]) {
      assert.equal((await records.list({}, { ...bob, tools })).items[0]?.id, id)
      assert.equal((await records.get(id, { ...bob, tools })).state, 'open')
    }
    assert.equal(await decidedBy(records, id, { ...bob, tools: ['math:add:1.0.0'] }), 'approved')
  },

  'an approval whose call has ended is void and cannot be decided': async ({ database }) => {
    const { records, id } = await asked(database)
    await database.query('delete from queue')
    assert.equal((await records.get(id, bob)).state, 'void')
    assert.deepEqual((await records.list({}, bob)).items, [])
    assert.equal((await records.list({ state: 'all' }, bob)).items.length, 1)
    await assert.rejects(records.decide(id, { decision: 'approve' }, bob), refusal('INPUT_INVALID', /has ended/))
    assert.equal((await notes(database)).length, 1)
  },

  'get() returns the exact arguments, truncated unless `full` is set, and list() returns none': async ({
    database,
  }) => {
    const shown = {
      to: 'smtp://me:hunter2@x',
      'auth.py': 'code',
      text: 'a\0b\ud800',
      list: ['\u202e', { password: 1 }],
    }
    const { records, id } = await asked(database, { shown, hidden: ['/a\0b'], reason: 'a\0b' })
    const view = await records.get(id, bob)
    assert.deepEqual([view.args, view.hidden, view.reason], [shown, ['/a\0b'], 'a\ufffdb'])
    assert.equal(view.argsSha256, hash('sha256', JSON.stringify(shown)))
    assert.equal((await records.list({}, bob)).items[0]?.args, undefined)
    const text = 'x'.repeat(300_000)
    const long = await asked(database, { shown: { text } }, 'c2')
    const cut = await records.get(long.id, bob)
    assert.deepEqual(cut.truncated, ['/text'])
    assert.match(JSON.stringify(cut.args), /\[truncated: 300000 bytes in all, sha256:[0-9a-f]{64}\]/)
    assert.deepEqual((await records.get(long.id, bob, { full: true })).args, { text })
    const many = { list: Array.from({ length: 100_000 }, (_, n) => n) }
    const wide = await asked(database, { shown: many }, 'c3')
    const { args, truncated } = await records.get(wide.id, bob)
    assert.match(String((args as JsonObject).list), /^\[0,1,2,.*… \[truncated: 588891 bytes in all, sha256:/)
    assert.deepEqual(truncated, ['/list'])
    assert.deepEqual((await records.get(wide.id, bob, { full: true })).args, many)
  },

  'approvals are listed in pages, newest first': async ({ database }) => {
    for (let n = 0; n < 5; n++) {
      await asked(database, {}, `c${n}`)
      // Two requests can come in one tick of the embedded database's clock.
      await database.query(`update approvals set asked_at = now() + $2 * interval '1 second' where call_id = $1`, [
        `c${n}`,
        n,
      ])
    }
    const records = approvalRecords(database)
    const seen: string[] = []
    let cursor: string | undefined
    do {
      const page = await records.list({ limit: 2, ...(cursor === undefined ? {} : { cursor }) }, bob)
      seen.push(...page.items.map(({ callId }) => callId))
      cursor = page.cursor
    } while (cursor !== undefined)
    assert.deepEqual(seen, ['c4', 'c3', 'c2', 'c1', 'c0'])
    await assert.rejects(records.list({ cursor: 'nonsense' }, bob), refusal('INPUT_INVALID'))
  },
})
