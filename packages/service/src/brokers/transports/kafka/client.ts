import { isIP } from 'node:net'
import { ToolError } from '@gantry/contract'
import type { BaseOptions } from '@platformatic/kafka'

/** How to reach a cluster; the same for what is received and what is sent. */
export interface KafkaConnection {
  /** Each `host:port`; one that answers is enough, the others are learnt from it. */
  readonly brokers: readonly string[]
  readonly clientId: string
  readonly sasl?: {
    readonly mechanism: 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512'
    readonly username: string
    readonly password: string
  }
  /** TLS when present; each in PEM. Without `ca` the certificate authorities that Node trusts count. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string }
  /** How long a broker may take to answer; 5 seconds when absent. */
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
    // A name to ask for may not be an address.
    ...(tls === undefined ? {} : { tls, tlsServerName: !brokers.some((broker) => isIP(hostOf(broker)) !== 0) }),
  }
}

function hostOf(broker: string): string {
  return broker.slice(0, broker.lastIndexOf(':')).replace(/^\[|\]$/g, '')
}

/** What the clients of the library have in common. */
interface Client {
  readonly connections: Iterable<readonly [string, { readonly socket?: { destroy(): void } }]> & {
    on(event: 'connecting', heard: (about: { readonly connection: Emitter }) => void): unknown
  }
  close(): Promise<void>
}

interface Emitter {
  on(event: 'error', heard: () => void): unknown
}

/** A connection that fails twice says so twice, and the library listens once: nobody listening would end the process. */
export function quiet<C extends Client & Emitter>(client: C, failed: (error: unknown) => void = () => {}): C {
  client.on('error', failed as () => void)
  client.connections.on('connecting', ({ connection }) => connection.on('error', () => {}))
  return client
}

/** Closes politely, and where nobody answers by force. Never rejects. */
export async function closeClient(client: Client, politelyMs = 1_000): Promise<void> {
  const connections = [...client.connections].map(([, connection]) => connection)
  const timer = setTimeout(() => {
    for (const connection of connections) connection.socket?.destroy()
  }, politelyMs)
  try {
    await client.close()
  } catch {
    // What could not be said to the broker it will find out by itself.
  } finally {
    clearTimeout(timer)
  }
}

/** The name that Kafka has for what went wrong, wherever in the error it stands. */
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
  if (typeof error !== 'object' || error === null || depth > 10) return false
  const one = error as ErrorLike
  if (fits(one)) return true
  return [one.cause, ...(one.errors ?? [])].some((inner) => some(inner, fits, depth + 1))
}

/** A sentence for people; what exactly went wrong stays in the cause. */
export function reasonOf(error: unknown): string {
  if (isUnknownTopic(error)) return 'Kafka has no such topic, and it could not be made.'
  if (some(error, ({ code }) => code === 'PLT_KFK_AUTHENTICATION')) return 'Kafka refused the credentials.'
  if (some(error, ({ code }) => /CERT|VERIFY|ISSUER|ALTNAME/.test(String(code)))) {
    return 'Kafka shows a certificate that is not trusted, or not for its host.'
  }
  if (hasApiError(error, 'TOPIC_AUTHORIZATION_FAILED', 'GROUP_AUTHORIZATION_FAILED', 'CLUSTER_AUTHORIZATION_FAILED')) {
    return 'Kafka does not allow it; the account lacks a permission on the topic or the group.'
  }
  if (hasApiError(error, 'INCONSISTENT_GROUP_PROTOCOL')) {
    return 'The other members of the Kafka group share out partitions in another way; use a group of its own.'
  }
  return 'Kafka cannot be reached or does not answer.'
}

export function unavailable(cause: unknown): ToolError {
  return new ToolError('STORE_UNAVAILABLE', reasonOf(cause), { cause })
}

/** Runs the work; an abort closes the client, which makes the work fail. */
export async function whileOpen<T>(client: Client, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted()
  const close = (): void => void closeClient(client)
  signal.addEventListener('abort', close, { once: true })
  try {
    return await work()
  } finally {
    signal.removeEventListener('abort', close)
  }
}

/** Makes a topic as the cluster makes them by default; one that exists is fine. */
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
