import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fails, guard, here, serve } from './egress.fixture.ts'

const denied = fails('EGRESS_DENIED')

test('a scope with its own list is checked against that list instead of the rules', async (t) => {
  const [ruled, listed] = [await serve(t), await serve(t)]
  const { get, egress } = guard(t, { allow: here(ruled) })
  const instead = here(listed)
  assert.equal((await get(listed.origin, { instead })).status, 200)
  await assert.rejects(get(ruled.origin, { instead }), denied)
  await assert.rejects(get(listed.origin, { instead: [listed.origin] }), denied, 'without a word of private addresses')
  await assert.rejects(get(listed.origin, { instead: [] }), denied)
  await assert.rejects(get(listed.origin), denied, 'other scopes gain nothing by it')
  egress.setRules([])
  assert.equal((await get(listed.origin, { instead })).status, 200, 'new rules are not about it')
})

test('a scope restricted to public addresses ignores rules for private addresses', async (t) => {
  const server = await serve(t)
  const looked: string[] = []
  const lookup = async (host: string) => {
    looked.push(host)
    return [{ address: '127.0.0.1', family: 4 }]
  }
  const named = `http://inner.test:${server.port}`
  const { get } = guard(t, { allow: [...here(server), { origin: named, private: true }, 'https://outer.test'], lookup })
  await assert.rejects(get(server.origin, { publicOnly: true }), denied)
  await assert.rejects(get(named, { publicOnly: true }), denied)
  assert.deepEqual(looked, [], 'what no rule allows is not looked up')
  await assert.rejects(get('https://outer.test', { publicOnly: true }), denied)
  assert.deepEqual(looked, ['outer.test'])
  assert.equal((await get(named)).status, 200)
  assert.equal(server.seen.length, 1)
})

test('egress.check refuses a forbidden target without a lookup or a connection', async (t) => {
  const server = await serve(t)
  const lookup = () => assert.fail('it was looked up')
  const { egress } = guard(t, { lookup, rate: { perSecond: 0.001, burst: 1 } })
  const check = (url: string, more: object = {}) =>
    egress.check({ owner: 'test', url, own: [new URL(url).origin], ...more })
  for (const host of ['127.0.0.1', '10.0.0.7', '[::1]', '2852039166', 'localhost', 'a.LocalHost.']) {
    await assert.rejects(check(`http://${host}:${server.port}/`), denied, host)
  }
  await assert.rejects(
    check('http://169.254.169.254', { instead: [{ origin: 'http://169.254.169.254', private: true }] }),
    denied,
  )
  await assert.rejects(check('https://name.test', { instead: ['https://other.test'] }), denied)
  await assert.rejects(check('https://user:word@name.test', { own: ['https://name.test'] }), denied)
  for (let time = 0; time < 3; time++) await check('https://name.test')
  await check(server.origin, { own: here(server) })
  await check('http://localhost', { own: [{ origin: 'http://localhost', private: true }] })
  assert.equal(server.connections(), 0)
})
