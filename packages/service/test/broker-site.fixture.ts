import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Identity, JsonObject } from '@gantry/contract'
import { type DefinedTool, defineTool, type ToolContext } from '@gantry/core'
import { decode, encode } from '@msgpack/msgpack'
import { openBrokers } from '../src/brokers/open-brokers.ts'
import { openRedis, type RedisConnections } from '../src/brokers/transports/redis/connection.ts'
import { listOf, textOf } from '../src/brokers/transports/redis/reply.ts'
import type { LoadedConfig } from '../src/config/config.ts'
import { owner, serviceSettings, workerName } from '../src/config/service-settings.ts'
import { createSnapshot } from '../src/config/snapshots.ts'
import type { TenantsSettings } from '../src/config/tenant-limits.ts'
import type { Service } from '../src/http/service.ts'
import { createBus } from '../src/observe/bus.ts'
import { createLog, logEvents } from '../src/observe/logs.ts'
import { startService } from '../src/serve/start.ts'
import { folderArtifacts } from '../src/storage/artifacts/folder.ts'
import type { Database } from '../src/storage/databases/database.ts'
import { loadedConfig } from './service-site.fixture.ts'

/** A decoded message of a stream, untyped: each test knows its members. */
// biome-ignore lint/suspicious/noExplicitAny: a test reads it as it expects it
export type Heard = any

export const secretValue = 'canary-7f3a-hunter2'
export const jobs = 'sg:stream:tools'
export const answersTo = 'sg:stream:tools:replies:test'
export const native = { principal: 'native', tenant: 'red', permissions: ['*'] }

/** A service that consumes from Redis, wired as in `gantry serve`, and a gateway on the same Redis. */
export interface BrokerSite {
  readonly redis: RedisConnections
  readonly service: Service
  /** The identity and text of each call that `test:note` and its siblings ran. */
  readonly notes: { readonly identity: Identity; readonly text: unknown }[]
  /** Log lines. */
  readonly log: string[]
  /** Lets calls of `test:wait` end. */
  release(): void
  /** The hash of the published catalog. */
  hash(): Promise<string>
  session(trace: string, record?: object, seconds?: number): Promise<void>
  /** Sends a Stargazer request; `members` override the defaults, and an undefined member is omitted. */
  call(members?: object): Promise<string>
  sendBytes(bytes: Uint8Array): Promise<string>
  sendJson(message: object): Promise<string>
  /** All messages of a stream. */
  heard(stream: string): Promise<readonly Heard[]>
  /** The replies with a correlation id, once there are `count` of them. */
  replies(correlation: string, count?: number): Promise<readonly Heard[]>
  reply(correlation: string): Promise<Heard>
  /** Stops the service as SIGTERM does; the database and Redis keep running. */
  stop(graceMs?: number): Promise<void>
}

export interface SiteOptions {
  readonly redisUrl: string
  readonly database: Database
  readonly redis?: JsonObject
  readonly service?: JsonObject
  readonly tenants?: TenantsSettings
  readonly policy?: NonNullable<LoadedConfig['options']['policy']>
  /** In addition to the tools of the site. */
  readonly tools?: readonly DefinedTool[]
}

export const user = { user_id: '1', guild_id: 'g', channel_id: 'c', platform: 'discord' }

export async function openBrokerSite(t: TestContext, options: SiteOptions): Promise<BrokerSite> {
  const data = mkdtempSync(join(tmpdir(), 'gantry-broker-'))
  t.after(() => rmSync(data, { recursive: true, force: true }))
  const redis = await openRedis({ url: options.redisUrl })
  t.after(() => redis.close())
  const notes: BrokerSite['notes'] = []
  const gate = Promise.withResolvers<void>()
  const settings = serviceSettings(
    {
      transport: 'redis',
      redisUrl: options.redisUrl,
      service: { logLevel: 'debug', ...options.service },
      ...(options.tenants === undefined ? {} : { tenants: options.tenants }),
      redis: { tenant: 'red', tenants: { 'discord:blue': 'blue' }, identity: native, ...options.redis },
    },
    data,
  )
  const log: string[] = []
  const bus = createBus()
  const unsubscribe = logEvents(bus, createLog('debug', { write: (line) => void log.push(line) }))
  const tools = [...testTools(notes, gate.promise), ...(options.tools ?? [])]
  const secrets = { get: async () => secretValue }
  const { policy } = options
  const loaded = loadedConfig(settings, { tools, secrets, ...(policy === undefined ? {} : { policy }) })
  const name = workerName()
  const parts = { settings: settings.brokers, takes: true, name, identity: owner, secrets, say: () => undefined }
  const brokers = await openBrokers(parts)
  const running = await startService({
    settings,
    database: options.database,
    bus,
    brokers,
    name,
    identity: owner,
    files: folderArtifacts({ folder: join(data, 'artifacts') }),
    snapshot: async (additions) => createSnapshot(loaded, additions, bus),
    callbackKey: async () => undefined,
  })
  let stopped: Promise<void> | undefined
  const stop = (graceMs = 5_000): Promise<void> => {
    stopped ??= running.stop(graceMs).then(async () => {
      await brokers.close()
      unsubscribe()
    })
    return stopped
  }
  t.after(() => stop())
  const gateway = openGateway(redis)
  await gateway.session('trace-1')
  return { ...gateway, redis, service: running.service, notes, log, release: gate.resolve, stop }
}

function openGateway(redis: RedisConnections) {
  const sendBytes = async (bytes: Uint8Array): Promise<string> =>
    textOf(await redis.call(['XADD', jobs, '*', 'data', Buffer.from(bytes)]))
  const hash = (): Promise<string> =>
    eventually(async () => {
      const current = await redis.call(['GET', 'sg:tools:catalog:current'])
      const bytes = current === null ? null : await redis.call(['GET', `sg:tools:catalog:v${textOf(current)}`])
      return bytes === null ? undefined : (decode(bytes as Buffer) as { schema_hash: string }).schema_hash
    }, 'a catalog')
  const heard = async (stream: string): Promise<readonly Heard[]> =>
    listOf(await redis.call(['XRANGE', stream, '-', '+'])).map((entry) => readEntry(listOf(entry)[1]))
  const replies = (correlation: string, count = 1): Promise<readonly Heard[]> =>
    eventually(async () => {
      const those = (await heard(answersTo)).filter((one) => (one.correlation_id ?? one.correlationId) === correlation)
      return those.length < count ? undefined : those
    }, `${count} replies to ${correlation}`)
  return {
    sendBytes,
    hash,
    heard,
    replies,
    async session(trace: string, record: object = user, seconds = 300): Promise<void> {
      const key = `sg:tools:session:${trace}`
      await redis.call(['SET', key, Buffer.from(encode(record)), 'EX', seconds])
    },
    async call(members: object = {}): Promise<string> {
      const correlation_id = randomUUID()
      const usual = { reply_to: answersTo, tool_name: 'test:note', tool_args: {}, ctx: { trace_id: 'trace-1' } }
      const envelope = { correlation_id, schema_hash: await hash(), ...usual, ...members }
      await sendBytes(encode(envelope, { ignoreUndefined: true }))
      return envelope.correlation_id
    },
    sendJson: (message: object) => sendBytes(Buffer.from(JSON.stringify(message))),
    async reply(correlation: string): Promise<Heard> {
      return (await replies(correlation))[0]
    },
  }
}

function readEntry(fields: Parameters<typeof listOf>[0]): Heard {
  const list = listOf(fields)
  const bytes = list[list.findIndex((name) => textOf(name) === 'data') + 1] as Buffer
  return bytes[0] === 0x7b ? JSON.parse(bytes.toString()) : decode(bytes)
}

/** Polls `look` until it returns a value; fails with the name of what did not appear. */
export async function eventually<T>(look: () => Promise<T | undefined>, what: string): Promise<T> {
  const end = performance.now() + 15_000
  while (performance.now() < end) {
    const found = await look()
    if (found !== undefined) return found
    await pause(10)
  }
  throw new Error(`Timed out waiting for ${what}.`)
}

function testTools(notes: BrokerSite['notes'], gate: Promise<void>): DefinedTool[] {
  const about = { namespace: 'test', version: '1.0.0', description: 'A tool of a test.' }
  const inputSchema = { type: 'object', properties: { text: { type: 'string' } }, additionalProperties: false }
  const note = (args: unknown, { identity }: ToolContext): string => {
    const { text } = args as { readonly text?: string }
    return `${identity.principal} ${notes.push({ identity, text })}`
  }
  return [
    defineTool({
      ...about,
      name: 'note',
      inputSchema,
      effect: 'once',
      run: note,
    }),
    defineTool({
      ...about,
      name: 'again',
      inputSchema,
      effect: 'repeatable',
      run: note,
    }),
    defineTool({
      ...about,
      name: 'wait',
      inputSchema,
      effect: 'once',
      async run(args, context) {
        await gate
        return note(args, context)
      },
    }),
    defineTool({
      ...about,
      name: 'report',
      inputSchema,
      effect: 'once',
      async run(_args, { send, attach, inject }) {
        send({ text: 'I am on it.' })
        await attach({ name: '../../small.txt', content: 'All is well.' })
        await attach({ name: 'large.bin', content: new Uint8Array(300_000).fill(7) })
        inject('test:note')
        return { done: true }
      },
    }),
    defineTool({
      ...about,
      name: 'leak',
      inputSchema,
      effect: 'read',
      secrets: ['TOKEN'],
      run(_args, context) {
        const { secrets, log, send } = context
        note({ text: secrets.TOKEN }, context)
        log(`the token is ${secrets.TOKEN}`)
        send(`the token is ${secrets.TOKEN}`)
        throw new Error(`cannot use ${secrets.TOKEN}`)
      },
    }),
    defineTool({
      ...about,
      name: 'broken',
      inputSchema,
      effect: 'read',
      run: () => Promise.reject(new Error('No.')),
    }),
    defineTool({
      ...about,
      name: 'occasion',
      effect: 'read',
      inputSchema: { type: 'object', properties: { image: { type: 'string', contentEncoding: 'base64' } } },
      run: (args, { origin, identity }) => ({ args, origin: origin ?? null, principal: identity.principal }),
    }),
    defineTool({
      ...about,
      name: 'admin',
      inputSchema,
      effect: 'once',
      permissions: ['admin'],
      run: note,
    }),
  ]
}
