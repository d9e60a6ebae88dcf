import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { Client, Metadata, ServiceError, status as statusCodes } from '@grpc/grpc-js'
import type { MethodDefinition, PackageDefinition } from '@grpc/proto-loader'
import { apiDescriptor, type StreamCalls, type UnaryCalls, type WriteRequest } from './containerd-api.ts'
import { unavailable } from './docker-client.ts'

/** A request that takes longer is not answered any more: the engine hangs. */
const answerMs = 15_000

/** An answer of containerd that is not a success. */
export class ContainerdError extends Error {
  readonly kind: 'absent' | 'exists' | 'precondition' | 'other'
  constructor(kind: ContainerdError['kind'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.kind = kind
  }
}

export interface ContainerdAddress {
  readonly socket: string
  /** Containers and images of one namespace are invisible in another. */
  readonly namespace: string
}

export interface ContainerdCallOptions {
  readonly signal: AbortSignal
  /** 15 s when absent; `Infinity` for a request that waits for an event. */
  readonly waitMs?: number
  /** The lease that holds what the request makes. */
  readonly lease?: string
}

/**
 * Requests to containerd over its socket.
 * - Errors: ContainerdError for an answer that says no; RUNTIME_UNAVAILABLE when containerd cannot be reached or does not
 *   answer; the reason of the signal when it is aborted.
 */
export interface ContainerdClient {
  readonly address: ContainerdAddress
  /** Resolves when a connection that was there is lost, also while nothing is requested. */
  readonly lost: Promise<void>
  call<Name extends keyof UnaryCalls>(
    name: Name,
    request: UnaryCalls[Name][0],
    options: ContainerdCallOptions,
  ): Promise<UnaryCalls[Name][1]>
  /** Reads the whole answer. */
  list<Name extends keyof StreamCalls>(
    name: Name,
    request: StreamCalls[Name][0],
    options: ContainerdCallOptions,
  ): Promise<readonly StreamCalls[Name][1][]>
  /** Stores content, one request after the other; resolves when containerd has committed it. */
  write(requests: AsyncIterable<WriteRequest>, options: ContainerdCallOptions): Promise<void>
  close(): void
}

/** Connects with the first request. The client of gRPC is loaded here, because few processes need it. */
export async function createContainerdClient(address: ContainerdAddress): Promise<ContainerdClient> {
  const [grpc, { fromJSON }] = await Promise.all([import('@grpc/grpc-js'), import('@grpc/proto-loader')])
  const methods = methodsOf(fromJSON(apiDescriptor(), { longs: Number, enums: String, defaults: true }))
  const connect = (): Client =>
    new grpc.Client(`unix://${address.socket}`, grpc.credentials.createInsecure(), {
      // containerd refuses the path of a socket as an authority.
      'grpc.default_authority': 'localhost',
      'grpc.max_receive_message_length': 16 * 2 ** 20,
      // Two clients of one process must not share a connection that one of them closes.
      'grpc.use_local_subchannel_pool': 1,
    })
  let current = connect()
  let isLost = false
  const lost = Promise.withResolvers<void>()
  const { READY, SHUTDOWN } = grpc.connectivityState
  /** A channel that was ready leaves that state when its connection ends. */
  const watch = (): void => {
    const channel = current.getChannel()
    const state = channel.getConnectivityState(false)
    if (state === SHUTDOWN) return
    channel.watchConnectivityState(state, Number.POSITIVE_INFINITY, (error) => {
      if (error !== undefined && error !== null) return
      if (state === READY) lost.resolve()
      else watch()
    })
  }
  watch()
  /** After a lost connection the next request makes a new one, because a client refuses requests while it waits to try again. */
  const client = (): Client => {
    if (!isLost) return current
    isLost = false
    current.close()
    current = connect()
    return current
  }
  const metadataOf = (lease?: string): Metadata => {
    const metadata = new grpc.Metadata()
    metadata.set('containerd-namespace', address.namespace)
    if (lease !== undefined) metadata.set('containerd-lease', lease)
    return metadata
  }
  const deadlineOf = (waitMs = answerMs): { readonly deadline: number } => ({ deadline: Date.now() + waitMs })
  const failure = (error: ServiceError, { signal, waitMs = answerMs }: ContainerdCallOptions): unknown => {
    if (error.code === grpc.status.UNAVAILABLE) isLost = true
    if (signal.aborted) return signal.reason
    return errorOf(error, address, waitMs, grpc.status)
  }
  return {
    address,
    lost: lost.promise,
    call(name, request, options) {
      const { path, requestSerialize, responseDeserialize } = methodOf(methods, name)
      return new Promise((resolve, reject) => {
        options.signal.throwIfAborted()
        const sent = client().makeUnaryRequest(
          path,
          requestSerialize,
          responseDeserialize,
          request,
          metadataOf(options.lease),
          deadlineOf(options.waitMs),
          (error, answer) => {
            leave()
            if (error === null) resolve(answer as UnaryCalls[typeof name][1])
            else reject(failure(error, options))
          },
        )
        const leave = onAbort(options.signal, () => sent.cancel())
      })
    },
    async list(name, request, options) {
      options.signal.throwIfAborted()
      const { path, requestSerialize, responseDeserialize } = methodOf(methods, name)
      const stream = client().makeServerStreamRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        metadataOf(options.lease),
        deadlineOf(options.waitMs),
      )
      const leave = onAbort(options.signal, () => stream.cancel())
      try {
        const answers: StreamCalls[typeof name][1][] = []
        for await (const answer of stream) answers.push(answer as StreamCalls[typeof name][1])
        return answers
      } catch (error) {
        throw failure(error as ServiceError, options)
      } finally {
        leave()
      }
    },
    async write(requests, options) {
      options.signal.throwIfAborted()
      const { path, requestSerialize, responseDeserialize } = methodOf(methods, 'content.v1.Content/Write')
      const stream = client().makeBidiStreamRequest(
        path,
        requestSerialize,
        responseDeserialize,
        metadataOf(options.lease),
        deadlineOf(options.waitMs),
      )
      const leave = onAbort(options.signal, () => stream.cancel())
      try {
        const answers = stream[Symbol.asyncIterator]()
        for await (const request of requests) {
          stream.write(request)
          // Each is answered, so that no more than one is in memory at a time.
          await answers.next()
        }
        stream.end()
        while ((await answers.next()).done !== true);
      } catch (error) {
        stream.cancel()
        const refused = isServiceError(error) ? failure(error, options) : error
        // The same content is there already.
        if (!(refused instanceof ContainerdError && refused.kind === 'exists')) throw refused
      } finally {
        leave()
      }
    },
    close: () => current.close(),
  }
}

type Methods = ReadonlyMap<string, MethodDefinition<object, object>>

function methodsOf(definitions: PackageDefinition): Methods {
  const methods = new Map<string, MethodDefinition<object, object>>()
  for (const [service, definition] of Object.entries(definitions)) {
    if ('format' in definition) continue
    for (const [method, one] of Object.entries(definition)) {
      methods.set(
        `${service.replace(/^containerd\.services\./, '')}/${method}`,
        one as MethodDefinition<object, object>,
      )
    }
  }
  return methods
}

function methodOf(methods: Methods, name: string): MethodDefinition<object, object> {
  const method = methods.get(name)
  if (method === undefined) throw new TypeError(`The API of containerd has no method ${name}.`)
  return method
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && typeof error.code === 'number' && 'details' in error
}

/** How the address is written in errors and by `gantry doctor`. */
export function containerdText({ socket }: Pick<ContainerdAddress, 'socket'>): string {
  return `unix://${socket}`
}

const remedies: { readonly [code: string]: string } = {
  ENOENT: 'Start containerd, or name its socket in `runtimes.containerd.socket`.',
  ECONNREFUSED: 'Start containerd, or name its socket in `runtimes.containerd.socket`.',
  EACCES: 'Run this process as root: the socket of containerd belongs to root alone.',
}

function errorOf(error: ServiceError, address: ContainerdAddress, waitMs: number, status: typeof statusCodes): unknown {
  const at = `containerd at ${containerdText(address)}`
  if (error.code === status.DEADLINE_EXCEEDED) {
    const remedy = 'Look at the log of containerd; restart it if it hangs.'
    return unavailable(`${at} did not answer within ${waitMs / 1_000} s.`, remedy, error)
  }
  // A server of another protocol, as Docker's, or another gRPC service.
  if (error.code === status.UNIMPLEMENTED || /\bProtocol error\b/.test(error.details)) {
    const remedy = 'Name the socket of containerd in `runtimes.containerd.socket`.'
    return unavailable(`What answers at ${containerdText(address)} is no containerd.`, remedy, error)
  }
  if (error.code === status.UNAVAILABLE) {
    const [found] = /\b(?:ENOENT|ECONNREFUSED|EACCES)\b/.exec(error.details) ?? []
    const remedy = remedies[found ?? ''] ?? 'Look at the log of containerd.'
    return unavailable(`${at} is unreachable${found === undefined ? '' : ` (${found})`}.`, remedy, error)
  }
  const kinds: { readonly [code: number]: ContainerdError['kind'] } = {
    [status.NOT_FOUND]: 'absent',
    [status.ALREADY_EXISTS]: 'exists',
    [status.FAILED_PRECONDITION]: 'precondition',
  }
  const message = error.details.replace(/[\p{Cc}\s]+/gu, ' ').slice(0, 500)
  return new ContainerdError(kinds[error.code] ?? 'other', message, { cause: error })
}

/** Whether containerd may have got a request that ended with this error: not when it answered, nor without a connection. */
export function mayHaveReached(error: unknown): boolean {
  if (error instanceof ContainerdError) return false
  const cause = error instanceof Error ? error.cause : undefined
  return !(isServiceError(cause) && /\b(?:ENOENT|ECONNREFUSED|EACCES)\b/.test(cause.details))
}

/** What containerd refused, as RUNTIME_UNAVAILABLE with what it said; any other error as it is. */
export function containerdRefusal(error: unknown, address: ContainerdAddress): unknown {
  if (!(error instanceof ContainerdError)) return error
  const said = `containerd at ${containerdText(address)} refused the request: ${error.message}`
  return unavailable(/[.!?]$/.test(said) ? said : `${said}.`, 'Look at the log of containerd.', error)
}

/** Whether a request found what it names; other errors reject. */
export async function isPresent(request: Promise<unknown>): Promise<boolean> {
  try {
    await request
    return true
  } catch (error) {
    if (error instanceof ContainerdError && error.kind === 'absent') return false
    throw error
  }
}
