import assert from 'node:assert/strict'
import { buffer } from 'node:stream/consumers'
import { type ChainResult, type Content, type Json, type JsonObject, type Result, ToolError } from '@gantry/contract'
import { type Artifacts, artifactRecords } from '../../storage/artifacts/artifact-records.ts'
import { type Stores, someResult, testOnDatabases } from '../../storage/calls.fixture.ts'
import { type OffloadOptions, offloadResult } from './offload-result.ts'

const { signal } = new AbortController()
const identity = { principal: 'alice', tenant: 'acme', permissions: [] }
const claim = { callId: 'c1', fence: 3, call: { identity } }
const limits = { inlineBytes: 20_000, inlineMaxBytes: 100_000 }

/** Offloads a result, and reads back the artifacts. */
function offloader({ database, store }: Stores, given: Partial<OffloadOptions> = {}) {
  const artifacts = artifactRecords(database, store)
  return {
    artifacts,
    offload: (outcome: Result | ChainResult) => offloadResult(claim, outcome, { artifacts, limits, signal, ...given }),
    async bytesOf(id: unknown): Promise<Buffer> {
      const { content } = await artifacts.open(String(id), 'acme', undefined, signal)
      return buffer(content)
    },
  }
}

function spilled(value: Json): JsonObject {
  return (value as { spilled: JsonObject }).spilled
}

function artifactIn(file: Json | undefined): Json | undefined {
  return (file as JsonObject).artifact
}

/** A text of the given length, with some characters of two bytes. */
function words(characters: number): string {
  const text = Array.from({ length: Math.ceil(characters / 7) }, (_, n) => `${n} wörd`).join(' ')
  return text.slice(0, characters)
}

/** Stores that are unavailable. */
const withoutArtifacts: Pick<Artifacts, 'keep'> = {
  keep: () => Promise.reject(new ToolError('STORE_UNAVAILABLE', 'Full.', { details: { artifacts: 'folder' } })),
}
const withoutDatabase: Pick<Artifacts, 'keep'> = {
  keep: () => Promise.reject(new ToolError('STORE_UNAVAILABLE', 'Gone.', { details: { outcome: 'none' } })),
}

testOnDatabases({
  'the large output streams of a program are offloaded, and its calls stay in the result': async (stores) => {
    const { offload, bytesOf } = offloader(stores)
    const printed = words(50_000)
    const program = { language: 'javascript', printed, calls: [] } as const
    const { result, bytes } = await offload(someResult({ output: 1, program }))
    assert.ok(bytes <= limits.inlineBytes)
    const offloaded = result as Result
    assert.deepEqual([offloaded.output, offloaded.program?.calls], [1, []])
    assert.ok(offloaded.program?.printed.startsWith(printed.slice(0, 50)))
    assert.equal((await bytesOf(offloaded.artifacts[0]?.id)).toString(), printed)
  },
  'a small result stays unchanged, and nothing is offloaded': async (stores) => {
    const result = someResult({ output: 'x'.repeat(19_000) })
    const offloaded = await offloader(stores).offload(result)
    assert.equal(offloaded.result, result)
    assert.deepEqual(offloaded, { result, text: JSON.stringify(result), bytes: JSON.stringify(result).length })
    assert.equal(await stores.files(), 0)
  },

  'a large output is offloaded as an artifact of its tenant and attempt, and leaves a preview': async (stores) => {
    const output = { rows: Array.from({ length: 3_000 }, (_, id) => ({ id, name: `näme ${id}` })) }
    const { offload, bytesOf } = offloader(stores)
    const { result, text, bytes } = await offload(someResult({ output }))
    const { artifact, preview, ...about } = spilled(result.output)
    const json = JSON.stringify(output)
    assert.deepEqual(JSON.parse(String(await bytesOf(artifact))), output)
    const { head, tail } = preview as { head: string; tail: string }
    assert.ok(json.startsWith(head) && json.endsWith(tail))
    assert.deepEqual([head.length, tail.length], [2_048, 1_024])
    assert.ok(bytes <= limits.inlineBytes && text !== undefined && Buffer.byteLength(text) === bytes)
    assert.deepEqual(JSON.parse(text), result)
    assert.ok(!('chainId' in result))
    const [ref] = result.artifacts
    assert.deepEqual(ref, { id: artifact, name: 'output.json', ...about })
    assert.equal(result.warnings.length, 1)
    assert.match(result.warnings[0]?.message ?? '', new RegExp(`^The output has \\d+ bytes and is kept as ${artifact}`))
    assert.equal(result.status, 'ok')
    const rows = await stores.database.query('select tenant, call_id, fence from artifacts')
    assert.deepEqual(rows, [{ tenant: 'acme', call_id: 'c1', fence: 3 }])
  },

  'a text is offloaded as text, also one that UTF-8 cannot hold': async (stores) => {
    const { offload, bytesOf } = offloader(stores)
    const plain = await offload(someResult({ output: words(50_000) }))
    assert.equal(spilled(plain.result.output).mimeType, 'text/plain')
    assert.equal(String(await bytesOf(spilled(plain.result.output).artifact)), words(50_000))
    const strange = `\ud800${'x'.repeat(50_000)}\0`
    const kept = await offload(someResult({ output: strange }))
    assert.equal(spilled(kept.result.output).mimeType, 'application/json')
    assert.equal(JSON.parse(String(await bytesOf(spilled(kept.result.output).artifact))), strange)
  },

  'only as much is offloaded as necessary, the largest part first': async (stores) => {
    const content: Content[] = [
      { type: 'text', text: 'a'.repeat(9_000) },
      { type: 'text', text: 'b'.repeat(30_000) },
    ]
    const { result } = await offloader(stores).offload(someResult({ output: 'c'.repeat(5_000), content }))
    assert.ok(!('chainId' in result))
    assert.equal(result.output, 'c'.repeat(5_000))
    assert.deepEqual(result.content[0], content[0])
    assert.equal(result.artifacts.length, 1)
  },

  'offloaded content leaves links with type and size, and a text also a preview': async (stores) => {
    const image = Buffer.alloc(30_000, 7)
    const { offload, bytesOf } = offloader(stores)
    const content: Content[] = [
      { type: 'text', text: words(30_000) },
      { type: 'image', data: image.toString('base64'), mimeType: 'image/png' },
      { type: 'audio', data: `${'not base64!'.repeat(3_000)}`, mimeType: 'audio/wav' },
      { type: 'resource', resource: { uri: 'file:///a', mimeType: 'text/markdown', text: words(40_000) } },
      { type: 'resource', resource: { uri: 'file:///b', blob: image.toString('base64') } },
      { type: 'resource_link', uri: 'https://example.com', name: 'elsewhere' },
    ]
    const { result } = await offload(someResult({ output: null, content }))
    assert.ok(!('chainId' in result))
    const [text, picture, sound, markdown, blob, other, textLink] = result.content as (Content & JsonObject)[]
    assert.ok(text?.type === 'text' && /^0 wörd 1 wörd.+bytes in all; all of it is in art_.+$/s.test(text.text))
    const contents: [Content & JsonObject, string, Buffer][] = [
      [picture, 'image/png', image],
      [sound, 'text/plain', Buffer.from('not base64!'.repeat(3_000))],
      [markdown, 'text/markdown', Buffer.from(words(40_000))],
      [blob, 'application/octet-stream', image],
      [textLink, 'text/plain', Buffer.from(words(30_000))],
    ].map(([link, type, bytes]) => [link as Content & JsonObject, type as string, bytes as Buffer])
    for (const [link, mimeType, bytes] of contents) {
      assert.deepEqual([link.type, link.mimeType, link.size], ['resource_link', mimeType, bytes.length])
      assert.deepEqual(await bytesOf(String(link.uri).replace('/v1/artifacts/', '')), bytes)
    }
    assert.deepEqual(other, content[5])
    assert.equal(result.artifacts.length, 5)
  },

  'streams and files of a sandbox are offloaded one by one, and the rest of its output stays': async (stores) => {
    const { offload, bytesOf } = offloader(stores)
    const output = {
      exitCode: 3,
      stdout: words(30_000),
      stderr: 'short',
      value: { rows: words(20_000) },
      files: {
        'out/a.txt': words(25_000),
        'b.bin': { base64: Buffer.alloc(40_000, 9).toString('base64') },
        c: 'small',
      },
    }
    const runtime = { kind: 'process', isolation: 'namespaces' }
    const { result } = await offload(someResult({ output, runtime }))
    const seen = result.output as Omit<typeof output, 'files'> & { truncated: Json; files: { [path: string]: Json } }
    assert.deepEqual([seen.exitCode, seen.stderr, seen.files.c, seen.truncated], [3, 'short', 'small', ['stdout']])
    assert.equal(String(await bytesOf(/art_\w+/.exec(seen.stdout)?.[0])), output.stdout)
    assert.equal(String(await bytesOf(artifactIn(seen.files['out/a.txt']))), output.files['out/a.txt'])
    assert.deepEqual(await bytesOf(artifactIn(seen.files['b.bin'])), Buffer.alloc(40_000, 9))
    assert.deepEqual(JSON.parse(String(await bytesOf(spilled(seen.value as JsonObject).artifact))), output.value)
    assert.ok(!('chainId' in result))
    assert.deepEqual(result.artifacts.map(({ name }) => name).sort(), [
      'b.bin',
      'out/a.txt',
      'stdout.txt',
      'value.json',
    ])
  },

  'a chain is offloaded as a whole, and a part that occurs three times is one artifact': async (stores) => {
    const { offload, bytesOf } = offloader(stores)
    const big = words(60_000)
    const step = (id: string, output: Json) => ({
      id,
      tool: 'math:add',
      state: 'ok' as const,
      output,
      durationMs: 1,
      results: [someResult({ output })],
    })
    const group = { ...step('group', { x: 1 }), results: [], steps: [step('inner', `${big}!`)] }
    const chain: ChainResult = {
      chainId: 'c1',
      status: 'ok',
      output: big,
      startedAt: '2026-01-01T00:00:00.000Z',
      durationMs: 2,
      steps: [step('small', { result: 1 }), group, step('last', big)],
    }
    const { result, bytes } = await offload(chain)
    assert.ok('chainId' in result && bytes <= limits.inlineBytes)
    const [small, parallel, last] = result.steps
    assert.deepEqual(small, chain.steps[0])
    const ids = [result.output, last?.output ?? null, last?.results[0]?.output ?? null].map(
      (output) => spilled(output).artifact,
    )
    assert.equal(new Set(ids).size, 1)
    assert.equal(String(await bytesOf(ids[0])), big)
    assert.equal(String(await bytesOf(spilled(parallel?.steps?.[0]?.output ?? null).artifact)), `${big}!`)
    assert.equal(last?.results[0]?.artifacts[0]?.id, ids[0])
    assert.equal(await stores.files(), 2)
  },

  'errors and messages are offloaded too': async (stores) => {
    const { offload, bytesOf } = offloader(stores)
    const details = { log: words(30_000) }
    const error = { code: 'BACKEND_FAILED', message: words(40_000), details } as const
    const { result } = await offload(
      someResult({
        status: 'failed',
        error: { ...error, stage: 'execute', retryable: false, effect: 'possible' },
        effects: [{ kind: 'message', message: { text: words(30_000) } }],
      }),
    )
    assert.ok(!('chainId' in result))
    assert.deepEqual(
      [result.status, result.error?.code, result.error?.effect],
      ['failed', 'BACKEND_FAILED', 'possible'],
    )
    assert.equal(String(await bytesOf(/art_\w+/.exec(result.error?.message ?? '')?.[0])), error.message)
    assert.deepEqual(JSON.parse(String(await bytesOf(spilled(result.error?.details ?? null).artifact))), details)
    const [effect] = result.effects
    assert.ok(effect?.kind === 'message')
    assert.ok(spilled(effect.message).artifact)
  },

  'a result of very many small parts is offloaded as one artifact': async (stores) => {
    const content: Content[] = Array.from({ length: 3_000 }, (_, n) => ({ type: 'text', text: `item ${n}` }))
    const { offload, artifacts } = offloader(stores)
    const whole = someResult({ content })
    const { result, text, ref, bytes } = await offload(whole)
    assert.deepEqual([text, bytes], [undefined, JSON.stringify(whole).length])
    assert.deepEqual(result, whole)
    assert.deepEqual(JSON.parse(String(await buffer(await artifacts.content(ref ?? '', signal)))), whole)
  },

  'many large parts share the limit of previews': async (stores) => {
    const content: Content[] = Array.from({ length: 30 }, (_, n) => ({ type: 'text', text: `${n} ${words(6_000)}` }))
    const { result, text } = await offloader(stores, { limits: {} }).offload(someResult({ content }))
    assert.ok(text !== undefined && text.length < 65_536)
    assert.ok(!('chainId' in result))
    assert.equal(result.warnings.length, 5)
  },

  'without the artifact store a result stays complete up to a limit': async (stores) => {
    const failures: unknown[] = []
    const { offload } = offloader(stores, { artifacts: withoutArtifacts, failed: (error) => failures.push(error) })
    const whole = someResult({ output: words(60_000) })
    const { result, text } = await offload(whole)
    assert.deepEqual(result, whole)
    assert.equal(text, JSON.stringify(whole))
    assert.equal(failures.length, 1)
  },

  'beyond the limit a call that succeeded fails with the reason and a preview': async (stores) => {
    const { offload } = offloader(stores, { artifacts: withoutArtifacts })
    const output = words(200_000)
    const { result, bytes } = await offload(someResult({ output, content: [{ type: 'text', text: output }] }))
    assert.deepEqual([result.status, result.error?.code, result.error?.stage], ['failed', 'RESULT_TOO_LARGE', 'record'])
    assert.match(result.error?.message ?? '', /artifact store is unavailable/)
    const { cut } = result.output as { cut: { bytes: number; preview: { head: string; tail: string } } }
    assert.equal(cut.bytes, Buffer.byteLength(output))
    assert.ok(output.startsWith(cut.preview.head) && output.endsWith(cut.preview.tail) && cut.preview.head !== '')
    assert.ok(bytes < limits.inlineMaxBytes)
    const denied = await offload(someResult({ output, status: 'timeout' }))
    assert.equal(denied.result.status, 'timeout', 'another status stays')
  },

  'beyond the quota of its owner a large result is truncated, and is not stored inline': async (stores) => {
    const full = async (): Promise<never> => {
      const details = { scope: 'tenant', bytes: 1, files: 1 }
      throw new ToolError('LIMIT_EXCEEDED', 'No more files.', { effect: 'none', details })
    }
    const { offload } = offloader(stores, { artifacts: { keep: full } })
    const { result, bytes } = await offload(someResult({ output: words(60_000) }))
    assert.deepEqual([result.status, result.error?.code], ['failed', 'RESULT_TOO_LARGE'])
    assert.match(result.error?.message ?? '', /quota for stored files/)
    assert.ok(bytes <= limits.inlineBytes, `${bytes}`)
  },

  'beyond the limit a result of very many parts keeps only its status': async (stores) => {
    const { offload } = offloader(stores, { artifacts: withoutArtifacts })
    const content: Content[] = Array.from({ length: 9_000 }, (_, n) => ({ type: 'text', text: `item ${n}` }))
    const plain = await offload(someResult({ content }))
    assert.deepEqual([plain.result.status, plain.bytes < 2_000], ['failed', true])
    const results = Array.from({ length: 900 }, () => someResult())
    const { result, bytes } = await offload({
      chainId: 'c1',
      status: 'ok',
      output: 1,
      startedAt: '2026-01-01T00:00:00.000Z',
      durationMs: 2,
      steps: [{ id: 'a', tool: 'math:add', state: 'ok', output: 1, results, durationMs: 1 }],
    })
    assert.ok('chainId' in result && bytes < 2_000)
    assert.deepEqual([result.status, result.steps[0]?.state, result.steps[0]?.results], ['failed', 'ok', []])
  },

  'without the database a result stays complete at any size, because it waits on disk': async (stores) => {
    const { offload } = offloader(stores, { artifacts: withoutDatabase })
    const whole = someResult({ output: words(500_000) })
    assert.deepEqual((await offload(whole)).result, whole)
  },

  'when the store fails midway the offloaded parts stay offloaded, and the rest stays in the result': async (
    stores,
  ) => {
    const { artifacts: working } = offloader(stores)
    let kept = 0
    const failing: Pick<Artifacts, 'keep'> = {
      keep: (...given) => (++kept > 1 ? withoutArtifacts.keep(...given) : working.keep(...given)),
    }
    const content: Content[] = [{ type: 'text', text: words(40_000) }]
    const { result, text } = await offloader(stores, { artifacts: failing }).offload(
      someResult({ output: words(50_000), content }),
    )
    assert.ok(!('chainId' in result) && text !== undefined)
    assert.ok(spilled(result.output).artifact)
    assert.deepEqual(result.content, content)
  },

  'a store that hangs counts as unavailable after its timeout': async (stores) => {
    const controller = new AbortController()
    const { offload } = offloader(stores, {
      artifacts: {
        keep: (_content, _about, { signal }) =>
          new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      },
      signal: controller.signal,
    })
    const whole = someResult({ output: words(60_000) })
    const offloading = offload(whole)
    controller.abort()
    assert.deepEqual((await offloading).result, whole)
  },
})
