import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import type { Result } from '@gantry/contract'
import type { Fault } from './fault.ts'
import { pooled } from './load.ts'
import { oddValues } from './odd-tools.ts'
import type { ServiceNode } from './processes.ts'
import { openSite, type Site } from './site.ts'

const bodyBytes = 200_000

async function post(
  site: Site,
  node: ServiceNode,
  body: string | Buffer<ArrayBuffer>,
): Promise<{ status: number; body: unknown }> {
  const response = await site.fetch(node, '/v1/calls', { method: 'POST', body })
  return { status: response.status, body: await response.json() }
}

const echo = (value: string): string => `{"tool":"fault:echo","args":{"value":${value}}}`

const large: Fault = {
  number: 32,
  name: 'a payload just under the limit is returned unchanged, and one over it is rejected',
  async run(t, size) {
    const site = await openSite(t, { engine: 'pglite', service: { bodyBytes, inlineBytes: 10_000 } })
    const node = await site.start()
    for (let round = 0; round < (size === 'quick' ? 2 : 20); round++) {
      const text = 'x'.repeat(Math.floor(0.9 * bodyBytes))
      const under = await post(site, node, echo(JSON.stringify(text)))
      assert.equal(under.status, 200)
      const { status, output, artifacts } = under.body as Result
      assert.equal(status, 'ok')
      if (output !== text) assert.equal(artifacts?.length, 1, 'the output is neither whole nor kept beside')
      for (const factor of [1.1, 100]) {
        const over = await post(site, node, echo(JSON.stringify('x'.repeat(Math.floor(factor * bodyBytes)))))
        assert.deepEqual([over.status, codeOf(over.body)], [413, 'PAYLOAD_TOO_LARGE'])
      }
      const small = await post(site, node, echo('"small"'))
      assert.deepEqual([small.status, (small.body as Result).output], [200, 'small'])
    }
    await site.sound('large payloads')
  },
}

function codeOf(body: unknown): unknown {
  return (body as { error?: { code?: unknown } }).error?.code
}

/** JSON that other parsers accept, change or crash on. */
const garbage: { readonly [name: string]: string | Buffer<ArrayBuffer> } = {
  '100,000 levels of nesting': echo('['.repeat(90_000) + ']'.repeat(90_000)),
  'a repeated key': echo('{"a":1,"a":2}'),
  'a number beyond the range of doubles': echo('1e999'),
  'an integer that a double cannot hold': echo('9007199254740993'),
  'a byte that is not UTF-8': Buffer.concat([
    Buffer.from('{"tool":"fault:echo","args":{"value":"'),
    Buffer.of(0xff),
    Buffer.from('"}}'),
  ]),
  'a lone surrogate': echo('"\\ud800"'),
  'incomplete JSON': '{"tool":',
  'NUL in the idempotency key': '{"tool":"fault:echo","args":{},"idempotencyKey":"a\\u0000b"}',
  'NUL in the tool': '{"tool":"fault:echo\\u0000"}',
}

const wellFormed: { readonly [name: string]: unknown } = {
  'NUL in a text': 'a\0b',
  'NUL in a key': { 'a\0b': 1 },
  '60 levels of nesting': JSON.parse('['.repeat(60) + ']'.repeat(60)),
  'the largest safe integer': Number.MAX_SAFE_INTEGER,
  'unusual Unicode characters': '\u0001 \u2028 \uffff \u{10ffff}',
}

const strangeArgs: Fault = {
  number: 33,
  name: 'arguments that cannot be stored exactly are rejected, and all others are returned unchanged',
  async run(t) {
    const site = await openSite(t, { engine: 'postgres', service: { bodyBytes } })
    const node = await site.start()
    for (const [name, body] of Object.entries(garbage)) {
      const answer = await post(site, node, body)
      assert.ok(answer.status === 400 || answer.status === 404, `${name}: ${JSON.stringify(answer)}`)
      assert.equal(typeof codeOf(answer.body), 'string', name)
    }
    for (const [name, value] of Object.entries(wellFormed)) {
      const answer = await post(site, node, echo(JSON.stringify(value)))
      const { status, output } = answer.body as Result
      assert.deepEqual([answer.status, status], [200, 'ok'], name)
      assert.deepEqual(output, value, name)
    }
    await site.sound('strange arguments')
  },
}

const strangeResults: Fault = {
  number: 34,
  name: 'whatever a tool returns, its call has one outcome: the same value, or an error, artifact or warning',
  async run(t) {
    for (const engine of ['pglite', 'postgres'] as const) {
      const site = await openSite(t, { engine, service: { inlineBytes: 10_000 } })
      const node = await site.start()
      const client = site.clientOf(node)
      const ends = await pooled(Object.keys(oddValues), 4, async (name) => {
        const result = await client.call('fault:odd', { name }, { idempotencyKey: name })
        const again = await client.call('fault:odd', { name }, { idempotencyKey: name })
        assert.deepEqual(again, result, name)
        const { status, output, artifacts, error, warnings } = result
        const same = isDeepStrictEqual(output, name === 'a circular reference' ? undefined : plain(name))
        const reported = error !== undefined || (artifacts?.length ?? 0) > 0 || (warnings?.length ?? 0) > 0
        assert.ok(
          same || reported,
          `${name} came back as ${JSON.stringify(output)?.slice(0, 200)}, and nothing says so`,
        )
        return `${name}: ${status === 'ok' ? (same ? 'same' : 'beside or with a warning') : error?.code}`
      })
      t.diagnostic(ends.join('; '))
      assert.ok(ends.includes('a text with NUL: same'), 'the tool did not run')
      assert.ok(node.alive)
      await site.sound(`strange results on ${engine}`)
    }
  },
}

function plain(name: string): unknown {
  try {
    return oddValues[name]?.()
  } catch {
    return undefined
  }
}

export const payloadFaults: readonly Fault[] = [large, strangeArgs, strangeResults]
