import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { folderWith } from './config.fixture.ts'
import { type ConfigReport, reportConfig } from './config-report.ts'

const signal = new AbortController().signal

function configOf(config: object): { 'gantry.config.json': string } {
  return { 'gantry.config.json': JSON.stringify(config) }
}

function lines(findings: ConfigReport['problems']): string[] {
  for (const { remedy } of findings) assert.match(remedy, /\.$/)
  return findings.map(({ path, message }) => `${path} ${message}`)
}

const tool = {
  namespace: 'my',
  name: 'thing',
  description: 'A thing.',
  inputSchema: { type: 'object' },
  secrets: ['OTHER'],
  backends: [{ kind: 'http', name: 'api', path: '/' }],
}
const api = { kind: 'http', name: 'api', baseUrl: 'https://api.example.com' }

test('one report has the problems of the environment, of the file, of its parts and of the files that it names', async () => {
  using folder = folderWith(
    configOf({
      polcy: {},
      limits: { timeoutMs: 'soon', argsBytes: 5 },
      tracing: { endpoint: 'http://127.0.0.1:1', headers: { authorization: 'secret:COLLECTOR' } },
      secrets: { SEAL: { env: 'MY_SEAL' } },
      service: { port: 99_999, auditSecrets: ['SEAL'], tls: { certFile: 'cert.pem', keyFile: 'key.pem' } },
      tools: [{ ...tool, backends: [{ kind: 'http', name: 'apo', path: '/' }] }],
      backends: [api],
      secretStore: { keyFile: 'store.key' },
    }),
  )
  const environment = { GANTRY_LOG: 'loud' }
  const { file, problems, summary } = await reportConfig({ folder: folder.path, environment, signal })
  assert.equal(file, join(folder.path, 'gantry.config.json'))
  assert.equal(summary, undefined)
  const found = lines(problems)
  for (const wanted of [
    /^\/service\/logLevel must be .* \(from the variable GANTRY_LOG\)$/,
    /^\/polcy is not a known key; did you mean policy\?$/,
    /^\/limits\/timeoutMs must be number, but is string$/,
    /^\/service\/port must be at most 65535/,
    /^\/tools\/0\/backends\/0 names the unknown backend http:apo; did you mean http:api\?$/,
    /^\/secretStore /,
    /^\/secrets\/SEAL is in the variable MY_SEAL, which is not set; \/service\/auditSecrets\/0 needs it$/,
    /^\/tracing\/headers\/authorization needs the secret COLLECTOR, which no source has$/,
    /^\/service\/tls\/certFile names cert\.pem, which does not exist$/,
    /^\/service\/tls\/keyFile names key\.pem, which does not exist$/,
  ]) {
    assert.ok(
      found.some((line) => wanted.test(line)),
      `${wanted} in\n${found.join('\n')}`,
    )
  }
  assert.equal(new Set(found).size, found.length)
})

test('warnings name missing secrets, patterns without a tool and programs that are not there, and do not stop the start', async () => {
  using folder = folderWith(
    configOf({
      demo: true,
      backends: [api, { kind: 'mcp', name: 'gh', command: ['no-such-server'] }],
      tools: [tool],
      secrets: {
        TOKEN: { env: 'MY_TOKEN' },
        SHORT: { env: 'MY_SHORT' },
        SET: { env: 'MY_SET' },
        KEY: { file: 'no.key' },
      },
      policy: {
        default: 'allow',
        rules: [{ deny: ['shel:*', 'demo:ad', 'demo:*', 'my:thing', 'files:get', '*'] }, { ask: 'gh:create' }],
      },
      tenants: { acme: { tools: ['dmo:*'] } },
    }),
  )
  const environment = { MY_SHORT: 'abc', MY_SET: 'long enough' }
  const { problems, warnings, summary } = await reportConfig({ folder: folder.path, environment, signal })
  assert.deepEqual(problems, [])
  assert.deepEqual(summary?.backends, ['http:api', 'mcp:gh'])
  assert.deepEqual(lines(warnings), [
    '/secrets/TOKEN is in the variable MY_TOKEN, which is not set',
    '/secrets/SHORT is in the variable MY_SHORT, which is shorter than 4 characters',
    '/secrets/KEY is in no.key, which does not exist',
    '/tools (my:thing) needs the secret OTHER, which no source has',
    '/policy/rules/0/deny/0 names no tool: shel:*; did you mean shell:*?',
    '/policy/rules/0/deny/1 names no tool: demo:ad; did you mean demo:add?',
    '/tenants/acme/tools/0 names no tool: dmo:*; did you mean demo:*?',
    '/backends/1 starts the program no-such-server, which is not on the PATH',
  ])
})

test('a file that is no configuration, or is not there, is one problem', async () => {
  using folder = folderWith({ 'gantry.config.json': '{ "demo": true,, }' })
  const broken = await reportConfig({ folder: folder.path, environment: {}, signal })
  assert.deepEqual([broken.problems.length, broken.warnings.length], [1, 0])
  const absent = await reportConfig({ folder: folder.path, environment: {}, signal, file: 'none.json' })
  assert.match(lines(absent.problems)[0] ?? '', /none\.json, which does not exist/)
  assert.equal(absent.problems.length, 1)
})
