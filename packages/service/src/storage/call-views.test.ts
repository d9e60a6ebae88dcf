import assert from 'node:assert/strict'
import { artifactRecords } from './artifacts/artifact-records.ts'
import { callViews } from './call-views.ts'
import { addRows, ago, type Stores, someCall, someEnd, someResult, testOnDatabases } from './calls.fixture.ts'

const { signal } = new AbortController()
const options = { maxBytes: 100_000, signal }

function views({ database, store }: Stores) {
  return callViews(database, artifactRecords(database, store))
}

/** One call in each state. */
async function addOneOfEach({ database }: Stores): Promise<void> {
  const ids = ['waits', 'later', 'runs', 'again', 'done', 'failed', 'asked']
  await addRows(
    database,
    'calls',
    ids.map((id, index) => someCall(id, { created_at: `2026-01-0${index + 1}T00:00:00Z` })),
  )
  const lease = { lease_until: ago(-60_000), claimed_at: '2026-02-02T00:00:00Z', fence: 2 }
  await addRows(database, 'queue', [
    { call_id: 'waits', tenant: 'acme', priority: 7 },
    { call_id: 'later', tenant: 'acme', lane: 'later' },
    { call_id: 'asked', tenant: 'acme', lane: 'asked', fence: 1 },
    { call_id: 'runs', tenant: 'acme', ...lease },
    { call_id: 'again', tenant: 'acme', claimed_at: '2026-02-02T00:00:00Z', fence: 1 },
  ])
  await addRows(database, 'results', [
    someEnd('done', { finished_at: '2026-02-03T00:00:00Z' }),
    someEnd('failed', { status: 'failed', result: JSON.stringify(someResult({ callId: 'failed', status: 'failed' })) }),
  ])
  const attempt = { outcome: 'lost', started_at: '2026-02-01T00:00:00Z' }
  await addRows(database, 'attempts', [
    { call_id: 'runs', fence: 1, ...attempt },
    { call_id: 'again', fence: 1, ...attempt },
    { call_id: 'done', fence: 1, ...attempt },
    { call_id: 'done', fence: 2, outcome: 'ok', started_at: '2026-02-02T00:00:00Z' },
  ])
}

testOnDatabases({
  'the state of a call is queued, delayed, asked or running, and after its end the status of its outcome': async (
    stores,
  ) => {
    await addOneOfEach(stores)
    const seen = async (callId: string) => {
      const { state, attempts, startedAt, finishedAt, priority } = await views(stores).get(callId, 'acme', signal)
      return [state, attempts, startedAt?.slice(0, 10), finishedAt?.slice(0, 10), priority]
    }
    assert.deepEqual(await seen('waits'), ['queued', 0, undefined, undefined, 7])
    assert.deepEqual(await seen('later'), ['delayed', 0, undefined, undefined, 0])
    assert.deepEqual(await seen('asked'), ['asked', 0, undefined, undefined, 0])
    assert.deepEqual(await seen('runs'), ['running', 2, '2026-02-01', undefined, 0])
    assert.deepEqual(await seen('again'), ['queued', 1, '2026-02-01', undefined, 0])
    assert.deepEqual(await seen('done'), ['ok', 2, '2026-02-01', '2026-02-03', undefined])
    assert.deepEqual((await seen('failed'))[0], 'failed')
    assert.deepEqual(await views(stores).get('done', 'acme', signal), {
      callId: 'done',
      kind: 'call',
      tool: 'math:add:1.0.0',
      state: 'ok',
      principal: 'alice',
      createdAt: '2026-01-05T00:00:00.000Z',
      startedAt: '2026-02-01T00:00:00.000Z',
      finishedAt: '2026-02-03T00:00:00.000Z',
      attempts: 2,
      result: someResult({ callId: 'done' }),
    })
  },

  'a call of another tenant, an unknown id and a hostile id are NOT_FOUND': async (stores) => {
    await addOneOfEach(stores)
    const { get } = views(stores)
    await get('done', 'acme', signal)
    for (const [callId, tenant] of [
      ['done', 'other'],
      ['none', 'acme'],
      ['done\0', 'acme'],
      ['x'.repeat(9_999), 'acme'],
    ]) {
      await assert.rejects(get(callId ?? '', tenant ?? '', signal), { code: 'NOT_FOUND' })
    }
  },

  'a reader limited to some tools sees calls and artifacts of these tools, and of chains only its own': async (
    stores,
  ) => {
    const { database, store } = stores
    const calls = [
      'Math:add:1.0.0',
      'math:add:2.0.0+b7',
      'math:addition:1.0.0',
      'mathematics:add:1.0.0',
      'mail:send:1.0.0',
    ]
    const tools: [string, string][] = calls.map((tool) => [tool, 'alice'])
    await addRows(database, 'calls', [
      ...tools.map(([tool], index) => someCall(tool, { tool, created_at: `2026-01-0${index + 1}T00:00:00Z` })),
      someCall('chain-a', { tool: 'chain', kind: 'chain', principal: 'alice' }),
      someCall('chain-b', { tool: 'chain', kind: 'chain', principal: 'bob' }),
    ])
    const artifacts = artifactRecords(database, store)
    const all = [...calls, 'chain-a', 'chain-b']
    const files = new Map<string, string>()
    for (const callId of all) {
      const about = {
        tenant: 'acme',
        principal: 'ann',
        holder: { callId, fence: 1 },
        name: 'x',
        mimeType: 'text/plain',
      }
      files.set(callId, (await artifacts.keep(Buffer.from(callId), about, options)).id)
    }
    const { get, list } = views(stores)
    const found = async (reader: Parameters<typeof get>[1]): Promise<string[]> => {
      const seen: string[] = []
      for (const callId of all) {
        const file = artifacts.find(files.get(callId) ?? '', reader)
        const both = await Promise.allSettled([get(callId, reader, signal), file])
        const [call, artifact] = both.map(({ status }) => status === 'fulfilled')
        assert.equal(call, artifact, callId)
        if (call) seen.push(callId)
        else await assert.rejects(get(callId, reader, signal), { message: 'There is no call of this id.' })
      }
      const listed = (await list({}, reader)).items.map(({ callId }) => callId)
      assert.deepEqual(listed.sort(), seen.toSorted())
      return seen
    }
    const bound = (...patterns: string[]) => found({ tenant: 'acme', principal: 'alice', tools: patterns })
    assert.deepEqual(await found('acme'), all)
    assert.deepEqual(await found({ tenant: 'acme', principal: 'alice' }), all)
    assert.deepEqual(await bound('*'), [...calls, 'chain-a'])
    assert.deepEqual(await bound('math:*'), [...calls.slice(0, 3), 'chain-a'])
    assert.deepEqual(await bound('MATH:add'), [...calls.slice(0, 2), 'chain-a'])
    assert.deepEqual(await bound('math:add*'), [...calls.slice(0, 3), 'chain-a'])
    assert.deepEqual(await bound('math:add:2.0.0'), ['math:add:2.0.0+b7', 'chain-a'])
    assert.deepEqual(await bound('mail:send', 'math:add:1.0.0'), ['Math:add:1.0.0', 'mail:send:1.0.0', 'chain-a'])
    assert.deepEqual(await bound('chain:*', 'm*'), ['chain-a'], 'an invalid pattern matches nothing')
    const first = await list({ limit: 1, tool: 'math:add' }, { tenant: 'acme', principal: 'x', tools: ['math:*'] })
    assert.equal(first.items.length, 1)
  },

  'an offloaded result is read from its artifact, and is STORE_UNAVAILABLE when the file is missing': async (
    stores,
  ) => {
    const { database, store } = stores
    const artifacts = artifactRecords(database, store)
    const result = someResult({ callId: 'big', output: 'x'.repeat(1_000) })
    const about = {
      tenant: 'acme',
      principal: 'ann',
      holder: { callId: 'big', fence: 1 },
      name: 'result',
      mimeType: 'application/json',
    }
    const { digest } = await artifacts.keep(Buffer.from(JSON.stringify(result)), about, options)
    await addRows(database, 'calls', [someCall('big'), someCall('small')])
    await addRows(database, 'results', [someEnd('big', { result: null, result_ref: digest }), someEnd('small')])
    const { get, outcomes } = views(stores)
    assert.deepEqual((await get('big', 'acme', signal)).result, result)
    const both = new Map([
      ['big', result],
      ['small', someResult({ callId: 'small' })],
    ])
    assert.deepEqual(await outcomes(['big', 'small', 'none'], signal), both)
    await store.remove(digest)
    await assert.rejects(get('big', 'acme', signal), { code: 'STORE_UNAVAILABLE', retryable: false })
    assert.deepEqual([...(await outcomes(['big', 'small', 'none'], signal)).keys()], ['small'])
  },

  'pages list every call once, also when calls have the same time': async (stores) => {
    const ids = Array.from({ length: 25 }, (_, index) => `call-${String(index).padStart(2, '0')}`)
    const at = (index: number): string => `2026-01-01T00:00:00.000${String(Math.floor(index / 3)).padStart(3, '0')}Z`
    await addRows(
      stores.database,
      'calls',
      ids.map((id, index) => someCall(id, { created_at: at(index) })),
    )
    await addRows(stores.database, 'calls', [someCall('strange', { tenant: 'other' })])
    await addRows(
      stores.database,
      'queue',
      ids.map((id) => ({ call_id: id, tenant: 'acme' })),
    )
    const { list } = views(stores)
    for (const limit of [1, 4, 25, 99]) {
      const seen: string[] = []
      let cursor: string | undefined
      do {
        const page = await list({ limit, ...(cursor === undefined ? {} : { cursor }) }, 'acme')
        assert.ok(page.items.length <= limit)
        seen.push(...page.items.map(({ callId }) => callId))
        cursor = page.cursor
      } while (cursor !== undefined)
      assert.deepEqual(seen, ids.toReversed(), `${limit} a page`)
    }
  },

  'calls can be listed by state and by tool, with or without a version': async (stores) => {
    await addOneOfEach(stores)
    await addRows(stores.database, 'calls', [
      someCall('v2', { tool: 'math:add:2.0.0' }),
      someCall('near', { tool: 'math:addition:1.0.0' }),
    ])
    await addRows(
      stores.database,
      'queue',
      ['v2', 'near'].map((id) => ({ call_id: id, tenant: 'acme' })),
    )
    const { list } = views(stores)
    const listed = async (query: Parameters<typeof list>[0]): Promise<string> =>
      (await list(query, 'acme')).items
        .map(({ callId }) => callId)
        .sort()
        .join(' ')
    assert.equal(await listed({ state: 'queued' }), 'again near v2 waits')
    assert.equal(await listed({ state: 'delayed' }), 'later')
    assert.equal(await listed({ state: 'asked' }), 'asked')
    assert.equal(await listed({ state: 'running' }), 'runs')
    assert.equal(await listed({ state: 'ok' }), 'done')
    assert.equal(await listed({ state: 'timeout' }), '')
    assert.equal(await listed({ tool: 'math:addition' }), 'near')
    assert.equal(await listed({ tool: 'math:add:2.0.0' }), 'v2')
    assert.equal(await listed({ tool: 'math:add', state: 'queued' }), 'again v2 waits')
    const [item] = (await list({ state: 'ok' }, 'acme')).items
    assert.equal(item?.result, undefined, 'a list contains no results')
  },

  'an invalid cursor, state or tool is INPUT_INVALID': async (stores) => {
    const { list } = views(stores)
    const text = (value: string): string => Buffer.from(value).toString('base64url')
    const cursors = ['', 'x', '{}', text('2026-02-31T00:00:00.000000Z a'), text('0000-01-01T00:00:00.000000Z a')]
    const more = [text('2026-01-01T00:00:00.000000Z a\0'), text("infinity') --"), 'A'.repeat(9_999)]
    for (const cursor of [...cursors, ...more]) {
      await assert.rejects(list({ cursor }, 'acme'), { code: 'INPUT_INVALID' }, cursor)
    }
    await assert.rejects(list({ state: 'asleep' }, 'acme'), { code: 'INPUT_INVALID' })
    await assert.rejects(list({ state: 'toString' }, 'acme'), { code: 'INPUT_INVALID' })
    await assert.rejects(list({ tool: 'a\0' }, 'acme'), { code: 'INPUT_INVALID' })
    assert.deepEqual(await list({ cursor: text('2026-01-01T00:00:00.000000Z a') }, 'acme'), { items: [] })
  },
})
