import type { ServerResponse } from 'node:http'
import { type Identity, type JsonObject, ToolError } from '@gantry/contract'
import { type Answer, json, safeHeaders } from '../http/answer.ts'
import type { Visit } from '../http/request-scope.ts'
import type { Arrival } from '../http/serve.ts'
import type { CallInput } from '../storage/call-input.ts'
import { answering, traceOf } from './call-tool.ts'
import { goesOn, refusalOf } from './host.ts'
import type { McpParts } from './server.ts'
import { createdTask, knowsTasks, taskCall } from './tasks.ts'
import type { CalledTool } from './tool-result.ts'

/** A call as `classify` let it through. */
interface DirectRequest {
  readonly id: string | number
  readonly params: {
    readonly name: string
    readonly arguments?: JsonObject
    readonly _meta?: unknown
  }
}

export interface DirectSettings {
  /** A client that knows tasks gets one for a call that takes longer; 5 s when absent. */
  readonly taskAfterMs?: number
}

const revision = '2026-07-28'
const serverInfoMeta = 'io.modelcontextprotocol/serverInfo'
const taskAfter = 5_000
/** How long a client hears nothing before the answer becomes a stream that says it is still there. */
const quietMs = 10_000

/**
 * Answers `tools/call` of 2026-07-28 without the SDK, whose objects for one request cost several times what a call does.
 * The answer is what the SDK would write; a test compares them. A client that leaves cancels its call, unless it was told
 * of the task that the call became.
 */
export function directCall({ host, surface, write, info }: McpParts, { taskAfterMs = taskAfter }: DirectSettings) {
  const outcomeOf = async (input: CallInput, identity: Identity, { gone, stop }: Visit, tasks: boolean) => {
    const reader = { revision, identity, signal: stop } as const
    if (!tasks || host.durable === undefined) return write(await host.run(input, { identity, signal: stop }), reader)
    const { durable } = host
    const { callId } = await durable.submit(input, identity, { waits: true })
    const outcome = await durable.wait(callId, identity, taskAfterMs, stop)
    if (outcome !== undefined) return write(outcome, reader)
    if (!stop.aborted) return createdTask(await taskCall(durable, callId, identity), revision)
    if (!gone.aborted) throw goesOn(callId, stop.reason)
    // Nobody knows of the call by its id, so nobody could ask for it.
    await durable.cancel(callId, identity).catch(() => undefined)
    throw stop.reason
  }
  const resultOf = ({ params }: DirectRequest, identity: Identity, visit: Visit): Promise<CalledTool> =>
    answering(
      { surface, write, reader: { revision, identity, signal: visit.stop } },
      { name: params.name, args: params.arguments ?? {} },
      async (prepared) => {
        if (prepared.kind === 'answer') return prepared.answer(visit.stop)
        const input = { ...prepared.input, ...traceOf(params._meta) }
        return (await outcomeOf(input, identity, visit, knowsTasks(params._meta))) as CalledTool
      },
    )
  return async ({ response }: Arrival, visit: Visit, asked: DirectRequest, identity: Identity): Promise<Answer> => {
    const { id } = asked
    const patience = createPatience(response, visit.stop)
    try {
      const result = await resultOf(asked, identity, visit)
      const _meta = { ...result._meta, [serverInfoMeta]: info }
      return patience.end({ result: { resultType: 'complete', ...result, _meta }, jsonrpc: '2.0', id })
    } catch (thrown) {
      if (!ToolError.is(thrown)) throw thrown
      const { code, message } = thrown
      return patience.end({ jsonrpc: '2.0', id, error: { code: -32_602, message, data: { code } } })
    } finally {
      patience.stop()
    }
  }
}

/**
 * Makes the task that a client of 2025-11-25 asks for; undefined where it asks for none, or for something that is
 * answered at once. Its revision has no other way to say so, and the SDK none to answer it.
 */
export function taskCreation({ host, surface }: McpParts) {
  return async (body: unknown, identity: Identity): Promise<Answer | undefined> => {
    const { method, id, params } = (body ?? {}) as Partial<DirectRequest> & { readonly method?: unknown }
    const { task, name, arguments: args } = (params ?? {}) as { readonly [member: string]: unknown }
    const asked = method === 'tools/call' && typeof task === 'object' && task !== null
    if (!asked || id === undefined || typeof name !== 'string' || host.durable === undefined) return undefined
    const { durable } = host
    try {
      const prepared = surface.prepare(name, (args ?? {}) as JsonObject, identity)
      if (prepared.kind === 'answer') return undefined
      const { callId } = await durable.submit(prepared.input, identity)
      return json({ jsonrpc: '2.0', id, result: createdTask(await taskCall(durable, callId, identity), '2025-11-25') })
    } catch (thrown) {
      const { code, message } = refusalOf(thrown)
      return json({ jsonrpc: '2.0', id, error: { code: -32_602, message, data: { code } } })
    }
  }
}

/** Answers with one JSON, or, when that takes long, with a stream of events that holds it at its end. */
function createPatience(response: ServerResponse, stop: AbortSignal) {
  let streaming = false
  const beat = (): void => {
    if (stop.aborted || response.destroyed) return
    if (!streaming) response.writeHead(200, { ...safeHeaders, 'content-type': 'text/event-stream' })
    streaming = true
    response.write(': still here\n\n')
  }
  const timer = setInterval(beat, quietMs)
  return {
    get streaming() {
      return streaming
    },
    stop: () => clearInterval(timer),
    end(message: object): Answer {
      const text = JSON.stringify(message)
      if (!streaming) return { kind: 'text', status: 200, text }
      response.end(`event: message\ndata: ${text}\n\n`)
      return { kind: 'sent', status: 200 }
    },
  }
}
