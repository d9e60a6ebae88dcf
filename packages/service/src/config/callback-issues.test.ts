import assert from 'node:assert/strict'
import { test } from 'node:test'
import { load, refusedPaths } from './config.fixture.ts'

test('callbackOrigins is read from the file, and is undefined when absent', async () => {
  const callbackOrigins = ['https://*.example.com', { origin: 'http://127.0.0.1:8080', private: true }]
  assert.deepEqual((await load({ service: { callbackOrigins } })).service.callbackOrigins, callbackOrigins)
  assert.deepEqual((await load({ service: { callbackOrigins: [] } })).service.callbackOrigins, [])
  assert.equal((await load({})).service.callbackOrigins, undefined)
})

test('an invalid callback origin is refused with its path', async () => {
  const at = async (...callbackOrigins: readonly unknown[]) => await refusedPaths({ service: { callbackOrigins } })
  assert.deepEqual(await at('https://a.example', 'a.example'), ['/service/callbackOrigins/1/origin'])
  assert.deepEqual(await at({ origin: 'https://a.example/path' }), ['/service/callbackOrigins/0/origin'])
  assert.deepEqual(await at({ origin: 'https://a.example', private: 'yes' }), ['/service/callbackOrigins/0/private'])
  assert.deepEqual(await at({ origin: 'https://a.example', methods: ['GET'] }), ['/service/callbackOrigins/0/methods'])
  assert.deepEqual(await at(5), ['/service/callbackOrigins/0'])
})

test('a tenant’s callback URL that callbackOrigins denies is refused at the start, not at each call', async () => {
  const callbacks = { 'a/b': 'http://127.0.0.1:8080/hook', acme: 'https://hooks.example.com/' }
  const at = ['/service/callbacks/a~1b']
  assert.deepEqual(await refusedPaths({ service: { callbacks } }), at)
  const allow = [{ origin: 'http://127.0.0.1:8080', private: true }, 'https://hooks.example.com']
  assert.deepEqual(
    await refusedPaths({ service: { callbacks }, egress: { allow } }),
    at,
    'egress rules of tools do not allow callbacks',
  )
  assert.deepEqual(await refusedPaths({ service: { callbacks: { acme: callbacks.acme } }, egress: { allow: [] } }), [
    '/service/callbacks/acme',
  ])
  assert.ok(await load({ service: { callbacks, callbackOrigins: allow } }))
  assert.deepEqual(await refusedPaths({ service: { callbacks: { acme: 'https://user:word@a.example/' } } }), [
    '/service/callbacks/acme',
  ])
})
