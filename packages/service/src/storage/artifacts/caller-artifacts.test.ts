import assert from 'node:assert/strict'
import { testArtifacts } from '@gantry/conformance'
import type { Identity } from '@gantry/contract'
import { addRows, type Stores, someCall, testOnDatabases } from '../calls.fixture.ts'
import { artifactRecords } from './artifact-records.ts'
import { callerArtifacts } from './caller-artifacts.ts'

const { signal } = new AbortController()
const someFile = { name: 'a', mimeType: 'text/plain', content: Buffer.from('x') }
const ada: Identity = { principal: 'ada', tenant: 'acme', permissions: [] }

function setUp({ database, store }: Stores) {
  const artifacts = artifactRecords(database, store)
  return {
    artifacts: callerArtifacts({ database, store, artifacts, maxBytes: () => 1_000 }),
    async maker(identity: Identity, callId = `c-${identity.tenant}-${identity.principal}`) {
      const { tenant, principal } = identity
      await addRows(database, 'calls', [someCall(callId, { tenant, principal })])
      return { identity, callId, fence: 1 }
    },
  }
}

const suite = Object.entries(testArtifacts).map(
  ([title, body]) => [title, (stores: Stores) => body(setUp(stores))] as const,
)

testOnDatabases({
  ...Object.fromEntries(suite),

  'a principal limited to some tools sees only artifacts of calls of these tools': async (stores) => {
    const { artifacts, maker } = setUp(stores)
    const { id } = await artifacts.put(someFile, await maker(ada), signal)
    const bound = { ...ada, tools: ['other:*'] }
    await assert.rejects(artifacts.info(id, bound, signal), { code: 'NOT_FOUND' })
    assert.deepEqual((await artifacts.list({ limit: 5 }, bound, signal)).items, [])
    assert.equal(await artifacts.remove(id, bound, signal), false)
    assert.equal((await artifacts.list({ limit: 5 }, { ...ada, tools: ['math:*'] }, signal)).items.length, 1)
  },

  'artifacts with the payload or the outcome of a call cannot be removed, and payloads are not listed': async (
    stores,
  ) => {
    const { artifacts, maker } = setUp(stores)
    const { callId } = await maker(ada)
    const put = (fence: number, text: string) =>
      artifacts.put(
        { name: `${fence}.json`, mimeType: 'application/json', content: Buffer.from(text) },
        { identity: ada, callId, fence },
        signal,
      )
    const [payload, outcome] = [await put(0, 'arguments'), await put(1, 'outcome')]
    await addRows(stores.database, 'results', [
      { call_id: callId, status: 'ok', result_ref: outcome.digest, result_bytes: 7, fence: 1 },
    ])
    for (const { id } of [payload, outcome]) await assert.rejects(artifacts.remove(id, ada, signal), { code: 'DENIED' })
    assert.deepEqual(
      (await artifacts.list({ limit: 5 }, ada, signal)).items.map(({ name }) => name),
      ['1.json'],
    )
    assert.equal(await stores.files(), 2)
  },

  'removing the last artifact of a content removes its file': async (stores) => {
    const { artifacts, maker } = setUp(stores)
    const { id } = await artifacts.put(someFile, await maker(ada), signal)
    assert.equal(await stores.files(), 1)
    await artifacts.remove(id, ada, signal)
    assert.equal(await stores.files(), 0)
  },
})
