import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { load, refusedPaths } from './config.fixture.ts'
import { configSchema } from './schema.ts'
import { defaultSettings } from './service-settings.ts'

test('every service setting has a key in the schema and is in docs/service.md', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../../docs/service.md'), 'utf8')
  const { properties } = configSchema as { properties: { service: { properties: object } } }
  const known = Object.keys(properties.service.properties)
  for (const name of known) assert.ok(page.includes(`\`${name}\``), `docs/service.md does not name ${name}`)
  // These settings have top-level keys beside `service`.
  const beside = ['brokers', 'authentication', 'tenants', 'mcp', 'approvals']
  const own = Object.keys(defaultSettings).filter((name) => !beside.includes(name))
  for (const name of own) assert.ok(known.includes(name), `${name} cannot be configured`)
})

test('sharedAddresses takes IP addresses and networks, and refuses anything else with its path', async () => {
  const good = ['10.0.0.0/8', '192.0.2.7', '::1', 'fd00::/8']
  const { service } = await load({ service: { sharedAddresses: good } })
  assert.deepEqual(service.sharedAddresses, good)
  const bad = ['10.0.0.0/33', 'proxy.example', 'fd00::/129', '10.0.0.0/8/8', '10.0.0.0/', '/8']
  const paths = bad.map((_one, index) => `/service/sharedAddresses/${index}`)
  assert.deepEqual(await refusedPaths({ service: { sharedAddresses: bad } }), paths)
})

test('approvals.self is never or owner, and any other value is refused with its path', async () => {
  assert.deepEqual((await load({})).service.approvals, {})
  for (const self of ['never', 'owner'])
    assert.deepEqual((await load({ approvals: { self } })).service.approvals, { self })
  assert.deepEqual(await refusedPaths({ approvals: { self: 'always' } }), ['/approvals/self'])
})
