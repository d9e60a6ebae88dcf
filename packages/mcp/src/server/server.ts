import { type Identity, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type {
  CallToolRequestParams,
  CallToolResult,
  InputRequiredResult,
  Server,
  ServerCapabilities,
  ServerContext,
  ServerOptions,
} from '@modelcontextprotocol/server'
import { argumentsOf, type CallNotifications, callTool, traceOf } from './call-tool.ts'
import type { McpHost } from './host.ts'
import { serveResources } from './resources.ts'
import { type McpSdk, withProtocolErrors } from './sdk.ts'
import { createSurface, type Surface, type SurfaceOptions } from './surface.ts'
import { serveTasks, tasksExtension } from './tasks.ts'
import type { McpTool, Revision } from './tool-list.ts'
import { type CalledTool, createResultWriter, type ResultWriter } from './tool-result.ts'

/** An addition to the tools of Gantry: prompts, for example, or tools that send requests to their client. */
export interface McpExtension {
  capabilities?(era: Era): ServerCapabilities
  readonly options?: Pick<ServerOptions, 'requestState'>
  /** Additional tools, listed before all others. */
  readonly tools?: readonly McpTool[]
  /** Calls one of them. */
  call?(params: CallToolRequestParams, ctx: ServerContext): Promise<CallToolResult | InputRequiredResult>
  /** Adds handlers to a server; they may replace those of Gantry. */
  extend?(server: Server, era: Era): void
}

/** Clients of 2026-07-28, and of all earlier revisions. */
export type Era = 'legacy' | 'modern'

export interface McpServerOptions extends SurfaceOptions {
  readonly host: McpHost
  readonly version: string
  /** The identity of calls whose request carries none. */
  readonly identity?: Identity
  readonly extension?: McpExtension
}

/** Everything that the servers of one host share. */
export interface McpParts {
  readonly host: McpHost
  readonly surface: Surface
  readonly write: ResultWriter
  readonly info: { readonly name: string; readonly title: string; readonly version: string }
  readonly extension?: McpExtension | undefined
  readonly identityOf: (ctx: Pick<ServerContext, 'http'>) => Identity
}

export function createMcpParts({ host, version, identity, extension, ...shown }: McpServerOptions): McpParts {
  const surface = createSurface(host, shown)
  return {
    host,
    surface,
    write: createResultWriter(host, surface),
    info: { name: 'gantry', title: 'Gantry', version },
    extension,
    identityOf(ctx) {
      const found = (ctx.http?.authInfo?.extra?.identity as Identity | undefined) ?? identity
      // Every transport sets the identity before the request reaches a server.
      if (found === undefined) throw new ToolError('UNAUTHENTICATED', 'The caller is not known.')
      return found
    },
  }
}

/** A server for one connection, or one request; it acts with the identity of the request. */
export function createMcpServer(sdk: McpSdk, parts: McpParts, era: Era): Server {
  const { host, surface, write, info, extension, identityOf } = parts
  const revision: Revision = era === 'modern' ? '2026-07-28' : '2025-11-25'
  const server = new sdk.Server({ ...info }, { ...extension?.options, capabilities: capabilitiesOf(parts, era) })
  let level: LoggingLevel | undefined
  if (era === 'legacy') {
    server.setRequestHandler('logging/setLevel', ({ params }) => {
      level = params.level
      return {}
    })
  }
  server.setRequestHandler('tools/list', async ({ params }, ctx) => {
    const { tools, nextCursor } = await withProtocolErrors(sdk, () =>
      surface.list(params?.cursor, identityOf(ctx), revision),
    )
    const own = params?.cursor === undefined ? (extension?.tools ?? []) : []
    return { tools: [...own, ...tools] as never, ...(nextCursor === undefined ? {} : { nextCursor }) }
  })
  server.setRequestHandler('tools/call', async ({ params }, ctx) => {
    if (extension?.call !== undefined && isOwn(extension, params.name)) return extension.call(params, ctx)
    const args = argumentsOf(params.arguments)
    const call = { name: params.name, args, identity: identityOf(ctx), revision, signal: ctx.mcpReq.signal }
    const called: CalledTool = await withProtocolErrors(sdk, () =>
      callTool(
        { surface, host, write },
        { ...call, ...traceOf(params._meta), notifications: notificationsOf(ctx, level) },
      ),
    )
    return called as never
  })
  if (host.artifact !== undefined) serveResources(sdk, server, parts)
  if (host.durable !== undefined) serveTasks(sdk, server, parts, host.durable, era)
  extension?.extend?.(server, era)
  return server
}

function capabilitiesOf({ host, extension }: McpParts, era: Era): ServerCapabilities {
  const tasks =
    era === 'modern'
      ? { extensions: { [tasksExtension]: {} } }
      : { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } }
  return {
    tools: { listChanged: true },
    logging: {},
    ...(host.artifact === undefined ? {} : { resources: {} }),
    ...(host.durable === undefined ? {} : tasks),
    ...extension?.capabilities?.(era),
  }
}

/** Whether a tool name belongs to the extension. */
export function isOwn({ tools }: McpExtension, name: string): boolean {
  return tools?.some((tool) => tool.name === name) === true
}

type LoggingLevel = Parameters<ServerContext['mcpReq']['log']>[0]

const severities: readonly unknown[] = [
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
] satisfies LoggingLevel[]
const logLevelMeta = 'io.modelcontextprotocol/logLevel'

/**
 * The notifications that the caller requests while the call runs; a call without any costs less. A client of 2026-07-28
 * sets the log level with each request, a client of an earlier revision once for its session.
 */
function notificationsOf({ mcpReq }: ServerContext, level: LoggingLevel | undefined): CallNotifications | undefined {
  const token = mcpReq._meta?.progressToken
  const asked = (isObject(mcpReq.envelope) ? mcpReq.envelope[logLevelMeta] : undefined) ?? level
  const from = severities.indexOf(asked)
  if (token === undefined && from === -1) return undefined
  const log: CallNotifications['log'] = async (one, data) => {
    if (severities.indexOf(one) >= from) await mcpReq.log(one, data)
  }
  const progress: CallNotifications['progress'] = (done, total, message) =>
    mcpReq.notify({
      method: 'notifications/progress',
      params: {
        progressToken: token,
        progress: done,
        ...(total === undefined ? {} : { total }),
        ...(message === undefined ? {} : { message }),
      },
    })
  return { ...(from === -1 ? {} : { log }), ...(token === undefined ? {} : { progress }) }
}
