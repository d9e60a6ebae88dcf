import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { type BrokerSettings, brokerSettings } from './broker-settings.ts'
import { folderWith } from './config.fixture.ts'
import { loadConfig } from './load.ts'
import { brokerProperties } from './schema.ts'

const signal = new AbortController().signal
const bucket = {
  region: 'eu',
  bucket: 'files',
  accessKeyId: 'id',
  secretAccessKey: 'k',
  sessionToken: 't',
  forcePathStyle: true,
}

/** The broker settings of a file, if there is one, and of the environment. */
async function settings(config: object | undefined, environment: NodeJS.ProcessEnv = {}): Promise<BrokerSettings> {
  using folder = folderWith(config === undefined ? {} : { 'gantry.config.json': JSON.stringify(config) })
  return (await loadConfig({ folder: folder.path, environment, signal })).service.brokers
}

/** What is wrong, a line for each issue. */
async function wrong(config: object | undefined, environment?: NodeJS.ProcessEnv): Promise<string[]> {
  try {
    await settings(config, environment)
  } catch (error) {
    assert.ok(ToolError.is(error) && error.code === 'CONFIG_INVALID', String(error))
    return (error.details?.issues ?? []).map(({ path, message }) => `${path} ${message}`)
  }
  return assert.fail('it was accepted')
}

test('a configuration without brokers has none', async () => {
  assert.deepEqual(await settings({}), { transports: [] })
  assert.deepEqual(await settings(undefined), { transports: [] })
  assert.deepEqual(await settings({ transport: 'postgres' }), { transports: [] })
})

test('a broker needs only its address; topics, streams and groups default to those of the two gateways', async () => {
  const { transports, redis, kafka } = await settings({
    transport: ['redis', 'kafka', 'postgres'],
    redisUrl: 'redis://127.0.0.1',
    kafkaBrokers: ['127.0.0.1:9092'],
  })
  assert.deepEqual(transports, ['kafka', 'redis'])
  assert.deepEqual(redis, {
    url: 'redis://127.0.0.1',
    stream: 'sg:stream:tools',
    group: 'sg:tools',
    deadLetters: 'sg:stream:dlq',
    messages: 'sg:stream:outbound',
    tenant: 'default',
    tenants: {},
    permissions: [],
    users: {},
    requireHash: false,
    errorText: false,
    claimIdleMs: 15_000,
    backgroundMs: 10_000,
    catalog: true,
  })
  assert.deepEqual(kafka, {
    brokers: ['127.0.0.1:9092'],
    topic: 'somastack.tools',
    results: 'somastack.tool_results',
    tls: false,
    deadLetters: 'somastack.tools.dlq',
    messages: 'conversation.outbound',
    group: 'tool-executor',
    events: true,
    progressMs: 1_000,
  })
})

test('the settings hold every key of the file', async () => {
  const identity = { principal: 'p', tenant: 't', permissions: ['x'], roles: ['r'] }
  const redis = {
    stream: 's',
    group: 'g',
    deadLetters: 'd',
    messages: 'm',
    replies: ['r:*'],
    tenant: 't',
    catalog: false,
    tenants: { 'discord:1': 'a' },
    permissions: ['a:*'],
    users: { 'discord:2': ['b'] },
    requireHash: true,
    errorText: true,
    backgroundMs: 1,
    sentinelUsername: 'u',
    sentinelPassword: 'p',
    claimIdleMs: 5_000,
    identity,
    caFile: '/ca.pem',
    certFile: '/own.pem',
    keyFile: '/own.key',
  }
  const kafka = {
    topic: 't',
    results: 'r',
    deadLetters: 'd',
    messages: 'm',
    group: 'g',
    events: false,
    progressMs: 5,
    tls: true,
    caFile: '/ca.pem',
    certFile: '/own.pem',
    keyFile: '/own.key',
    identity,
    saslMechanism: 'SCRAM-SHA-512',
    username: 'u',
    password: 'secret:P',
    sessionTimeoutMs: 9_000,
  }
  const s3 = {
    endpoint: 'https://s3.example.com',
    ...bucket,
    prefix: 'a/b',
    caFile: '/ca.pem',
  }
  const said = { redisUrl: 'rediss://h', kafkaBrokers: ['a:1', 'b:2'], redis, kafka, s3 }
  const found = await settings({ transport: 'kafka', ...said })
  assert.deepEqual(found, {
    transports: ['kafka'],
    s3,
    redis: { url: 'rediss://h', ...redis },
    kafka: { brokers: ['a:1', 'b:2'], ...kafka },
  })
  const known = (key: string) => Object.keys((brokerProperties[key] as { properties: object }).properties)
  assert.deepEqual(Object.keys(redis).sort(), known('redis').sort())
  assert.deepEqual(Object.keys(kafka).sort(), known('kafka').sort())
  assert.deepEqual(Object.keys(s3).sort(), known('s3').sort())
})

test('environment variables configure brokers without a file, and override one', async () => {
  const environment = {
    GANTRY_TRANSPORT: 'redis,kafka',
    REDIS_URL: 'redis://r',
    KAFKA_BROKERS: 'a:1, b:2',
    KAFKA_TLS: 'true',
    KAFKA_CA_FILE: '/ca.pem',
    KAFKA_SASL_MECHANISM: 'PLAIN',
    KAFKA_SASL_USERNAME: 'u',
    KAFKA_SASL_PASSWORD: 'p',
    S3_ENDPOINT: 'http://s3',
    S3_REGION: 'eu',
    S3_BUCKET: 'files',
    S3_ACCESS_KEY_ID: 'id',
    S3_PREFIX: 'x',
    S3_SECRET_ACCESS_KEY: 'k',
    S3_SESSION_TOKEN: 't',
    S3_FORCE_PATH_STYLE: '1',
  }
  const expected = {
    transport: ['redis', 'kafka'] as const,
    redisUrl: 'redis://r',
    kafkaBrokers: ['a:1', 'b:2'],
    kafka: { tls: true, caFile: '/ca.pem', saslMechanism: 'PLAIN' as const, username: 'u', password: 'p' },
    s3: { endpoint: 'http://s3', ...bucket, prefix: 'x' },
  }
  assert.deepEqual(await settings(undefined, environment), brokerSettings(expected))
  const { kafka, redis } = await settings(
    { redisUrl: 'redis://file', redis: { group: 'mine' }, kafka: { group: 'ours', tls: false } },
    environment,
  )
  assert.deepEqual([redis?.url, redis?.group], ['redis://r', 'mine'])
  assert.deepEqual([kafka?.tls, kafka?.group], [true, 'ours'])
})

test('REDIS_URL and redisUrl accept and refuse the same forms of URL', async () => {
  const right = [
    'redis://h',
    'rediss://:p%40s@h:7/3',
    'redis+sentinel://127.0.0.1:26379/mymaster/0',
    'rediss+sentinel://u:p@a,b:7/main',
    'redis+cluster://a:1,b:2',
    'rediss+cluster://a',
  ]
  for (const url of right) {
    assert.equal((await settings(undefined, { REDIS_URL: url })).redis?.url, url)
    assert.equal((await settings({}, { REDIS_URL: url })).redis?.url, url)
    assert.equal((await settings({ redisUrl: url })).redis?.url, url)
  }
  const wrongForms = [
    'localhost',
    'http://h',
    'redis://',
    'redis://:hunter2@a,b',
    'redis://:100%@h',
    'redis://h/first',
    'redis+sentinel://:hunter2@host',
    'redis+sentinel:///mymaster',
    'redis+cluster://:hunter2@host/2',
  ]
  for (const url of wrongForms) {
    for (const issues of [await wrong({ redisUrl: url }), await wrong(undefined, { REDIS_URL: url })]) {
      assert.equal(issues.length, 1, `${url}: ${issues.join('\n')}`)
      assert.match(issues.join(), /^\/redisUrl must be .*redis:\/\/.*redis\+sentinel:\/\/.*redis\+cluster:\/\/.*rediss/)
      assert.ok(!issues.join().includes('hunter2'))
    }
  }
})

test('TLS files are resolved from the configuration folder, come in pairs, and are refused without TLS', async () => {
  using folder = folderWith({
    'gantry.config.json': JSON.stringify({
      redisUrl: 'rediss://h',
      redis: { caFile: 'ca.pem' },
      kafkaBrokers: ['a:1'],
      kafka: { caFile: '/ca.pem' },
      service: { tls: { certFile: 'tls/cert.pem', keyFile: '/key.pem' } },
    }),
  })
  const { service } = await loadConfig({ folder: folder.path, environment: {}, signal })
  assert.deepEqual(service.tls, { certFile: join(folder.path, 'tls/cert.pem'), keyFile: '/key.pem' })
  assert.equal(service.brokers.redis?.caFile, join(folder.path, 'ca.pem'))
  assert.equal(service.brokers.kafka?.caFile, '/ca.pem')
  const plain = { endpoint: 'http://s3', bucket: 'files', accessKeyId: 'id', secretAccessKey: 'k', caFile: '/ca.pem' }
  assert.deepEqual(await wrong({ redisUrl: 'redis://h', redis: { caFile: '/ca.pem' }, s3: plain }), [
    '/redis/caFile needs TLS; write rediss:// in redisUrl',
    '/s3/caFile needs TLS; write https:// in endpoint',
  ])
  for (const half of [
    { kafka: { certFile: 'c' } },
    { redis: { keyFile: 'k' } },
    { service: { tls: { keyFile: 'k' } } },
  ]) {
    assert.equal((await wrong(half)).length, 1, JSON.stringify(half))
  }
})

test('a transport or a Redis spool without an address is refused with the missing key', async () => {
  const redisUrl = '/redisUrl is needed for the transport redis (or REDIS_URL=redis://…)'
  const kafkaBrokers = '/kafkaBrokers is needed for the transport kafka (or KAFKA_BROKERS=host:port)'
  assert.deepEqual(await wrong({ transport: 'redis' }), [redisUrl])
  assert.deepEqual(await wrong({ transport: ['kafka', 'redis'] }), [kafkaBrokers, redisUrl])
  assert.deepEqual(await wrong(undefined, { GANTRY_TRANSPORT: 'kafka' }), [kafkaBrokers])
  assert.deepEqual(await wrong({ service: { spool: 'redis' } }), [
    '/redisUrl is needed for the spool in Redis (or REDIS_URL=redis://…)',
  ])
  assert.equal((await settings({ service: { spool: 'redis' } }, { REDIS_URL: 'redis://r' })).redis?.url, 'redis://r')
})

test('a misspelled key is reported with the nearest known key, a wrong value with its path', async () => {
  const issues = await wrong({
    transport: 'rabbit',
    redisUrl: 'http://x',
    kafkaBrokers: ['no-port'],
    kafkas: {},
    redis: { streem: 'x', claimIdleMs: 1, users: { 'discord:1': 'admin' } },
    kafka: { topic: 'with space', saslMechanism: 'GSSAPI', identity: { principal: 'p' } },
    s3: { bucket: 'UPPER', prefix: '/x' },
  })
  const paths = issues.map((line) => line.split(' ')[0])
  const expected = [
    '/kafka/identity',
    '/kafka/saslMechanism',
    '/kafka/topic',
    '/kafkaBrokers/0',
    '/kafkas',
    '/redis/claimIdleMs',
    '/redis/streem',
    '/redis/users/discord:1',
    '/redisUrl',
    '/s3',
    '/s3/bucket',
    '/s3/prefix',
    '/transport',
  ]
  for (const path of expected)
    assert.ok(
      paths.some((one) => one?.startsWith(path)),
      `${path} in\n${issues.join('\n')}`,
    )
  assert.ok(issues.includes('/redis/streem is not a known key; did you mean stream?'))
  assert.ok(issues.includes('/kafkas is not a known key; did you mean kafka?'))
})

test('a SASL mechanism without username and password is refused, and an invalid value names its variable', async () => {
  const kafka = { kafkaBrokers: ['a:1'], kafka: { saslMechanism: 'PLAIN', username: 'u' } }
  assert.match((await wrong(kafka)).join(), /password/)
  const issues = await wrong(undefined, { GANTRY_TRANSPORT: 'rabbit', REDIS_URL: 'localhost', KAFKA_TLS: 'yes' })
  assert.match(issues.join('\n'), /\/transport must be .* \(from the variable GANTRY_TRANSPORT\)/)
  assert.match(issues.join('\n'), /\/redisUrl must be .* \(from the variable REDIS_URL\)/)
  assert.match(issues.join('\n'), /\/kafka\/tls must be true or false \(from the variable KAFKA_TLS\)/)
  assert.match((await wrong(undefined, { KAFKA_BROKERS: 'a' })).join(), /\/kafkaBrokers .*KAFKA_BROKERS/)
  assert.match((await wrong(undefined, { KAFKA_BROKERS: 'a:70000' })).join(), /\/kafkaBrokers\/0/)
  assert.match(
    (await wrong({ kafkaBrokers: ['a:1'], kafka: { username: 'u', password: 'p' } })).join(),
    /saslMechanism/,
  )
})

test('an output topic or stream equal to the input is refused, and so is a user without a platform', async () => {
  const issues = await wrong({
    kafka: { results: 'somastack.tools' },
    redis: { deadLetters: 's', stream: 's', users: { admin: ['x'] } },
  })
  assert.ok(issues.includes('/kafka/results must not be the same as /kafka/topic'), issues.join('\n'))
  assert.ok(issues.includes('/redis/deadLetters must not be the same as /redis/stream'), issues.join('\n'))
  assert.ok(
    issues.some((line) => line.startsWith('/redis/users')),
    issues.join('\n'),
  )
})

test('docs/configuration.md documents every key and variable of brokers', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../../docs/configuration.md'), 'utf8')
  const { kafka, redis, s3 } = brokerProperties as { [key: string]: { properties?: object } }
  const keys = [
    ...Object.keys(brokerProperties),
    ...[kafka, redis, s3].flatMap((one) => Object.keys(one?.properties ?? {})),
  ]
  for (const key of keys) assert.ok(page.includes(`\`${key}\``), `docs/configuration.md does not name ${key}`)
  const source = readFileSync(join(import.meta.dirname, 'environment.ts'), 'utf8')
  const variables = [...source.matchAll(/^ {2}((?:GANTRY|REDIS|KAFKA|S3|DATABASE)_\w+): \{/gm)].map(
    ([, name]) => `${name}`,
  )
  assert.ok(variables.length > 20)
  for (const name of variables) assert.ok(page.includes(`\`${name}\``), `docs/configuration.md does not name ${name}`)
})
