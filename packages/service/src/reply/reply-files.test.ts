import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import type { Effect, Result } from '@gantry/contract'
import { stub } from '../stub.fixture.ts'
import { replyFiles } from './broker-replies.ts'

function file(id: string, bytes: number): Effect {
  return { kind: 'file', artifact: { id, name: `${id}.bin`, mimeType: 'application/octet-stream', bytes, digest: id } }
}

function resultWith(effects: readonly Effect[]): Result {
  return {
    callId: 'c',
    status: 'ok',
    output: 1,
    content: [],
    warnings: [],
    artifacts: [],
    effects,
    usage: { wallMs: 1, enforced: {} },
    attempts: 1,
    startedAt: '2026-01-01T00:00:00.000Z',
    durationMs: 1,
  }
}

/** Which files are inlined in the reply, and which were opened for that. */
async function inline(effects: readonly Effect[]) {
  const opened: string[] = []
  const sizes = new Map(effects.flatMap((one) => (one.kind === 'file' ? [[one.artifact.id, one.artifact]] : [])))
  const files = await replyFiles(resultWith(effects), 'acme', {
    async open(id, tenant) {
      opened.push(`${id} of ${tenant}`)
      const artifact = sizes.get(id) ?? assert.fail()
      return { artifact, start: 0, end: artifact.bytes, content: Readable.from([Buffer.alloc(artifact.bytes, 1)]) }
    },
  })
  for (const { content, bytes } of files) assert.equal(content?.length ?? bytes, bytes)
  return { opened, inline: files.map(({ artifact, content }) => `${artifact} ${content !== undefined}`) }
}

test('small files are inlined in the reply, large ones are named, and other effects are ignored', async () => {
  const effects = [file('a', 262_144), { kind: 'message', message: 'hi' } as const, file('b', 262_145), file('c', 0)]
  const found = await inline(effects)
  assert.deepEqual(found.inline, ['a true', 'b false', 'c true'])
  assert.deepEqual(found.opened, ['a of acme', 'c of acme'])
})

test('inlined files have at most a mebibyte together; a smaller one after that still fits', async () => {
  const effects = [
    ...['a', 'b', 'c'].map((id) => file(id, 262_144)),
    file('d', 262_000),
    file('e', 262_144),
    file('f', 144),
  ]
  assert.deepEqual((await inline(effects)).inline, ['a true', 'b true', 'c true', 'd true', 'e false', 'f true'])
})

test('the outcome of a chain has no files of its own', async () => {
  const chain = stub<Parameters<typeof replyFiles>[0]>({ chainId: 'x', status: 'ok', steps: {}, output: 1 })
  assert.deepEqual(await replyFiles(chain, 'acme', { open: () => assert.fail('nothing is opened') }), [])
})
