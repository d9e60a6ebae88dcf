import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { JsonObject } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { artifactRecords } from '../../storage/artifacts/artifact-records.ts'
import { type Stores, testOnDatabases } from '../../storage/calls.fixture.ts'
import { artifactTools } from './artifact-tools.ts'

const { signal } = new AbortController()

/** An executor with the tools, and an artifact of a tenant. */
function setUp({ database, store }: Stores, t: TestContext) {
  const artifacts = artifactRecords(database, store)
  const executor = createExecutor({ tools: artifactTools(artifacts) })
  t.after(() => executor.close())
  return {
    async file(content: string | Buffer, tenant = 'acme'): Promise<string> {
      const about = {
        tenant,
        principal: 'ann',
        holder: { callId: 'c1', fence: 1 },
        name: 'log.txt',
        mimeType: 'text/plain',
      }
      return (await artifacts.keep(Buffer.from(content), about, { maxBytes: 10_000_000, signal })).id
    },
    async run(tool: string, args: JsonObject, tenant = 'acme') {
      const { output, error, warnings } = await executor.run(tool, args, {
        identity: { principal: 'alice', tenant, permissions: ['*'] },
      })
      assert.deepEqual(warnings, [], 'the output fits its schema')
      return error === undefined ? (output as JsonObject) : error.code
    },
  }
}

testOnDatabases({
  'an artifact is read in parts': async (stores, t) => {
    const { file, run } = setUp(stores, t)
    const artifact = await file('äbcdefgh')
    const about = { name: 'log.txt', mimeType: 'text/plain', bytes: 9 }
    assert.deepEqual(await run('artifacts:read', { artifact }), { ...about, offset: 0, text: 'äbcdefgh' })
    const part = await run('artifacts:read', { artifact, offset: 1, length: 4 })
    assert.deepEqual(part, { ...about, offset: 2, text: 'bcd', next: 5 })
    const beyond = await run('artifacts:read', { artifact, offset: 100 })
    assert.deepEqual(beyond, { ...about, offset: 100, text: '' })
    const binary = await file(Buffer.from([255, 0, 1]))
    assert.equal(((await run('artifacts:read', { artifact: binary })) as JsonObject).base64, '/wAB')
  },

  'a text is found in a large artifact by line and offset, and read from there': async (stores, t) => {
    const { file, run } = setUp(stores, t)
    const lines = Array.from({ length: 50_000 }, (_, n) => `line ${n + 1} is fine`)
    lines[40_000] = 'line 40001 is BROKEN (.*)'
    const artifact = await file(lines.join('\n'))
    const found = (await run('artifacts:search', { artifact, text: 'BROKEN (.*)', context: 14 })) as JsonObject
    const [match] = found.matches as JsonObject[]
    assert.deepEqual([match?.line, match?.text], [40_001, 'line 40001 is BROKEN (.*)\nline 40002 is'])
    const around = { artifact, offset: match?.offset ?? 0, length: 11 }
    assert.equal(((await run('artifacts:read', around)) as JsonObject).text, 'BROKEN (.*)')
    const many = (await run('artifacts:search', { artifact, text: 'fine', limit: 3 })) as JsonObject
    assert.equal((many.matches as unknown[]).length, 3)
    const more = (await run('artifacts:search', { artifact, text: 'fine', offset: many.next ?? 0 })) as JsonObject
    assert.equal((more.matches as JsonObject[])[0]?.line, 4)
    assert.deepEqual(((await run('artifacts:search', { artifact, text: 'absent' })) as JsonObject).matches, [])
  },

  'the artifacts of another tenant are not found, by either tool': async (stores, t) => {
    const { file, run } = setUp(stores, t)
    const theirs = await file('a secret', 'other')
    for (const tool of ['artifacts:read', 'artifacts:search']) {
      const args = { artifact: theirs, ...(tool === 'artifacts:search' ? { text: 'secret' } : {}) }
      assert.equal(await run(tool, args, 'acme'), 'NOT_FOUND')
      assert.notEqual(await run(tool, args, 'other'), 'NOT_FOUND')
      assert.equal(await run(tool, { ...args, artifact: '../../etc/passwd' }), 'NOT_FOUND')
    }
  },

  'invalid arguments are refused': async (stores, t) => {
    const { file, run } = setUp(stores, t)
    const artifact = await file('x')
    for (const args of [{ offset: -1 }, { length: 1 }, { length: 99_999 }, { offset: 0.5 }, { path: '/' }]) {
      assert.equal(await run('artifacts:read', { artifact, ...args } as JsonObject), 'INPUT_INVALID')
    }
    for (const args of [
      { text: '' },
      {},
      { text: 'x', limit: 0 },
      { text: 'x'.repeat(999) },
      { text: 'x', context: 9_999 },
    ]) {
      assert.equal(await run('artifacts:search', { artifact, ...args } as JsonObject), 'INPUT_INVALID')
    }
  },
})
