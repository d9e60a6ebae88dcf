import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Server as PlainServer } from 'node:http'
import type { Socket } from 'node:net'
import { createSecureContext, type SecureContextOptions, type Server, type TLSSocket, type TlsOptions } from 'node:tls'
import { ToolError } from '@gantry/contract'
import type { Connections } from './connections.ts'
import type { HttpLog, RequestTracker } from './handle-request.ts'

/** The PEM files of a server's TLS identity. */
export interface TlsFiles {
  /** Its certificate, then the intermediates up to an authority that its clients trust. */
  readonly certFile: string
  readonly keyFile: string
  /** Authorities of client certificates; a client without such a certificate is refused. */
  readonly clientCaFile?: string
}

/** The content of the files when they were read; used to detect changes. */
interface Held {
  readonly context: SecureContextOptions
  readonly stamp: string
}

const lookEveryMs = 10_000
const oldest = { minVersion: 'TLSv1.2' } as const

/**
 * Reads the files. Rejects with CONFIG_INVALID for files that cannot be read, a key that does not belong to the
 * certificate, and an expired certificate.
 */
export async function readTls(files: TlsFiles): Promise<Held> {
  const cert = await read(files.certFile, 'certFile')
  const key = await read(files.keyFile, 'keyFile')
  const ca = files.clientCaFile === undefined ? undefined : await read(files.clientCaFile, 'clientCaFile')
  const context = { ...oldest, cert, key, ...(ca === undefined ? {} : { ca }) }
  return { context: checked(context, cert, files), stamp: [cert, key, ca].join('\n') }
}

export function tlsOptions({ context }: Held, { clientCaFile }: TlsFiles, handshakeMs: number): TlsOptions {
  const mutual = clientCaFile === undefined ? {} : { requestCert: true, rejectUnauthorized: true }
  return { ...context, ...mutual, handshakeTimeout: handshakeMs }
}

/**
 * Reads the files at intervals and uses changed ones for new connections; open connections stay. Unusable files are
 * logged once, and the last certificate stays in use. Returns the function that stops it.
 */
export function followTls(
  server: Pick<Server, 'setSecureContext'>,
  files: TlsFiles,
  first: Held,
  log: HttpLog,
  everyMs = lookEveryMs,
): () => void {
  let used = first.stamp
  let logged = ''
  let looking = false
  const look = async (): Promise<void> => {
    // A slow read must not be overtaken by the next one.
    if (looking) return
    looking = true
    try {
      const { context, stamp } = await readTls(files)
      logged = ''
      if (stamp === used) return
      server.setSecureContext(context)
      used = stamp
      log.info({ file: files.certFile }, 'The certificate of the API was replaced.')
    } catch (err) {
      const message = err instanceof Error ? err.message : ''
      if (message !== logged) log.error({ err }, 'The certificate of the API cannot be replaced; the old one stays.')
      logged = message
    } finally {
      looking = false
    }
  }
  const timer = setInterval(() => void look(), everyMs).unref()
  return () => clearInterval(timer)
}

/**
 * Tracks TLS connections from the handshake on; without this an unfinished handshake would outlive the server. The plain
 * and the secure socket of a connection are matched by the address and port of the client.
 */
export function admitSecure(server: PlainServer, tracker: RequestTracker, connections: Connections): () => void {
  const shaking = new Map<string, Socket>()
  const nameOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`
  server.on('connection', (socket: Socket) => {
    if (!connections.accept(socket)) return
    const name = nameOf(socket)
    shaking.set(name, socket)
    socket.once('close', () => shaking.get(name) === socket && shaking.delete(name))
  })
  server.on('secureConnection', (socket: TLSSocket) => {
    const raw = shaking.get(nameOf(socket))
    shaking.delete(nameOf(socket))
    if (raw !== undefined) connections.secured(raw, socket)
    tracker.connect(socket)
  })
  return () => {
    for (const socket of shaking.values()) socket.destroy()
  }
}

async function read(file: string, name: string): Promise<string> {
  return readFile(file, 'utf8').catch((cause: unknown) => {
    throw wrong(`/service/tls/${name}`, `names the file ${file}, which cannot be read`, cause)
  })
}

function checked(context: SecureContextOptions, cert: string, { certFile }: TlsFiles): SecureContextOptions {
  const until = attempt(
    '/service/tls/certFile',
    'is no certificate in PEM',
    () => new X509Certificate(cert).validToDate,
  )
  if (until.getTime() < Date.now()) {
    throw wrong('/service/tls/certFile', `names ${certFile}, which expired on ${until.toISOString().slice(0, 10)}`)
  }
  attempt('/service/tls', 'does not hold a certificate and its key', () => createSecureContext(context))
  return context
}

function attempt<T>(path: string, words: string, work: () => T): T {
  try {
    return work()
  } catch (cause) {
    throw wrong(path, words, cause)
  }
}

function wrong(path: string, message: string, cause?: unknown): ToolError {
  return new ToolError('CONFIG_INVALID', `The configuration is wrong: ${path} ${message}.`, {
    ...(cause === undefined ? {} : { cause }),
    details: { issues: [{ path, message }] },
  })
}
