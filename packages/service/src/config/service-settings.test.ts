import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { configSchema } from './schema.ts'
import { defaultSettings } from './service-settings.ts'

test('every setting of the service can be configured and is in its documentation', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../../docs/service.md'), 'utf8')
  const { properties } = configSchema as { properties: { service: { properties: object } } }
  const known = Object.keys(properties.service.properties)
  for (const name of known) assert.ok(page.includes(`\`${name}\``), `docs/service.md does not name ${name}`)
  // These have keys of their own beside `service`.
  const beside = ['brokers', 'authentication', 'tenants', 'mcp']
  const own = Object.keys(defaultSettings).filter((name) => !beside.includes(name))
  for (const name of own) assert.ok(known.includes(name), `${name} cannot be configured`)
})
