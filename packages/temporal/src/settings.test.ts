import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { openTarget, openTemporalEngine } from './settings.ts'
import { type TemporalSettings, temporalCheck } from './settings-check.ts'

const own: TemporalSettings = { address: '127.0.0.1:7233' }
const pathsOf = (value: unknown): string[] => temporalCheck.issues(value, '/temporal').map(({ path }) => path)

test('settings are refused with the path of each fault', () => {
  assert.deepEqual(pathsOf(own), [])
  assert.deepEqual(pathsOf({}), ['/temporal/address'])
  assert.deepEqual(pathsOf({ address: 'http://127.0.0.1:7233' }), ['/temporal/address'])
  assert.deepEqual(pathsOf({ ...own, adress: 'x' }), ['/temporal/adress'])
  assert.deepEqual(pathsOf({ ...own, apiKey: 'a key in the file' }), ['/temporal/apiKey'])
  assert.deepEqual(pathsOf({ ...own, payloadKey: 'c2VjcmV0' }), ['/temporal/payloadKey'])
  assert.deepEqual(pathsOf({ ...own, payloadKey: [] }), ['/temporal/payloadKey'])
  assert.deepEqual(pathsOf({ ...own, tls: { certFile: 'a.pem' } }), ['/temporal/tls'])
  assert.deepEqual(pathsOf({ ...own, heartbeatMs: 10 }), ['/temporal/heartbeatMs'])
})

test('a server that is not on this machine needs TLS', () => {
  assert.deepEqual(pathsOf({ address: 'temporal.example:7233' }), ['/temporal/tls'])
  assert.deepEqual(pathsOf({ address: 'temporal.example:7233', tls: true }), [])
  assert.deepEqual(pathsOf({ address: '[::1]:7233' }), [])
})

test('keys come from secrets, as base64 or hex of 32 bytes', async () => {
  const key = randomBytes(32)
  const secrets = { one: key.toString('base64'), two: `${key.toString('hex')}\n`, short: 'c2VjcmV0', api: 'token' }
  const { payloadKeys, apiKey } = await openTarget(
    { ...own, payloadKey: ['secret:one', 'secret:two'], apiKey: 'secret:api' },
    secrets,
  )
  assert.deepEqual(
    payloadKeys.map((one) => Buffer.from(one).toString('hex')),
    [key.toString('hex'), key.toString('hex')],
  )
  assert.equal(apiKey, 'token')
  const code = (of: string) => (error: unknown) =>
    ToolError.is(error) && error.code === of && !error.message.includes('c2VjcmV0')
  await assert.rejects(openTarget({ ...own, payloadKey: 'secret:short' }, secrets), code('CONFIG_INVALID'))
  await assert.rejects(openTarget({ ...own, payloadKey: 'secret:none' }, secrets), code('SECRET_UNAVAILABLE'))
})

test('the engine refuses work without a payload key, because it carries the identity of the caller', async () => {
  const engine = openTemporalEngine(own)
  const identity = { principal: 'ann', tenant: 'acme', permissions: [] }
  const { error } = await engine.chain({ id: 'one', identity, steps: [{ tool: 'demo:add' }], input: null })
  assert.equal(error?.code, 'CONFIG_INVALID')
  assert.match(error?.message ?? '', /payloadKey/)
  await engine.close()
})
