import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import type { JsonObject, Result } from '@gantry/contract'
import type { EgressAllow } from '@gantry/core/internal/egress/egress'
import type { EgressOptions, HostLookup } from '@gantry/core/internal/egress/options'
import { createExecutor } from '@gantry/tools'
import { answering, here, serve, serveRaw } from '../../core/src/egress/egress.fixture.ts'
import { type Bytes, countDials, hiddenForms, originOf, plainForms } from '../../core/src/egress/ssrf.fixture.ts'
import { builtinTools } from './builtin.ts'

/** `http:fetch` of an executor with these rules. */
function fetching(t: TestContext, egress: EgressOptions, secrets: { readonly [name: string]: readonly string[] } = {}) {
  const gantry = createExecutor({
    tools: builtinTools({ httpFetch: { secrets } }),
    secrets: { api: 'the-real-value' },
    egress,
  })
  t.after(() => gantry.close())
  return async (url: string, more: JsonObject = {}): Promise<Result> => gantry.run('http:fetch', { url, ...more })
}

const outputOf = ({ output }: Result): JsonObject => output as JsonObject
const codeOf = ({ status, error }: Result): string => (status === 'ok' ? 'ok' : (error?.code ?? ''))
const rule = (url: string, isPrivate: boolean): EgressAllow => [{ origin: originOf(url), private: isPrivate }]

test('attack 65: no notation of loopback is fetched, unless the rule says private', async (t) => {
  const server = await serve(t)
  const dials = countDials(t)
  const loopback: Bytes = [127, 0, 0, 1]
  const plain = plainForms(loopback, server.port)
  for (const url of [...plain, ...hiddenForms(loopback, server.port)]) {
    assert.equal(codeOf(await fetching(t, { allow: rule(url, false) })(url)), 'EGRESS_DENIED', url)
  }
  assert.deepEqual([dials(), server.connections()], [0, 0])
  for (const url of plain) assert.equal(codeOf(await fetching(t, { allow: rule(url, true) })(url)), 'ok', url)
  assert.equal(server.seen.length, plain.length)
})

test('attacks 65 and 70: no notation of a metadata service is fetched, whatever the rule says', async (t) => {
  const dials = countDials(t)
  const services: Bytes[] = [
    [169, 254, 169, 254],
    [169, 254, 170, 2],
    [100, 100, 100, 200],
    [192, 0, 0, 192],
  ]
  const urls = services.flatMap((service) => [...plainForms(service, 80), ...hiddenForms(service, 80)])
  for (const url of [...urls, 'http://[fd00:ec2::254]/']) {
    assert.equal(codeOf(await fetching(t, { allow: rule(url, true) })(url)), 'EGRESS_DENIED', url)
  }
  const lookup: HostLookup = async () => [{ address: '169.254.169.254', family: 4 }]
  for (const name of ['metadata.google.internal', 'metadata', 'innocent.test']) {
    const allow = [{ origin: `http://${name}`, private: true }]
    const headers = { 'metadata-flavor': 'Google' }
    assert.equal(codeOf(await fetching(t, { allow, lookup })(`http://${name}/`, { headers })), 'EGRESS_DENIED', name)
  }
  assert.equal(dials(), 0)
})

test('attack 66: all addresses of a host name are checked, and the connection goes to a checked address', async (t) => {
  const server = await serve(t)
  const url = `http://rebind.test:${server.port}/`
  const answers = [['93.184.215.14', '127.0.0.1'], ['127.0.0.1']]
  let asked = 0
  const lookup: HostLookup = async () => {
    const addresses = answers[Math.min(asked, answers.length - 1)] ?? []
    asked += 1
    return addresses.map((address) => ({ address, family: 4 }))
  }
  const strict = fetching(t, { allow: [`http://rebind.test:${server.port}`], lookup })
  assert.equal(codeOf(await strict(url)), 'EGRESS_DENIED')
  assert.equal(codeOf(await strict(url)), 'EGRESS_DENIED')
  assert.deepEqual([asked, server.connections()], [2, 0])
  const open = fetching(t, { allow: [{ origin: `http://rebind.test:${server.port}`, private: true }], lookup })
  assert.equal(codeOf(await open(url)), 'ok')
  assert.deepEqual([asked, server.seen.length], [3, 1])
})

test('attack 67: each redirect is checked again and carries no credentials to another origin', async (t) => {
  const inside = await serve(t)
  const outside = await serve(t)
  let location = ''
  let status = 302
  const server = await serve(t, (_, response) => response.writeHead(status, { location }).end())
  const fetch = fetching(t, { allow: here(server, outside) }, { api: [server.origin] })
  for (status of [301, 302, 303, 307, 308]) {
    for (location of [
      inside.origin,
      'http://169.254.169.254/',
      'file:///etc/passwd',
      'gopher://x/',
      'http://user@x.test/',
    ]) {
      assert.equal(codeOf(await fetch(server.origin)), 'EGRESS_DENIED', `${status} ${location}`)
    }
  }
  assert.equal(inside.connections(), 0)
  location = `${outside.origin}/landed`
  const headers = {
    authorization: 'Bearer secret:api',
    cookie: 'sid=secret:api',
    'x-api-key': 'secret:api',
    accept: 'a/b',
  }
  const led = await fetch(server.origin, { headers })
  assert.deepEqual([codeOf(led), outputOf(led).url], ['ok', location])
  assert.equal(server.seen.at(-1)?.headers.authorization, 'Bearer the-real-value')
  const { authorization, cookie, 'x-api-key': key, accept } = outside.seen[0]?.headers ?? {}
  assert.deepEqual([authorization, cookie, key, accept], [undefined, undefined, undefined, 'a/b'])
  assert.ok(!JSON.stringify(outside.seen).includes('the-real-value'))
  const posted = await fetch(server.origin, { method: 'POST', body: 'x' })
  assert.equal(codeOf(posted), 'EGRESS_DENIED')
  const handed = await fetch(server.origin, { redirects: 0 })
  assert.deepEqual([outputOf(handed).status, (outputOf(handed).headers as JsonObject).location], [308, location])
})

test('attack 68: an ambiguous Location is not followed', async (t) => {
  let location = ''
  const inside = await serve(t)
  const server = await serve(t, ({ url }, response) => {
    if (url === '/next') response.end('here')
    else response.writeHead(302, { location }).end()
  })
  const fetch = fetching(t, { allow: here(server) })
  const place = inside.origin.slice('http://'.length)
  for (location of [`\\\\${place}/`, `/\\${place}/`, `//${place}/`, `http:\\\\${place}\\`]) {
    assert.equal(codeOf(await fetch(server.origin)), 'EGRESS_DENIED', location)
  }
  assert.equal(inside.connections(), 0)
  location = '/next'
  assert.equal(outputOf(await fetch(server.origin)).body, 'here')
})

test('attack 69: proxy environment variables are ignored', async (t) => {
  const proxy = await serve(t)
  const server = await serve(t)
  const names = ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'ALL_PROXY', 'NODE_USE_ENV_PROXY']
  const before = names.map((name) => [name, process.env[name]] as const)
  t.after(() => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
  })
  for (const name of names) process.env[name] = name === 'NODE_USE_ENV_PROXY' ? '1' : proxy.origin
  assert.equal(codeOf(await fetching(t, { allow: here(server) })(server.origin)), 'ok')
  assert.deepEqual([proxy.connections(), server.seen.length], [0, 1])
})

test('attack 73: endless bodies, compression bombs and long headers end at a limit', async (t) => {
  const endless = await serve(t, (_, response) => {
    response.writeHead(200, { 'content-type': 'text/plain' }).on('error', () => {})
    const send = (): void =>
      void (response.write('x'.repeat(10_000)) ? setImmediate(send) : response.once('drain', send))
    send()
  })
  const bomb = await serve(t, (_, response) =>
    response
      .writeHead(200, { 'content-encoding': 'gzip', 'content-type': 'text/plain' })
      .end(gzipSync(Buffer.alloc(50_000_000, 'x'))),
  )
  const headed = await answering(t, `HTTP/1.1 200 OK\r\n${'x: y\r\n'.repeat(20_000)}\r\n`)
  const mute = await serveRaw(t, () => undefined)
  const allow = here(endless, bomb, headed, mute)
  const fetch = fetching(t, { allow })
  for (const server of [endless, bomb]) {
    const { truncated, bytes } = outputOf(await fetch(server.origin))
    assert.deepEqual([truncated, bytes], [true, 2_097_152])
  }
  assert.equal(codeOf(await fetch(headed.origin)), 'BACKEND_FAILED')
  const gantry = createExecutor({ tools: builtinTools(), egress: { allow } })
  t.after(() => gantry.close())
  const { status } = await gantry.run('http:fetch', { url: mute.origin }, { timeoutMs: 50 })
  assert.equal(status, 'timeout')
})

test('attack 74: no argument injects another header or another request', async (t) => {
  const server = await serve(t)
  const fetch = fetching(t, { allow: here(server) }, { api: [server.origin] })
  const wrong: JsonObject[] = [
    { 'x-a': 'one\r\nx-b: two' },
    { 'x-a': 'one\nx-b: two' },
    { 'x-a': 'one\0' },
    { 'x-a\r\nx-b': 'one' },
    { 'x a': 'one' },
    { host: 'other.test' },
    { Host: 'other.test' },
    { 'content-length': '0' },
    { 'transfer-encoding': 'chunked' },
    { connection: 'upgrade' },
    { upgrade: 'h2c' },
    { 'proxy-authorization': 'x' },
    { 'x-forwarded-for': '127.0.0.1' },
    { 'x-http-method-override': 'DELETE' },
    { 'X-A': 'one', 'x-a': 'two' },
  ]
  for (const headers of wrong) {
    assert.equal(codeOf(await fetch(server.origin, { headers })), 'INPUT_INVALID', JSON.stringify(headers))
  }
  assert.equal(server.connections(), 0)
  const split = await fetch(`${server.origin}/a%0d%0ax: y`, { query: { q: 'a\r\nx-b: two' } })
  assert.equal(codeOf(split), 'ok')
  assert.equal(server.seen[0]?.url, '/a%0d%0ax:%20y?q=a%0D%0Ax-b%3A+two')
  assert.equal(server.seen[0]?.headers['x-b'], undefined)
})
