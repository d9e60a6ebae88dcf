import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compileSchema } from '@gantry/json-schema'
import { folderWith, load, refusedPaths } from './config.fixture.ts'
import { loadConfig } from './load.ts'
import { publishedSchema } from './published-schema.ts'

const published = compileSchema(publishedSchema())

const everything = {
  $schema: './node_modules/gantry/gantry.config.schema.json',
  backends: [
    { kind: 'http', name: 'pets', baseUrl: 'https://pets.example.com', auth: { type: 'bearer', token: 'secret:P' } },
  ],
  policy: { default: 'allow', rules: [{ ask: 'pay:*', when: { '/amount': { above: 5 } } }] },
  egress: { allow: ['https://pets.example.com'], connectMs: 500 },
  safeguards: {
    breaker: false,
    bulkhead: { concurrency: 3 },
    backends: { 'http:pets': { rate: { perSecond: 1, burst: 2 } } },
  },
  runtimes: { pool: false, limits: { memoryBytes: 67_108_864 }, docker: { socket: '/var/run/docker.sock' } },
  engines: { temporal: { address: '127.0.0.1:7233', payloadKey: 'secret:T' } },
  profiles: { own: { floor: 'namespaces', limits: { pids: 5 } } },
  sandboxNetwork: { allow: ['https://pets.example.com'] },
  httpFetch: { methods: ['GET'], secrets: { P: ['https://pets.example.com'] } },
  service: { port: 0, roles: ['api', 'worker'] },
}

test('the published schema accepts a configuration that is accepted, `$schema` included, in JSON and in YAML', async () => {
  assert.deepEqual(published.issues(everything), [])
  await load(everything)
  using folder = folderWith({
    'gantry.config.yaml': '$schema: ./node_modules/gantry/gantry.config.schema.json\ndemo: true\n',
  })
  const { demo } = await loadConfig({ folder: folder.path, environment: {}, signal: new AbortController().signal })
  assert.equal(demo, true)
})

test('the published schema refuses what a configuration is refused for', async () => {
  const wrong: readonly (readonly [path: string, config: object])[] = [
    ['/egress/conectMs', { egress: { conectMs: 5 } }],
    ['/safeguards/bulkhead/concurrency', { safeguards: { bulkhead: { concurrency: 0 } } }],
    ['/runtimes/qemu/accelerator', { runtimes: { qemu: { accelerator: 'fast' } } }],
    ['/httpFetch/methods/0', { httpFetch: { methods: ['CONNECT'] } }],
    ['/service/port', { service: { port: -1 } }],
  ]
  for (const [path, config] of wrong) {
    assert.deepEqual(
      published.issues(config).map((issue) => issue.path),
      [path],
    )
    assert.deepEqual(await refusedPaths(config), [path])
  }
})

test('the published schema has no member that only a module can supply', () => {
  for (const config of [{ egress: { lookup: {} } }, { safeguards: { trials: {} } }, { runtimes: { onFault: {} } }]) {
    assert.equal(published.check(config), false)
  }
})
