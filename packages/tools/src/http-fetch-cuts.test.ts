import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { JsonObject, Result } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { here, serve } from '../../core/src/egress/egress.fixture.ts'
import { builtinTools } from './builtin.ts'

const secret = 'tok-REAL+82f1/c0d9=q<z'
const headers = { 'x-key': 'secret:api' }
const inPage = (text: string): string => text.replace(/[^a-z0-9]/gi, (sign) => `&#x${sign.charCodeAt(0).toString(16)};`)

/** A server that repeats the key in the way that the path names, and a fetch that may send it there. */
async function repeating(t: TestContext, written: { readonly [path: string]: (key: string) => string | Buffer }) {
  const server = await serve(t, ({ url = '', headers: { 'x-key': key = '' } }, response) => {
    response.writeHead(200, { 'content-type': url === '/page' ? 'text/html' : 'text/plain' })
    response.end(written[url]?.(String(key)))
  })
  const gantry = createExecutor({
    tools: builtinTools({ httpFetch: { secrets: { api: [server.origin] } } }),
    secrets: { api: secret },
    egress: { allow: here(server) },
  })
  t.after(() => gantry.close())
  const fetch = async (path: string, more: JsonObject): Promise<Result> =>
    gantry.run('http:fetch', { url: `${server.origin}${path}`, ...more })
  return { server, gantry, fetch }
}

const shownOf = ({ output }: Result): string => {
  const { body, base64 } = output as { body?: string; base64?: string }
  return body ?? Buffer.from(base64 ?? '', 'base64').toString('latin1')
}

test('attack 79: a response truncated within a secret ends before it, at every limit and in every format', async (t) => {
  const written = {
    '/plain': (key: string) => `key=${key}; the end`,
    '/page': (key: string) => `key=${inPage(key)}; the end`,
    '/base64': (key: string) => `key=${Buffer.from(key).toString('base64')}; the end`,
  }
  const { fetch } = await repeating(t, written)
  for (const [path, write] of Object.entries(written)) {
    const whole = write(secret)
    const end = whole.length - '; the end'.length
    for (let maxBytes = 2; maxBytes < whole.length; maxBytes += 3) {
      for (const as of ['html', 'base64']) {
        const { output } = await fetch(path, { headers, maxBytes, as })
        const shown = shownOf({ output } as Result)
        assert.equal((output as JsonObject).truncated, true)
        if (maxBytes < end) assert.equal(shown, 'key='.slice(0, maxBytes), `${path} ${maxBytes}`)
        else assert.ok(!shown.includes(whole.slice(4, 12)), `${path} ${maxBytes} ${shown}`)
      }
    }
    // The control: without a secret in the request the same cut is where the caller wants it.
    const plain = await fetch(path, { headers: { 'x-key': secret }, maxBytes: 12, as: 'html' })
    assert.equal(shownOf(plain), whole.slice(0, 12))
  }
})

test('attack 79: chunks of a response truncated within a secret show no part of it', async (t) => {
  const { gantry, server } = await repeating(t, { '/plain': (key) => `${'x'.repeat(30_000)} key=${key}; the end` })
  for (const maxBytes of [30_006, 30_010, 30_020, 30_026]) {
    let shown = ''
    const args = { url: `${server.origin}/plain`, headers, maxBytes, stream: true }
    for await (const event of gantry.stream('http:fetch', args)) {
      if (event.kind === 'chunk') shown += String(event.data)
    }
    assert.equal(shown, `${'x'.repeat(30_000)} key=`, `${maxBytes}`)
  }
})

test('a truncated title shows no part of a secret', async (t) => {
  const titled = (key: string): string => `<title>${'x'.repeat(985)} ${inPage(key)} end</title><p>body`
  const { fetch } = await repeating(t, { '/page': titled })
  const { output } = await fetch('/page', { headers })
  assert.equal((output as JsonObject).title, `${'x'.repeat(985)} [redacted] end`.slice(0, 1_000))
})

test('text that only begins like a secret is shown up to the limit, so that prefixes cannot be guessed', async (t) => {
  const { fetch } = await repeating(t, { '/plain': () => `${secret.slice(0, 12)} and on` })
  for (let maxBytes = 1; maxBytes < 19; maxBytes++) {
    const result = await fetch('/plain', { headers, maxBytes })
    assert.equal(shownOf(result), `${secret.slice(0, 12)} and on`.slice(0, maxBytes))
  }
})

test('a response is returned without waiting for its end once no secret can cross the limit', async (t) => {
  const server = await serve(t, (_, response) => void response.writeHead(200).write('x'.repeat(1_000)))
  const gantry = createExecutor({
    tools: builtinTools({ httpFetch: { secrets: { api: [server.origin] } } }),
    secrets: { api: secret },
    egress: { allow: here(server) },
  })
  t.after(() => gantry.close())
  const result = await gantry.run('http:fetch', { url: server.origin, headers, maxBytes: 50, as: 'text' })
  assert.equal(shownOf(result), 'x'.repeat(50))
})

test('a range request with a secret is refused', async (t) => {
  const { fetch, server } = await repeating(t, { '/plain': (key) => key })
  for (const name of ['range', 'Range', 'if-range', 'If-Range']) {
    for (const by of [{ headers: { ...headers, [name]: 'bytes=0-9' } }, { query: { k: 'secret:api' } }]) {
      const { error } = await fetch('/plain', { headers: { [name]: 'bytes=0-9' }, ...by })
      assert.deepEqual(
        [error?.code, error?.details?.issues],
        [
          'INPUT_INVALID',
          [{ path: '/headers', message: `${name.toLowerCase()} cannot be set where a secret is sent` }],
        ],
      )
    }
  }
  assert.equal(server.seen.length, 0)
  assert.equal((await fetch('/plain', { headers: { range: 'bytes=0-9' } })).status, 'ok')
  assert.equal(server.seen[0]?.headers.range, 'bytes=0-9')
})
