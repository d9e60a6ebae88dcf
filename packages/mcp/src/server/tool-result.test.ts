import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import type { ArtifactRef, Identity, Json, Result } from '@gantry/contract'
import type { McpHost } from './host.ts'
import { createResultWriter } from './tool-result.ts'

const identity: Identity = { principal: 'alice', tenant: 'acme', permissions: [] }
const schema = { type: 'object', properties: { value: { type: 'string' } }, required: ['value'] }
const whole = { value: 'x'.repeat(70_000) }
const file: ArtifactRef = {
  id: 'art_1',
  name: 'output.json',
  mimeType: 'application/json',
  digest: 'd'.repeat(64),
  bytes: JSON.stringify(whole).length,
}
const preview = { head: '{"value":"xxx', tail: 'xxx"}' }
const marker = { artifact: file.id, bytes: file.bytes, mimeType: file.mimeType, digest: file.digest, preview }

function resultOf(output: Json, artifacts: readonly ArtifactRef[] = []): Result {
  return {
    callId: 'c',
    tool: { id: 'test:it', version: '1.0.0' },
    status: 'ok',
    output,
    content: [],
    warnings: [],
    artifacts,
    effects: [],
    usage: { wallMs: 1, enforced: {} },
    attempts: 1,
    startedAt: '',
    durationMs: 1,
  }
}

function writerFor(outputSchema: typeof schema | undefined, stored: string | undefined) {
  const artifact: McpHost['artifact'] = async () => {
    if (stored === undefined) throw new Error('the store is gone')
    return { artifact: file, start: 0, end: stored.length, content: Readable.from([Buffer.from(stored)]) }
  }
  const write = createResultWriter({ artifact } as McpHost, { outputSchema: () => outputSchema })
  const signal = new AbortController().signal
  return (result: Result) => write(result, { revision: '2025-11-25', identity, signal })
}

test('an offloaded output of a tool with an output schema is sent whole, with its preview and a link as content', async () => {
  const called = await writerFor(schema, JSON.stringify(whole))(resultOf({ spilled: marker }, [file]))
  assert.deepEqual(called.structuredContent, whole)
  assert.equal(called.isError, undefined)
  const [text, link] = called.content
  assert.ok(text?.type === 'text' && text.text.startsWith(preview.head) && text.text.endsWith(preview.tail))
  assert.deepEqual(link, {
    type: 'resource_link',
    uri: 'gantry://artifacts/art_1',
    name: file.name,
    mimeType: file.mimeType,
    size: file.bytes,
  })
})

test('an offloaded output of a tool without an output schema has no structured content', async () => {
  const called = await writerFor(undefined, undefined)(resultOf({ spilled: marker }, [file]))
  assert.equal(called.structuredContent, undefined)
  assert.equal(called.content.length, 2)
})

test('structured content that does not match its schema is omitted, and the result is an error that says why', async () => {
  for (const output of [{ value: 7 }, { spilled: marker }, [1]]) {
    const called = await writerFor(schema, undefined)(resultOf(output))
    assert.deepEqual([called.structuredContent, called.isError], [undefined, true])
    assert.match(JSON.stringify(called.content[0]), /OUTPUT_INVALID.*do not call it again/)
  }
})

test('an offloaded output of more than 32 MiB is not read back: the content has its preview and the link', async () => {
  const large = { ...file, bytes: 32 * 1_048_576 + 1 }
  const called = await writerFor(schema, JSON.stringify(whole))(resultOf({ spilled: marker }, [large]))
  assert.deepEqual([called.isError, called.structuredContent], [true, undefined])
  const texts = called.content.map((block) => (block.type === 'text' ? block.text : block.type))
  assert.match(texts[0] ?? '', /RESULT_TOO_LARGE.*read the linked resource.*do not call it again/)
  assert.ok(texts.some((text) => text.includes('the whole output is the resource')))
  assert.ok(texts.includes('resource_link'))
})

test('an offloaded output that cannot be read back is an error with the link to it', async () => {
  const called = await writerFor(schema, undefined)(resultOf({ spilled: marker }, [file]))
  assert.deepEqual([called.structuredContent, called.isError], [undefined, true])
  assert.match(JSON.stringify(called.content), /STORE_UNAVAILABLE.*gantry:\/\/artifacts\/art_1/)
})

test('a file that is both output and content has one resource link, which the server can read', async () => {
  const link = { type: 'resource_link', uri: '/v1/artifacts/art_1', name: file.name } as const
  const result = {
    ...resultOf({ spilled: marker }, [file, file]),
    content: [{ type: 'text', text: '…' } as const, link],
  }
  const { content } = await writerFor(undefined, undefined)(result)
  assert.deepEqual(
    content.flatMap((block) => (block.type === 'resource_link' ? [block.uri] : [])),
    ['gantry://artifacts/art_1'],
  )
})
