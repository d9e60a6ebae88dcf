import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Identity, JsonObject } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { builtinTools } from '@gantry/tools/internal/builtin'
import type { Artifacts } from '../artifacts/artifact.ts'
import { memoryArtifacts } from '../artifacts/memory.ts'
import type { ApprovalRequest } from '../policies/policy.ts'
import { namedFiles } from './authorize.ts'

const identity: Identity = { principal: 'ada', tenant: 'acme', permissions: ['*'] }
const { signal } = new AbortController()

/** Artifacts in memory, and an approver that can replace one during its approval. */
async function site(replaces: boolean) {
  const memory = memoryArtifacts()
  const stand = new Map<string, string>()
  const real = (id: string): string => stand.get(id) ?? id
  const artifacts: Artifacts = {
    ...memory,
    info: (id, ...rest) => memory.info(real(id), ...rest),
    read: (id, ...rest) => memory.read(real(id), ...rest),
  }
  const put = (content: string) =>
    memory.put(
      { name: 'a.js', mimeType: 'text/javascript', content: Buffer.from(content) },
      { identity, callId: 'c', fence: undefined },
      signal,
    )
  const [good, evil] = [await put('good'), await put('evil')]
  const asked: ApprovalRequest[] = []
  const gantry = createExecutor({
    ...{ tools: builtinTools(), artifacts, policy: { decide: async () => ({ effect: 'ask', reason: 'always' }) } },
    approver: {
      async approve(request) {
        asked.push(request)
        if (replaces) stand.set(good.id, evil.id)
        return { approved: true, by: 'bob' }
      },
    },
  })
  const add = (args: JsonObject) => gantry.run('kb:add', args, { identity })
  return { gantry, good, asked, add }
}

test('an approval request lists the digest, length and type of each file that the arguments name, and only the id of a missing file', async () => {
  const { gantry, good, asked, add } = await site(false)
  assert.equal((await add({ artifact: good.id })).status, 'ok')
  assert.equal((await add({ artifact: 'art_none' })).error?.code, 'NOT_FOUND')
  assert.deepEqual(
    asked.map(({ files }) => files),
    [[{ path: '/artifact', ...good }], [{ path: '/artifact', id: 'art_none' }]],
  )
  await gantry.close()
})

test('a call is denied when a file was replaced between its approval and its execution', async () => {
  const { gantry, good, add } = await site(true)
  const { status, error } = await add({ artifact: good.id })
  assert.deepEqual([status, error?.code, error?.message.includes(good.id)], ['denied', 'DENIED', true])
  await gantry.close()
})

test('namedFiles refuses arguments that name over 1,000 files or whose paths are too long', () => {
  const file = { artifact: 'art_1' }
  const files = (count: number): JsonObject[] => Array.from({ length: count }, () => file)
  assert.deepEqual(namedFiles({ files: { 'a/b': file }, list: files(1), artifact: 'x'.repeat(300) }), [
    { path: '/files/a~1b/artifact', id: 'art_1' },
    { path: '/list/0/artifact', id: 'art_1' },
  ])
  assert.equal(namedFiles({ files: files(1_000) }).length, 1_000)
  assert.throws(() => namedFiles({ files: files(1_001) }), { code: 'INPUT_INVALID' })
  assert.throws(() => namedFiles({ ['k'.repeat(100_000)]: files(3) }), { code: 'INPUT_INVALID' })
})
