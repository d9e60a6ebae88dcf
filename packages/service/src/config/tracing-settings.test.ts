import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { folderWith } from './config.fixture.ts'
import { loadConfig } from './load.ts'
import type { TracingSettings } from './service-settings.ts'

const { signal } = new AbortController()

async function settings(config: object, environment: NodeJS.ProcessEnv = {}): Promise<TracingSettings | undefined> {
  using folder = folderWith({ 'gantry.config.json': JSON.stringify(config) })
  return (await loadConfig({ folder: folder.path, environment, signal })).service.tracing
}

async function wrong(config: object, environment?: NodeJS.ProcessEnv): Promise<string> {
  try {
    await settings(config, environment)
  } catch (error) {
    assert.ok(ToolError.is(error) && error.code === 'CONFIG_INVALID', String(error))
    return (error.details?.issues ?? []).map(({ path, message }) => `${path} ${message}`).join('; ')
  }
  return assert.fail('it was accepted')
}

test('tracing is off without an endpoint', async () => {
  assert.equal(await settings({}), undefined)
})

test('the file configures tracing, and OTEL_ variables override it', async () => {
  const tracing = { endpoint: 'http://127.0.0.1:4318', headers: { 'x-a': 'secret:a' }, sample: 0.1 }
  assert.deepEqual(await settings({ tracing }), tracing)
  const environment = {
    OTEL_EXPORTER_OTLP_ENDPOINT: 'https://otel.example:4318',
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Basic%20YQ==, x-b = c',
    OTEL_EXPORTER_OTLP_CERTIFICATE: '/ca.pem',
  }
  const headers = { authorization: 'Basic YQ==', 'x-b': 'c' }
  const asked = { endpoint: 'https://otel.example:4318', headers, caFile: '/ca.pem' }
  assert.deepEqual(await settings({}, environment), asked)
  assert.deepEqual(await settings({ tracing }, environment), { ...asked, sample: 0.1 })
})

test('an invalid tracing setting is refused with its path', async () => {
  assert.match(await wrong({ tracing: {} }), /\/tracing.*endpoint/)
  assert.match(await wrong({ tracing: { endpoint: 'localhost:4318' } }), /^\/tracing\/endpoint/)
  assert.match(await wrong({ tracing: { endpoint: 'http://me:word@localhost' } }), /^\/tracing\/endpoint/)
  const endpoint = 'http://localhost'
  assert.match(await wrong({ tracing: { endpoint, sample: 2 } }), /^\/tracing\/sample/)
  assert.match(await wrong({ tracing: { endpoint, headers: { 'a b': 'c' } } }), /^\/tracing\/headers/)
  assert.match(await wrong({ tracing: { endpoint, sampel: 1 } }), /did you mean sample\?/)
  assert.match(await wrong({}, { OTEL_EXPORTER_OTLP_ENDPOINT: 'grpc://x' }), /must be the URL of a collector/)
  for (const text of ['a', '=b', 'a=%zz', 'a=b,,c=d']) {
    const said = await wrong({}, { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_EXPORTER_OTLP_HEADERS: text })
    assert.match(said, /\/tracing\/headers must be name=value.*OTEL_EXPORTER_OTLP_HEADERS/, text)
  }
  assert.match(await wrong({}, { OTEL_EXPORTER_OTLP_HEADERS: 'a=b' }), /endpoint/)
})
