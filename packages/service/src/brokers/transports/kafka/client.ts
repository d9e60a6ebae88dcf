import { isIP } from 'node:net'
import { ToolError } from '@gantry/contract'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { BaseOptions } from '@platformatic/kafka'

/** How to reach a cluster; the same for consuming and publishing. */
export interface KafkaConnection {
  /** Each `host:port`; one that answers is enough, it names the others. */
  readonly brokers: readonly string[]
  readonly clientId: string
  readonly sasl?: {
    readonly mechanism: 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512'
    readonly username: string
    readonly password: string
  }
  /** TLS when present; each value in PEM. Without `ca` the certificate authorities of Node apply. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string }
  /** The timeout of a request; 5 seconds when absent. */
  readonly requestTimeoutMs?: number
}

/** Loaded when it is first needed, so that a start without Kafka does not pay for it. */
export type Library = typeof import('@platformatic/kafka')

export function loadLibrary(): Promise<Library> {
  return import('@platformatic/kafka')
}

export function clientOptions(connection: KafkaConnection): BaseOptions {
  const { brokers, clientId, sasl, tls, requestTimeoutMs = 5_000 } = connection
  return {
    clientId,
    bootstrapBrokers: [...brokers],
    requestTimeout: requestTimeoutMs,
    connectTimeout: Math.min(5_000, requestTimeoutMs),
    retries: 2,
    retryDelay: () => 100 + Math.random() * 200,
    ...(sasl === undefined ? {} : { sasl }),
    // SNI accepts host names only, not IP addresses.
    ...(tls === undefined ? {} : { tls, tlsServerName: !brokers.some((broker) => isIP(hostOf(broker)) !== 0) }),
  }
}

function hostOf(broker: string): string {
  return broker.slice(0, broker.lastIndexOf(':')).replace(/^\[|\]$/g, '')
}

/** What the clients of the library have in common. */
interface Client {
  readonly connections: Iterable<readonly [string, { readonly socket?: { destroy(): void } }]> & {
    on(event: 'connecting', received: (about: { readonly connection: Emitter }) => void): unknown
  }
  close(): Promise<void>
}

interface Emitter {
  on(event: 'error', received: (error: unknown) => void): unknown
}

/**
 * A failing connection emits `error` twice, and the library listens once: without a listener the second would end the
 * process.
 */
export function quiet<C extends Client & Emitter>(client: C, failed: (error: unknown) => void = () => {}): C {
  client.on('error', failed)
  client.connections.on('connecting', ({ connection }) => connection.on('error', () => {}))
  return client
}

/** Closes with the protocol, and by force where the server does not answer. Never rejects. */
export async function closeClient(client: Client, politelyMs = 1_000): Promise<void> {
  const connections = [...client.connections].map(([, connection]) => connection)
  const timer = setTimeout(() => {
    for (const connection of connections) connection.socket?.destroy()
  }, politelyMs)
  try {
    await client.close()
  } catch {
    // The broker finds out by its session timeout.
  } finally {
    clearTimeout(timer)
  }
}

/** Whether the error, or one of its causes, has one of these Kafka error names. */
export function hasApiError(error: unknown, ...names: readonly string[]): boolean {
  return some(error, ({ apiId }) => typeof apiId === 'string' && names.includes(apiId))
}

export function isUnknownTopic(error: unknown): boolean {
  const named = ({ message }: ErrorLike): boolean => message?.startsWith('Unknown topic ') === true
  return hasApiError(error, 'UNKNOWN_TOPIC_OR_PARTITION') || some(error, named)
}

interface ErrorLike {
  readonly message?: string
  readonly code?: unknown
  readonly apiId?: unknown
  readonly cause?: unknown
  readonly errors?: readonly unknown[]
}

function some(error: unknown, fits: (one: ErrorLike) => boolean, depth = 0): boolean {
  if (!isErrorLike(error) || depth > 10) return false
  if (fits(error)) return true
  return [error.cause, ...(error.errors ?? [])].some((inner) => some(inner, fits, depth + 1))
}

function isErrorLike(error: unknown): error is ErrorLike {
  return typeof error === 'object' && error !== null
}

/** A sentence for people; the details stay in the cause. */
export function reasonOf(error: unknown): string {
  if (isUnknownTopic(error)) return 'The Kafka topic does not exist and could not be created.'
  if (some(error, ({ code }) => code === 'PLT_KFK_AUTHENTICATION')) return 'Kafka refused the credentials.'
  if (some(error, ({ code }) => /CERT|VERIFY|ISSUER|ALTNAME/.test(String(code)))) {
    return 'Kafka shows a certificate that is not trusted, or not for its host.'
  }
  if (hasApiError(error, 'TOPIC_AUTHORIZATION_FAILED', 'GROUP_AUTHORIZATION_FAILED', 'CLUSTER_AUTHORIZATION_FAILED')) {
    return 'Kafka denied access: the account lacks a permission on the topic or the group.'
  }
  if (hasApiError(error, 'INCONSISTENT_GROUP_PROTOCOL')) {
    return 'The other members of the Kafka group use another assignment protocol; configure a separate group.'
  }
  return 'Kafka cannot be reached or does not answer.'
}

export function unavailable(cause: unknown): ToolError {
  return new ToolError('STORE_UNAVAILABLE', reasonOf(cause), { cause })
}

/** Runs the work; an abort closes the client, which makes the work fail. */
export async function whileOpen<T>(client: Client, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted()
  const unlisten = onAbort(signal, () => void closeClient(client))
  try {
    return await work()
  } finally {
    unlisten()
  }
}

/** Creates a topic with the defaults of the cluster; an existing one is accepted. */
export async function createTopic(library: Library, connection: KafkaConnection, topic: string): Promise<void> {
  const admin = quiet(new library.Admin(clientOptions(connection)))
  try {
    await admin.createTopics({ topics: [topic], partitions: -1, replicas: -1 })
  } catch (error) {
    if (!hasApiError(error, 'TOPIC_ALREADY_EXISTS')) throw error
  } finally {
    await closeClient(admin)
  }
}
