import { randomUUID } from 'node:crypto'
import type { TestContext } from 'node:test'
import type { Identity, JsonSchema } from '@gantry/contract'
import { type DefinedTool, defineTool, type Executor } from '@gantry/core'
import { createExecutor } from '@gantry/tools'
import { decode } from '@msgpack/msgpack'
import type { RedisConnections } from '../transports/redis/connection.ts'
import { textOf } from '../transports/redis/reply.ts'
import type { PublishOptions } from './catalog-publisher.ts'
import { createGatewayView } from './gateway-names.ts'
import { type PublishedTool, type WriteOptions, type WrittenCatalog, writeCatalog } from './write-catalog.ts'

export const never: AbortSignal = new AbortController().signal
export const gateway: Identity = { principal: 'gateway', tenant: 'main', permissions: ['*'] }
export const view = createGatewayView(gateway)

export interface ToolParts {
  readonly version?: string
  readonly description?: string
  readonly inputSchema?: JsonSchema
  readonly effect?: 'read' | 'once'
  readonly permissions?: readonly string[]
}

export function toolOf(key: string, parts: ToolParts = {}): DefinedTool {
  const [namespace = '', name = ''] = key.split(':')
  const texts = { namespace, name, version: '1.0.0', description: `The tool ${key}.`, effect: 'read' } as const
  return defineTool({ ...texts, inputSchema: { type: 'object' }, ...parts, run: () => ({}) })
}

export function executorOf(t: TestContext, ...tools: readonly DefinedTool[]): Executor {
  const executor = createExecutor({ tools })
  t.after(() => executor.close({ graceMs: 1 }))
  return executor
}

/** The catalog of these tools, as a worker with them writes it. */
export async function writtenOf(
  t: TestContext,
  tools: readonly DefinedTool[],
  options: WriteOptions = {},
): Promise<WrittenCatalog> {
  return writeCatalog(executorOf(t, ...tools), view, never, options)
}

/** Keys and a channel that no other test uses. */
export function freshPlace(): Required<Pick<PublishOptions, 'prefix' | 'channel'>> {
  const name = `test:${randomUUID()}`
  return { prefix: name, channel: `${name}:notifications` }
}

export interface ReadCatalog {
  readonly tools: readonly PublishedTool[]
  readonly permissions: { readonly [name: string]: readonly string[] }
  readonly schema_hash: string
}

/** Reads the current catalog as a gateway does: the pointer, then the version that it names. */
export async function readAsGateway(
  redis: RedisConnections,
  prefix: string,
): Promise<ReadCatalog & { version: number }> {
  const version = textOf(await redis.call(['GET', `${prefix}:current`]))
  const bytes = await redis.call(['GET', `${prefix}:v${version}`])
  return { ...(decode(bytes as Buffer) as ReadCatalog), version: Number(version) }
}
