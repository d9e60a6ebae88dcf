import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Server as PlainServer } from 'node:http'
import type { Socket } from 'node:net'
import { createSecureContext, type SecureContextOptions, type Server, type TLSSocket, type TlsOptions } from 'node:tls'
import { ToolError } from '@gantry/contract'
import type { Connections } from './connections.ts'
import type { HttpLog } from './handle-request.ts'
import type { RequestTracker } from './request-scope.ts'

/** Files in PEM that a server shows itself with. */
export interface TlsFiles {
  /** Its certificate, then those that lead to an authority which its clients trust. */
  readonly certFile: string
  readonly keyFile: string
  /** Authorities; a client without a certificate of one of them is not let in. */
  readonly clientCaFile?: string
}

/** What the files held when they were read; another text is another state of them. */
interface Held {
  readonly context: SecureContextOptions
  readonly stamp: string
}

const lookEveryMs = 10_000
const oldest = { minVersion: 'TLSv1.2' } as const

/**
 * What the files hold, if a server can be had with it. Rejects with CONFIG_INVALID for files that cannot be read, a key
 * that is not the certificate's, and a certificate that is no longer valid.
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
 * Looks at the files from time to time and uses what has changed for connections that come from then on; those that are
 * there stay. What cannot be used is told once, and the last that could stays. Answers the function that ends it.
 */
export function followTls(
  server: Pick<Server, 'setSecureContext'>,
  files: TlsFiles,
  first: Held,
  log: HttpLog,
  everyMs = lookEveryMs,
): () => void {
  let used = first.stamp
  let told = ''
  let looking = false
  const look = async (): Promise<void> => {
    // One that takes longer than the time between two must not be overtaken by the next.
    if (looking) return
    looking = true
    try {
      const { context, stamp } = await readTls(files)
      told = ''
      if (stamp === used) return
      server.setSecureContext(context)
      used = stamp
      log.info({ file: files.certFile }, 'The certificate of the API was replaced.')
    } catch (err) {
      const message = err instanceof Error ? err.message : ''
      if (message !== told) log.error({ err }, 'The certificate of the API cannot be replaced; the old one stays.')
      told = message
    } finally {
      looking = false
    }
  }
  const timer = setInterval(() => void look(), everyMs).unref()
  return () => clearInterval(timer)
}

/**
 * Has the door know connections once they are secure, and those that are still about it, which nobody else would end.
 * The two are different sockets of one connection, so that its other side is what tells which belong together.
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
    throw wrong('/service/tls/certFile', `names ${certFile}, which has expired on ${until.toISOString().slice(0, 10)}`)
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
