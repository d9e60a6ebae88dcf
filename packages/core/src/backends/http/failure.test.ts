import assert from 'node:assert/strict'
import { test } from 'node:test'
import { retryAfter } from './failure.ts'
import { failure, openWorld } from './server.fixture.ts'

test('each HTTP status maps to an error code, a retryable flag and an effect', async (t) => {
  let status = 0
  const world = await openWorld((_request, response) => void response.writeHead(status).end(), {
    http: { redirects: 0 },
  })
  t.after(world.close)
  const rows: [statuses: number[], code: string, retryable: boolean, effect: string][] = [
    [[300, 301, 304, 307, 400, 404, 405, 407, 409, 410, 418, 422, 451, 501, 505], 'BACKEND_FAILED', false, 'possible'],
    [[408, 425, 500, 502, 503, 504], 'BACKEND_FAILED', true, 'possible'],
    [[401, 403], 'DENIED', false, 'none'],
    [[429], 'RATE_LIMITED', true, 'none'],
  ]
  for (const [statuses, code, retryable, effect] of rows) {
    for (status of statuses) {
      const error = await failure(world.call({ method: 'POST', path: '/' }))
      const facts = [error.code, error.retryable, error.effect, error.stage, error.details?.status]
      assert.deepEqual(facts, [code, retryable, effect, 'execute', status])
    }
  }
  status = 503
  assert.equal((await failure(world.call({ path: '/' }))).effect, 'none')
})

test('the error message holds the explanation of the body and details hold its start, both bounded and escaped', async (t) => {
  let [type, body] = ['', '']
  const world = await openWorld(
    (_request, response) => void response.writeHead(400, { 'content-type': type }).end(body),
  )
  t.after(world.close)
  const ask = async (asType: string, text: string) => {
    ;[type, body] = [asType, text]
    return failure(world.call({ path: '/' }))
  }
  const problem = await ask('application/problem+json', '{"title":"Out of credit","detail":"You have 30."}')
  assert.equal(problem.message, 'api answered 400: Out of credit: You have 30.')
  assert.equal(
    (await ask('application/json', '{"error":{"message":"it broke"}}')).message,
    'api answered 400: it broke',
  )
  assert.equal((await ask('application/json', '{"error":"it broke"}')).message, 'api answered 400: it broke')
  assert.equal((await ask('application/json', '{"error":7')).message, 'api answered 400')
  assert.equal((await ask('text/plain', 'a\r\nb\x1b[2J')).message, 'api answered 400: a\\u{d}\\u{a}b\\u{1b}[2J')
  const large = await ask('text/html', '\0'.repeat(1_000_000))
  assert.equal(large.message, 'api answered 400')
  assert.equal(String(large.details?.body).length, 1_024)
  assert.match(String(large.details?.body), /^\\u\{0\}\\u\{0\}/)
})

test('a failure status is reported even when its body never ends', async (t) => {
  const world = await openWorld((_request, response) => {
    response.writeHead(500, { 'content-type': 'text/plain' }).write('it broke')
  })
  t.after(world.close)
  assert.match((await failure(world.call({ path: '/' }))).message, /answered 500: it broke/)
})

test('a secret echoed by the server is redacted from the error before truncation', async (t) => {
  const secret = 'canary-0123456789-canary'
  let padding = 0
  const world = await openWorld(
    ({ headers }, response) => {
      const body = `${'.'.repeat(padding)}${headers.authorization}${'.'.repeat(5_000)}`
      response.writeHead(400, { 'content-type': 'text/plain' }).end(body)
    },
    { http: { auth: { type: 'bearer', token: 'secret:k' } } },
  )
  t.after(world.close)
  let hidden = 0
  for (const cut of [300, 1_024, 1_200, 4_096]) {
    for (padding = cut - 32; padding < cut; padding++) {
      const error = await failure(world.call({ path: '/' }, {}, { secret: async () => secret }))
      const shown = `${error.message} ${JSON.stringify(error.details)}`
      assert.doesNotMatch(shown, /canary/)
      if (shown.includes('[redacted]')) hidden += 1
    }
  }
  assert.ok(hidden > 0, 'the server sent nothing back')
})

test('Retry-After is read as seconds or a date, and limited to between 0 and one day', async (t) => {
  const now = Date.parse('Fri, 02 Oct 2026 10:00:00 GMT')
  const rows: [header: string | null, ms: number | undefined][] = [
    ['120', 120_000],
    [' 0 ', 0],
    ['-5', 0],
    ['9'.repeat(40), 86_400_000],
    ['Fri, 02 Oct 2026 10:00:30 GMT', 30_000],
    ['Fri, 02 Oct 2026 09:00:00 GMT', 0],
    ['Fri, 02 Oct 2099 09:00:00 GMT', 86_400_000],
    ['soon GMT', undefined],
    ['1.5', undefined],
    ['', undefined],
    [null, undefined],
  ]
  for (const [header, ms] of rows) assert.equal(retryAfter(header, now), ms, String(header))
  const world = await openWorld((_request, response) => void response.writeHead(429, { 'retry-after': '7' }).end())
  t.after(world.close)
  assert.equal((await failure(world.call({ path: '/' }))).details?.retryAfterMs, 7_000)
})
