import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type HttpAuth, ToolError } from '@gantry/contract'
import { openWorld, sendJson } from './server.fixture.ts'

test('bearer, basic, header, query and cookie credentials are filled in from secrets', async (t) => {
  const world = await openWorld((_request, response) => sendJson(response, {}))
  t.after(world.close)
  const send = async (auth: HttpAuth | HttpAuth[]) => {
    await world.call({ path: '/', auth, headers: { Cookie: 'a=1' } })
    return world.seen.at(-1)
  }
  assert.equal((await send({ type: 'bearer', token: 'secret:t' }))?.headers.authorization, 'Bearer value-of-t')
  const basic = await send({ type: 'basic', username: 'me', password: 'secret:p' })
  assert.equal(basic?.headers.authorization, `Basic ${btoa('me:value-of-p')}`)
  const header = await send({ type: 'header', name: 'X-Key', value: 'Token secret:a.b/c, v1' })
  assert.equal(header?.headers['x-key'], 'Token value-of-a.b/c, v1')
  const [query, cookie] = [
    { type: 'query', name: 'k', value: 'secret:q' },
    { type: 'cookie', name: 's', value: 'secret:c' },
  ] as const
  const both = await send([query, cookie])
  assert.deepEqual([both?.target, both?.headers.cookie], ['/?k=value-of-q', 'a=1; s=value-of-c'])
})

test('a call with a missing secret sends no request', async (t) => {
  const world = await openWorld((_request, response) => sendJson(response, {}), {
    http: { auth: { type: 'bearer', token: 'secret:gone' } },
  })
  t.after(world.close)
  const secret = async () => Promise.reject(new ToolError('SECRET_UNAVAILABLE', 'There is no secret gone.'))
  await assert.rejects(world.call({ path: '/' }, {}, { secret }), { code: 'SECRET_UNAVAILABLE' })
  assert.equal(world.seen.length, 0)
  await world.call({ path: '/', auth: [] }, {}, { secret })
  assert.equal(world.seen[0]?.headers.authorization, undefined)
})

test('a secret that would inject a header is refused, and the error does not contain it', async (t) => {
  const world = await openWorld((_request, response) => sendJson(response, {}), {
    http: { auth: { type: 'bearer', token: 'secret:bad' } },
  })
  t.after(world.close)
  const secret = async () => 'canary\r\nX-Evil: 1'
  const error = await world.call({ path: '/' }, {}, { secret }).catch((thrown: ToolError) => thrown)
  assert.ok(error instanceof ToolError)
  assert.equal(error.code, 'SECRET_UNAVAILABLE')
  assert.doesNotMatch(`${error.message} ${JSON.stringify(error.details)}`, /canary/)
  assert.equal(world.seen.length, 0)
})

test('a call with invalid arguments fetches no secret', async (t) => {
  const world = await openWorld((_request, response) => sendJson(response, {}))
  t.after(world.close)
  const asked: string[] = []
  const secret = async (name: string) => {
    asked.push(name)
    return 'value'
  }
  const auth = { type: 'bearer', token: 'secret:t' } as const
  await assert.rejects(world.call({ path: '/{id}', auth }, { id: '..' }, { secret }), { code: 'INPUT_INVALID' })
  assert.deepEqual(asked, [])
  await world.call({ path: '/{id}', auth, headers: { 'X-T': 'secret:t' } }, { id: 'secret:argument' }, { secret })
  assert.deepEqual(asked, ['t'])
})
