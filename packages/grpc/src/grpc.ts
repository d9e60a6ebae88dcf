import { type Json, ToolError } from '@gantry/contract'
import type { Backend, BackendCall, BackendContext, BackendHost, Health } from '@gantry/core/internal/backends/backend'
import { quote } from '@gantry/core/internal/ids/quote'
import { unlessAborted } from '@gantry/core/internal/resilience/abort'
import { type Channel, createChannel, openSession } from './channel.ts'
import { decodeMessage, encodeArguments } from './codec.ts'
import { isStatus } from './exchange.ts'
import { checkGrpcOptions, fillMetadata, type GrpcOptions } from './options.ts'
import { readTypes, understood } from './source.ts'
import { toolsOf } from './tools.ts'
import { type MethodType, methodKey, type Types } from './types.ts'
import { readParts } from './wire.ts'

export type { GrpcOptions, GrpcTls } from './options.ts'

const defaultMaxBytes = 4_194_304

/**
 * A gRPC server whose methods are tools: those with one answer return it, those that stream yield each answer as a
 * chunk. Throws CONFIG_INVALID; opens nothing before it is first asked for something.
 * - Concurrency: all calls share one connection, which is opened again when it has ended.
 * - Cancellation: the signal of a call cancels it at the server.
 * - Errors: BACKEND_UNAVAILABLE when the server did not take the call, else what its status means (docs/grpc.md).
 */
export function grpc(options: GrpcOptions): Backend {
  const endpoint = checkGrpcOptions(options)
  const closing = new AbortController()
  let attached: BackendHost | undefined
  let types: Types | undefined
  let loading: Promise<Types> | undefined

  const host = (): BackendHost => {
    if (attached !== undefined) return attached
    throw new ToolError('BACKEND_UNAVAILABLE', 'The gRPC backend is not attached to an executor.', { retryable: false })
  }
  const channel = createChannel((signal, ended) => openSession(host(), options, endpoint, signal, ended))
  /** The metadata of what the backend asks for itself. */
  const ownMetadata = (signal: AbortSignal) =>
    fillMetadata([options.metadata], undefined, (name) => host().secret(name, signal))

  /** Reads the descriptors once. Concurrent callers share one reading, and a failed reading is not kept. */
  const load = (): Promise<Types> => {
    const { signal } = closing
    loading ??= readTypes(options, channel, () => ownMetadata(signal), signal).then(
      (read) => {
        types = read
        return read
      },
      (error: unknown) => {
        loading = undefined
        throw error
      },
    )
    return loading
  }
  /** The answers to one call, each as JSON. */
  async function* answers(call: BackendCall, context: BackendContext, known: Types, method: MethodType) {
    const message = encodeArguments(known, method.input, call.args)
    const lists = [options.metadata, call.binding.metadata as GrpcOptions['metadata']]
    const filled = await fillMetadata(lists, context.idempotencyKey, context.secret)
    const { traceparent } = context
    const metadata = traceparent === undefined ? filled : { traceparent, ...filled }
    const maxBytes = options.maxResponseBytes ?? defaultMaxBytes
    const request = { method: methodKey(method), message, metadata, maxBytes, signal: context.signal }
    for await (const bytes of channel.call(request)) {
      yield understood('The answer', () => decodeMessage(known, method.output, bytes), 'possible')
    }
  }
  /** The answer of a method that gives one; the status behind it decides whether it counts. */
  const answer = async (
    call: BackendCall,
    context: BackendContext,
    known: Types,
    method: MethodType,
  ): Promise<Json> => {
    const all: Json[] = []
    for await (const output of answers(call, context, known, method)) {
      if (all.push(output) > 1) break
    }
    const [only] = all
    if (only !== undefined && all.length === 1) return only
    throw new ToolError('BACKEND_FAILED', 'The server did not send exactly one response message.')
  }
  /** A call before the descriptors were read, which may turn out to be either; a generator can be both. */
  async function* either(call: BackendCall, context: BackendContext) {
    const known = await unlessAborted(load(), context.signal)
    const method = methodOf(call, known)
    if (!method.responseStream) return await answer(call, context, known, method)
    return yield* answers(call, context, known, method)
  }
  return {
    kind: 'grpc',
    name: options.name,
    // The reflection of a server may change; a file of the host changes only with its configuration.
    pinned: options.reflection === true,
    tidy: true,
    attach(given) {
      attached = given
    },
    async discover(signal) {
      if (options.tools === false) return
      const { tools, left } = toolsOf(await unlessAborted(load(), signal), options)
      for (const message of left) host().report({ kind: 'log', message })
      await host().publish(tools)
    },
    call(call, context) {
      if (types === undefined) return either(call, context)
      const method = methodOf(call, types)
      return method.responseStream ? answers(call, context, types, method) : answer(call, context, types, method)
    },
    async health(signal) {
      return checkHealth(channel, await ownMetadata(signal), signal)
    },
    async close(signal) {
      closing.abort(new ToolError('BACKEND_UNAVAILABLE', 'The gRPC backend is closed.', { retryable: false }))
      await channel.close(signal)
    },
  }
}

/** The method that a tool's binding names; one that does not exist, or takes a stream, is not called. */
function methodOf({ id, binding }: BackendCall, { methods }: Types): MethodType {
  const method = typeof binding.method === 'string' ? methods.get(binding.method) : undefined
  if (method !== undefined && !method.requestStream) return method
  const name = quote(String(binding.method))
  const reason = method === undefined ? 'does not exist' : 'is client-streaming, which tools do not support'
  throw new ToolError('NO_BACKEND', `The gRPC method ${name} of ${id} ${reason}.`, {
    stage: 'execute',
    retryable: false,
  })
}

const method = 'grpc.health.v1.Health/Check'
const serving = 1

/** Asks the standard health service; a server without it is up when it can be reached. */
export async function checkHealth(
  channel: Channel,
  metadata: { readonly [name: string]: string },
  signal: AbortSignal,
): Promise<Health> {
  try {
    const message = Buffer.alloc(0)
    for await (const part of channel.call({ method, message, metadata, maxBytes: 1_024, signal })) {
      if (readParts(part).int(1) !== serving)
        return { status: 'down', message: 'The server reports that it is not serving.' }
    }
    return { status: 'up' }
  } catch (error) {
    signal.throwIfAborted()
    if (isStatus(error, 'UNIMPLEMENTED')) return { status: 'up' }
    return { status: 'down', message: ToolError.is(error) ? error.message : 'The answer to a health check was wrong.' }
  }
}
