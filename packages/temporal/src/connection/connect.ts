import { ToolError } from '@gantry/contract'
import { Client, Connection, type ConnectionOptions } from '@temporalio/client'
import type { DataConverter } from '@temporalio/common'
import { createCodec } from './codec.ts'

/** A Temporal server and what is needed to use it; secrets are resolved. */
export interface TemporalTarget {
  /** `host:7233`. */
  readonly address: string
  readonly namespace: string
  /** The prefix of the two task queues of Gantry's workers. */
  readonly taskQueue: string
  readonly tls?: true | { readonly ca?: Buffer; readonly cert?: Buffer; readonly key?: Buffer }
  readonly apiKey?: string
  /** Keys of 32 bytes that seal payloads: the first seals, all open. */
  readonly payloadKeys: readonly Uint8Array[]
}

/** Workers that offer sandboxes and workers that run tools need not be the same. */
export function queueOf({ taskQueue }: Pick<TemporalTarget, 'taskQueue'>, role: 'sandboxes' | 'calls'): string {
  return `${taskQueue}-${role}`
}

export function dataConverterOf({ payloadKeys }: Pick<TemporalTarget, 'payloadKeys'>): DataConverter {
  return { payloadCodecs: [createCodec(payloadKeys)] }
}

/**
 * Work carries the identity of its caller; without a key each writer to the namespace could make calls as anyone.
 * Throws CONFIG_INVALID.
 */
export function requirePayloadKey({ payloadKeys }: Pick<TemporalTarget, 'payloadKeys'>): void {
  if (payloadKeys.length > 0) return
  const issues = [{ path: '/payloadKey', message: 'is required' }]
  const message =
    'The engine temporal needs payloadKey, by which workers know that the identity of a work is genuine; make one with `openssl rand -base64 32`.'
  throw new ToolError('CONFIG_INVALID', message, { details: { issues } })
}

/** TLS of a client or of a worker, which have the same form. */
export function tlsOf({ tls }: Pick<TemporalTarget, 'tls'>): Pick<ConnectionOptions, 'tls'> {
  if (tls === undefined) return {}
  if (tls === true) return { tls: true }
  const { ca, cert, key } = tls
  return {
    tls: {
      ...(ca === undefined ? {} : { serverRootCACertificate: ca }),
      ...(cert === undefined || key === undefined ? {} : { clientCertPair: { crt: cert, key } }),
    },
  }
}

/** A client that connects with its first request, and again after a failure. */
export interface TemporalClient {
  readonly target: TemporalTarget
  /** Throws BACKEND_UNAVAILABLE when the server cannot be reached. */
  get(): Promise<Client>
  close(): Promise<void>
}

const connectMs = 10_000

export function createTemporalClient(find: () => Promise<TemporalTarget>): () => Promise<TemporalClient> {
  let known: Promise<TemporalClient> | undefined
  return () => {
    known ??= find().then(clientOf)
    known.catch(() => {
      known = undefined
    })
    return known
  }
}

export function clientOf(target: TemporalTarget): TemporalClient {
  const { address, namespace, apiKey } = target
  let connecting: Promise<Client> | undefined
  const connect = async (): Promise<Client> => {
    const options = {
      address,
      connectTimeout: connectMs,
      ...tlsOf(target),
      ...(apiKey === undefined ? {} : { apiKey }),
    }
    const connection = await Connection.connect(options).catch((cause: unknown) => {
      throw new ToolError('BACKEND_UNAVAILABLE', `The Temporal server ${address} cannot be reached.`, { cause })
    })
    return new Client({ connection, namespace, dataConverter: dataConverterOf(target) })
  }
  return {
    target,
    get() {
      connecting ??= connect()
      connecting.catch(() => {
        connecting = undefined
      })
      return connecting
    },
    async close() {
      const client = await connecting?.catch(() => undefined)
      await client?.connection.close()
    },
  }
}
