import { type Identity, type JsonObject, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { answering, argumentsOf, traceOf } from './call-tool.ts'
import { callContinues, type McpCallInput, refusalOf } from './host.ts'
import type { McpParts } from './server.ts'
import { createdTask, knowsTasks, taskCall } from './tasks.ts'

/** A call that `classify` marked as direct. */
export interface DirectRequest {
  readonly id: string | number
  readonly params: {
    readonly name: string
    readonly arguments?: JsonObject
    readonly _meta?: unknown
  }
}

/** The JSON-RPC response to a request. */
export type JsonRpcResponse = {
  readonly jsonrpc: '2.0'
  readonly id: string | number
} & ({ readonly result: object } | { readonly error: object })

/** Signals of a request's connection: `gone` aborts when the client disconnects, `stop` also when the server closes. */
export interface ConnectionSignals {
  readonly gone: AbortSignal
  readonly stop: AbortSignal
}

export interface DirectSettings {
  /** A call that takes longer becomes a task, for a client that supports tasks; 5 s when absent. */
  readonly taskAfterMs?: number
}

const revision = '2026-07-28'
const serverInfoMeta = 'io.modelcontextprotocol/serverInfo'
const taskAfter = 5_000

/**
 * Answers `tools/call` of 2026-07-28 without the SDK, whose objects per request cost several times as much as a call.
 * The response equals that of the SDK; a test compares them. A client that disconnects cancels its call, unless the call
 * became a task that the client was informed of.
 */
export function directCall({ host, surface, write, info }: McpParts, { taskAfterMs = taskAfter }: DirectSettings) {
  const outcomeOf = async (
    input: McpCallInput,
    identity: Identity,
    { gone, stop }: ConnectionSignals,
    tasks: boolean,
  ) => {
    const reader = { revision, identity, signal: stop } as const
    if (!tasks || host.durable === undefined) return write(await host.run(input, { identity, signal: stop }), reader)
    const { durable } = host
    const { callId } = await durable.submit(input, identity, { waits: true })
    const outcome = await durable.wait(callId, identity, taskAfterMs, stop)
    if (outcome !== undefined) return write(outcome, reader)
    if (!stop.aborted) return createdTask(await taskCall(durable, callId, identity), revision)
    if (!gone.aborted) throw callContinues(callId, stop.reason)
    // The client never received the call's id, so it could not ask for the outcome.
    await durable.cancel(callId, identity).catch(() => undefined)
    throw stop.reason
  }
  return async (
    { id, params }: DirectRequest,
    identity: Identity,
    connection: ConnectionSignals,
  ): Promise<JsonRpcResponse> => {
    try {
      const result = await answering(
        { surface, write, reader: { revision, identity, signal: connection.stop } },
        { name: params.name, args: params.arguments ?? {} },
        async (prepared) => {
          if (prepared.kind === 'answer') return prepared.answer(connection.stop)
          const input = { ...prepared.input, ...traceOf(params._meta) }
          return outcomeOf(input, identity, connection, knowsTasks(params._meta))
        },
      )
      const _meta = { ...result._meta, [serverInfoMeta]: info }
      return { result: { resultType: 'complete', ...result, _meta }, jsonrpc: '2.0', id }
    } catch (thrown) {
      if (!ToolError.is(thrown)) throw thrown
      const { code, message } = thrown
      return { jsonrpc: '2.0', id, error: { code: -32_602, message, data: { code } } }
    }
  }
}

/**
 * Creates the task that a client of 2025-11-25 requests; undefined when it requests none, or for a tool with an immediate
 * result. The SDK does not implement task creation for that revision.
 */
export function taskCreation({ host, surface }: McpParts) {
  return async (body: unknown, identity: Identity): Promise<JsonRpcResponse | undefined> => {
    const { method, id, params } = isObject(body) ? body : {}
    const { task, name, arguments: args } = isObject(params) ? params : {}
    if (method !== 'tools/call' || typeof task !== 'object' || task === null) return undefined
    if ((typeof id !== 'string' && typeof id !== 'number') || typeof name !== 'string') return undefined
    if (host.durable === undefined) return undefined
    const { durable } = host
    try {
      const prepared = surface.prepare(name, argumentsOf(args), identity)
      if (prepared.kind === 'answer') return undefined
      const { callId } = await durable.submit(prepared.input, identity)
      return { jsonrpc: '2.0', id, result: createdTask(await taskCall(durable, callId, identity), '2025-11-25') }
    } catch (thrown) {
      const { code, message } = refusalOf(thrown)
      return { jsonrpc: '2.0', id, error: { code: -32_602, message, data: { code } } }
    }
  }
}
